//! The second checks and MinHash as Markdown, one threshold for all sets.
//!
//! Not here: the measurements (`second_check`, `min_hash`).

use std::fmt::Write;

use lookalike_eval::{Judged, Set};

use super::min_hash::Banded;
use super::second_check::Checked;

/// The second checks of the pairs of a profile within a k.
pub type CheckedWithin = (String, u32, Vec<Checked>);

/// The section of the second checks: for each set of candidates and each comparison, the best threshold
/// over all sets.
pub fn second_checks(sets: &[Set], checked: &[Vec<CheckedWithin>]) -> String {
    let mut out = String::new();
    let names: Vec<&str> = sets.iter().map(|set| set.name.as_str()).collect();
    let _ = writeln!(
        out,
        "## The second check\n\nPairs within a large k, filtered by the similarity of their features; one \
         threshold for all sets, which maximises the smallest F1. Precision/recall, F1, and in brackets F1 \
         without the pairs about which marks and similarities disagree.\n\n| candidates | compared by | \
         bytes a document | threshold | {} |\n|---|---|--:|--:|{}",
        names.join(" | "),
        "---|".repeat(names.len())
    );
    let Some(first) = checked.first() else { return out };
    for (number, (profile, k, rows)) in first.iter().enumerate() {
        let mut ways: Vec<(&str, usize)> = rows.iter().map(|row| (row.by.as_str(), row.bytes)).collect();
        ways.dedup();
        for (way, bytes) in ways {
            let of = |threshold: f64| -> Vec<&Checked> {
                let is_it = |row: &&Checked| row.by == way && (row.threshold - threshold).abs() < 1e-9;
                checked.iter().filter_map(|set| set[number].2.iter().find(is_it)).collect()
            };
            let least = |rows: &[&Checked]| rows.iter().map(|row| row.found.f1()).fold(1.0, f64::min);
            let thresholds = rows.iter().filter(|row| row.by == way).map(|row| row.threshold);
            let best = thresholds.max_by(|a, b| least(&of(*a)).total_cmp(&least(&of(*b)))).unwrap_or(0.0);
            let figures: Vec<String> =
                of(best).iter().zip(sets).map(|(row, set)| figures(set, &row.found)).collect();
            let _ = writeln!(
                out,
                "| `{profile}` k={k} | {way} | {} | {best:.2} | {} |",
                if bytes == 0 { "the text".to_owned() } else { bytes.to_string() },
                figures.join(" | ")
            );
        }
    }
    out.push('\n');
    out
}

/// The section of MinHash: each recipe and banding at the first threshold, at the best threshold over all
/// sets, and at 0.8.
pub fn min_hash(sets: &[Set], banded: &[Vec<Banded>]) -> String {
    let mut out = String::new();
    let names: Vec<&str> = sets.iter().map(|set| set.name.as_str()).collect();
    let _ = writeln!(
        out,
        "## MinHash\n\nPairs that agree in a band, by the estimated similarity; one threshold for all sets. \
         Precision/recall, F1, in brackets F1 without the pairs about which marks and similarities disagree; \
         the error is the root mean square error of the estimates of positive pairs.\n\n\
         | recipe | bands × rows | MB/s, one core | \
         bytes a document | error | threshold | {} |\n|---|---|--:|--:|--:|--:|{}",
        names.join(" | "),
        "---|".repeat(names.len())
    );
    let Some(first) = banded.first() else { return out };
    for (number, one) in first.iter().enumerate() {
        let all: Vec<&Banded> = banded.iter().map(|set| &set[number]).collect();
        let least = |at: usize| all.iter().map(|one| one.thresholds[at].1.f1()).fold(1.0, f64::min);
        let best = (0..one.thresholds.len()).max_by(|&a, &b| least(a).total_cmp(&least(b))).unwrap_or(0);
        let mean = |of: fn(&Banded) -> f64| all.iter().map(|one| of(one)).sum::<f64>() / all.len() as f64;
        let mut wanted = vec![0, best];
        wanted.extend(one.thresholds.iter().position(|(threshold, ..)| (threshold - 0.8).abs() < 1e-9));
        wanted.dedup();
        for at in wanted {
            let figures: Vec<String> =
                all.iter().zip(sets).map(|(one, set)| figures(set, &one.thresholds[at].1)).collect();
            let _ = writeln!(
                out,
                "| `{}` | {} × {} | {:.1} | {:.0} | {:.3} | {:.2} | {} |",
                one.recipe,
                one.banding.bands,
                one.banding.rows,
                mean(|one| one.bytes_a_second / 1e6),
                mean(|one| one.bytes),
                mean(|one| one.error),
                one.thresholds[at].0,
                figures.join(" | ")
            );
        }
    }
    out.push('\n');
    out
}

/// Precision/recall, F1, and F1 by the second reading if there are disputed pairs.
fn figures(set: &Set, found: &Judged) -> String {
    let mut figures = format!("{:.3}/{:.3}, {:.3}", found.precision, found.recall, found.f1());
    if !set.labels.disputed.is_empty() {
        let _ = write!(figures, " ({:.3})", f1_undisputed(found));
    }
    figures
}

/// F1 if disputed pairs do not count.
pub fn f1_undisputed(found: &Judged) -> f64 {
    Judged { precision: found.precision_undisputed, ..*found }.f1()
}
