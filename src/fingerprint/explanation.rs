//! What went into a fingerprint: its features with their texts and weights, for people to read and to compare.
//!
//! All features stand in one text and one list in the order of their digests, since a text of 1 MiB may have a million; only
//! the weightiest are strings of their own. Leaves out: the comparison of two.

use std::cmp::Ordering;

use super::{Fingerprint, WeightedFeature};
use crate::features::{Bag, Digest, Limbs, ONE};
use crate::ids::Hash;

/// The most features that an explanation lists, the weightiest.
const LISTED: usize = 10_000;

/// A fingerprint with all that went into it.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// What [`super::Profile::fingerprint`] gives for the same text.
    pub fingerprint: Fingerprint,
    /// The signature of which the hash is the name, if the profile makes signatures.
    pub signature: Option<Vec<u8>>,
    /// The distinct features, the weightiest first, equals by their text; at most 10,000.
    pub features: Vec<WeightedFeature>,
    /// The sum of each bit's votes; index `j` is bit `j`, the least significant first. As many as the width; none for a
    /// signature, which is not voted on.
    pub votes: Vec<f64>,
    /// All features.
    pub(super) all: Features,
}

/// All features of a text, in the order of their digests.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Features {
    texts: String,
    entries: Vec<Entry>,
}

/// A feature; its text goes from `start` to `end`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Entry {
    hash: Hash,
    weight: f64,
    start: usize,
    end: usize,
}

/// Occurrences of features, as they come.
pub(super) struct Occurrences<D> {
    texts: String,
    places: Vec<(D, usize, usize)>,
}

impl<D> Default for Occurrences<D> {
    fn default() -> Self {
        Occurrences { texts: String::new(), places: Vec::new() }
    }
}

impl<const L: usize> Occurrences<Limbs<L>>
where
    Limbs<L>: Digest,
{
    pub(super) fn push(&mut self, digest: Limbs<L>, text: &str) {
        let start = self.texts.len();
        self.texts.push_str(text);
        self.places.push((digest, start, self.texts.len()));
    }

    /// The features of a bag, with the text that occurred for each; of several texts with one digest the first in order.
    pub(super) fn weighed(mut self, bag: &Bag<Limbs<L>>) -> Features {
        self.places.sort_unstable_by_key(|&(digest, start, _)| (digest, start));
        let texts = self.texts;
        let text = |&(_, start, end): &(Limbs<L>, usize, usize)| &texts[start..end];
        let same = self.places.chunk_by(|a, b| a.0 == b.0);
        let firsts: Vec<_> = same.filter_map(|same| same.iter().min_by_key(|place| text(place))).collect();
        let mut weights: Vec<(Limbs<L>, u64)> = Vec::with_capacity(bag.len());
        for class in bag.classes() {
            weights.extend(class.digests.iter().map(|&digest| (digest, class.weight)));
        }
        weights.sort_unstable();
        let mut at = 0;
        let entry = |(digest, weight): (Limbs<L>, u64)| {
            while firsts[at].0 < digest {
                at += 1;
            }
            let &(_, start, end) = firsts[at];
            Entry { hash: hash(digest), weight: weight as f64 / ONE as f64, start, end }
        };
        let entries = weights.into_iter().map(entry).collect();
        Features { texts, entries }
    }
}

impl Features {
    /// Hash, text and weight of each, in the order of hashes.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Hash, &str, f64)> {
        self.entries.iter().map(|entry| (entry.hash, self.text(entry), entry.weight))
    }

    /// The weightiest, equals by their text.
    pub(super) fn listed(&self) -> Vec<WeightedFeature> {
        let order = |a: &&Entry, b: &&Entry| {
            b.weight.total_cmp(&a.weight).then_with(|| self.text(a).cmp(self.text(b)))
        };
        let mut all: Vec<&Entry> = self.entries.iter().collect();
        let feature = |entry: &&Entry| WeightedFeature {
            text: self.text(entry).to_owned(),
            weight: entry.weight,
            hash: entry.hash,
        };
        first(&mut all, LISTED, order).iter().map(feature).collect()
    }

    fn text(&self, entry: &Entry) -> &str {
        &self.texts[entry.start..entry.end]
    }
}

/// The first `most` of all in this order, and in this order; the others stay behind them in any.
pub(super) fn first<T>(all: &mut [T], most: usize, order: impl Fn(&T, &T) -> Ordering) -> &[T] {
    let most = most.min(all.len());
    if most < all.len() {
        all.select_nth_unstable_by(most, &order);
    }
    all[..most].sort_unstable_by(order);
    &all[..most]
}

/// The limbs as a hash: one limb is 64 bits, two are 128.
pub(super) fn hash<const L: usize>(limbs: Limbs<L>) -> Hash {
    let value = limbs.iter().fold(0, |value: u128, &limb| value << 64 | u128::from(limb));
    if L == 1 { Hash::from_u64(limbs[0]) } else { Hash::from_u128(value) }
}
