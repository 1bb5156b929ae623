//! MinHash: signatures of sets. The share of equal minima of two signatures estimates the Jaccard
//! similarity of the sets.
//!
//! After Broder, "On the resemblance and containment of documents" (1997). The classic signature hashes
//! every element once for each minimum. Here each element is hashed once per round and assigned to one slot
//! (one-permutation hashing; Li, Owen and Zhang, NIPS 2012), and rounds with other hashes are repeated
//! until no slot is empty (Dahlgaard, Knudsen and Thorup, "Fast similarity sketching", FOCS 2017). Large
//! sets take one hash per element and not 128; small sets take about as many as the classic signature. The
//! errors are no larger.
//!
//! Guarantees: the same set gives the same signature on every machine, and estimates from n minima are within
//! 3/√n of the exact similarity in the tests. Not here: the index of signatures (`hamming::Bands`).

use xxhash_rust::xxh3::xxh3_128;

use lookalike_hash::{Hash, SignatureShape, share_caught};

/// The name of a signature: the 128-bit `XXH3` of its bytes.
pub fn signature_name(signature: &[u8]) -> Hash {
    Hash::from_u128(xxh3_128(signature))
}

/// The signature of a set of 64-bit hashes, in this shape: the lowest bytes of the minima, at most four of
/// each; or, if the shape is a set, the lowest bytes of the hashes themselves, padded with zeros.
pub fn signature_of(set: &[u64], shape: SignatureShape) -> Vec<u8> {
    if !shape.is_set {
        return Signature::of(set, usize::from(shape.cells)).bytes(shape.cell_bytes);
    }
    let mut signature: Vec<u8> =
        set.iter().take(usize::from(shape.cells)).flat_map(|hash| low(*hash, shape.cell_bytes)).collect();
    signature.resize(shape.bytes(), 0);
    signature
}

/// The lowest bytes of a number, at most eight.
fn low(number: u64, bytes: u8) -> impl Iterator<Item = u8> {
    number.to_le_bytes().into_iter().take(usize::from(bytes))
}

/// The value of a slot without an element.
pub(super) const EMPTY: u64 = u64::MAX;

/// A signature. Equal sets have equal signatures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    minima: Vec<u32>,
}

impl Signature {
    /// The signature of a set of 64-bit hashes, with `minima` minima, 1 to 65,536. All minima of an empty
    /// set are 0.
    pub fn of(set: &[u64], minima: usize) -> Signature {
        let mut slots = vec![EMPTY; minima];
        let mut empty = minima;
        // After as many rounds as slots, each further round assigns all elements to one slot, so that it is
        // filled.
        for round in 0..2 * minima as u64 {
            if empty == 0 || set.is_empty() {
                break;
            }
            for &element in set {
                let hash = mixed(element, round);
                let at = match (round as usize).checked_sub(minima) {
                    None => (((hash >> 32) * minima as u64) >> 32) as usize,
                    Some(at) => at,
                };
                let value = (round << 32) | (hash & 0xffff_ffff);
                empty -= usize::from(slots[at] == EMPTY);
                slots[at] = slots[at].min(value);
            }
        }
        Signature::of_slots(slots)
    }

    /// The signature of the least values of slots; those of an empty set are all [`EMPTY`].
    pub(super) fn of_slots(slots: Vec<u64>) -> Signature {
        let fold = |slot: u64| if slot == EMPTY { 0 } else { (mixed(slot, 1) >> 32) as u32 };
        Signature { minima: slots.into_iter().map(fold).collect() }
    }

    /// This many of the lowest bytes of each minimum, at most four.
    pub(super) fn bytes(&self, of_each: u8) -> Vec<u8> {
        self.minima.iter().flat_map(|minimum| low(u64::from(*minimum), of_each)).collect()
    }

    /// The minima.
    pub fn minima(&self) -> &[u32] {
        &self.minima
    }

    /// The estimated Jaccard similarity, 0 to 1: the share of equal minima. 0 for signatures of different
    /// lengths.
    pub fn similarity(&self, other: &Signature) -> f64 {
        let equal = self.minima.iter().zip(&other.minima).filter(|(a, b)| a == b).count();
        if self.minima.len() == other.minima.len() { equal as f64 / self.minima.len() as f64 } else { 0.0 }
    }

    /// The lowest `bits` (1 to 8) of each minimum, to be stored with a document (Li and König, "b-Bit
    /// minwise hashing", WWW 2010).
    pub fn sketch(&self, bits: u32) -> Sketch {
        let bits = bits.clamp(1, 8);
        let mut bytes = vec![0; (self.minima.len() * bits as usize).div_ceil(8)];
        for (number, minimum) in self.minima.iter().enumerate() {
            let at = number * bits as usize;
            for bit in 0..bits as usize {
                bytes[(at + bit) / 8] |= ((minimum >> bit & 1) as u8) << ((at + bit) % 8);
            }
        }
        Sketch { bits, bytes }
    }
}

/// A few bits of each minimum: enough to estimate a similarity, in a few dozen bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sketch {
    bits: u32,
    bytes: Vec<u8>,
}

