//! The identifiers and rules that every layer shares: hashes, grams, document ids, marks, collection names,
//! sequence numbers, keep rules.
//!
//! Each identifier has its own type, so that two numbers cannot be confused. A constructor that can fail
//! checks it, so that every value is valid.
//!
//! *Absent*: where identifiers come from and how they are used.

#![deny(unreachable_pub)]

mod forms;
mod gram;
mod hash;
mod keep;
mod mark;
mod names;
mod signature;
mod times;
mod u256;
mod wide;

pub use forms::{FormError, HashForm, NoForm};
pub use gram::Gram;
pub use hash::{Hash, HashError, Width, Word};
pub use keep::{ClusterRule, KeepRule};
pub use mark::Mark;
pub use names::{CollectionId, CollectionName, DocumentId, IdError, Sequence};
pub use signature::{SignatureShape, is_blank, share_caught};
pub use times::seconds;
pub use u256::U256;
pub use wide::WideHash;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
