//! Fingerprints: 64 or 128 bits of a text, or a signature of cells. Similar texts differ in few bits or
//! cells.
//!
//! The entry point is [`Profile`]. Guarantees: the same text and profile give the same bits on every machine
//! and in every release. Not here: the search for near fingerprints (`hamming`), and the second check of the
//! candidates (`service`).

mod built_in;
mod compare;
#[cfg(feature = "zh")]
mod containment;
mod explanation;
mod given;
mod minhash;
#[cfg(feature = "html")]
mod pages;
mod profile;
mod recipe;
mod sensitivity;
#[cfg(feature = "profiles")]
mod user;
mod vote;
mod weighted;
mod weights;

#[cfg(test)]
mod golden;

pub use compare::{DifferingFeature, FeatureComparison, Flip, HashComparison};
#[cfg(feature = "zh")]
pub use containment::{Containment, MIN_SHARED_GRAMS, SharedPassage, TextRelation};
pub use explanation::Explanation;
pub use given::{Ballot, GivenFeature, Voted, WrongBallot};
pub use minhash::{Banding, MinHash, Signature, Sketch, jaccard, signature_name, signature_of};
#[cfg(feature = "html")]
pub use pages::has_too_little;
pub use profile::{Profile, ProfileId, Profiles, check_takes_images, check_takes_texts, makes_the_same};
pub use recipe::simhash_of;
pub(crate) use recipe::{Features, Recipe};
#[cfg(feature = "profiles")]
pub(crate) use recipe::{IdfChoice, Top, Weights};
pub use sensitivity::Moved;
#[cfg(feature = "profiles")]
pub use user::Contradiction;
#[cfg(feature = "profiles")]
pub(crate) use vote::Tie;
pub use weighted::weighted_jaccard;

use lookalike_hash::Hash;

/// A fingerprint, and how reliable it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// The bits. All zero if there are no features.
    pub hash: Hash,
    /// The number of distinct features.
    pub features: usize,
    /// Whether a copy with one changed word is found.
    pub status: Status,
    /// How far one changed word moves it.
    pub moved: Moved,
    /// The distance up to which another fingerprint is that of a near-duplicate, unless a request sets
    /// another one. It depends on the text if the profile is for short texts.
    pub k: u32,
}

impl Fingerprint {
    /// The fingerprint of an image, which has no features.
    pub fn of_image(hash: Hash, status: Status, k: u32) -> Fingerprint {
        Fingerprint { hash, features: 0, status, moved: Moved::default(), k }
    }

    /// Whether it is that of an image, of which nothing is known about changed words.
    pub fn is_of_image(&self) -> bool {
        self.features == 0 && self.status != Status::Empty
    }
}

/// A fingerprint, and its signature if the profile makes signatures; the hash is then the name of the
/// signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    /// The fingerprint.
    pub fingerprint: Fingerprint,
    /// The signature, in the shape [`Profile::signatures`].
    pub signature: Option<Vec<u8>>,
}

/// How reliable a fingerprint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// A copy with one changed word is within the `k` of the fingerprint with a probability of at least .9.
    Ok,
    /// The text has features, but so few that a copy with one changed word may be missed: it is within the
    /// `k` of the fingerprint with a probability below .9.
    Short,
    /// The text has no features. Its fingerprint equals that of every other such text, so it must not be
    /// stored or looked up.
    Empty,
}

/// A feature and its weight in the vote.
#[derive(Clone, Debug, PartialEq)]
pub struct WeightedFeature {
    /// The word, the words separated by spaces, the characters or the sentence; prepared as the profile says.
    pub text: String,
    /// If it is a letter gram of words with spaces: the words that it comes from, at most 3.
    pub words: Vec<String>,
    /// The weight of its vote, above 0, to the nearest 1/65,536.
    pub weight: f64,
    /// Its digest, as wide as the fingerprint.
    pub hash: Hash,
}
