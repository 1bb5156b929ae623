//! A recipe: the steps of a profile from text to hash, as data.
//!
//! A new profile is a new recipe. A released recipe must never change. Not here: names and versions
//! (`profile`), and the written form of a recipe (`profiles`).

use super::explanation::{Explanation, Features as Explained, Occurrences, hash};
use super::minhash::{Signature, signature_name, signature_of};
use super::sensitivity::{Change, Moved, RELIABLE, moved_bits, moved_cells};
use super::vote::{Sums, Tie, decide, round_like_others, vote};
pub(crate) use super::weights::{IdfChoice, Top, Weights};
use super::{Fingerprint, Signed, Status};
use crate::features::{
    Bag, CodePlan, Cutter, Digest, Frequencies, HashFunction, Keyword, Kind, Limbs, ONE, Origins,
    ShinglePlan, WordPlan, characters, distinct, fixed, has_grams, keywords, letter_grams, logarithmic,
    longest_sentences, shingles, short_texts, to_number, token_grams, weighs_less,
};
use crate::{CutsWords, Dictionary, Edition, Preparation, Remembered, Run, runs};
use lookalike_hash::{Hash, SignatureShape, Width};
use lookalike_pages::stop::{Check, Stop, whole};

/// All steps from text to hash.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    /// The preparation of the text, before all other steps.
    pub(crate) preparation: Preparation,
    /// The features.
    pub(crate) features: Features,
    /// The dictionary that cuts Chinese. `None` means the built-in one, which is loaded on first use.
    pub(crate) dictionary: Option<std::sync::Arc<Dictionary>>,
    /// The weights of features.
    pub(crate) weights: Weights,
    /// The hash of a feature.
    pub(crate) hash: HashFunction,
    /// The rule for a bit whose votes are even.
    pub(crate) tie: Tie,
    /// The width of the fingerprint.
    pub(crate) width: Width,
    /// The shape of the signature that replaces the vote. The hash is then the name of the signature, and
    /// `k` counts cells.
    pub(crate) signature: Option<SignatureShape>,
    /// The distance up to which two fingerprints are near-duplicates, unless a request sets another one.
    pub(crate) k: u32,
    /// If set, near texts must also have this share of their letters in one order, 0 to 1.
    pub(crate) alignment: Option<f64>,
    /// If set, that distance depends on the text: it is at least this, and at most `k + 1`
    /// ([`Moved::least_k`]).
    pub(crate) least_k: Option<u32>,
}

/// The bytes of a text above which memory for all occurrences is reserved at once. Pages that are never
/// written take no memory.
const LONG: usize = 64 << 10;

/// The kind of features.
#[derive(Clone, Debug)]
pub(crate) enum Features {
    /// Words, pairs of words and character grams, by script.
    Shingles(ShinglePlan),
    /// Words, or adjacent words.
    Words(WordPlan),
    /// This many adjacent characters.
    Characters {
        length: usize,
        /// Whether a text of fewer characters is a feature by itself. Otherwise it has none.
        takes_short: bool,
    },
    /// Adjacent letters without what is between them, this many units ([`letter_grams`]).
    Letters(usize),
    /// Adjacent tokens of source code.
    Code(CodePlan),
    /// The longest sentences.
    Sentences {
        count: usize,
        /// Whether they are one feature, with line feeds between them, and not a feature each.
        as_one: bool,
    },
    /// Words, pairs and grams, by script, of which one word changes the same share in every script.
    ShortTexts,
    /// None: the client makes the hashes, and texts have no fingerprint.
    Supplied,
    /// None: hashes are made from images, by other crates.
    Images,
}

/// An occurrence of a feature: its digest and its text.
type Occurrence<'a, D> = (D, &'a str);

/// Bytes of memory per byte of a text: for 64-bit digests of shingles with few grams, and for all other
/// features.
const PER_BYTE: [usize; 2] = [30, 68];

