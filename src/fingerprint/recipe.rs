//! A recipe: what a profile does with a text, as data.
//!
//! Leaves out: names and versions, which are the profile's, and how a recipe is written down (`definition`). To
//! add a profile is to add a recipe; to change a recipe that was released is forbidden.

use super::explanation::{Explanation, Features as Explained, Occurrences, hash};
use super::minhash::{signature_name, signature_of};
use super::vote::{Tie, decide, vote};
use super::{Fingerprint, Signed, Status};
use crate::features::{
    Bag, Digest, Half, HashFunction, Idf, Kind, Limbs, ONE, ShinglePlan, WordPlan, characters, fixed,
    keywords, logarithmic, longest_sentences, shingles, to_number,
};
use crate::ids::{Hash, SignatureShape, Width};
use crate::text::{Dictionary, Preparation};

/// All steps from text to hash.
#[derive(Clone, Debug)]
pub(super) struct Recipe {
    /// What is done to the text first.
    pub(super) preparation: Preparation,
    /// What is counted.
    pub(super) features: Features,
    /// The words that Chinese is cut by; `None` stands for the built-in dictionary, which is loaded when needed.
    pub(super) dictionary: Option<std::sync::Arc<Dictionary>>,
    /// What a feature's count weighs.
    pub(super) weights: Weights,
    /// The hash of a feature.
    pub(super) hash: HashFunction,
    /// What becomes of a bit whose votes are even.
    pub(super) tie: Tie,
    /// The bits of the fingerprint.
    pub(super) width: Width,
    /// The shape of the signature that is made of the set of features in place of a vote; the hash is its name then,
    /// and `k` counts cells.
    pub(super) signature: Option<SignatureShape>,
    /// The distance up to which two fingerprints are taken for near-duplicates, unless the question says otherwise.
    pub(super) k: u32,
    /// With fewer distinct features than this a fingerprint is [`Status::Short`].
    pub(super) min_features: usize,
}

/// With fewer distinct features than this a fingerprint is short, unless a recipe says otherwise.
pub(super) const MIN_FEATURES: usize = 20;

/// Bytes of a text from which on room for all occurrences is made at once. What is not written to takes no memory.
const LONG: usize = 64 << 10;

/// What is counted.
#[derive(Clone, Debug)]
pub(super) enum Features {
    /// Words, pairs of words and character grams, by script.
    Shingles(ShinglePlan),
    /// Words, or adjacent words.
    Words(WordPlan),
    /// This many adjacent characters.
    Characters(usize),
    /// This many of the longest sentences.
    Sentences(usize),
}

/// What a feature weighs.
#[derive(Clone, Debug)]
pub(super) enum Weights {
    /// 1, however often it occurs.
    One,
    /// Its count.
    Count,
    /// 1 + ln of its count; half as much for shingles that weigh half.
    Logarithm,
    /// Its count times its inverse document frequency. `top`: only so many, the weightiest, count at all.
    TfIdf { idf: IdfChoice, top: Option<usize> },
}

/// A table of inverse document frequencies, the built-in ones being loaded when needed.
#[derive(Clone, Debug)]
pub(super) enum IdfChoice {
    /// [`Idf::built_in`].
    BuiltIn,
    /// [`Idf::built_in_words`].
    BuiltInWords,
    /// A table of a user's own.
    Own(Idf),
}

impl IdfChoice {
    fn table(&self) -> Idf {
        match self {
            IdfChoice::BuiltIn => Idf::built_in(),
            IdfChoice::BuiltInWords => Idf::built_in_words(),
            IdfChoice::Own(idf) => idf.clone(),
        }
    }
}

fn half_logarithmic(count: u32) -> u64 {
    logarithmic(count) / 2
}

/// A feature as it occurs: its digest and its text.
type Occurrence<'a, D> = (D, &'a str);

/// Bytes of memory for each byte of a text, where the features are 64-bit digests of shingles, and for all other features.
const PER_BYTE: [usize; 2] = [30, 68];

