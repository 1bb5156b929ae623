//! Fingerprints compared with the results of other programs.
//!
//! The large sets are not part of the project. They are read from `../shared/data`, or from the folder in
//! `LOOKALIKE_TEST_DATA`. If a set is missing, its tests print a line and pass. Not here: measurements on
//! labelled texts (the command `eval`).
#![allow(clippy::unwrap_used, reason = "a test panics if it cannot continue; so do its helpers")]

mod golden;
mod languages;
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
