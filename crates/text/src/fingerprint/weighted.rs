//! Weighted minima: the signature of a set whose elements have whole weights.
//!
//! An element of weight w counts as w different elements, its repetitions, so equal minima estimate the
//! weighted Jaccard similarity (Chum, Philbin and Zisserman, "Near duplicate image detection: min-hash and
//! tf-idf weighting", BMVC 2008). Most repetitions of a long text are the least of no slot. Therefore the
//! value of a repetition begins with three bits, its eighth, which one hash of the element gives for all its
//! repetitions: those of the first eighths fill the slots, and the others are hashed only if a slot is left
//! empty.
//!
//! Guarantees: the signature is that of all repetitions, in any order of the elements, on every machine. Not
//! here: the weights ([`Frequencies`]).

use super::minhash::{EMPTY, Signature, mixed};
use crate::features::Frequencies;

/// The greatest weight.
const MOST: u8 = 16;
/// The repetitions for each slot that the first pass hashes, if there are so many: a slot is left empty once
/// in three thousand.
const FOR_EACH_SLOT: usize = 8;
/// The parts of the repetitions of a set, by the first bits of their values.
const PARTS: usize = 8;
/// The bits of a value after those of its eighth.
const REST: u32 = 29;

impl Signature {
    /// The signature of a set of 64-bit hashes with their weights, 1 to 16, with `minima` minima, 1 to
    /// 65,536. All minima of an empty set are 0. Elements without a weight are left out, and a greater weight
    /// counts as 16.
    pub fn weighted(set: &[u64], weights: &[u8], minima: usize) -> Signature {
        let all: usize = weights.iter().map(|weight| usize::from(*weight)).sum();
        let first = (PARTS * FOR_EACH_SLOT * minima / all.max(1)).clamp(1, PARTS);
        let mut slots = vec![EMPTY; minima];
        let elements = || set.iter().copied().zip(weights.iter().copied());
        for (element, weight) in elements() {
            let eighths = Eighths::of(element);
            take(&mut slots, element, eighths, eighths.below(first) & repetitions(weight));
        }
        if first < PARTS && slots.contains(&EMPTY) {
            for (element, weight) in elements() {
                let eighths = Eighths::of(element);
                take(&mut slots, element, eighths, !eighths.below(first) & repetitions(weight));
            }
        }
        // A small set: as in `Signature::of`, with the repetitions as elements.
        for round in 1..2 * minima as u64 {
            if all == 0 || !slots.contains(&EMPTY) {
                break;
            }
            for (element, weight) in elements() {
                for time in 0..usize::from(weight.min(MOST)) {
                    let hash = mixed(repetition(element, time), round);
                    let at = (round as usize).checked_sub(minima).unwrap_or_else(|| place(hash, minima));
                    slots[at] = slots[at].min((round << 32) | (hash & 0xffff_ffff));
                }
            }
        }
        Signature::of_slots(slots)
    }
}

/// The weighted Jaccard similarity of two sorted sets, 0 to 1: the weight of the common elements ÷ that of
/// all. 0 for two empty sets.
pub fn weighted_jaccard(a: &[u64], b: &[u64], table: &Frequencies) -> f64 {
    let weight = |set: &[u64]| table.weights(set).into_iter().map(u64::from).sum::<u64>();
    let common: Vec<u64> = a.iter().copied().filter(|element| b.binary_search(element).is_ok()).collect();
    let common = weight(&common);
    let all = weight(a) + weight(b) - common;
    if all == 0 { 0.0 } else { common as f64 / all as f64 }
}

/// The slot of a hash, by its upper half.
#[inline]
fn place(hash: u64, minima: usize) -> usize {
    (((hash >> 32) * minima as u64) >> 32) as usize
}

/// Puts the chosen repetitions of an element into their slots.
#[inline]
fn take(slots: &mut [u64], element: u64, eighths: Eighths, mut chosen: u64) {
    while chosen != 0 {
        let time = chosen.trailing_zeros() / 4;
        chosen &= chosen - 1;
        let hash = repetition(element, time as usize);
        let least = &mut slots[place(hash, slots.len())];
        *least = (*least).min(eighths.of_time(time) << REST | (hash & ((1 << REST) - 1)));
    }
}