impl Recipe {
    /// Bytes of memory that a fingerprint takes at most for each byte of a long text.
    pub(super) fn memory_per_byte(&self) -> usize {
        let is_narrow = self.width == Width::Bits64 || self.signature.is_some();
        let is_lean = matches!(&self.features, Features::Shingles(plan) if plan.half != Half::Grams);
        PER_BYTE[usize::from(!(is_narrow && is_lean))]
    }

    /// The fingerprint of a text.
    pub(super) fn fingerprint(&self, text: &str) -> Fingerprint {
        self.sign(text).fingerprint
    }

    /// The fingerprint of a text, and the signature of which it is the name.
    pub(super) fn sign(&self, text: &str) -> Signed {
        if let Some(shape) = self.signature {
            let set = self.feature_set(text);
            let signature = signature_of(&set, shape);
            let hash = signature_name(&signature);
            let fingerprint = Fingerprint { hash, features: set.len(), status: self.status(set.len()) };
            return Signed { fingerprint, signature: Some(signature) };
        }
        let fingerprint = match self.width {
            Width::Bits64 => self.fingerprint_in::<1>(text),
            Width::Bits128 => self.fingerprint_in::<2>(text),
        };
        Signed { fingerprint, signature: None }
    }

    /// The fingerprint with all that went into it.
    pub(super) fn explain(&self, text: &str) -> Explanation {
        if self.signature.is_some() {
            let Signed { fingerprint, signature } = self.sign(text);
            return Explanation { fingerprint, signature, votes: Vec::new(), ..self.explain_in::<2>(text) };
        }
        match self.width {
            Width::Bits64 => self.explain_in::<1>(text),
            Width::Bits128 => self.explain_in::<2>(text),
        }
    }

    fn fingerprint_in<const L: usize>(&self, text: &str) -> Fingerprint
    where
        Limbs<L>: Digest,
    {
        let prepared = self.preparation.apply(text);
        let bag = self.bag::<L>(&prepared, |_| ());
        self.conclude(
            &bag,
            decide(&vote(&bag), || bag.smallest().unwrap_or([0; L]), self.tie),
            prepared.is_empty(),
        )
    }

    /// `is_empty` says that nothing was left of the text. Other programs hash even that.
    fn conclude<const L: usize>(&self, bag: &Bag<Limbs<L>>, bits: Limbs<L>, is_empty: bool) -> Fingerprint
    where
        Limbs<L>: Digest,
    {
        let features = if is_empty { 0 } else { bag.len() };
        Fingerprint { hash: hash(bits), features, status: self.status(features) }
    }

    fn status(&self, features: usize) -> Status {
        match features {
            0 => Status::Empty,
            few if few < self.min_features => Status::Short,
            _ => Status::Ok,
        }
    }

    fn explain_in<const L: usize>(&self, text: &str) -> Explanation
    where
        Limbs<L>: Digest,
    {
        let mut occurrences = Occurrences::default();
        let prepared = self.preparation.apply(text);
        let bag = self.bag::<L>(&prepared, |(digest, text)| occurrences.push(digest, text));
        let sums = vote(&bag);
        let bits = decide(&sums, || bag.smallest().unwrap_or([0; L]), self.tie);
        let fingerprint = self.conclude(&bag, bits, prepared.is_empty());
        let votes = sums.iter().rev().flatten().map(|&sum| to_number(sum)).collect();
        let all = if prepared.is_empty() { Explained::default() } else { occurrences.weighed(&bag) };
        Explanation { fingerprint, signature: None, features: all.listed(), votes, all }
    }

    /// The distinct features as 64-bit `XXH3`, in order.
    pub(super) fn feature_set(&self, text: &str) -> Vec<u64> {
        let prepared = self.preparation.apply(text);
        if prepared.is_empty() {
            return Vec::new();
        }
        let bag: Bag<Limbs<1>> = self.bag_by(&prepared, Limbs::of, |_| ());
        let mut set: Vec<u64> =
            bag.classes().iter().flat_map(|class| &class.digests).map(|[hash]| *hash).collect();
        set.sort_unstable();
        set.dedup();
        set
    }

