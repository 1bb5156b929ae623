//! Invariant 3: every answer of the index equals the linear scan's, for every k, while hashes come and go.
#![allow(
    clippy::unwrap_used,
    clippy::too_many_lines,
    clippy::type_complexity,
    clippy::precedence,
    clippy::duration_suboptimal_units,
    missing_docs,
    reason = "a test that cannot go on panics, and tables of cases are long"
)]

mod concurrent;
mod exact;
