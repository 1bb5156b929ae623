//! The figures of plans as a Markdown table with aligned columns.

use std::fmt::Write;

use super::bits::Bits;
use super::design::{Design, Refusal};
use super::measure::{Bench, Figures};

const COLUMNS: [&str; 11] = [
    "plan",
    "what it does",
    "source",
    "build, s",
    "ns a lookup",
    "÷ scan",
    "÷ index",
    "probes",
    "candidates",
    "bytes a hash",
    "not run, because",
];
/// The columns of numbers, which are aligned to the right.
const NUMBERS: std::ops::Range<usize> = 3..10;

/// What was measured of a plan, or why it was not run.
pub(super) type Outcome = Result<Figures, Refusal>;

/// The table, with a line that says what was measured.
pub(super) fn table<W: Bits>(bench: &Bench<'_, W>, read: usize, rows: &[(Design, Outcome)]) -> String {
    let (bits, k, distinct) = (W::WIDTH.bits(), bench.k, bench.hashes.len());
    let found = rows.iter().find_map(|(_, outcome)| outcome.as_ref().ok()).map_or(0.0, |scan| scan.found);
    let mut out = format!(
        "Hashes of {bits} bits: {read}, of which {distinct} are distinct; k = {k}. Every plan that was run \
         found the same as the scan for {} queries, {found:.2} hashes for each.\n\n",
        bench.checked()
    );
    let mut lines = vec![COLUMNS.map(str::to_owned)];
    lines.extend(rows.iter().map(|(design, outcome)| cells(*design, k, bits, outcome)));
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..COLUMNS.len()).map(width).collect();
    for (number, line) in lines.iter().enumerate() {
        for (column, cell) in line.iter().enumerate() {
            let width = widths[column];
            let _ = if NUMBERS.contains(&column) {
                write!(out, "| {cell:>width$} ")
            } else {
                write!(out, "| {cell:width$} ")
            };
        }
        out.push_str("|\n");
        if number == 0 {
            let rule = |(column, width): (usize, &usize)| {
                let end = if NUMBERS.contains(&column) { ':' } else { '-' };
                format!("|{}{end}", "-".repeat(width + 1))
            };
            out.extend(widths.iter().enumerate().map(rule));
            out.push_str("|\n");
        }
    }
    out
}

fn cells(design: Design, k: u32, bits: u32, outcome: &Outcome) -> [String; 11] {
    let of_plan = [design.name(), design.description(k, bits), design.source().to_owned()];
    let (figures, reason) = match outcome {
        Ok(figures) => {
            let figures = [
                format!("{:.2}", figures.build_seconds),
                format!("{:.0}", figures.lookup),
                short(figures.to_scan),
                short(figures.to_index),
                format!("{:.0}", figures.probes),
                format!("{:.0}", figures.candidates),
                format!("{:.1}", figures.bytes_per_hash),
            ];
            (figures, String::new())
        }
        Err(refusal) => (Default::default(), refusal.to_string()),
    };
    let [name, description, source] = of_plan;
    let [build, lookup, to_scan, to_index, probes, candidates, bytes] = figures;
    [name, description, source, build, lookup, to_scan, to_index, probes, candidates, bytes, reason]
}

/// A ratio with three significant digits, or all digits before the point.
fn short(ratio: f64) -> String {
    let decimals = (2.0 - ratio.log10().floor()).clamp(0.0, 6.0) as usize;
    format!("{ratio:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_have_three_digits() {
        let ratios = [1.0, 0.001_234, 9.876, 98.76, 987.6, 98_765.4].map(short);
        assert_eq!(ratios, ["1.00", "0.00123", "9.88", "98.8", "988", "98765"]);
    }
}
