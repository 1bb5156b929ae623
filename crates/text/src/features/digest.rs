//! Stable hashes of features, 64 or 128 bits. This project's own profiles use `XXH3`. The other functions
//! reproduce the fingerprints of other programs bit for bit.
//!
//! The output of `XXH3` is frozen since xxHash 0.8.0, and the other functions are fixed standards, so a
//! digest is the same on every machine and in every release. The hashes of the standard library and of hash
//! tables are not stable. `XXH3` is seeded with the kind of the feature, which distinguishes a word from a
//! pair or gram with the same letters. The other functions hash the bare text, as the programs that use
//! them do.
//!
//! Not here: protection against chosen collisions. A fingerprint cannot offer it, because anyone who knows
//! the profile can write two texts with one fingerprint. `md5`, `sha-1` and `sha-256` have no security
//! purpose here.

use md5::Md5;
use sha1::{Digest as _, Sha1};
use sha2::Sha256;

use super::lookup3::lookup3;
use super::short::{xxh3_64, xxh3_128};

/// The kind of a feature. The numbers are seeds of the hash, so they are part of every profile and never
/// change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// One word.
    Word = 1,
    /// Two adjacent words, one space between them.
    Pair = 2,
    /// Adjacent characters.
    Gram = 3,
    /// Three or more adjacent words, separated by single spaces; or fewer if the text has fewer than a
    /// feature.
    Phrase = 4,
    /// A sentence.
    Sentence = 5,
}

/// A stable hash function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HashFunction {
    /// `XXH3` of the UTF-8 bytes, seeded with the [`Kind`].
    #[default]
    Xxh3,
    /// The low bits of MD5 (RFC 1321) of the UTF-8 bytes.
    Md5,
    /// The low bits of SHA-1 (RFC 3174) of the UTF-8 bytes.
    Sha1,
    /// The low bits of SHA-256 (FIPS 180-4) of the UTF-8 bytes.
    Sha256,
    /// FNV-1a of the UTF-8 bytes.
    Fnv1a,
    /// FNV-1a of the UTF-16 code units, each taken in one step.
    Fnv1aUtf16,
    /// Bob Jenkins' `hashlittle2` of the UTF-8 bytes with both seeds 0: 64 bits, the first result in the
    /// upper half.
    Lookup3,
}

impl HashFunction {
    /// All functions, with their names in profile definitions.
    pub const NAMES: [(&'static str, HashFunction); 7] = [
        ("xxh3", HashFunction::Xxh3),
        ("md5", HashFunction::Md5),
        ("sha-1", HashFunction::Sha1),
        ("sha-256", HashFunction::Sha256),
        ("fnv-1a", HashFunction::Fnv1a),
        ("fnv-1a-utf16", HashFunction::Fnv1aUtf16),
        ("lookup3", HashFunction::Lookup3),
    ];

    /// The largest width of its digests, in bits.
    pub fn bits(self) -> u32 {
        match self {
            HashFunction::Lookup3 => 64,
            HashFunction::Sha1 => 160,
            HashFunction::Sha256 => 256,
            HashFunction::Xxh3 | HashFunction::Md5 | HashFunction::Fnv1a | HashFunction::Fnv1aUtf16 => 128,
        }
    }
}

/// The bits of a hash in limbs of 64 bits, the most significant limb first, so that they sort by value.
pub type Limbs<const L: usize> = [u64; L];

/// A hash of `64 × L` bits. Implemented for one limb and for two.
pub trait Digest: Copy + Ord {
    /// The `XXH3` of a feature.
    fn of(kind: Kind, text: &str) -> Self;

    /// The digest of a feature by any function. A 64-bit function gives the same limb twice.
    fn by(function: HashFunction, kind: Kind, text: &str) -> Self;

    /// The 64 most significant bits.
    fn top(self) -> u64;
}

impl Digest for Limbs<1> {
    #[expect(clippy::inline_always, reason = "a call for each feature takes longer than the hash")]
    #[inline(always)]
    fn of(kind: Kind, text: &str) -> Self {
        [xxh3_64(text.as_bytes(), kind as u64)]
    }

    fn by(function: HashFunction, kind: Kind, text: &str) -> Self {
        match function {
            HashFunction::Xxh3 => Self::of(kind, text),
            HashFunction::Fnv1a => [fnv1a_64(text.bytes().map(u64::from))],
            HashFunction::Fnv1aUtf16 => [fnv1a_64(text.encode_utf16().map(u64::from))],
            HashFunction::Lookup3 => [lookup3(text.as_bytes())],
            HashFunction::Md5 | HashFunction::Sha1 | HashFunction::Sha256 => {
                [Limbs::<2>::by(function, kind, text)[1]]
            }
        }
    }

    #[inline]
    fn top(self) -> u64 {
        self[0]
    }
}

impl Digest for Limbs<2> {
    #[expect(clippy::inline_always, reason = "a call for each feature takes longer than the hash")]
    #[inline(always)]
    fn of(kind: Kind, text: &str) -> Self {
        xxh3_128(text.as_bytes(), kind as u64)
    }

    fn by(function: HashFunction, kind: Kind, text: &str) -> Self {
        match function {
            HashFunction::Xxh3 => Self::of(kind, text),
            HashFunction::Md5 => low_bits(&Md5::digest(text.as_bytes())),
            HashFunction::Sha1 => low_bits(&Sha1::digest(text.as_bytes())),
            HashFunction::Sha256 => low_bits(&Sha256::digest(text.as_bytes())),
            HashFunction::Fnv1a => halves(fnv1a_128(text.bytes().map(u128::from))),
            HashFunction::Fnv1aUtf16 => halves(fnv1a_128(text.encode_utf16().map(u128::from))),
            HashFunction::Lookup3 => [lookup3(text.as_bytes()); 2],
        }
    }

