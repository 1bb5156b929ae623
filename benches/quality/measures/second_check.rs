//! Measures the second check: the pairs within a large k are filtered by the Jaccard similarity of their
//! features, or by an estimate of it from sketches.
//!
//! Not here: the choice of the threshold (`tables`).

use std::collections::HashMap;

use lookalike_eval::{Judged, Pair, Set};
use lookalike_text::fingerprint::{Profile, Signature, Sketch, Status, jaccard};

/// The result of a second check at one threshold.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The comparison: `exact`, or the size of the sketch.
    pub by: String,
    /// Bytes of a sketch, per document; 0 for `exact`, which needs the text.
    pub bytes: usize,
    /// The similarity from which a pair is kept.
    pub threshold: f64,
    /// The quality of the pairs that are kept.
    pub found: Judged,
}

/// The sketches that are measured: the number of minima and the bits of each.
const SKETCHES: [(usize, u32); 5] = [(64, 1), (128, 1), (256, 1), (64, 4), (128, 8)];

/// The values of k within which the candidates of a profile are measured: a middling and a large one.
pub fn candidate_ks(profile: &Profile) -> [u32; 2] {
    match profile.width().bits() {
        64 => [11, 15],
        _ if profile.is_for_short_texts() => [31, 40],
        _ => [23, 31],
    }
}

/// Filters the pairs within k by the exact similarity and by every sketch, at each threshold. The profile
/// `features` gives the features that are compared.
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
            let is_near = one.hash.distance(other.hash) <= Some(k);
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