impl Sketch {
    /// The bytes: the bits of all minima without gaps, the least significant bit first.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// A sketch from its bytes; `bits` must be the number of bits per minimum with which they were made.
    pub fn from_bytes(bits: u32, bytes: Vec<u8>) -> Sketch {
        Sketch { bits: bits.clamp(1, 8), bytes }
    }

    /// The estimated Jaccard similarity, 0 to 1. Different minima have equal bits by chance in one case of
    /// 2^bits; the estimate corrects for this. 0 for sketches of different sizes.
    pub fn similarity(&self, other: &Sketch) -> f64 {
        if (self.bits, self.bytes.len()) != (other.bits, other.bytes.len()) || self.bytes.is_empty() {
            return 0.0;
        }
        let minima = self.bytes.len() * 8 / self.bits as usize;
        let equal = (0..minima).filter(|&number| self.minimum(number) == other.minimum(number)).count();
        let by_chance = 1.0 / f64::from(1_u32 << self.bits);
        ((equal as f64 / minima as f64 - by_chance) / (1.0 - by_chance)).max(0.0)
    }

    fn minimum(&self, number: usize) -> u16 {
        let at = number * self.bits as usize;
        let pair = u16::from(self.bytes[at / 8]) | u16::from(*self.bytes.get(at / 8 + 1).unwrap_or(&0)) << 8;
        pair >> (at % 8) & ((1 << self.bits) - 1)
    }
}

/// The banding of a signature for the index: documents that agree in a whole band are candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Banding {
    /// The number of bands.
    pub bands: usize,
    /// The minima per band.
    pub rows: usize,
}

impl Banding {
    /// 16 bands of 8 minima: the classic choice for news at a threshold of 0.8.
    pub const CLASSIC: Banding = Banding { bands: 16, rows: 8 };

    /// The share of pairs of this similarity that agree in at least one band.
    pub fn caught(self, similarity: f64) -> f64 {
        share_caught(similarity, self.bands, self.rows)
    }

    /// The banding of at most `minima` minima that has the most rows, and so the fewest false candidates,
    /// and still catches at least the share `wanted` (for example 0.95) of the pairs at the threshold. One
    /// row per band if no banding catches that many.
    ///
    /// ```
    /// use lookalike_text::fingerprint::Banding;
    /// let banding = Banding::for_threshold(0.8, 0.95, 128);
    /// assert!(banding.caught(0.8) >= 0.95 && banding.bands * banding.rows <= 128);
    /// ```
    pub fn for_threshold(threshold: f64, wanted: f64, minima: usize) -> Banding {
        let cut = |rows: usize| Banding { bands: minima / rows, rows };
        (1..=minima).rev().map(cut).find(|banding| banding.caught(threshold) >= wanted).unwrap_or(cut(1))
    }
}

/// A recipe of the MinHash family: the features of a profile, a banding, and the threshold of similarity.
#[derive(Debug)]
pub struct MinHash {
    /// The name of the profile.
    pub name: &'static str,
    /// The purpose, in English.
    pub summary: &'static str,
    /// The name of the profile that prepares the text and whose features form the set, but for lengths.
    pub features: &'static str,
    /// The banding.
    pub banding: Banding,
    /// The estimated similarity from which two documents are near-duplicates.
    pub threshold: f64,
}

impl MinHash {
    /// The classic recipe, the recommended one, and the one for code.
    pub const ALL: [MinHash; 3] = [
        MinHash {
            name: "minhash",
            summary: "MinHash as news sites use it: every three adjacent characters, 128 minima, 16 bands of \
                      8. Texts are similar from an estimated Jaccard similarity of 0.8.",
            features: "shingle-md5-128",
            banding: Banding::CLASSIC,
            threshold: 0.8,
        },
        // Chosen by the results on four labelled sets with one threshold for all: see docs/quality.md.
        MinHash {
            name: "minhash-copies",
            summary: "MinHash for any language, with parameters chosen by measurement: words and pairs of \
                      words in Chinese and Japanese, three letter clusters in Thai and related scripts, \
                      elsewhere 8-character grams from every third letter of a word, 200 minima, 50 \
                      bands of 4. Texts are similar from an estimated Jaccard similarity of 0.5.",
            features: "shingles-64",
            banding: Banding { bands: 50, rows: 4 },
            threshold: 0.5,
        },
        MinHash {
            name: "minhash-code",
            summary: "MinHash for source code whose copies are disguised: eight adjacent tokens without \
                      comments and punctuation, identifiers in one form, 255 minima, 85 bands of 3. Texts \
                      are similar from an estimated Jaccard similarity of 0.2. Not for prose.",
            features: "code-128",
            banding: Banding { bands: 85, rows: 3 },
            threshold: 0.2,
        },
    ];

    /// The shape of its signatures, which keep one byte of each minimum (Li and König, "b-Bit minwise
    /// hashing", WWW 2010).
    ///
    /// # Panics
    /// Never for the recipes of [`MinHash::ALL`].
    pub fn shape(&self) -> SignatureShape {
        let Banding { bands, rows } = self.banding;
        SignatureShape::of_minima(bands as u16, rows as u16).expect("a valid shape of signatures")
    }
}

