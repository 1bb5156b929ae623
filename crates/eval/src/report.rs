//! The results of an evaluation as Markdown.
//!
//! Not here: the measurements, and the picture (`svg`).

use std::fmt::Write;

use super::recommend::recommend;
use super::{Measured, Set};
use lookalike_wording::counted;

/// The numbers of documents for which false neighbours are reported, and their names.
const COLLECTIONS: [(f64, &str); 3] = [(1e6, "1M"), (1e7, "10M"), (1e8, "100M")];

/// The note about an extrapolated number of wrong neighbours.
const EXTRAPOLATED: &str = " There are too few wrong pairs within this k, so their number is extrapolated \
                            from larger distances.";

/// The report. `measured` has a list for each set.
pub fn report(sets: &[Set], measured: &[Vec<Measured>]) -> String {
    let mut out = String::new();
    for (set, measured) in sets.iter().zip(measured) {
        let _ = writeln!(out, "## {}\n", set.name);
        let bytes: usize = set.texts.iter().map(String::len).sum();
        let _ = writeln!(
            out,
            "{}, {:.1} MB; {} to be found, {} that do not count.\n",
            counted(set.texts.len() as u64, "text"),
            bytes as f64 / 1e6,
            counted(set.labels.positive.len() as u64, "pair"),
            set.labels.ignored.len()
        );
        costs(&mut out, measured);
        for one in measured {
            curve(&mut out, one);
        }
    }
    out
}

/// The profile and k that are recommended for so many documents, and the rule.
pub fn recommended_text(measured: &[Vec<Measured>], documents: f64) -> String {
    let mut out = String::new();
    let _ = match recommend(measured, documents) {
        Some(best) => writeln!(
            out,
            "## Recommended\n\nFor {documents:.0} documents like these: **`{}`, k={}**. It finds {:.1} % of \
             the pairs. The rule: each profile is taken at its largest k with a precision of at least 0.97 \
             on every set and, on at least half of the sets (on both of two), at most 0.05 expected wrong \
             neighbours per query. The profile that finds most is recommended; within half a percentage \
             point, the one with the narrower hash.{}",
            best.profile,
            best.k,
            best.recall * 100.0,
            if best.is_extrapolated { EXTRAPOLATED } else { "" }
        ),
        None => writeln!(
            out,
            "## Recommended\n\nNone. Either no profile has a k at which it finds pairs with a precision of \
             at least 0.97 on every set and, on at least half of the sets, at most 0.05 expected wrong \
             neighbours per query among {documents:.0} documents, or these texts have too few wrong pairs \
             for an estimate. Use a larger k with a second check, or measure more texts."
        ),
    };
    out
}

fn costs(out: &mut String, measured: &[Measured]) {
    let _ = writeln!(
        out,
        "| profile | bits | MB/s, one core | index, bytes a document | short | empty | distinct hashes | \
         fullest 16-bit bucket | collision factor, worst block |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|"
    );
    for one in measured {
        let _ = writeln!(
            out,
            "| `{}` | {} | {:.1} | {:.1} | {} | {} | {} | {:.3} % | {:.2}, {:.2} |",
            one.profile.id(),
            one.profile.width().bits(),
            one.bytes_a_second / 1e6,
            one.index_bytes,
            one.short,
            one.empty,
            one.skew.distinct,
            one.skew.fullest * 100.0,
            one.skew.collision_factor,
            one.skew.worst_block
        );
    }
    out.push('\n');
}

fn curve(out: &mut String, one: &Measured) {
    let names: Vec<String> = COLLECTIONS.iter().map(|(_, name)| format!("false at {name}")).collect();
    let _ = writeln!(
        out,
        "### {}\n\n| k | precision | recall | F1 | right | wrong | {} |\n\
         |--:|--:|--:|--:|--:|--:|--:|--:|--:|",
        one.profile.id(),
        names.join(" | ")
    );
    for k in steps(one.curve.width(), one.profile.default_k()) {
        let point = one.curve.at(k);
        let mark = if k == one.profile.default_k() { "**" } else { "" };
        let neighbours: Vec<String> = COLLECTIONS
            .iter()
            .map(|&(documents, _)| {
                let (wrong, few) = one.curve.false_neighbours(k, documents);
                format!("{}{}", if few { "< " } else { "" }, short_number(wrong))
            })
            .collect();
        let _ = writeln!(
            out,
            "| {mark}{k}{mark} | {:.4} | {:.4} | {:.4} | {} | {} | {} |",
            point.precision,
            point.recall,
            point.f1(),
            point.right,
            point.wrong,
            neighbours.join(" | ")
        );
    }
    if let Some(own) = one.at_own_k {
        let _ = writeln!(
            out,
            "\nWith the k of each text: precision {:.4}, recall {:.4}, F1 {:.4}.",
            own.precision,
            own.recall,
            own.f1()
        );
    }
    if let Some(second) = &one.second_reading {
        let points = steps(second.width(), one.profile.default_k());
        let figures = points.into_iter().map(|k| second.at(k));
        let figures =
            figures.map(|point| format!("k={} {:.4}/{:.4}", point.k, point.precision, point.recall));
        let figures: Vec<String> = figures.collect();
        let _ = writeln!(
            out,
            "\nIf pairs about which marks and similarities disagree did not count, precision/recall would \
             be: {}.",
            figures.join(", ")
        );
    }
    if one.short > 0 {
        let (all, long) =
            (one.curve.at(one.profile.default_k()), one.curve_without_short.at(one.profile.default_k()));
        let _ = writeln!(
            out,
            "\nWithout the {} short texts, at k={}: precision {:.4} instead of {:.4}, {} wrong pairs instead \
             of {}.",
            one.short, all.k, long.precision, all.precision, long.wrong, all.wrong
        );
    }
    if !one.edits.is_empty() {
        by_edit(out, one);
    }
    out.push('\n');
}

fn by_edit(out: &mut String, one: &Measured) {
    let ks: Vec<u32> = if one.curve.width() == 64 { vec![3, 7, 11] } else { vec![7, 15, 23, 31] };
    let names: Vec<String> = ks.iter().map(|k| format!("found at k={k}")).collect();
    let _ = writeln!(out, "\n| edit | pairs | {} |\n|---|--:|{}", names.join(" | "), "--:|".repeat(ks.len()));
    for (edit, distances) in &one.edits {
        let found: Vec<String> = ks
            .iter()
            .map(|k| {
                let within = distances.iter().filter(|distance| *distance <= k).count();
                format!("{:.2}", within as f64 / distances.len() as f64)
            })
            .collect();
        let _ = writeln!(out, "| {edit} | {} | {} |", distances.len(), found.join(" | "));
    }
}

/// The k of a table: from 0 to about a quarter of the width, and the default of the profile.
fn steps(width: u32, own: u32) -> Vec<u32> {
    let mut steps: Vec<u32> =
        if width == 64 { vec![0, 3, 5, 7, 9, 11, 13, 15] } else { vec![0, 7, 11, 15, 19, 23, 27, 31] };
    steps.push(own);
    steps.sort_unstable();
    steps.dedup();
    steps
}

fn short_number(value: f64) -> String {
    if value < 10.0 { format!("{value:.3}") } else { format!("{value:.0}") }
}