/// The repetitions of a weight, as [`Eighths::below`] gives them.
#[inline]
fn repetitions(weight: u8) -> u64 {
    LAST.checked_shr(u32::from(4 * (MOST - weight.min(MOST)))).unwrap_or_default()
}

/// The hash of a repetition of an element.
#[inline]
fn repetition(element: u64, time: usize) -> u64 {
    folded(element ^ TIMES[time])
}

/// The upper and the lower half of the product with a constant, combined.
#[inline]
fn folded(hash: u64) -> u64 {
    let product = u128::from(hash) * 0xa076_1d64_78bd_642f;
    (product >> 64) as u64 ^ product as u64
}

/// A number for each repetition, without a pattern.
static TIMES: [u64; MOST as usize] = {
    let mut times = [0; MOST as usize];
    let mut at = 0;
    while at < times.len() {
        times[at] = mixed(0x2545_f491_4f6c_dd1d, at as u64 + 1);
        at += 1;
    }
    times
};

/// The eighths of the repetitions of an element, 0 to 7: three bits in every four.
#[derive(Clone, Copy)]
struct Eighths(u64);

/// The last of every four bits.
const LAST: u64 = 0x8888_8888_8888_8888;
/// The first of every four bits.
const FIRST: u64 = LAST >> 3;

impl Eighths {
    #[inline]
    fn of(element: u64) -> Eighths {
        Eighths(folded(element ^ 0x9e37_79b9_7f4a_7c15) & !LAST)
    }

    #[inline]
    fn of_time(self, time: u32) -> u64 {
        self.0 >> (4 * time) & 7
    }

