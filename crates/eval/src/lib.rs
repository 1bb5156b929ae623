//! Measures profiles on labelled texts: precision, recall and costs.
//!
//! Costs: time proportional to the square of the number of texts, a second or two for a billion pairs.
//! Guarantees: the same texts, labels and seed give the same figures, except those of speed. Every pair of
//! texts is compared and none is sampled, so precision and recall are counts and not estimates. Not here:
//! arguments (the command `eval`), and what is measured for those who work on profiles (`benches/quality`).

#![deny(unreachable_pub)]

pub mod random;

mod alike;
mod calibration;
mod curve;
mod edits;
mod labels;
mod near;
mod of_text;
mod promise;
mod read;
mod recommend;
mod report;
mod sample;
mod signed;
mod skew;
mod svg;
#[cfg(test)]
mod tests;

pub use alike::{ALIKE, CERTAIN, set_aside_copies};
pub use calibration::{CANDIDATES, Candidate, Choice, MeasuredBy, best, promised_table};
pub use curve::{Curve, Point};
pub use edits::{EDITS, Edit, with_edits};
pub use labels::{Judged, Labels, Pair};
pub use near::{Near, Readings, families};
pub use of_text::at_own_k;
pub use promise::{Assumed, COVERED, Estimate, Expected, PROMISED, expected};
pub use read::{ReadError, read_set, read_texts, set_name};
pub use recommend::Recommendation;
pub use report::{recommended_text, report};
pub use sample::Sample;
pub use signed::{MeasuredSigned, measure_signed, signed_table};
pub use skew::{Skew, skew};
pub use svg::svg;

use std::time::Duration;

use lookalike_hamming::of_width;
use lookalike_hash::Hash;
use lookalike_text::fingerprint::{Profile, Status};

/// A labelled set of texts.
#[derive(Debug, Default)]
pub struct Set {
    /// The name of the set.
    pub name: String,
    /// The texts. The number of a text is its index.
    pub texts: Vec<String>,
    /// The pairs of texts that are copies.
    pub labels: Labels,
    /// The kinds of edit of pairs, if known. The report counts each kind separately.
    pub edits: Vec<(Pair, String)>,
}

/// The results of a profile on a set.
#[derive(Debug)]
pub struct Measured {
    /// The profile.
    pub profile: &'static Profile,
    /// The right and wrong pairs at each k.
    pub curve: Curve,
    /// The curve for the pairs without a short text.
    curve_without_short: Curve,
    /// The curve by the second reading of the labels, if there are disputed pairs.
    pub second_reading: Option<Curve>,
    /// The quality if each text is looked up with its own k, if that depends on the text.
    pub at_own_k: Option<Judged>,
    /// The number of texts of which a copy with one changed word may be missed.
    pub short: usize,
    /// The number of texts without features.
    pub empty: usize,
    /// How unevenly the hashes fill the buckets.
    pub skew: Skew,
    /// Bytes of text per second, on one core.
    pub bytes_a_second: f64,
    /// Bytes of memory of an index of these hashes, per distinct hash.
    pub index_bytes: f64,
    /// For each kind of edit: its name, and the distance of each pair.
    pub edits: Vec<(String, Vec<u32>)>,
    /// The hash of each text; `None` for texts without features.
    pub hashes: Vec<Option<Hash>>,
}

/// Measures a profile. `clock` is read before and after all texts are fingerprinted; it returns the
/// processor time or time since any fixed instant.
///
/// # Errors
/// The error of `check`, which is called before each text and at least once per million pairs.
pub fn measure<E>(
    profile: &'static Profile,
    set: &Set,
    clock: impl Fn() -> Duration,
    check: impl Fn() -> Result<(), E>,
) -> Result<Measured, E> {
    let (made, bytes_a_second) = timed(&set.texts, |text| profile.fingerprint(text), clock, &check)?;
    let hashes: Vec<_> = made.iter().map(|made| made.hash).collect();
    // Empty texts are never stored.
    let stored: Vec<bool> = made.iter().map(|made| made.status != Status::Empty).collect();
    let long: Vec<bool> = made.iter().map(|made| made.status == Status::Ok).collect();
    // Copies share buckets with their originals. Skew concerns independent texts only, so copies are
    // excluded.
    let mut originals = stored.clone();
    set.labels.positive.iter().for_each(|&(_, copy)| originals[copy as usize] = false);
    let index = of_width(profile.width());
    index.insert_all(&mut hashes.iter().zip(&stored).filter(|(_, stored)| **stored).map(|(hash, _)| *hash));
    let count = |wanted: Status| made.iter().filter(|made| made.status == wanted).count();
    let second_reading = (!set.labels.disputed.is_empty()).then(|| set.labels.second_reading());
    let curve = |counted: &[bool], labels: &Labels| Curve::of(&hashes, counted, labels, &check);
    Ok(Measured {
        profile,
        curve: curve(&stored, &set.labels)?,
        curve_without_short: curve(&long, &set.labels)?,
        second_reading: second_reading.map(|labels| curve(&stored, &labels)).transpose()?,
        at_own_k: profile.is_for_short_texts().then(|| at_own_k(&made, &set.labels, &check)).transpose()?,
        short: count(Status::Short),
        empty: count(Status::Empty),
        skew: skew(&hashes, &originals),
        bytes_a_second,
        index_bytes: index.bytes() as f64 / index.len().max(1) as f64,
        edits: by_edit(&hashes, set),
        hashes: hashes.iter().zip(&stored).map(|(hash, stored)| stored.then_some(*hash)).collect(),
    })
}

/// What `make` makes of each text, and how many bytes of text it takes a second.
///
/// # Errors
/// The error of `check`, which is called before each text.
fn timed<T, E>(
    texts: &[String],
    make: impl Fn(&str) -> T,
    clock: impl Fn() -> Duration,
    check: impl Fn() -> Result<(), E>,
) -> Result<(Vec<T>, f64), E> {
    // Loads the dictionaries before the time is measured.
    let _ = texts.first().map(|text| make(text));
    let start = clock();
    let made = texts.iter().map(|text| check().map(|()| make(text))).collect::<Result<_, E>>()?;
    let seconds = clock().saturating_sub(start).as_secs_f64();
    let bytes: usize = texts.iter().map(String::len).sum();
    Ok((made, bytes as f64 / seconds.max(1e-9)))
}

fn by_edit(hashes: &[Hash], set: &Set) -> Vec<(String, Vec<u32>)> {
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

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
