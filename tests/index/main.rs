//! Invariant 3: every answer of the index equals the linear scan's, for every k, while hashes come and go.
#![allow(clippy::type_complexity, reason = "tables of cases are nested")]

mod concurrent;
mod exact;
mod model;
