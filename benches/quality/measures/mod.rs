//! What is measured of profiles beyond the curves of `lookalike eval`. `tests/quality` tests it.
//!
//! | module | what it measures |
//! |---|---|
//! | `by_kind` | recall by the kind of edit (`kinds`) |
//! | `one_word` | recall and precision by the length of texts, if one word is replaced |
//! | `second_check` | what a check of the features leaves of the pairs within a large k |
//! | `min_hash` | other bandings of `MinHash` than those of the profiles |
//! | `pages` | pages of several sites around each text |
//! | `containment` | whether an article is found inside a page |
//! | `main_text` | the main text of pages against marked text |
//! | `dropped` | what `dedupe` drops |
//! | `halves` | whether calibrations keep their promise |
//!
//! `pieces` and `sentences` cut texts, `tables` writes the second checks and `MinHash` as Markdown. *Absent*:
//! files and arguments (`main`).

pub mod by_kind;
pub mod containment;
pub mod dropped;
pub mod halves;
pub mod kinds;
pub mod main_text;
pub mod min_hash;
pub mod one_word;
pub mod pages;
pub mod pieces;
pub mod second_check;
pub mod sentences;
pub mod tables;

use std::convert::Infallible;

/// The check of a measurement that is not cancelled.
#[allow(clippy::unnecessary_wraps, reason = "the type of a check")]
pub fn unchecked() -> Result<(), Infallible> {
    Ok(())
}
