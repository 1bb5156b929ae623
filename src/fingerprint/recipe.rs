//! A recipe: what a profile does with a text, as data.
//!
//! Leaves out: names and versions, which are the profile's. To add a profile is to add a recipe, with another
//! kind of features if it needs one; to change a recipe that was released is forbidden.

use super::vote::{decide, vote};
use super::{Explanation, Fingerprint, Status, WeightedFeature};
use crate::features::{Bag, Digest, Kind, Limbs, ONE, fixed, keywords, logarithmic, shingles, to_number};
use crate::ids::{Hash, Width};
use crate::text::normalise;

/// The steps after normalisation, which all recipes share. The hash of a feature is seeded `XXH3` of its width,
/// and a tie in the vote goes by the smallest digest; a recipe that differs there brings a field for it.
#[derive(Debug)]
pub(super) struct Recipe {
    /// What is counted and how it is weighed.
    pub(super) features: Features,
    /// The bits of the fingerprint.
    pub(super) width: Width,
    /// The distance up to which two fingerprints are taken for near-duplicates, unless the question says otherwise.
    pub(super) k: u32,
    /// With fewer distinct features than this a fingerprint is [`Status::Short`].
    pub(super) min_features: usize,
}

/// Features and their weights.
#[derive(Debug)]
pub(super) enum Features {
    /// Words, pairs of words and character grams, each weighing 1 + ln of its count, a gram half as much.
    Shingles,
    /// The `top` words by TF-IDF, each weighing as much.
    Keywords { top: usize },
}

/// A letter begins five grams where a word begins one word and one pair; halved, a line of code in a Chinese
/// text does not outvote the text. Where all is grams, nothing changes.
fn gram_weight(count: u32) -> u64 {
    logarithmic(count) / 2
}

/// A feature as it occurs: its digest and its text.
type Occurrence<'a, D> = (D, &'a str);

impl Recipe {
    /// The fingerprint of a text.
    pub(super) fn fingerprint(&self, text: &str) -> Fingerprint {
        match self.width {
            Width::Bits64 => self.fingerprint_in::<1>(text),
            Width::Bits128 => self.fingerprint_in::<2>(text),
        }
    }

    /// The fingerprint with all that went into it.
    pub(super) fn explain(&self, text: &str) -> Explanation {
        match self.width {
            Width::Bits64 => self.explain_in::<1>(text),
            Width::Bits128 => self.explain_in::<2>(text),
        }
    }

    fn fingerprint_in<const L: usize>(&self, text: &str) -> Fingerprint
    where
        Limbs<L>: Digest,
    {
        let bag = self.bag::<L>(&normalise(text), |_| ());
        self.conclude(&bag, decide(&vote(&bag), bag.smallest().unwrap_or([0; L])))
    }

    fn conclude<const L: usize>(&self, bag: &Bag<Limbs<L>>, bits: Limbs<L>) -> Fingerprint
    where
        Limbs<L>: Digest,
    {
        let features = bag.len();
        let status = match features {
            0 => Status::Empty,
            few if few < self.min_features => Status::Short,
            _ => Status::Ok,
        };
        Fingerprint { hash: hash(bits), features, status }
    }

    fn explain_in<const L: usize>(&self, text: &str) -> Explanation
    where
        Limbs<L>: Digest,
    {
        let mut texts: Vec<(Limbs<L>, String)> = Vec::new();
        let bag = self.bag::<L>(&normalise(text), |(digest, text)| texts.push((digest, text.to_owned())));
        texts.sort_unstable();
        let sums = vote(&bag);
        let fingerprint = self.conclude(&bag, decide(&sums, bag.smallest().unwrap_or([0; L])));
        let votes = sums.iter().rev().flatten().map(|&sum| to_number(sum)).collect();
        Explanation { fingerprint, features: weighted(&bag, &texts), votes }
    }

    /// The features of a normalised text; `see` is shown each occurrence.
    fn bag<const L: usize>(
        &self,
        normalised: &str,
        see: impl FnMut(Occurrence<'_, Limbs<L>>),
    ) -> Bag<Limbs<L>>
    where
        Limbs<L>: Digest,
    {
        match self.features {
            Features::Shingles => shingle_bag(normalised, see),
            Features::Keywords { top } => keyword_bag(normalised, top, see),
        }
    }
}

fn shingle_bag<D: Digest>(normalised: &str, mut see: impl FnMut(Occurrence<'_, D>)) -> Bag<D> {
    let mut words = Vec::new();
    let mut grams = Vec::new();
    shingles(normalised, |kind, text| {
        let digest = D::of(kind, text);
        see((digest, text));
        match kind {
            Kind::Word | Kind::Pair => words.push(digest),
            Kind::Gram => grams.push(digest),
        }
    });
    let mut bag = Bag::default();
    bag.count(words, logarithmic);
    bag.count(grams, gram_weight);
    bag
}

fn keyword_bag<D: Digest>(normalised: &str, top: usize, mut see: impl FnMut(Occurrence<'_, D>)) -> Bag<D> {
    let mut bag = Bag::default();
    for keyword in keywords(normalised, top) {
        let digest = D::of(Kind::Word, &keyword.word);
        see((digest, &keyword.word));
        bag.add(digest, fixed(keyword.weight));
    }
    bag
}

/// The features by weight, the weightiest first, then by text. `texts` is sorted and has every digest.
fn weighted<const L: usize>(bag: &Bag<Limbs<L>>, texts: &[(Limbs<L>, String)]) -> Vec<WeightedFeature>
where
    Limbs<L>: Digest,
{
    let mut features = Vec::with_capacity(bag.len());
    for class in bag.classes() {
        let weight = class.weight as f64 / ONE as f64;
        features.extend(class.digests.iter().map(|&digest| {
            let at = texts.partition_point(|(other, _)| *other < digest);
            WeightedFeature { text: texts[at].1.clone(), weight, hash: hash(digest) }
        }));
    }
    features.sort_by(|a, b| b.weight.total_cmp(&a.weight).then_with(|| a.text.cmp(&b.text)));
    features
}

/// The limbs as a hash: one limb is 64 bits, two are 128.
fn hash<const L: usize>(limbs: Limbs<L>) -> Hash {
    let value = limbs.iter().fold(0, |value: u128, &limb| value << 64 | u128::from(limb));
    if L == 1 { Hash::from_u64(limbs[0]) } else { Hash::from_u128(value) }
}