    #[inline]
    fn top(self) -> u64 {
        self[0]
    }
}

/// The digest of a word as a big-endian number of at least `width` bits: that of the function's own variant
/// for the next width (FNV-1a has variants of 32, 64 and 128 bits, lookup3 of 32 and 64, `XXH3` of 64 and
/// 128), or its only one. At 64 and 128 bits, the low bits are those of [`Digest::by`].
pub fn low_bytes(function: HashFunction, width: u32, text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    match function {
        HashFunction::Md5 => Md5::digest(bytes).to_vec(),
        HashFunction::Sha1 => Sha1::digest(bytes).to_vec(),
        HashFunction::Sha256 => Sha256::digest(bytes).to_vec(),
        HashFunction::Fnv1a if width <= 32 => fnv1a_32(text.bytes().map(u32::from)).to_be_bytes().to_vec(),
        HashFunction::Fnv1aUtf16 if width <= 32 => {
            fnv1a_32(text.encode_utf16().map(u32::from)).to_be_bytes().to_vec()
        }
        HashFunction::Lookup3 if width <= 32 => lookup3(bytes).to_be_bytes()[..4].to_vec(),
        function if width <= 64 => Limbs::<1>::by(function, Kind::Word, text)[0].to_be_bytes().to_vec(),
        function => {
            Limbs::<2>::by(function, Kind::Word, text).iter().flat_map(|limb| limb.to_be_bytes()).collect()
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "only the lower half is needed")]
fn halves(hash: u128) -> Limbs<2> {
    [(hash >> 64) as u64, hash as u64]
}

/// The last sixteen bytes as a big-endian number.
fn low_bits(bytes: &[u8]) -> Limbs<2> {
    halves(bytes.iter().fold(0, |value, &byte| value << 8 | u128::from(byte)))
}

/// Fowler, Noll and Vo, variant 1a, 32 bits.
fn fnv1a_32(units: impl Iterator<Item = u32>) -> u32 {
    units.fold(0x811c_9dc5, |hash, unit| (hash ^ unit).wrapping_mul(0x0100_0193))
}

/// Fowler, Noll and Vo, variant 1a, 64 bits.
fn fnv1a_64(units: impl Iterator<Item = u64>) -> u64 {
    units.fold(0xcbf2_9ce4_8422_2325, |hash, unit| (hash ^ unit).wrapping_mul(0x0000_0100_0000_01b3))
}

/// Fowler, Noll and Vo, variant 1a, 128 bits.
fn fnv1a_128(units: impl Iterator<Item = u128>) -> u128 {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    units.fold(OFFSET, |hash, unit| (hash ^ unit).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex<const L: usize>(function: HashFunction, text: &str) -> String
    where
        Limbs<L>: Digest,
    {
        Limbs::<L>::by(function, Kind::Word, text).iter().map(|limb| format!("{limb:016x}")).collect()
    }

    /// Published values: RFC 1321, RFC 3174 and the tables of the FNV page.
    #[test]
    fn functions_give_their_published_values() {
        assert_eq!(hex::<2>(HashFunction::Md5, ""), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(hex::<2>(HashFunction::Md5, "abc"), "900150983cd24fb0d6963f7d28e17f72");
        assert_eq!(hex::<1>(HashFunction::Md5, "abc"), "d6963f7d28e17f72");
        assert_eq!(hex::<2>(HashFunction::Sha256, "abc"), "b00361a396177a9cb410ff61f20015ad");
        // a9993e36 4706816aba3e25717850c26c9cd0d89d
        assert_eq!(hex::<2>(HashFunction::Sha1, "abc"), "4706816aba3e25717850c26c9cd0d89d");
        assert_eq!(hex::<1>(HashFunction::Fnv1a, ""), "cbf29ce484222325");
        assert_eq!(hex::<1>(HashFunction::Fnv1a, "a"), "af63dc4c8601ec8c");
        assert_eq!(hex::<1>(HashFunction::Fnv1a, "foobar"), "85944171f73967e8");
        assert_eq!(hex::<2>(HashFunction::Fnv1a, "a"), "d228cb696f1a8caf78912b704e4a8964");
    }

    #[test]
    fn utf16_units_are_hashed_in_one_step() {
        assert_eq!(hex::<1>(HashFunction::Fnv1aUtf16, "foobar"), hex::<1>(HashFunction::Fnv1a, "foobar"));
        // (0xcbf29ce484222325 ^ 0x4e2d) × 0x100000001b3, and 飞碟 as 98de 789f: calculated by hand.
        assert_eq!(hex::<1>(HashFunction::Fnv1aUtf16, "中"), "afada04c867f4498");
        assert_eq!(hex::<1>(HashFunction::Fnv1aUtf16, "飞碟"), "0f4169096d9f7bfa");
    }

    #[test]
    fn kinds_distinguish_equal_texts() {
        assert_ne!(Limbs::<1>::of(Kind::Word, "a b"), Limbs::<1>::of(Kind::Pair, "a b"));
        assert_eq!(Limbs::<1>::by(HashFunction::Xxh3, Kind::Gram, "a b"), Limbs::<1>::of(Kind::Gram, "a b"));
    }
}
