//! The summary of a run as a web page that needs nothing else: counts, the largest groups, and a plot of the
//! distances.

use std::fmt::Write;

use super::page::{escaped, head};
use super::sources::Sources;
use super::summary::Summary;

const STYLE: &str = "body{max-width:50rem}td:first-child{text-align:right;font-variant-numeric:tabular-nums}\
rect{fill:#1f6feb}text{font:11px sans-serif;text-anchor:middle}
";
/// The most sources in the table.
const SOURCES: usize = 1_000;

/// The page.
pub(super) fn report(
    summary: &Summary,
    sources: &Sources,
    notes: &[String],
    groups: &[(String, u64)],
    profile: &str,
    k: u32,
) -> String {
    let mut page = head("lookalike dedupe", STYLE, "style");
    let kind = if summary.is_linked { "linked groups" } else { "greedy groups" };
    let _ = writeln!(page, "<p>Profile {}, k = {k}, {kind}.</p>\n<table>", escaped(profile));
    for (name, count) in summary.rows() {
        let _ = writeln!(page, "<tr><td>{count}</td><td>{name}</td></tr>");
    }
    page.push_str("</table>\n");
    let unread: Vec<String> = summary.unread.sentences().collect();
    let (also, similarity) = (summary.also(), summary.similarity());
    let about = also.iter().chain(&similarity).chain(&summary.weights).chain(&summary.spans);
    for line in about.chain(&unread).chain(notes) {
        let _ = writeln!(page, "<p>{}</p>", escaped(line));
    }
    of_sources(&mut page, sources);
    if !groups.is_empty() {
        page.push_str("<h2>Largest groups, by the documents that one replaces</h2>\n<table>\n");
        for (name, count) in groups {
            let _ = writeln!(page, "<tr><td>{count}</td><td>{}</td></tr>", escaped(name));
        }
        page.push_str("</table>\n<h2>Dropped documents by distance</h2>\n");
        plot(&mut page, &summary.distances);
        let mut sizes = vec![0; 1];
        for count in summary.groups.values() {
            let class = count.ilog2() as usize;
            sizes.resize(sizes.len().max(class + 1), 0);
            sizes[class] += 1;
        }
        page.push_str("<h2>Groups by size: from 1, 2, 4, 8 … dropped documents</h2>\n");
        plot(&mut page, &sizes);
    }
    page + "</body></html>\n"
}

/// The counts of each source, those that lose the largest share first.
fn of_sources(page: &mut String, sources: &Sources) {
    let all = sources.all();
    page.push_str("<h2>Sources</h2>\n<table>\n<tr><th>read<th>kept<th>dropped<th>lost<th></tr>\n");
    for source in all.iter().take(SOURCES) {
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{:.1} %</td><td>{}</td></tr>",
            source.read,
            source.read - source.dropped,
            source.dropped,
            source.share() * 100.0,
            escaped(&source.name)
        );
    }
    page.push_str("</table>\n");
    if all.len() > SOURCES {
        let _ = writeln!(page, "<p>Further sources, which lose less: {}.</p>", all.len() - SOURCES);
    }
}

/// A bar for each value, with its position below and the value above.
fn plot(page: &mut String, values: &[u64]) {
    const HEIGHT: f64 = 200.0;
    const STEP: f64 = 40.0;
    let most = values.iter().max().copied().unwrap_or(1).max(1) as f64;
    let width = STEP * values.len() as f64;
    let _ = writeln!(page, "<svg viewBox=\"0 0 {width} {}\" width=\"{width}\">", HEIGHT + 40.0);
    for (at, value) in values.iter().enumerate() {
        let (x, height) = (STEP * at as f64, HEIGHT * *value as f64 / most);
        let (y, middle) = (HEIGHT + 20.0 - height, x + STEP / 2.0);
        let _ = writeln!(
            page,
            "<rect x=\"{}\" y=\"{y:.1}\" width=\"{}\" height=\"{height:.1}\"/>\
             <text x=\"{middle}\" y=\"{:.1}\">{value}</text><text x=\"{middle}\" y=\"{}\">{at}</text>",
            x + 4.0,
            STEP - 8.0,
            y - 4.0,
            HEIGHT + 34.0
        );
    }
    page.push_str("</svg>\n");
}
