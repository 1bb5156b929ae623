//! Fingerprints: from a text to 64 or 128 bits that differ little if the texts do, or to a signature of which few
//! cells differ then.
//!
//! [`Profile`] is the way in. Promises: the same text and profile give the same bits on every machine and in
//! every release. Leaves out: the search for near fingerprints, which is the index's, and a second check of what
//! it finds.

mod built_in;
mod compare;
mod definition;
mod explanation;
mod minhash;
mod profile;
mod recipe;
mod vote;

#[cfg(test)]
mod golden;

pub use compare::{DifferingFeature, FeatureComparison, Flip, HashComparison};
pub use definition::{Definition, DefinitionError, Value};
pub use explanation::Explanation;
pub use minhash::{Banding, MinHash, Signature, Sketch, jaccard, signature_name, signature_of};
pub use profile::{Profile, ProfileId, Profiles, makes_the_same};
pub use recipe::simhash_of;

use crate::ids::Hash;

/// A fingerprint, and what it rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// The bits. All zero if there are no features.
    pub hash: Hash,
    /// The number of distinct features.
    pub features: usize,
    /// Whether there were enough of them.
    pub status: Status,
}

/// A fingerprint, and the signature that it is the name of if the profile makes signatures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    /// The fingerprint.
    pub fingerprint: Fingerprint,
    /// The signature, of the shape that the profile says.
    pub signature: Option<Vec<u8>>,
}

/// How far a fingerprint can be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// It can.
    Ok,
    /// It has features, but fewer than the profile's least number: near-duplicates may lie far apart.
    Short,
    /// It has none, and would equal every other such text: not to be stored or looked up.
    Empty,
}

/// A feature and its part in the vote.
#[derive(Clone, Debug, PartialEq)]
pub struct WeightedFeature {
    /// The word, the two words with a space between, or the characters; normalised.
    pub text: String,
    /// The weight of its vote, above 0, to the nearest 1/65,536.
    pub weight: f64,
    /// Its digest, as wide as the fingerprint.
    pub hash: Hash,
}
