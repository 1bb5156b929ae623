//! The figures as Markdown.

use std::fmt::{Display, Write};
use std::time::Duration;

use super::labels::Labels;
use super::measure::{Asked, Measured, Score};

/// The heading of a set.
pub fn set(labels: &Labels) -> String {
    let mut out = format!(
        "## {}\n\n{} documents, {:.1} MB as NDJSON; {} pairs to be found, {} ignored.",
        labels.set.name,
        labels.ids.len(),
        megabytes(labels.bytes),
        labels.positive.len(),
        labels.ignored.len()
    );
    if let Some(also) = &labels.also_ignored {
        let _ = write!(
            out,
            " Of the pairs marked in `pairs.tsv`, {} are not in `similarity.tsv`: they count as wrong, and the \
             second reading ignores them.",
            also.len()
        );
    }
    out + "\n\n"
}

/// A run: its table, and what else is to be said of it.
pub fn run(labels: &Labels, measured: &Measured) -> String {
    let settings = &measured.settings;
    let mut out = format!("### {} on {}\n\n", settings.profile, labels.set.name);
    let second = labels.also_ignored.is_some();
    out += "| k | precision | recall | F1 | right | wrong | missed |";
    out += if second { " precision, second reading | F1, second reading |\n" } else { "\n" };
    out += "|--:|--:|--:|--:|--:|--:|--:|";
    out += if second { "--:|--:|\n" } else { "\n" };
    for score in &measured.scores {
        out += &row(score, score.k == settings.k, second);
    }
    out.push('\n');
    out += &facts(measured);
    out
}

fn row(score: &Score, own: bool, second: bool) -> String {
    let k = if own { format!("**{}**", score.k) } else { score.k.to_string() };
    let precision = score.precision();
    let mut cells = vec![k, share(precision), share(score.recall()), share(score.f1(precision))];
    cells.extend([score.right, score.wrong, score.missed].map(|count| count.to_string()));
    if second {
        let precision = score.second_precision();
        cells.extend([share(precision), share(score.f1(precision))]);
    }
    format!("| {} |\n", cells.join(" | "))
}

fn facts(measured: &Measured) -> String {
    let (imported, checks) = (&measured.imported, &measured.checks);
    let mut out = format!("- Stored {}, of which {} `short`.", imported.stored.len(), measured.short);
    for (code, (count, detail)) in &imported.refused {
        let _ = write!(out, " Refused {count} with `{code}`: {detail}.");
    }
    let _ = write!(out, "\n- The answers at k={} came in {} pages.", measured.wide.k, measured.wide.pages);
    let _ = write!(
        out,
        "\n- {} questions asked as usual and by `verify=scan`: {} answers differ. Free to choose, the server \
         answered {} of them by index{}.\n",
        checks.questions,
        checks.scan_differs,
        checks.by_index,
        checks.index_up_to.map_or_else(String::new, |k| format!(", those up to k={k}"))
    );
    let _ = writeln!(
        out,
        "- Answers that contradict the one at the largest k: {} of the sample at each k, {} of all at the \
         collection's own. Pairs answered from one side only: {}. Busy answers: {}.\n",
        checks.index_differs, checks.usual_differs, checks.one_sided, measured.busy
    );
    out
}

/// Throughput of all runs.
pub fn overview(all: &[(&str, u64, Measured)]) -> String {
    let mut out =
        "## Throughput\n\n| set | profile | documents/s | MB/s | k | queries/s | matches a query | \
                   largest k | queries/s | matches a query |\n|---|---|--:|--:|--:|--:|--:|--:|--:|--:|\n"
            .to_owned();
    for (set, bytes, measured) in all {
        let time = measured.imported.time;
        let documents = a_second(measured.imported.stored.len() as f64, time);
        let _ = writeln!(
            out,
            "| {set} | {} | {documents:.0} | {:.1} | {} | {} |",
            measured.settings.profile,
            a_second(megabytes(*bytes), time),
            questions(&measured.usual),
            questions(&measured.wide)
        );
    }
    out
}

fn questions(asked: &Asked) -> impl Display {
    let rate = a_second(asked.questions as f64, asked.time);
    format!("{} | {rate:.0} | {:.1}", asked.k, asked.matches as f64 / asked.questions.max(1) as f64)
}

fn a_second(amount: f64, time: Duration) -> f64 {
    amount / time.as_secs_f64().max(1e-9)
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// Four digits, so that .9996 does not become 1; a dash where nothing was found.
fn share(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.4}"))
}