impl Recipe {
    /// An upper bound of the bytes that a fingerprint allocates per byte of a long text.
    pub(super) fn memory_per_byte(&self) -> usize {
        let Features::Shingles(plan) = &self.features else { return PER_BYTE[1] };
        let is_lean = self.signature.is_some() || (self.width == Width::Bits64 && plan.step > 1);
        PER_BYTE[usize::from(!is_lean)]
    }

    /// The fingerprint of a text.
    pub(super) fn fingerprint(&self, text: &str) -> Fingerprint {
        self.sign(text).fingerprint
    }

    /// The fingerprint of a text, and its signature if the recipe has one.
    pub(super) fn sign(&self, text: &str) -> Signed {
        whole(|check| self.checked_sign(text, None, check))
    }

    /// [`Recipe::sign`], with the weights of a table for its minima, that ends with an error of `check`,
    /// which is called between the steps.
    pub(super) fn checked_sign(
        &self,
        text: &str,
        table: Option<&Frequencies>,
        check: Check<'_>,
    ) -> Result<Signed, Stop> {
        let prepared = self.preparation.apply(text);
        self.sign_prepared(&prepared, self.dictionary(), table, check)
    }

    /// [`Recipe::checked_sign`], and the set of features that another recipe finds in the text. What both
    /// need is found once: the prepared text, and the words of Chinese and Japanese.
    pub(super) fn sign_with_set(
        &self,
        other: &Recipe,
        text: &str,
        check: Check<'_>,
    ) -> Result<(Signed, Vec<u64>), Stop> {
        if self.preparation != other.preparation || self.dictionary.is_some() || other.dictionary.is_some() {
            let signed = self.checked_sign(text, None, check)?;
            return Ok((signed, other.feature_set(text)));
        }
        let prepared = self.preparation.apply(text);
        let dictionary = Remembered::new(Dictionary::built_in());
        let signed = self.sign_prepared(&prepared, &dictionary, None, check)?;
        Ok((signed, other.set_of(&prepared, &dictionary)))
    }

    fn sign_prepared(
        &self,
        prepared: &str,
        dictionary: &impl CutsWords,
        table: Option<&Frequencies>,
        check: Check<'_>,
    ) -> Result<Signed, Stop> {
        check()?;
        if let Some(shape) = self.signature {
            let mut set = self.distinct(prepared, dictionary);
            check()?;
            if shape.is_set {
                set.sort_unstable();
            }
            let signature = match table {
                Some(table) => {
                    let cells = usize::from(shape.cells);
                    Signature::weighted(&set, &table.weights(&set), cells).bytes(shape.cell_bytes)
                }
                None => signature_of(&set, shape),
            };
            let hash = signature_name(&signature);
            let moved = moved_cells(shape, set.len(), Change::of(self, prepared));
            let fingerprint = self.reliable(hash, set.len(), moved);
            return Ok(Signed { fingerprint, signature: Some(signature) });
        }
        let fingerprint = match self.width {
            Width::Bits64 => self.fingerprint_in::<1>(prepared, dictionary, check)?,
            Width::Bits128 => self.fingerprint_in::<2>(prepared, dictionary, check)?,
            // Hashes of this width are supplied.
            Width::Bits256 => self.reliable(Hash::zero(self.width), 0, Moved::default()),
        };
        Ok(Signed { fingerprint, signature: None })
    }

    /// The fingerprint with its features and votes.
    pub(super) fn explain(&self, text: &str) -> Explanation {
        if self.signature.is_some() {
            let Signed { fingerprint, signature } = self.sign(text);
            return Explanation { fingerprint, signature, votes: Vec::new(), ..self.explain_in::<2>(text) };
        }
        match self.width {
            Width::Bits64 => self.explain_in::<1>(text),
            Width::Bits128 => self.explain_in::<2>(text),
            Width::Bits256 => Explanation::without_features(self.fingerprint(text)),
        }
    }

    fn fingerprint_in<const L: usize>(
        &self,
        prepared: &str,
        dictionary: &impl CutsWords,
        check: Check<'_>,
    ) -> Result<Fingerprint, Stop>
    where
        Limbs<L>: Digest,
    {
        let (bag, sums) = self.voted::<L>(prepared, dictionary, |_| (), check)?;
        Ok(self.conclude(&bag, &sums, prepared))
    }

