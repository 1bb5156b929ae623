//! Fingerprints compared with the results of other programs, and what `benches/quality` measures.
//!
//! The large sets are not part of the project. They are read from `../shared/data`, or from the folder in
//! `LOOKALIKE_TEST_DATA`. If a set is missing, its tests print a line and pass. Not here: measurements on
//! labelled texts (the command `eval` and `benches/quality`).
#![allow(clippy::unwrap_used, reason = "a test panics if it cannot continue; so do its helpers")]

mod edits;
mod golden;
mod languages;
mod measured;
#[path = "../../benches/quality/measures/mod.rs"]
#[allow(dead_code, reason = "the benchmark uses the rest")]
mod measures;
mod scripts;
#[path = "../service/skipped.rs"]
mod skipped;
mod strays;

use std::path::PathBuf;

use skipped::skipped;

/// A file of the large sets. If it does not exist, prints a line and returns `None`.
fn shared(path: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("LOOKALIKE_TEST_DATA")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/data"), PathBuf::from);
    let file = folder.join(path);
    if file.exists() {
        return Some(file);
    }
    skipped(&format!("{} does not exist (set LOOKALIKE_TEST_DATA to use another folder)", file.display()));
    None
}

/// An invented word of seven letters and a space. Words of other numbers are different.
fn word(number: usize) -> String {
    let letter = |at: usize| char::from(b'a' + (number.wrapping_mul(0x9e37_79b9) >> (5 * at)) as u8 % 26);
    (0..7).map(letter).collect::<String>() + " "
}