    /// The features of a prepared text; `see` is shown each occurrence.
    fn bag<const L: usize>(&self, prepared: &str, see: impl FnMut(Occurrence<'_, Limbs<L>>)) -> Bag<Limbs<L>>
    where
        Limbs<L>: Digest,
    {
        // The common function has a copy of the loops of its own: no choice is made for each feature.
        #[expect(
            clippy::redundant_closure,
            reason = "a closure is compiled into the loop, a function called"
        )]
        match self.hash {
            HashFunction::Xxh3 => self.bag_by(prepared, |kind, text| Limbs::of(kind, text), see),
            function => self.bag_by(prepared, |kind, text| Limbs::by(function, kind, text), see),
        }
    }

    fn bag_by<D: Digest>(
        &self,
        prepared: &str,
        digest: impl Fn(Kind, &str) -> D,
        mut see: impl FnMut(Occurrence<'_, D>),
    ) -> Bag<D> {
        let mut bag = Bag::default();
        if let Weights::TfIdf { idf, top } = &self.weights
            && let Features::Words(plan) = &self.features
        {
            let top = top.unwrap_or(usize::MAX);
            for keyword in keywords(prepared, plan, self.dictionary(), &idf.table(), top) {
                let digest = digest(Kind::Word, &keyword.word);
                see((digest, &keyword.word));
                bag.add(digest, fixed(keyword.weight));
            }
            return bag;
        }
        let halves = match &self.features {
            Features::Shingles(plan) => Some(plan.half),
            _ => None,
        };
        let (mut whole, mut half) = (Vec::new(), Vec::new());
        if prepared.len() > LONG {
            // At most one begins at each byte. Doubling would hold half as much again, and copy.
            let most = if halves == Some(Half::Grams) { &mut half } else { &mut whole };
            most.reserve_exact(prepared.len());
        }
        let mut each = |kind: Kind, text: &str| {
            let digest = digest(kind, text);
            see((digest, text));
            let weighs_half = halves.is_some_and(|halves| halves.takes(kind, text));
            if weighs_half { half.push(digest) } else { whole.push(digest) }
        };
        match &self.features {
            Features::Shingles(plan) => shingles(prepared, *plan, self.dictionary(), each),
            Features::Words(plan) => plan.features(prepared, self.dictionary(), each),
            Features::Characters(length) => characters(prepared, *length, |text| each(Kind::Gram, text)),
            Features::Sentences(count) => {
                longest_sentences(prepared, *count).iter().for_each(|sentence| each(Kind::Word, sentence));
            }
        }
        bag.count(whole, self.weigh(false));
        bag.count(half, self.weigh(true));
        bag
    }

    /// The weight of a count. TF-IDF of anything but words is refused where a recipe is defined.
    fn weigh(&self, halved: bool) -> fn(u32) -> u64 {
        match (&self.weights, halved) {
            (Weights::One, _) => |_| ONE,
            (Weights::Count | Weights::TfIdf { .. }, _) => |count| u64::from(count) * ONE,
            (Weights::Logarithm, false) => logarithmic,
            (Weights::Logarithm, true) => half_logarithmic,
        }
    }

    fn dictionary(&self) -> &Dictionary {
        self.dictionary.as_deref().unwrap_or_else(|| Dictionary::built_in())
    }
}

/// The 64-bit `SimHash` of words that are given with their weights, a tie being zero: what is left of
/// yanyiwu/simhash once it has its keywords.
///
/// ```
/// use lookalike::fingerprint::simhash_of;
/// use lookalike::features::HashFunction;
/// let words = [("你好", 7.957_878_277), ("世界", 4.367_529_406)];
/// assert_eq!(simhash_of(&words, HashFunction::Lookup3).to_string(), "f550dedebdee462d");
/// ```
pub fn simhash_of(words: &[(&str, f64)], function: HashFunction) -> Hash {
    let mut bag = Bag::default();
    for &(text, weight) in words {
        bag.add(Limbs::<1>::by(function, Kind::Word, text), fixed(weight));
    }
    hash(decide(&vote(&bag), || [0], Tie::Zero))
}
