//! The second check: how much is won if the pairs within a large k are looked at again, by the Jaccard similarity
//! of their features or by an estimate from sketches.

use std::collections::HashMap;

use super::Set;
use super::labels::{Judged, Pair};
use crate::fingerprint::{Profile, Signature, Sketch, Status, jaccard};

/// What is left after a second check.
#[derive(Clone, Debug)]
pub struct Checked {
    /// What was compared: `exact`, or the size of the sketch.
    pub by: String,
    /// Bytes that it costs a document.
    pub bytes: usize,
    /// The similarity from which a pair counts.
    pub threshold: f64,
    /// What is left of all positive pairs, and how much of what is left is right.
    pub found: Judged,
}

/// Sketches that are tried: minima and bits of each.
const SKETCHES: [(usize, u32); 5] = [(64, 1), (128, 1), (256, 1), (64, 4), (128, 8)];

/// What is left of the pairs within k, for every sketch and each threshold. Features are compared by `features`.
pub fn second_check(
    profile: &Profile,
    features: &Profile,
    set: &Set,
    k: u32,
    thresholds: &[f64],
) -> Vec<Checked> {
    let made: Vec<_> = set.texts.iter().map(|text| profile.fingerprint(text)).collect();
    let mut candidates: Vec<Pair> = Vec::new();
    for (a, one) in made.iter().enumerate().filter(|(_, made)| made.status != Status::Empty) {
        for (b, other) in made.iter().enumerate().skip(a + 1) {
            let pair = (a as u32, b as u32);
            let is_near = (one.hash.value() ^ other.hash.value()).count_ones() <= k;
            if is_near && other.status != Status::Empty && !set.labels.ignored.contains(&pair) {
                candidates.push(pair);
            }
        }
    }
    let mut sets: HashMap<u32, Vec<u64>> = HashMap::new();
    for number in candidates.iter().flat_map(|&(a, b)| [a, b]) {
        sets.entry(number).or_insert_with(|| features.feature_set(&set.texts[number as usize]));
    }
    let exact: Vec<f64> = candidates.iter().map(|(a, b)| jaccard(&sets[a], &sets[b])).collect();
    let mut all = judge(set, &candidates, &exact, thresholds, "exact", 0);
    for (minima, bits) in SKETCHES {
        let sketches: HashMap<u32, Sketch> =
            sets.iter().map(|(&number, set)| (number, Signature::of(set, minima).sketch(bits))).collect();
        let estimates: Vec<f64> =
            candidates.iter().map(|(a, b)| sketches[a].similarity(&sketches[b])).collect();
        let name = format!("{minima} minima of {bits} bits");
        all.extend(judge(set, &candidates, &estimates, thresholds, &name, minima * bits as usize / 8));
    }
    all
}

fn judge(
    set: &Set,
    candidates: &[Pair],
    similarities: &[f64],
    thresholds: &[f64],
    by: &str,
    bytes: usize,
) -> Vec<Checked> {
    let at = |&threshold: &f64| {
        let left = candidates.iter().zip(similarities).filter(|(_, similarity)| **similarity >= threshold);
        let found = set.labels.judge(left.map(|(pair, _)| *pair));
        Checked { by: by.to_owned(), bytes, threshold, found }
    };
    thresholds.iter().map(at).collect()
}
