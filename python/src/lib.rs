//! The native module of the Python package: arguments of Python in, calls of the crates, values of Python
//! out. No algorithm is written here.
//!
//! Work releases Python's lock, ends on Ctrl+C, and takes the number of threads as an argument, which does
//! not change results. Every error names the argument. `lookalike/_lookalike.pyi` has the types.

#![deny(unreachable_pub)]
#![allow(
    clippy::doc_markdown,
    clippy::doc_link_with_quotes,
    reason = "docstrings are for readers of Python, who see no Markdown"
)]
#![allow(clippy::needless_pass_by_value, reason = "what Python gives is made for the call, and is its own")]

mod arguments;
mod arrow;
mod compare;
mod dedupe;
mod fingerprint;
mod hashes;
mod image_comparison;
mod images;
mod index;
mod kernel;
mod near_map;
mod profiles;
mod texts;
mod work;

use pyo3::prelude::*;

/// The native part of the package lookalike.
#[pymodule]
mod _lookalike {
    #[pymodule_export]
    use super::compare::{Comparison, compare};
    #[pymodule_export]
    use super::dedupe::{Decisions, Learned, decide};
    #[pymodule_export]
    use super::fingerprint::fingerprint;
    #[pymodule_export]
    use super::hashes::Hashes;
    #[pymodule_export]
    use super::image_comparison::ImageComparison;
    #[pymodule_export]
    use super::index::Index;
    #[pymodule_export]
    use super::kernel::{Columns, Steps, Taught, minima};
    #[pymodule_export]
    use super::near_map::{Near, NearMap};
    #[pymodule_export]
    use super::profiles::{Profile, profiles};
}
