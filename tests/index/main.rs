//! Invariant 3: every answer of the index equals the linear scan's, for every k, while hashes come and go.

mod concurrent;
mod exact;
