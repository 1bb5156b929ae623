//! The reasons for the distance between two fingerprints: shared and differing features, the bits that
//! differ and the features that changed them, and the blocks of bits that agree.
//!
//! A comparison costs a pass over all features of both texts, which is too expensive for bulk work. Not
//! here: the texts themselves, and descriptions in words.

use super::explanation::{Explanation, Features, first, owned};
use lookalike_hash::Hash;

/// The bits of a block. An index finds neighbours by blocks that agree.
const BLOCK_BITS: u32 = 16;
/// The most features that are listed for a bit.
const FEATURES_OF_A_BIT: usize = 3;
/// The most differing features that are listed.
const LISTED: usize = 100;

/// The comparison of two hashes.
#[derive(Clone, Debug, PartialEq)]
pub struct HashComparison {
    /// The number of bits that differ.
    pub distance: u32,
    /// The numbers of these bits, the least significant first; bit 0 is the least significant.
    pub bits: Vec<u32>,
    /// For each block of 16 bits, the least significant first: whether it agrees.
    pub blocks: Vec<bool>,
}

/// The comparison of the features of two texts.
#[derive(Clone, Debug, PartialEq)]
pub struct FeatureComparison {
    /// The number of features that both texts have.
    pub shared: usize,
    /// The number of features that at least one text has.
    pub distinct: usize,
    /// The number of features that only one text has, or that have different weights.
    pub differing: usize,
    /// The differing features, the greatest difference first; at most 100.
    pub greatest: Vec<DifferingFeature>,
    /// Shared ÷ all distinct features, 0 to 1.
    pub jaccard: f64,
    /// The cosine of the angle between the weight vectors, 0 to 1.
    pub cosine: f64,
    /// Each bit that differs, with the features that changed it.
    pub flips: Vec<Flip>,
}

/// A feature and its weights in both texts; 0 in a text without it.
#[derive(Clone, Debug, PartialEq)]
pub struct DifferingFeature {
    /// The feature.
    pub text: String,
    /// If it is a letter gram of words with spaces: the words that it comes from, at most 3.
    pub words: Vec<String>,
    /// Its weights in the first and the second text.
    pub weights: [f64; 2],
}

/// A bit that differs.
#[derive(Clone, Debug, PartialEq)]
pub struct Flip {
    /// The number of the bit; 0 is the least significant.
    pub bit: u32,
    /// The sums of its votes in both texts: the distance of each to the opposite value.
    pub margins: [f64; 2],
    /// The features whose differences contributed most to the change, at most 3.
    pub moved_by: Vec<DifferingFeature>,
    /// Whether in one of the texts a single feature decides the bit: without it the votes would be even or
    /// opposite.
    pub is_held_by_one: bool,
}

impl HashComparison {
    /// Compares two hashes; `None` if they have different widths.
    pub fn of(a: Hash, b: Hash) -> Option<HashComparison> {
        let distance = a.distance(b)?;
        let difference = a.value() ^ b.value();
        let block_of = |block: u32| (difference >> (block * BLOCK_BITS)).low() as u16;
        let width = a.width().bits();
        let bits = (0..width).filter(|bit| a.bit(*bit) != b.bit(*bit)).collect();
        let blocks = (0..width / BLOCK_BITS).map(|block| block_of(block) == 0).collect();
        Some(HashComparison { distance, bits, blocks })
    }
}

