//! The summary of a run as a web page that needs nothing else: counts, the largest groups, and a plot of the
//! distances.

use std::fmt::Write;

use super::summary::Summary;

const HEAD: &str = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
<title>lookalike dedupe</title>\n<style>\
body{font:16px sans-serif;max-width:50rem;margin:2rem auto;padding:0 1rem}\
table{border-collapse:collapse}td{padding:.15rem 1rem .15rem 0;border-bottom:1px solid #ddd;\
overflow-wrap:anywhere}td:first-child{text-align:right;font-variant-numeric:tabular-nums}\
rect{fill:#1f6feb}text{font:11px sans-serif;text-anchor:middle}\
</style></head>\n<body>\n<h1>lookalike dedupe</h1>\n";

/// The page.
pub(super) fn report(
    summary: &Summary,
    notes: &[String],
    groups: &[(String, u64)],
    profile: &str,
    k: u32,
) -> String {
    let mut page = HEAD.to_owned();
    let kind = if summary.is_linked { "linked groups" } else { "greedy groups" };
    let _ = writeln!(page, "<p>Profile {}, k = {k}, {kind}.</p>\n<table>", escaped(profile));
    for (name, count) in summary.rows() {
        let _ = writeln!(page, "<tr><td>{count}</td><td>{name}</td></tr>");
    }
    page.push_str("</table>\n");
    let unread: Vec<String> = summary.unread.sentences().collect();
    for line in
        summary.also().iter().chain(&summary.similarity()).chain(&summary.weights).chain(&unread).chain(notes)
    {
        let _ = writeln!(page, "<p>{}</p>", escaped(line));
    }
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

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
