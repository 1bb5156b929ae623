//! Measures profiles on labelled texts: what they find, what they find wrongly, and what that costs.
//!
//! Promises: the same texts, labels and seed give the same figures but for those of speed; every pair of texts is
//! looked at, none is sampled, so that precision and recall are counts and not estimates. Costs: the square of
//! the number of texts, a billion pairs in a second or two. Leaves out: files and arguments, which are the
//! command's.

mod alike;
mod curve;
mod edits;
mod labels;
mod min_hash;
mod pages;
mod recommend;
mod report;
mod sample;
mod second_check;
mod skew;
mod svg;

pub use alike::set_aside_copies;
pub use curve::{Curve, Point};
pub use edits::{Edit, distinct_sentences, with_edits};
pub use labels::{Judged, Labels, Pair};
pub use min_hash::{Banded, banded};
pub use pages::with_pages;
pub use recommend::{Recommendation, recommend};
pub use report::report;
pub use sample::Sample;
pub use second_check::{Checked, second_check};
pub use skew::{Skew, skew};
pub use svg::svg;

use std::time::Duration;

use crate::fingerprint::{Fingerprint, Profile, Status};
use crate::index::of_width;

/// A labelled set of texts.
#[derive(Debug, Default)]
pub struct Set {
    /// What it is called.
    pub name: String,
    /// The texts; a document's number is its place.
    pub texts: Vec<String>,
    /// Which pairs of them are copies.
    pub labels: Labels,
    /// How pairs were edited, if that is known: what a pair is counted under.
    pub edits: Vec<(Pair, String)>,
}

/// What a profile does with a set.
#[derive(Debug)]
pub struct Measured {
    /// The profile.
    pub profile: &'static Profile,
    /// What is found at each k.
    pub curve: Curve,
    /// The same among pairs of which neither text is short.
    pub curve_without_short: Curve,
    /// The same by the second reading of the labels, if that differs.
    pub second_reading: Option<Curve>,
    /// Texts that are short, and those that are empty.
    pub short: usize,
    /// Texts without a feature.
    pub empty: usize,
    /// How unevenly its hashes fill the buckets.
    pub skew: Skew,
    /// Bytes of text a second, on one core.
    pub bytes_a_second: f64,
    /// Bytes of memory of an index of these hashes, a distinct hash.
    pub index_bytes: f64,
    /// For each kind of edit: its name, how many pairs, and at what distance each lies.
    pub edits: Vec<(String, Vec<u32>)>,
}

/// Measures a profile. `clock` is asked before and after all texts are fingerprinted.
pub fn measure(profile: &'static Profile, set: &Set, clock: impl Fn() -> Duration) -> Measured {
    let bytes: usize = set.texts.iter().map(String::len).sum();
    // Dictionaries are loaded before the clock starts.
    let _ = set.texts.first().map(|text| profile.fingerprint(text));
    let start = clock();
    let made: Vec<Fingerprint> = set.texts.iter().map(|text| profile.fingerprint(text)).collect();
    let seconds = clock().saturating_sub(start).as_secs_f64();
    let hashes: Vec<_> = made.iter().map(|made| made.hash).collect();
    // Empty texts are never stored.
    let stored: Vec<bool> = made.iter().map(|made| made.status != Status::Empty).collect();
    let long: Vec<bool> = made.iter().map(|made| made.status == Status::Ok).collect();
    // A copy shares buckets with its original because it is one; skew is about texts that have nothing in common.
    let mut originals = stored.clone();
    set.labels.positive.iter().for_each(|&(_, copy)| originals[copy as usize] = false);
    let index = of_width(profile.width());
    index.insert_all(&mut hashes.iter().zip(&stored).filter(|(_, stored)| **stored).map(|(hash, _)| *hash));
    let count = |wanted: Status| made.iter().filter(|made| made.status == wanted).count();
    Measured {
        profile,
        curve: Curve::of(&hashes, &stored, &set.labels),
        curve_without_short: Curve::of(&hashes, &long, &set.labels),
        second_reading: (!set.labels.disputed.is_empty())
            .then(|| Curve::of(&hashes, &stored, &set.labels.second_reading())),
        short: count(Status::Short),
        empty: count(Status::Empty),
        skew: skew(&hashes, &originals),
        bytes_a_second: bytes as f64 / seconds.max(1e-9),
        index_bytes: index.bytes() as f64 / index.len().max(1) as f64,
        edits: by_edit(&hashes, set),
    }
}

fn by_edit(hashes: &[crate::ids::Hash], set: &Set) -> Vec<(String, Vec<u32>)> {
    let mut kinds: Vec<(String, Vec<u32>)> = Vec::new();
    for ((a, b), edit) in &set.edits {
        let distance = hashes[*a as usize].distance(hashes[*b as usize]).unwrap_or(u32::MAX);
        match kinds.iter_mut().find(|(kind, _)| kind == edit) {
            Some((_, distances)) => distances.push(distance),
            None => kinds.push((edit.clone(), vec![distance])),
        }
    }
    kinds.sort();
    kinds
}
