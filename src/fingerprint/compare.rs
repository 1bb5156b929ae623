//! Why two fingerprints are as far apart as they are: shared and differing features, the bits that differ, which
//! features moved them, and the blocks of bits that agree.
//!
//! Costs a string for each feature: for people to read, not for loads. Leaves out: the texts themselves and
//! sentences about them.

use std::collections::BTreeMap;

use super::Explanation;
use crate::ids::Hash;

/// The bits of a block by which an index finds neighbours.
const BLOCK_BITS: u32 = 16;
/// The most features that are named for a bit.
const FEATURES_OF_A_BIT: usize = 3;

/// Two hashes side by side.
#[derive(Clone, Debug, PartialEq)]
pub struct HashComparison {
    /// The number of bits that differ.
    pub distance: u32,
    /// Which they are, the least significant first.
    pub bits: Vec<u32>,
    /// For each 16 bits, the least significant first, whether they agree.
    pub blocks: Vec<bool>,
}

/// The features of two texts side by side.
#[derive(Clone, Debug, PartialEq)]
pub struct FeatureComparison {
    /// How many features both have.
    pub shared: usize,
    /// Those that not both have, or not with the same weight, the greatest difference first.
    pub differing: Vec<DifferingFeature>,
    /// Shared ÷ all distinct features, 0 to 1.
    pub jaccard: f64,
    /// The cosine of the angle between the weights, 0 to 1.
    pub cosine: f64,
    /// Each bit that differs, with what moved it.
    pub flips: Vec<Flip>,
}

/// A feature and its weights in both texts, 0 where it is not.
#[derive(Clone, Debug, PartialEq)]
pub struct DifferingFeature {
    /// The feature.
    pub text: String,
    /// Its weights.
    pub weights: [f64; 2],
}

/// A bit that differs.
#[derive(Clone, Debug, PartialEq)]
pub struct Flip {
    /// Which, the least significant being 0.
    pub bit: u32,
    /// The sums of its votes in both texts: how near it was to the other side.
    pub margins: [f64; 2],
    /// The features whose difference moved it most from the first text's side to the second's.
    pub moved_by: Vec<String>,
    /// Whether in one of the texts a single feature holds it: without that the votes would be even or the other way.
    pub is_held_by_one: bool,
}

impl HashComparison {
    /// `None` if the hashes are of different widths.
    pub fn of(a: Hash, b: Hash) -> Option<HashComparison> {
        let distance = a.distance(b)?;
        let difference = a.value() ^ b.value();
        let block_of = |block: u32| (difference >> (block * BLOCK_BITS)) as u16;
        let width = a.width().bits();
        let bits = (0..width).filter(|bit| difference >> bit & 1 == 1).collect();
        let blocks = (0..width / BLOCK_BITS).map(|block| block_of(block) == 0).collect();
        Some(HashComparison { distance, bits, blocks })
    }
}

impl FeatureComparison {
    /// Of two explanations by one profile.
    pub fn of(a: &Explanation, b: &Explanation) -> FeatureComparison {
        let mut all: BTreeMap<(Hash, &str), [f64; 2]> = BTreeMap::new();
        for (side, explanation) in [a, b].into_iter().enumerate() {
            for feature in &explanation.features {
                all.entry((feature.hash, &feature.text)).or_default()[side] += feature.weight;
            }
        }
        let is_shared = |weights: &[f64; 2]| weights[0] > 0.0 && weights[1] > 0.0;
        let shared = all.values().filter(|weights| is_shared(weights)).count();
        let dot: f64 = all.values().map(|[a, b]| a * b).sum();
        let length =
            |side: usize| all.values().map(|weights| weights[side] * weights[side]).sum::<f64>().sqrt();
        let lengths = length(0) * length(1);
        let mut changed: Vec<((Hash, &str), [f64; 2])> = all
            .iter()
            .filter(|(_, [a, b])| (a - b).abs() > f64::EPSILON)
            .map(|(&feature, &weights)| (feature, weights))
            .collect();
        changed.sort_by(|(x, a), (y, b)| {
            (b[0] - b[1]).abs().total_cmp(&(a[0] - a[1]).abs()).then_with(|| x.1.cmp(y.1))
        });
        let difference = a.fingerprint.hash.value() ^ b.fingerprint.hash.value();
        let flips = (0..a.votes.len().min(b.votes.len()) as u32)
            .filter(|bit| difference >> bit & 1 == 1)
            .map(|bit| flip(bit, [a, b], &changed))
            .collect();
        let differing =
            changed.iter().map(|&((_, text), weights)| DifferingFeature { text: text.to_owned(), weights });
        FeatureComparison {
            shared,
            differing: differing.collect(),
            jaccard: if all.is_empty() { 0.0 } else { shared as f64 / all.len() as f64 },
            cosine: if lengths > 0.0 { (dot / lengths).min(1.0) } else { 0.0 },
            flips,
        }
    }
}