impl FeatureComparison {
    /// Compares two explanations by the same profile.
    pub fn of(a: &Explanation, b: &Explanation) -> FeatureComparison {
        let all = side_by_side(&a.all, &b.all);
        let shared = all.iter().filter(|feature| feature.weights.iter().all(|weight| *weight > 0.0)).count();
        let dot: f64 = all.iter().map(|feature| feature.weights[0] * feature.weights[1]).sum();
        let length =
            |side: usize| all.iter().map(|feature| feature.weights[side].powi(2)).sum::<f64>().sqrt();
        let lengths = length(0) * length(1);
        let distinct = all.len();
        let mut changed: Vec<Pair<'_>> =
            all.into_iter().filter(|feature| feature.difference() > f64::EPSILON).collect();
        let greatest = first(&mut changed, LISTED, Pair::order).to_vec();
        let mut flips: Vec<Flip> = (0..a.votes.len().min(b.votes.len()) as u32)
            .filter(|bit| a.fingerprint.hash.bit(*bit) != b.fingerprint.hash.bit(*bit))
            .map(|bit| flip(bit, [a, b], &greatest, &changed))
            .collect();
        let mut greatest: Vec<DifferingFeature> = greatest.iter().map(Pair::listed).collect();
        let moved_by = flips.iter_mut().flat_map(|flip| &mut flip.moved_by);
        add_words([a, b], greatest.iter_mut().chain(moved_by).collect());
        FeatureComparison {
            shared,
            distinct,
            differing: changed.len(),
            greatest,
            jaccard: if distinct == 0 { 0.0 } else { shared as f64 / distinct as f64 },
            cosine: if lengths > 0.0 { (dot / lengths).min(1.0) } else { 0.0 },
            flips,
        }
    }
}

/// A feature with its weights in both texts.
#[derive(Clone, Copy)]
struct Pair<'a> {
    hash: Hash,
    text: &'a str,
    weights: [f64; 2],
}

impl Pair<'_> {
    fn difference(&self) -> f64 {
        (self.weights[0] - self.weights[1]).abs()
    }

    /// The feature, without its words.
    fn listed(&self) -> DifferingFeature {
        DifferingFeature { text: self.text.to_owned(), words: Vec::new(), weights: self.weights }
    }

    /// The greatest difference first, equal differences by text.
    fn order(a: &Self, b: &Self) -> std::cmp::Ordering {
        b.difference().total_cmp(&a.difference()).then_with(|| a.text.cmp(b.text))
    }
}

/// Adds the words of each feature, from the first text that has the feature.
fn add_words(sides: [&Explanation; 2], features: Vec<&mut DifferingFeature>) {
    let texts: Vec<String> = features.iter().map(|feature| feature.text.clone()).collect();
    let words = sides.map(|side| side.all.origins.words(texts.iter().map(String::as_str)));
    for (feature, text) in features.into_iter().zip(&texts) {
        let side = usize::from(feature.weights[0] == 0.0);
        feature.words = owned(&words[side][text.as_str()]);
    }
}

/// All features of both texts, merged in the order of their hashes.
fn side_by_side<'a>(a: &'a Features, b: &'a Features) -> Vec<Pair<'a>> {
    let mut all: Vec<Pair<'a>> = Vec::new();
    let of = |side: usize| {
        move |(hash, text, weight): (Hash, &'a str, f64)| {
            let mut weights = [0.0; 2];
            weights[side] = weight;
            Pair { hash, text, weights }
        }
    };
    let (mut a, mut b) = (a.iter().map(of(0)).peekable(), b.iter().map(of(1)).peekable());
    let is_first =
        |a: &Pair<'_>, b: Option<&Pair<'_>>| b.is_none_or(|b| (a.hash, a.text) <= (b.hash, b.text));
    while let Some(pair) = a.next_if(|a| is_first(a, b.peek())).or_else(|| b.next()) {
        match all.last_mut() {
            Some(last) if (last.hash, last.text) == (pair.hash, pair.text) => {
                last.weights = [last.weights[0] + pair.weights[0], last.weights[1] + pair.weights[1]];
            }
            _ => all.push(pair),
        }
    }
    all
}

/// The comparison of one bit. `greatest` are the first features of `changed`, sorted.
fn flip(bit: u32, sides: [&Explanation; 2], greatest: &[Pair<'_>], changed: &[Pair<'_>]) -> Flip {
    let margins = sides.map(|side| side.votes[bit as usize]);
    let towards = if margins[1] >= margins[0] { 1.0 } else { -1.0 };
    let pushes = |pair: &&Pair<'_>| {
        let sign = if pair.hash.bit(bit) { 1.0 } else { -1.0 };
        (pair.weights[1] - pair.weights[0]) * sign * towards > 0.0
    };
    // A feature that contributes to the change does so by its difference, so the order is the same for
    // every bit.
    let mut pushing: Vec<Pair<'_>> =
        greatest.iter().filter(pushes).take(FEATURES_OF_A_BIT).copied().collect();
    if pushing.len() < FEATURES_OF_A_BIT && greatest.len() < changed.len() {
        pushing = changed.iter().filter(pushes).copied().collect();
        pushing = first(&mut pushing, FEATURES_OF_A_BIT, Pair::order).to_vec();
    }
    let moved_by = pushing.iter().map(Pair::listed).collect();
    Flip { bit, margins, moved_by, is_held_by_one: sides.iter().any(|side| is_held_by_one(side, bit)) }
}

