//! Fingerprints against what other programs answer, and against labelled texts.
//!
//! The large sets are no part of the project: they are read from `../shared/data`, or from the folder that
//! `LOOKALIKE_TEST_DATA` names, and tests of them say so and end when there is none.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics, in its helpers too")]

mod golden;

use std::path::PathBuf;

/// A file of the large sets; `None`, with a line that says so, if it is not there.
fn shared(path: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("LOOKALIKE_TEST_DATA")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/data"), PathBuf::from);
    let file = folder.join(path);
    if file.exists() {
        return Some(file);
    }
    println!("skipped: {} is not there (LOOKALIKE_TEST_DATA names another folder)", file.display());
    None
}
