//! The explanation of a fingerprint: its features with their texts and weights, to be read and compared by
//! people.
//!
//! A text of 1 MiB may have a million features. Therefore all features are stored in one text and one list
//! in the order of their digests; only those of the greatest weight become separate strings. Not here: the
//! comparison of two explanations (`compare`).

use std::cmp::Ordering;

use super::{Fingerprint, WeightedFeature};
use crate::features::{Bag, Digest, Limbs, ONE, Origins};
use lookalike_hash::Hash;

/// The most features that an explanation lists.
const LISTED: usize = 10_000;

/// A fingerprint with its features and votes.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The result of [`super::Profile::fingerprint`] for the same text.
    pub fingerprint: Fingerprint,
    /// The signature, if the profile makes signatures; the hash is its name.
    pub signature: Option<Vec<u8>>,
    /// The distinct features by descending weight, equal weights by text; at most 10,000.
    pub features: Vec<WeightedFeature>,
    /// The sum of the votes for each bit: index `j` is bit `j`, the least significant first. As many as the
    /// width; none for a signature, which has no vote.
    pub votes: Vec<f64>,
    /// All features.
    pub(super) all: Features,
}

impl Explanation {
    /// The explanation of a fingerprint that no features vote for.
    pub(super) fn without_features(fingerprint: Fingerprint) -> Explanation {
        Explanation {
            fingerprint,
            signature: None,
            features: Vec::new(),
            votes: Vec::new(),
            all: Features::default(),
        }
    }
}

/// All features of a text, in the order of their digests.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Features {
    texts: String,
    entries: Vec<Entry>,
    /// The words that grams come from.
    pub(super) origins: Origins,
}

/// A feature; its text is `start..end` of the common text.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Entry {
    hash: Hash,
    weight: f64,
    start: usize,
    end: usize,
}

/// Occurrences of features, in the order of the text.
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

    /// The features of a bag with their texts. If several texts have one digest, the text is the smallest
    /// of them.
    pub(super) fn weighed(mut self, bag: &Bag<Limbs<L>>, origins: Origins) -> Features {
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
        Features { texts, entries, origins }
    }
}

impl Features {
    /// The hash, text and weight of each feature, in the order of hashes.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Hash, &str, f64)> {
        self.entries.iter().map(|entry| (entry.hash, self.text(entry), entry.weight))
    }

    /// The features of the greatest weight, in descending order, equal weights by text.
    pub(super) fn listed(&self) -> Vec<WeightedFeature> {
        let order = |a: &&Entry, b: &&Entry| {
            b.weight.total_cmp(&a.weight).then_with(|| self.text(a).cmp(self.text(b)))
        };
        let mut all: Vec<&Entry> = self.entries.iter().collect();
        let listed = first(&mut all, LISTED, order);
        let words = self.origins.words(listed.iter().map(|entry| self.text(entry)));
        let feature = |entry: &&Entry| WeightedFeature {
            text: self.text(entry).to_owned(),
            words: owned(&words[self.text(entry)]),
            weight: entry.weight,
            hash: entry.hash,
        };
        listed.iter().map(feature).collect()
    }

    fn text(&self, entry: &Entry) -> &str {
        &self.texts[entry.start..entry.end]
    }
}

/// Words as texts of their own.
pub(super) fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// Sorts the first `most` elements of this order to the front and returns them; the others are left unsorted.
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