    /// The repetitions whose eighth is below a number, 1 to 8: the last of every four bits, for each.
    #[inline]
    fn below(self, end: usize) -> u64 {
        !(self.0 + FIRST * (PARTS - end) as u64) & LAST
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::jaccard;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// By the definition: every repetition is hashed in every round, until no slot is empty.
    fn expected(set: &[(u64, u8)], minima: usize) -> Signature {
        let mut least = vec![u64::MAX; minima];
        let repeated = || set.iter().flat_map(|(element, weight)| (0..*weight).map(|time| (*element, time)));
        for round in 0..2 * minima as u64 {
            if set.is_empty() || !least.contains(&u64::MAX) {
                break;
            }
            for (element, time) in repeated() {
                let bits = folded(element ^ 0x9e37_79b9_7f4a_7c15);
                let eighth = bits >> (4 * u32::from(time)) & 7;
                let own = repetition(element, usize::from(time));
                let (hash, value) = match round {
                    0 => (own, (eighth << 29) | (own % (1 << 29))),
                    _ => (mixed(own, round), mixed(own, round) % (1 << 32)),
                };
                let at = match (round as usize).checked_sub(minima) {
                    None => ((u128::from(hash >> 32) * minima as u128) >> 32) as usize,
                    Some(at) => at,
                };
                least[at] = least[at].min(round << 32 | value);
            }
        }
        Signature::of_slots(least)
    }

    fn signature(set: &[(u64, u8)], minima: usize) -> Signature {
        let (set, weights): (Vec<u64>, Vec<u8>) = set.iter().copied().unzip();
        Signature::weighted(&set, &weights, minima)
    }

    proptest! {
        #[test]
        fn a_signature_is_that_of_all_repetitions(
            set in vec((any::<u64>(), 1_u8..=16), 0..500),
            minima in 1_usize..260,
        ) {
            let found = signature(&set, minima);
            prop_assert_eq!(&found, &expected(&set, minima));
            let turned: Vec<(u64, u8)> = set.iter().copied().rev().collect();
            prop_assert_eq!(found, signature(&turned, minima));
        }
    }

    #[test]
    fn every_number_of_slots_and_passes_is_right() {
        for count in [1, 2, 7, 30, 100, 400, 1_000, 4_000] {
            for most in [1, 4, 16] {
                let set: Vec<(u64, u8)> = (0..count).map(|n| (mixed(n, 3), (n % most) as u8 + 1)).collect();
                for minima in [1, 16, 200, 255] {
                    assert_eq!(signature(&set, minima), expected(&set, minima), "{count} {most} {minima}");
                }
            }
        }
    }

    /// The error of the estimate, and that of as many independent minima: √(s (1 − s) ÷ n).
    #[test]
    fn errors_are_those_of_independent_minima() {
        for (common, own) in [(10, 5), (60, 20), (400, 200), (3_000, 800)] {
            let weight = |n: u64| (n % 16) as u8 + 1;
            let mut squares = 0.0;
            let mut sum = 0.0;
            let weight_of = |set: std::ops::Range<u64>| set.map(|n| f64::from(weight(n))).sum::<f64>();
            let exact = weight_of(0..common) / weight_of(0..common + 2 * own);
            for seed in 0..300 {
                let one = |n: u64| (mixed(n | seed << 32, 7), weight(n));
                let a: Vec<_> = (0..common + own).map(one).collect();
                let b: Vec<_> = (0..common).chain(common + own..common + 2 * own).map(one).collect();
                let error = signature(&a, 200).similarity(&signature(&b, 200)) - exact;
                squares += error * error;
                sum += error;
            }
            let independent = exact * (1.0 - exact) / 200.0;
            println!("{common} {own}: {exact:.3} {:.5} {:.5} {independent:.5}", sum / 300.0, squares / 300.0);
            assert!(squares / 300.0 < independent * 1.25, "{common} {own}");
            assert!((sum / 300.0).abs() < 4.0 * (independent / 300.0).sqrt(), "{common} {own}");
        }
    }

    /// Sets with one standing part and own features.
    fn sets(count: u64) -> Vec<Vec<u64>> {
        let own = |n: u64| (0..30).map(move |at| mixed(n * 100 + at, 1));
        let standing = || (0..60).map(|at: u64| mixed(at + 1_000_000, 1));
        (0..count)
            .map(|n| {
                let mut set: Vec<u64> = standing().chain(own(n)).collect();
                set.sort_unstable();
                set
            })
            .collect()
    }

    fn table(sets: &[Vec<u64>]) -> Frequencies {
        let mut table = Frequencies::of_kind(0);
        sets.iter().for_each(|set| table.add(set));
        table
    }

    /// The weighted Jaccard similarity of two sets: the weight of the common features ÷ that of all.
    fn exact(table: &Frequencies, a: &[u64], b: &[u64]) -> f64 {
        let weight = |set: &[u64]| table.weights(set).into_iter().map(f64::from).sum::<f64>();
        let common: Vec<u64> = a.iter().copied().filter(|feature| b.contains(feature)).collect();
        weight(&common) / (weight(a) + weight(b) - weight(&common))
    }

    #[test]
    fn standing_phrases_weigh_little_and_rare_features_most() {
        let sets = sets(400);
        let table = table(&sets);
        assert!(jaccard(&sets[0], &sets[1]) > 0.49);
        assert!(exact(&table, &sets[0], &sets[1]) < 0.1);
        assert_eq!(table.weights(&[12]), [16]);
        let edited: Vec<u64> = sets[0].iter().copied().skip(9).collect();
        let expected = exact(&table, &sets[0], &edited);
        assert!(expected > 0.7);
        assert!((weighted_jaccard(&sets[0], &edited, &table) - expected).abs() < 1e-12);
        assert!(weighted_jaccard(&[], &[], &table) < 1e-12);
    }

    #[test]
    fn weighted_minima_estimate_the_weighted_similarity() {
        let sets = sets(400);
        let table = table(&sets);
        for removed in [5, 20, 50] {
            let edited: Vec<u64> = sets[3].iter().copied().skip(removed).collect();
            let [a, b] = [&sets[3], &edited].map(|set| Signature::weighted(set, &table.weights(set), 200));
            let exact = exact(&table, &sets[3], &edited);
            assert!((a.similarity(&b) - exact).abs() < 3.0 / 200_f64.sqrt(), "{removed}");
        }
    }

    #[test]
    fn weighted_signatures_never_change() {
        let set: Vec<(u64, u8)> = (1..=40).map(|n| (mixed(n, 9), n as u8 % 16 + 1)).collect();
        assert_eq!(signature(&set, 8).minima(), GOLDEN);
        assert_eq!(signature(&[], 4).minima(), [0; 4]);
        assert_eq!(signature(&[(7, 0)], 4).minima(), [0; 4]);
        assert_eq!(signature(&[(7, 200)], 4), signature(&[(7, 16)], 4));
    }

    const GOLDEN: [u32; 8] = [
        3_288_770_934,
        2_457_562_575,
        854_824_941,
        3_025_499_739,
        2_252_266_636,
        3_229_264_651,
        3_485_226_088,
        3_465_577_946,
    ];
}