/// Whether the weight of the greatest feature that votes for the actual value of the bit reaches the margin.
fn is_held_by_one(side: &Explanation, bit: u32) -> bool {
    let of_bit = |hash: Hash| hash.bit(bit);
    let is = of_bit(side.fingerprint.hash);
    let ahead = side.votes[bit as usize].abs();
    match side.features.iter().find(|feature| of_bit(feature.hash) == is) {
        Some(weightiest) => weightiest.weight >= ahead,
        // Not all features are listed.
        None => side.all.iter().any(|(hash, _, weight)| weight >= ahead && of_bit(hash) == is),
    }
}

#[cfg(feature = "zh")]
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
        let profile = Profile::named("copies-64").unwrap();
        let [a, b] = TEXTS.map(|text| profile.explain(text));
        let hashes = HashComparison::of(a.fingerprint.hash, b.fingerprint.hash).unwrap();
        let features = FeatureComparison::of(&a, &b);
        assert_eq!(hashes.bits.len() as u32, hashes.distance);
        assert_eq!(hashes.bits, features.flips.iter().map(|flip| flip.bit).collect::<Vec<_>>());
        let union = a.features.len() + b.features.len() - features.shared;
        assert!((features.jaccard - features.shared as f64 / union as f64).abs() < 1e-9);
        assert!(features.cosine > 0.5 && features.cosine < 1.0);
        assert!(
            features.greatest.iter().any(|feature| feature.text.contains("hot") && feature.weights[1] == 0.0)
        );
        for feature in features.greatest.iter().chain(features.flips.iter().flat_map(|flip| &flip.moved_by)) {
            let is_of = |word: &String| TEXTS.iter().any(|text| text.to_lowercase().contains(word.as_str()));
            let words =
                feature.words.iter().map(|words| words.split(' ').all(|word| is_of(&word.to_owned())));
            assert!(!feature.words.is_empty() && words.into_iter().all(|is_known| is_known), "{feature:?}");
        }
        for flip in &features.flips {
            assert!(flip.margins[0] * flip.margins[1] <= 0.0, "the bit changed its side");
            assert!(!flip.moved_by.is_empty());
        }
    }

    #[test]
    fn differing_features_explain_the_whole_difference() {
        let profile = Profile::named("copies-64").unwrap();
        let [a, b] = TEXTS.map(|text| profile.explain(text));
        let features = FeatureComparison::of(&a, &b);
        for bit in 0..64 {
            let moved: f64 = features
                .greatest
                .iter()
                .map(|feature| {
                    let of = |side: &Explanation| {
                        side.features.iter().find(|other| other.text == feature.text).map(|found| found.hash)
                    };
                    let hash = of(&a).or_else(|| of(&b)).unwrap();
                    let sign = if hash.bit(bit as u32) { 1.0 } else { -1.0 };
                    sign * (feature.weights[1] - feature.weights[0])
                })
                .sum();
            assert!((a.votes[bit] + moved - b.votes[bit]).abs() < 1e-6, "bit {bit}");
        }
    }

    #[test]
    fn equal_texts_differ_in_nothing() {
        let a = Profile::named("copies-64").unwrap().explain(TEXTS[0]);
        let features = FeatureComparison::of(&a, &a);
        assert!(features.differing == 0 && features.flips.is_empty());
        assert!((features.jaccard - 1.0).abs() < 1e-9 && (features.cosine - 1.0).abs() < 1e-9);
    }

    #[test]
    fn blocks_agree_where_no_bit_differs() {
        let compared = HashComparison::of(Hash::from_u64(0), Hash::from_u64(0x1_0000)).unwrap();
        assert_eq!((compared.blocks, compared.bits), (vec![true, false, true, true], vec![16]));
        assert!(HashComparison::of(Hash::from_u64(0), Hash::from_u128(0)).is_none());
    }
}