fn flip(bit: u32, sides: [&Explanation; 2], changed: &[((Hash, &str), [f64; 2])]) -> Flip {
    let margins = sides.map(|side| side.votes[bit as usize]);
    let towards = if margins[1] >= margins[0] { 1.0 } else { -1.0 };
    let push = |&((hash, _), [a, b]): &((Hash, &str), [f64; 2])| {
        let sign = if hash.value() >> bit & 1 == 1 { 1.0 } else { -1.0 };
        (b - a) * sign * towards
    };
    let mut pushing: Vec<(f64, &str)> =
        changed.iter().map(|feature| (push(feature), feature.0.1)).filter(|(push, _)| *push > 0.0).collect();
    let order = |a: &(f64, &str), b: &(f64, &str)| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1));
    if pushing.len() > FEATURES_OF_A_BIT {
        pushing.select_nth_unstable_by(FEATURES_OF_A_BIT, order);
        pushing.truncate(FEATURES_OF_A_BIT);
    }
    pushing.sort_unstable_by(order);
    let moved_by = pushing.into_iter().map(|(_, text)| text.to_owned()).collect();
    Flip { bit, margins, moved_by, is_held_by_one: sides.iter().any(|side| is_held_by_one(side, bit)) }
}

/// Whether the weightiest feature that votes for this bit as it is weighs as much as all are ahead.
fn is_held_by_one(side: &Explanation, bit: u32) -> bool {
    let of_bit = |hash: Hash| hash.value() >> bit & 1;
    let is = of_bit(side.fingerprint.hash);
    let weightiest = side.features.iter().find(|feature| of_bit(feature.hash) == is);
    weightiest.is_some_and(|feature| feature.weight >= side.votes[bit as usize].abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::Profile;

    const TEXTS: [&str; 2] = [
        "Fish and chips is a hot dish of fried fish in batter, served with chips.",
        "Fish and chips is a cold dish of fried fish in batter, served with peas.",
    ];

    #[test]
    fn two_texts_are_compared_feature_by_feature() {
        let profile = Profile::default_profile();
        let [a, b] = TEXTS.map(|text| profile.explain(text));
        let hashes = HashComparison::of(a.fingerprint.hash, b.fingerprint.hash).unwrap();
        let features = FeatureComparison::of(&a, &b);
        assert_eq!(hashes.bits.len() as u32, hashes.distance);
        assert_eq!(hashes.bits, features.flips.iter().map(|flip| flip.bit).collect::<Vec<_>>());
        let union = a.features.len() + b.features.len() - features.shared;
        assert!((features.jaccard - features.shared as f64 / union as f64).abs() < 1e-9);
        assert!(features.cosine > 0.5 && features.cosine < 1.0);
        assert!(
            features
                .differing
                .iter()
                .any(|feature| feature.text.contains("hot") && feature.weights[1] == 0.0)
        );
        for flip in &features.flips {
            assert!(flip.margins[0] * flip.margins[1] <= 0.0, "the bit changed its side");
            assert!(!flip.moved_by.is_empty());
        }
    }

    #[test]
    fn what_moved_the_bits_explains_the_whole_difference() {
        let profile = Profile::default_profile();
        let [a, b] = TEXTS.map(|text| profile.explain(text));
        let features = FeatureComparison::of(&a, &b);
        for bit in 0..64 {
            let moved: f64 = features
                .differing
                .iter()
                .map(|feature| {
                    let of = |side: &Explanation| {
                        side.features.iter().find(|other| other.text == feature.text).map(|found| found.hash)
                    };
                    let hash = of(&a).or_else(|| of(&b)).unwrap();
                    let sign = if hash.value() >> bit & 1 == 1 { 1.0 } else { -1.0 };
                    sign * (feature.weights[1] - feature.weights[0])
                })
                .sum();
            assert!((a.votes[bit] + moved - b.votes[bit]).abs() < 1e-6, "bit {bit}");
        }
    }

    #[test]
    fn equal_texts_differ_in_nothing() {
        let a = Profile::default_profile().explain(TEXTS[0]);
        let features = FeatureComparison::of(&a, &a);
        assert!(features.differing.is_empty() && features.flips.is_empty());
        assert!((features.jaccard - 1.0).abs() < 1e-9 && (features.cosine - 1.0).abs() < 1e-9);
    }

    #[test]
    fn blocks_agree_where_no_bit_differs() {
        let compared = HashComparison::of(Hash::from_u64(0), Hash::from_u64(0x1_0000)).unwrap();
        assert_eq!((compared.blocks, compared.bits), (vec![true, false, true, true], vec![16]));
        assert!(HashComparison::of(Hash::from_u64(0), Hash::from_u128(0)).is_none());
    }
}
