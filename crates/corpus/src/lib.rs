//! Near-duplicates of a whole corpus: which documents are kept, and which kept document replaces each other
//! one.
//!
//! The result has a definition that does not mention an algorithm: the documents are visited in an order, and
//! each is kept unless a kept document lies within k. So kept documents are pairwise farther apart than k,
//! and each dropped one names the nearest kept document.
//!
//! - [`Documents`] says which documents are near, by a [`Print`] of each: its hash, or its signature.
//! - [`Kept`] visits documents and gives a [`Decision`] for each, while they arrive or at the end.
//! - [`decide_in_rounds`] makes the same decisions in bounded memory, in the order of [`visiting_order`].
//! - [`bucket_keys`] and [`mark_near`] find documents that are near any other, without an index.
//! - [`linked()`] joins near documents to groups, and [`neighbour_counts`] counts how many are near each.
//!
//! ```
//! use lookalike_corpus::{Decision, Documents, Kept, Print};
//! use lookalike_hash::{Hash, Width};
//!
//! let print = |hash| Print { hash: Hash::from_u64(hash), signature: vec![], sketch: vec![] };
//! let prints = [0x00, 0x01, 0xff].map(print);
//! let mut kept = Kept::like(&Documents::new(Width::Bits64, None, 3, None));
//! let named: Vec<(u32, &Print)> = (0..).zip(&prints).collect();
//! let decisions = kept.visit_all(&named, 1);
//! assert_eq!(decisions, [Decision::Kept, Decision::Dropped { by: 0, distance: 1 }, Decision::Kept]);
//! ```
//!
//! Costs: one lookup in an exact index for each document. The tests compare every function with its
//! definition. *Absent*: texts, files, and the values that an order is made from.

#![deny(unreachable_pub)]

mod buckets;
mod central;
mod column;
mod decisions;
mod documents;
mod hashes;
mod kept;
mod linked;
mod minima;
mod order;
mod parts;
mod rounds;
mod sets;
#[cfg(test)]
mod tests;

pub use buckets::{bucket_keys, mark_near};
pub use central::neighbour_counts;
pub use decisions::{Decision, Decisions};
pub use documents::{Check, Documents, Judge, Print};
pub use kept::{Kept, Named};
pub use linked::linked;
pub use order::{Order, visiting_order};
pub use parts::Bounds;
pub use rounds::{Visit, decide_in_rounds};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
