//! Invariant 3: every answer of the index equals that of the linear scan, for every k, while hashes are
//! inserted and removed.
#![allow(clippy::type_complexity, reason = "tables of cases are nested")]

mod concurrent;
mod exact;
mod model;