/// The exact Jaccard similarity of two sorted sets, 0 to 1: common ÷ all elements. 0 for two empty sets.
pub fn jaccard(a: &[u64], b: &[u64]) -> f64 {
    let (mut at, mut common) = (0, 0_usize);
    for element in a {
        while b.get(at).is_some_and(|other| other < element) {
            at += 1;
        }
        common += usize::from(b.get(at) == Some(element));
    }
    let union = a.len() + b.len() - common;
    if union == 0 { 0.0 } else { common as f64 / union as f64 }
}

/// A different hash of a hash for each round: the finalizer of `SplitMix64`. Round 0 is the hash itself.
#[inline]
pub(super) const fn mixed(element: u64, round: u64) -> u64 {
    if round == 0 {
        return element;
    }
    let mut mixed = element.wrapping_add(round.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The classic signature: every element hashed for every minimum.
    fn classic(set: &[u64], minima: usize) -> Vec<u64> {
        (0..minima as u64)
            .map(|n| set.iter().map(|&element| mixed(element, n + 1_000)).min().unwrap_or(0))
            .collect()
    }

    /// Two sets with `common` common elements and `own` further elements each, and their exact similarity.
    fn sets(common: u64, own: u64, seed: u64) -> (Vec<u64>, Vec<u64>, f64) {
        let hash = |n: u64| mixed(n + (seed << 32), 7);
        let a = (0..common + own).map(hash).collect();
        let b = (0..common).chain(common + own..common + 2 * own).map(hash).collect();
        (a, b, common as f64 / (common + 2 * own).max(1) as f64)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]
        #[test]
        fn estimates_are_near_the_exact_similarity(
            common in 0u64..400,
            own in 0u64..200,
            seed in 0u64..1000,
        ) {
            let (a, b, exact) = sets(common, own, seed);
            let [a, b] = [a, b].map(|set| Signature::of(&set, 128));
            let bound = 3.0 / f64::from(128).sqrt();
            prop_assert!((a.similarity(&b) - exact).abs() <= bound || common + own == 0);
            // One byte of each minimum agrees by chance in only one case of 256.
            prop_assert!((a.sketch(8).similarity(&b.sketch(8)) - exact).abs() <= bound || common + own == 0);
        }
    }

    #[test]
    fn errors_are_no_larger_than_those_of_the_classic_signature() {
        for (common, own) in [(5, 5), (20, 10), (60, 20), (500, 200)] {
            let (mut ours, mut theirs) = (0.0, 0.0);
            for seed in 0..300 {
                let (a, b, exact) = sets(common, own, seed);
                let estimate = Signature::of(&a, 128).similarity(&Signature::of(&b, 128));
                let (a, b) = (classic(&a, 128), classic(&b, 128));
                let equal = a.iter().zip(&b).filter(|(a, b)| a == b).count() as f64 / 128.0;
                ours += (estimate - exact).powi(2);
                theirs += (equal - exact).powi(2);
            }
            println!("{common} {own}: {:.4} {:.4}", (ours / 300.0).sqrt(), (theirs / 300.0).sqrt());
            assert!(ours < theirs * 1.25, "{common} {own}: {ours} {theirs}");
        }
    }

    #[test]
    fn signatures_never_change() {
        let set: Vec<u64> = (1..=3).map(|n| n * 0x0123_4567_89ab_cdef).collect();
        let signature = Signature::of(&set, 8);
        assert_eq!(signature.minima(), GOLDEN);
        assert_eq!(Sketch::from_bytes(3, signature.sketch(3).bytes().to_vec()), signature.sketch(3));
        assert_eq!(Signature::of(&[], 4).minima(), [0; 4]);
    }

    const GOLDEN: [u32; 8] = [
        4_171_336_775,
        900_603_977,
        1_836_062_262,
        4_198_837_173,
        199_630_912,
        3_836_559_514,
        2_336_515_284,
        3_380_752_788,
    ];

    #[test]
    fn a_sketch_contains_the_lowest_bits_of_the_minima() {
        let signature = Signature::of(&[1, 2, 3, 4, 5], 20);
        for bits in 1..=8 {
            let sketch = signature.sketch(bits);
            let mask = (1_u32 << bits) - 1;
            let found: Vec<u32> = (0..20).map(|number| u32::from(sketch.minimum(number))).collect();
            assert_eq!(found, signature.minima().iter().map(|minimum| minimum & mask).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_jaccard_similarity_is_common_divided_by_all() {
        assert!((jaccard(&[1, 2, 3], &[2, 3, 4]) - 0.5).abs() < 1e-9);
        assert!((jaccard(&[], &[1]) - 0.0).abs() < 1e-9);
        assert!((jaccard(&[5], &[5]) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn bandings_catch_the_expected_share() {
        assert!((Banding::CLASSIC.caught(0.8) - 0.947).abs() < 0.001);
        assert_eq!(Banding::for_threshold(0.8, 0.9, 128), Banding { bands: 16, rows: 8 });
        assert_eq!(Banding::for_threshold(0.01, 0.99, 16), Banding { bands: 16, rows: 1 });
    }
}
