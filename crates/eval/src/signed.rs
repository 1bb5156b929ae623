//! Measures profiles that make signatures, by the index that collections of them have: the pairs that agree
//! in a band, by the number of cells in which they differ.
//!
//! Not here: other bandings of MinHash than that of the profile (`min_hash`).

use std::collections::HashMap;
use std::fmt::Write;
use std::time::Duration;

use super::labels::Pair;
use super::near::Near;
use super::{Set, timed};
use lookalike_hamming::Bands;
use lookalike_hash::{Hash, SignatureShape};
use lookalike_text::features::Frequencies;
use lookalike_text::fingerprint::{Profile, Status};
use lookalike_wording::counted;

/// The results of a profile that makes signatures.
#[derive(Debug)]
pub struct MeasuredSigned {
    /// The profile.
    pub profile: &'static Profile,
    /// Its shape.
    pub shape: SignatureShape,
    /// The pairs that the index finds, by the number of cells in which they differ.
    pub near: Near,
    /// The number of texts that have features, but fewer than the minimum of the profile.
    pub short: usize,
    /// The number of texts without features.
    pub empty: usize,
    /// Bytes of memory of the index, including signatures, per text.
    pub index_bytes: f64,
    /// Bytes of text per second, on one core.
    pub bytes_a_second: f64,
}

/// Measures a profile, with the weights of a table if it counts what the profile compares; `None` if the
/// profile makes no signatures.
///
/// # Errors
/// The error of `check`, which is called before each text.
pub fn measure_signed<E>(
    profile: &'static Profile,
    table: Option<&Frequencies>,
    set: &Set,
    clock: impl Fn() -> Duration,
    check: impl Fn() -> Result<(), E>,
) -> Result<Option<MeasuredSigned>, E> {
    let Some(shape) = profile.signatures() else { return Ok(None) };
    let table = table.filter(|table| profile.takes_weights() && table.kind() == profile.kind_of_features());
    let sign =
        |text: &str| table.map_or_else(|| profile.sign(text), |table| profile.sign_weighted(table, text));
    let (made, bytes_a_second) = timed(&set.texts, sign, clock, &check)?;
    let index = Bands::new(shape);
    let stored = || {
        let stored = (0_u32..).zip(&made).filter(|(_, made)| made.fingerprint.status != Status::Empty);
        stored.filter_map(|(number, made)| Some((number, made.signature.as_deref()?)))
    };
    // As in a collection, equal signatures are stored once.
    let mut same: HashMap<Hash, Vec<u32>> = HashMap::new();
    for (number, signature) in stored() {
        let name = made[number as usize].fingerprint.hash;
        index.insert(name, signature);
        same.entry(name).or_default().push(number);
    }
    let mut pairs: Vec<(Pair, u32)> = Vec::new();
    let mut near = Vec::new();
    // All texts are stored before the first is looked up, because what is found depends on all of them.
    for (number, signature) in stored() {
        check()?;
        near.clear();
        index.within(signature, u32::from(shape.cells), &mut near);
        for found in &near {
            let others = same.get(&found.hash).into_iter().flatten().filter(|other| **other > number);
            pairs.extend(others.map(|other| ((number, *other), found.distance)));
        }
    }
    let count = |wanted: Status| made.iter().filter(|made| made.fingerprint.status == wanted).count();
    Ok(Some(MeasuredSigned {
        profile,
        shape,
        near: Near::of_signatures(u32::from(shape.cells), set, stored().count(), &pairs),
        short: count(Status::Short),
        empty: count(Status::Empty),
        index_bytes: index.bytes() as f64 / index.len().max(1) as f64,
        bytes_a_second,
    }))
}

/// The results of a set as Markdown: a row for each number of different cells if there are few cells, or for
/// each twentieth of them.
pub fn signed_table(set: &Set, measured: &[MeasuredSigned]) -> String {
    let mut out = String::new();
    for one in measured {
        let curve = &one.near.curves().strict;
        let _ = writeln!(
            out,
            "### {}: {}\n\n{}, {} to be found, {} that do not count; short: {}, empty: {}.\n\n\
             | k | similarity from | precision | recall | F1 | right | wrong |\n\
             |--:|--:|--:|--:|--:|--:|--:|",
            set.name,
            one.profile.id(),
            counted(set.texts.len() as u64, "text"),
            counted(set.labels.positive.len() as u64, "pair"),
            set.labels.ignored.len(),
            one.short,
            one.empty
        );
        let step = (curve.width() / 20).max(1);
        let own = one.profile.default_k();
        for k in (0..=curve.width()).filter(|k| k % step == 0 || *k == own) {
            let point = curve.at(k);
            let mark = if k == own { "**" } else { "" };
            let _ = writeln!(
                out,
                "| {mark}{k}{mark} | {:.2} | {:.4} | {:.4} | {:.4} | {} | {} |",
                one.shape.similarity(k),
                point.precision,
                point.recall,
                point.f1(),
                point.right,
                point.wrong
            );
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::two_copies;

    #[test]
    fn copies_agree_in_a_band_and_others_do_not() {
        let set = two_copies();
        let measure = |name: &str, check: fn() -> Result<(), &'static str>| {
            measure_signed(Profile::named(name).unwrap(), None, &set, || Duration::ZERO, check)
        };
        let found = measure("minhash-copies", || Ok(())).unwrap().unwrap();
        let point = found.near.curves().strict.at(found.profile.default_k());
        assert_eq!((point.right, point.wrong, found.empty), (1, 0, 1));
        assert!(signed_table(&set, &[found]).contains("| **"));
        assert!(measure("copies-64", || Ok(())).unwrap().is_none());
        assert_eq!(measure("minhash", || Err("cancelled")).err(), Some("cancelled"));
    }
}
