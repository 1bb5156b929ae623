//! From words and characters to weighted features: shingles or keywords, stable digests, fixed-point weights.
//!
//! Promises: a feature's digest and weight depend on the text alone, the same on every machine and in every
//! release. Leaves out: the vote that makes a fingerprint of them.

mod bag;
mod digest;
mod idf;
mod keywords;
mod shingles;
mod weights;

pub use bag::{Bag, Class};
pub use digest::{Digest, Kind, Limbs};
pub use keywords::{Keyword, keywords};
pub use shingles::shingles;
pub use weights::{ONE, fixed, logarithmic, to_number};