    /// The features of a prepared text and the sums of their votes.
    fn voted<const L: usize>(
        &self,
        prepared: &str,
        dictionary: &impl CutsWords,
        mut see: impl FnMut(Occurrence<'_, Limbs<L>>),
        check: Check<'_>,
    ) -> Result<(Bag<Limbs<L>>, Sums<L>), Stop>
    where
        Limbs<L>: Digest,
    {
        let Some(found) = self.keywords(prepared) else {
            let bag = self.bag::<L>(prepared, dictionary, see);
            check()?;
            let sums = vote(&bag);
            return Ok((bag, sums));
        };
        check()?;
        let weighed: Vec<(Limbs<L>, f64)> = found
            .iter()
            .map(|keyword| (Limbs::by(self.hash, Kind::Word, &keyword.word), keyword.weight))
            .collect();
        weighed.iter().zip(&found).for_each(|(&(digest, _), keyword)| see((digest, &keyword.word)));
        let bag = bag_of(&weighed);
        let mut sums = vote(&bag);
        if self.edition() == Edition::Cppjieba {
            round_like_others(&mut sums, &weighed);
        }
        Ok((bag, sums))
    }

    /// The keywords of a prepared text, if the features are keywords.
    fn keywords(&self, prepared: &str) -> Option<Vec<Keyword>> {
        let (Weights::TfIdf { idf, top }, Features::Words(plan)) = (&self.weights, &self.features) else {
            return None;
        };
        Some(keywords(prepared, plan, self.dictionary(), &idf.table(), top.of(prepared)))
    }

    /// The fingerprint of a vote. An empty prepared text has no features, but keeps its hash, because other
    /// programs hash even the empty text.
    fn conclude<const L: usize>(&self, bag: &Bag<Limbs<L>>, sums: &Sums<L>, prepared: &str) -> Fingerprint
    where
        Limbs<L>: Digest,
    {
        let bits = decide(sums, || bag.smallest().unwrap_or([0; L]), self.tie);
        let features = if prepared.is_empty() { 0 } else { bag.len() };
        let moved = moved_bits(sums, bag.squares(), Change::of(self, prepared));
        self.reliable(hash(bits), features, moved)
    }

    /// The fingerprint with its k, and whether a copy is found at that k.
    fn reliable(&self, hash: Hash, features: usize, moved: Moved) -> Fingerprint {
        let k = self.least_k.map_or(self.k, |least| moved.least_k(least, self.k));
        let status = match features {
            0 => Status::Empty,
            _ if moved.within(k) < RELIABLE => Status::Short,
            _ => Status::Ok,
        };
        Fingerprint { hash, features, status, moved, k }
    }

    fn explain_in<const L: usize>(&self, text: &str) -> Explanation
    where
        Limbs<L>: Digest,
    {
        let mut occurrences = Occurrences::default();
        let prepared = self.preparation.apply(text);
        let see = |(digest, text): Occurrence<'_, Limbs<L>>| occurrences.push(digest, text);
        let (bag, sums) = whole(|check| self.voted::<L>(&prepared, self.dictionary(), see, check));
        let fingerprint = self.conclude(&bag, &sums, &prepared);
        let votes = sums.iter().rev().flatten().map(|&sum| to_number(sum)).collect();
        let origins = match &self.features {
            Features::Shingles(plan) => Origins::of(&prepared, plan.gram),
            _ => Origins::default(),
        };
        let all = if prepared.is_empty() { Explained::default() } else { occurrences.weighed(&bag, origins) };
        Explanation { fingerprint, signature: None, features: all.listed(), votes, all }
    }

    /// The distinct features as 64-bit `XXH3` hashes, sorted.
    pub(super) fn feature_set(&self, text: &str) -> Vec<u64> {
        self.set_of(&self.preparation.apply(text), self.dictionary())
    }

    fn set_of(&self, prepared: &str, dictionary: &impl CutsWords) -> Vec<u64> {
        let mut set = self.distinct(prepared, dictionary);
        set.sort_unstable();
        set
    }

    /// [`Recipe::feature_set`] of a prepared text, in no order.
    fn distinct(&self, prepared: &str, dictionary: &impl CutsWords) -> Vec<u64> {
        if prepared.is_empty() {
            return Vec::new();
        }
        let mut found: Vec<Limbs<1>> = Vec::new();
        if prepared.len() > LONG {
            found.reserve_exact(prepared.len());
        }
        let mut each = |kind: Kind, text: &str| found.push(Limbs::of(kind, text));
        match (&self.features, self.keywords(prepared)) {
            (_, Some(keywords)) => keywords.iter().for_each(|keyword| each(Kind::Word, &keyword.word)),
            (Features::ShortTexts, None) => short_texts(prepared, each),
            (_, None) => {
                self.occurrences(prepared, dictionary, each);
            }
        }
        distinct(found).into_iter().map(|[hash]| hash).collect()
    }

    /// The features of a prepared text. `see` is called with each occurrence.
    fn bag<const L: usize>(
        &self,
        prepared: &str,
        dictionary: &impl CutsWords,
        see: impl FnMut(Occurrence<'_, Limbs<L>>),
    ) -> Bag<Limbs<L>>
    where
        Limbs<L>: Digest,
    {
        if matches!(self.features, Features::ShortTexts) {
            return self.bag_of_short_texts(prepared, self.hash, see);
        }
        // The usual function gets its own copy of the loops, so that no feature needs a choice between
        // functions.
        #[expect(
            clippy::redundant_closure,
            reason = "a closure is inlined into the loop, a function is called"
        )]
        match self.hash {
            HashFunction::Xxh3 => self.bag_by(prepared, dictionary, |kind, text| Limbs::of(kind, text), see),
            function => self.bag_by(prepared, dictionary, |kind, text| Limbs::by(function, kind, text), see),
        }
    }

