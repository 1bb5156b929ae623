//! Near-duplicates of a whole corpus: which documents are kept, and which kept document replaces each other
//! one.
//!
//! The result is defined without reference to the algorithm (ADR 32). Documents are visited in an order;
//! each is kept unless a kept document lies within k. So kept documents are pairwise farther apart than k,
//! and each dropped document names the nearest kept document. The tests compare every function with its
//! definition.
//!
//! Costs: one lookup in the index for each document. *Absent*: texts, files, and the values that an order
//! is made from (`cli/dedupe`).

#![deny(unreachable_pub)]

mod central;
mod column;
mod documents;
mod kept;
mod linked;
mod order;
mod parts;
mod rounds;
#[cfg(test)]
mod tests;

pub use central::neighbour_counts;
pub use documents::{Check, Documents, Print};
pub use kept::{Decision, Kept};
pub use linked::linked;
pub use order::visiting_order;
pub use parts::Bounds;
pub use rounds::decide_in_rounds;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
