//! Stable hashes of features: `XXH3` of the UTF-8 bytes, 64 or 128 bits, seeded with the kind of the feature.
//!
//! `XXH3` has been frozen since xxHash 0.8.0, so a digest is the same on every machine and in every release;
//! the hashes of the standard library and of hash tables are not. The seed keeps a word apart from the pair or
//! gram that is written with the same letters. Leaves out: any defence against chosen collisions, for which a
//! fingerprint is no place: whoever knows the profile can write two texts with one fingerprint.

use xxhash_rust::xxh3::{xxh3_64_with_seed, xxh3_128_with_seed};

/// What a feature is made of. The numbers are seeds, and part of every profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// One word.
    Word = 1,
    /// Two adjacent words, one space between them.
    Pair = 2,
    /// Adjacent characters.
    Gram = 3,
}

/// The bits of a hash in limbs of 64, the most significant first, so that their order is the order of values.
pub type Limbs<const L: usize> = [u64; L];

/// A hash of `64 × L` bits. Implemented for one limb and for two.
pub trait Digest: Copy + Ord {
    /// The digest of a feature.
    fn of(kind: Kind, text: &str) -> Self;

    /// The 64 most significant bits.
    fn top(self) -> u64;
}

impl Digest for Limbs<1> {
    #[inline]
    fn of(kind: Kind, text: &str) -> Self {
        [xxh3_64_with_seed(text.as_bytes(), kind as u64)]
    }

    #[inline]
    fn top(self) -> u64 {
        self[0]
    }
}

impl Digest for Limbs<2> {
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the lower half is wanted")]
    fn of(kind: Kind, text: &str) -> Self {
        let hash = xxh3_128_with_seed(text.as_bytes(), kind as u64);
        [(hash >> 64) as u64, hash as u64]
    }

    #[inline]
    fn top(self) -> u64 {
        self[0]
    }
}