    fn bag_by<D: Digest>(
        &self,
        prepared: &str,
        dictionary: &impl CutsWords,
        digest: impl Fn(Kind, &str) -> D,
        mut see: impl FnMut(Occurrence<'_, D>),
    ) -> Bag<D> {
        let mut bag = Bag::default();
        let plan = match &self.features {
            Features::Shingles(plan) => Some(plan),
            _ => None,
        };
        let (mut whole, mut half, mut grams) = (Vec::new(), Vec::new(), Vec::new());
        if prepared.len() > LONG {
            // At most one feature begins at each byte. Growth by doubling would copy, and allocate more.
            let is_cut = |run: &Run<'_>| has_grams(run.system);
            let bytes = |run: Run<'_>| run.text.len();
            let of_grams = plan.map_or(0, |_| runs(prepared).filter(is_cut).map(bytes).sum());
            grams.reserve_exact(of_grams);
            whole.reserve_exact(prepared.len() - of_grams);
        }
        let each = |kind: Kind, text: &str| {
            let digest = digest(kind, text);
            see((digest, text));
            match plan {
                Some(_) if kind == Kind::Gram => grams.push(digest),
                Some(plan) if plan.half.takes(kind, text) => half.push(digest),
                _ => whole.push(digest),
            }
        };
        let gram_weight = self.occurrences(prepared, dictionary, each);
        bag.count(whole, self.weigh(ONE));
        bag.count(half, self.weigh(ONE / 2));
        bag.count(grams, self.weigh(gram_weight));
        bag
    }

    /// Passes each occurrence of a feature, unless the features are keywords or those of short texts. Returns
    /// the weight of a gram.
    fn occurrences(
        &self,
        prepared: &str,
        dictionary: &impl CutsWords,
        mut each: impl FnMut(Kind, &str),
    ) -> u64 {
        match &self.features {
            Features::Shingles(plan) => return shingles(prepared, *plan, dictionary, each),
            Features::Words(plan) => plan.features(prepared, dictionary, each),
            Features::Characters { length, takes_short } => {
                if *takes_short || prepared.chars().nth(length - 1).is_some() {
                    characters(prepared, *length, |text| each(Kind::Gram, text));
                }
            }
            Features::Letters(units) => letter_grams(prepared, *units, |text| each(Kind::Gram, text)),
            Features::Code(plan) => token_grams(prepared, *plan, |text| each(Kind::Gram, text)),
            Features::Sentences { count, as_one } => {
                let found = longest_sentences(prepared, *count);
                if *as_one && !found.is_empty() {
                    each(Kind::Sentence, &found.join("\n"));
                } else {
                    found.iter().for_each(|sentence| each(Kind::Word, sentence));
                }
            }
            Features::ShortTexts | Features::Supplied | Features::Images => {}
        }
        ONE
    }

    /// The features of short texts. They are counted apart, so that the loops of other features have no
    /// choice that only these need.
    fn bag_of_short_texts<D: Digest>(
        &self,
        prepared: &str,
        function: HashFunction,
        mut see: impl FnMut(Occurrence<'_, D>),
    ) -> Bag<D> {
        let mut bag = Bag::default();
        let (mut whole, mut lesser) = (Vec::new(), Vec::new());
        if prepared.len() > LONG {
            // A third of the features, or fewer, have their full weight.
            whole.reserve_exact(prepared.len() / 3);
            lesser.reserve_exact(prepared.len());
        }
        short_texts(prepared, |kind, text| {
            let digest = D::by(function, kind, text);
            see((digest, text));
            if weighs_less(kind, text) { lesser.push(digest) } else { whole.push(digest) }
        });
        bag.count(whole, self.weigh(ONE));
        bag.count(lesser, self.weigh(ONE * 3 / 4));
        bag
    }

    /// The weight of a count of features that weigh `share` of [`ONE`]. Definitions refuse TF-IDF of anything
    /// but single words. The share does not apply to counts, nor to shingles of weight 1.
    fn weigh(&self, share: u64) -> impl Fn(u32) -> u64 {
        let of: fn(u32) -> u64 = match &self.weights {
            Weights::One => |_| ONE,
            Weights::Count | Weights::TfIdf { .. } => |count| u64::from(count) * ONE,
            Weights::Logarithm => logarithmic,
        };
        let has_share = match self.weights {
            Weights::Logarithm => true,
            Weights::One => matches!(self.features, Features::ShortTexts),
            Weights::Count | Weights::TfIdf { .. } => false,
        };
        let share = if has_share { share } else { ONE };
        move |count| of(count) * share / ONE
    }

    fn dictionary(&self) -> &Dictionary {
        self.dictionary.as_deref().unwrap_or_else(|| Dictionary::built_in())
    }

    /// The edition of the dictionary that it cuts with.
    pub(crate) fn edition(&self) -> Edition {
        match &self.features {
            Features::Words(plan) if plan.cutter == Cutter::Cppjieba => Edition::Cppjieba,
            _ => Edition::Jieba,
        }
    }
}

/// The bag of features with given weights.
fn bag_of<const L: usize>(features: &[(Limbs<L>, f64)]) -> Bag<Limbs<L>>
where
    Limbs<L>: Digest,
{
    let mut bag = Bag::default();
    features.iter().for_each(|&(digest, weight)| bag.add(digest, fixed(weight)));
    bag
}

/// The 64-bit `SimHash` of words with given weights, added in this order in floating point; a tie gives a
/// zero bit. This is the step of yanyiwu/simhash after its keyword extraction.
///
/// ```
/// use lookalike_text::fingerprint::simhash_of;
/// use lookalike_text::features::HashFunction;
/// let words = [("你好", 7.957_878_277), ("世界", 4.367_529_406)];
/// assert_eq!(simhash_of(&words, HashFunction::Lookup3).to_string(), "f550dedebdee462d");
/// ```
pub fn simhash_of(words: &[(&str, f64)], function: HashFunction) -> Hash {
    let digest = |text| Limbs::<1>::by(function, Kind::Word, text);
    let features: Vec<_> = words.iter().map(|&(text, weight)| (digest(text), weight)).collect();
    let mut sums = vote(&bag_of(&features));
    round_like_others(&mut sums, &features);
    hash(decide(&sums, || [0], Tie::Zero))
}
