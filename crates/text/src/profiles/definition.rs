//! The definition of a user's profile: the keys of its TOML table, as differences from a built-in profile.
//!
//! Guarantees: an unknown key, a value of the wrong kind or outside its range, and a key that does not
//! apply are errors. Not here: reading files (`profiles`), and contradictions between settings of a recipe
//! (`Profile::of_user`).

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};

use crate::Preparation;
use crate::features::{Cutter, Half, HashFunction, ShinglePlan, StopWords, WordPlan};
use crate::fingerprint::{Features, IdfChoice, Recipe, Tie, Top, Weights};
use lookalike_hash::Width;

/// A table of the file. A missing key keeps the value of the base profile.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table of keys: write each profile as [name]")]
pub(super) struct Definition {
    pub(super) like: Option<String>,
    #[serde(deserialize_with = "number::<1, { 1 << 30 }, _, _>")]
    pub(super) version: Option<u32>,
    #[serde(deserialize_with = "summary")]
    pub(super) summary: Option<String>,
    #[serde(deserialize_with = "choice")]
    normalisation: Option<Preparation>,
    #[serde(deserialize_with = "choice")]
    features: Option<FeatureKind>,
    #[serde(deserialize_with = "number::<1, 64, _, _>")]
    gram: Option<usize>,
    #[serde(deserialize_with = "number::<1, 16, _, _>")]
    gram_step: Option<usize>,
    #[serde(deserialize_with = "number::<1, 100, _, _>")]
    gram_weight: Option<u64>,
    #[serde(deserialize_with = "choice")]
    half: Option<Half>,
    #[serde(deserialize_with = "words")]
    words: Option<(usize, usize)>,
    #[serde(deserialize_with = "number::<1, 16, _, _>")]
    least_characters: Option<usize>,
    #[serde(deserialize_with = "choice")]
    segmenter: Option<Cutter>,
    /// The name of a file.
    pub(super) user_dictionary: Option<String>,
    /// The name of a built-in list or of a file.
    stop_words: Option<String>,
    #[serde(deserialize_with = "choice")]
    weights: Option<WeightKind>,
    /// The name of a built-in table or of a file.
    idf: Option<String>,
    #[serde(deserialize_with = "top")]
    top: Option<Top>,
    #[serde(deserialize_with = "choice")]
    hash: Option<HashFunction>,
    #[serde(deserialize_with = "choice")]
    tie: Option<Tie>,
    #[serde(deserialize_with = "bits")]
    bits: Option<Width>,
    #[serde(deserialize_with = "number::<0, 255, _, _>")]
    k: Option<u32>,
    #[serde(deserialize_with = "number::<1, 255, _, _>")]
    cells: Option<u16>,
    #[serde(deserialize_with = "number::<1, 255, _, _>")]
    bands: Option<u16>,
    #[serde(deserialize_with = "number::<1, 255, _, _>")]
    rows: Option<u16>,
}

/// A key that does not apply to the features or weights of the recipe.
#[derive(Debug, thiserror::Error)]
#[error("{key} is valid only with {with}")]
pub struct Misplaced {
    /// The key.
    key: &'static str,
    /// The setting that it needs.
    with: &'static str,
}

#[derive(Clone, Copy, Debug)]
enum FeatureKind {
    Shingles,
    Words,
    Characters,
    Letters,
}

#[derive(Clone, Copy, Debug)]
enum WeightKind {
    One,
    Count,
    Logarithm,
    TfIdf,
}

impl Definition {
    /// The name of the stop-word file, if the key names one.
    pub(super) fn stop_words_file(&self) -> Option<&str> {
        self.stop_words.as_deref().filter(|name| !["none", "built-in", "cppjieba"].contains(name))
    }

    /// The name of the idf file, if the key names one.
    pub(super) fn idf_file(&self) -> Option<&str> {
        self.idf.as_deref().filter(|name| !["built-in", "built-in-words"].contains(name))
    }

    /// Applies the keys to the recipe of the base profile. `stop_words` and `idf` are the contents of their
    /// files. The kind of features and weights is set before the keys that refine it.
    pub(super) fn apply(
        mut self,
        recipe: &mut Recipe,
        stop_words: Option<StopWords>,
        idf: Option<IdfChoice>,
    ) -> Result<(), Misplaced> {
        if let Some(kind) = self.features {
            kind.apply(recipe);
        }
        if let Some(kind) = self.weights {
            kind.apply(&mut recipe.weights);
        }
        self.refine_features(recipe, stop_words);
        if let Weights::TfIdf { idf: table, top } = &mut recipe.weights {
            set(top, self.top.take());
            let built_in = self.idf.take().map(|name| match name.as_str() {
                "built-in" => IdfChoice::BuiltIn,
                _ => IdfChoice::BuiltInWords,
            });
            set(table, idf.or(built_in));
        }
        set(&mut recipe.preparation, self.normalisation);
        set(&mut recipe.hash, self.hash);
        set(&mut recipe.tie, self.tie);
        set(&mut recipe.width, self.bits);
        if self.k.is_some() {
            recipe.least_k = None;
        }
        self.refine_signature(recipe);
        set(&mut recipe.k, self.k);
        self.misplaced().map_or(Ok(()), Err)
    }

    /// Takes the keys that apply to the kind of features.
    fn refine_features(&mut self, recipe: &mut Recipe, stop_words: Option<StopWords>) {
        match &mut recipe.features {
            Features::Shingles(plan) => {
                set(&mut plan.gram, self.gram.take());
                set(&mut plan.step, self.gram_step.take());
                set(&mut plan.gram_weight, self.gram_weight.take());
                set(&mut plan.half, self.half.take());
            }
            Features::Words(plan) => {
                if let Some((least, most)) = self.words.take() {
                    (plan.shortest, plan.longest) = (least, most);
                }
                set(&mut plan.least_characters, self.least_characters.take());
                set(&mut plan.cutter, self.segmenter.take());
                let built_in = self.stop_words.take().map(|name| match name.as_str() {
                    "built-in" => StopWords::built_in(),
                    "cppjieba" => StopWords::cppjieba(),
                    _ => StopWords::default(),
                });
                set(&mut plan.stop_words, stop_words.or(built_in));
            }
            Features::Characters { length, .. } | Features::Letters(length) => set(length, self.gram.take()),
            Features::Code(_)
            | Features::Sentences { .. }
            | Features::ShortTexts
            | Features::Supplied
            | Features::Images => {}
        }
    }

    /// Takes the keys of signatures of minima. Without `cells` a signature has as many as its bands need, and
    /// without `k` its similarity stays.
    fn refine_signature(&mut self, recipe: &mut Recipe) {
        let Some(shape) = recipe.signature.as_mut().filter(|shape| !shape.is_set) else { return };
        let similarity = shape.similarity(recipe.k);
        let is_other = self.bands.is_some() || self.rows.is_some();
        set(&mut shape.bands, self.bands.take());
        set(&mut shape.rows, self.rows.take());
        if is_other {
            shape.cells = shape.bands.saturating_mul(shape.rows);
        }
        set(&mut shape.cells, self.cells.take());
        recipe.k = shape.distance_for(similarity);
    }

    /// The first key that no step has taken.
    fn misplaced(&self) -> Option<Misplaced> {
        const SHINGLES: &str = "features = \"shingles\"";
        const WORDS: &str = "features = \"words\"";
        const TF_IDF: &str = "weights = \"tf-idf\"";
        const MINIMA: &str = "like = \"minhash\" or \"minhash-copies\"";
        let rest = [
            ("gram", self.gram.is_some(), "features = \"shingles\", \"characters\" or \"letters\""),
            ("gram_step", self.gram_step.is_some(), SHINGLES),
            ("gram_weight", self.gram_weight.is_some(), SHINGLES),
            ("half", self.half.is_some(), SHINGLES),
            ("words", self.words.is_some(), WORDS),
            ("least_characters", self.least_characters.is_some(), WORDS),
            ("segmenter", self.segmenter.is_some(), WORDS),
            ("stop_words", self.stop_words.is_some(), WORDS),
            ("cells", self.cells.is_some(), MINIMA),
            ("bands", self.bands.is_some(), MINIMA),
            ("rows", self.rows.is_some(), MINIMA),
            ("idf", self.idf.is_some(), TF_IDF),
            ("top", self.top.is_some(), TF_IDF),
        ];
        let found = rest.into_iter().find(|(_, is_left, _)| *is_left);
        found.map(|(key, _, with)| Misplaced { key, with })
    }
}

fn set<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}

impl FeatureKind {
    /// Keeps the parameters of a recipe that already has this kind.
    fn apply(self, recipe: &mut Recipe) {
        recipe.features = match (self, &recipe.features) {
            (FeatureKind::Shingles, Features::Shingles(_))
            | (FeatureKind::Words, Features::Words(_))
            | (FeatureKind::Characters, Features::Characters { .. })
            | (FeatureKind::Letters, Features::Letters(_)) => return,
            (FeatureKind::Shingles, _) => Features::Shingles(ShinglePlan::COPIES_64),
            (FeatureKind::Words, _) => Features::Words(WordPlan {
                cutter: Cutter::Split,
                least_characters: 1,
                drops_numbers: false,
                stop_words: StopWords::default(),
                shortest: 1,
                longest: 1,
            }),
            (FeatureKind::Characters, _) => Features::Characters { length: 5, takes_short: true },
            (FeatureKind::Letters, _) => Features::Letters(5),
        };
    }
}

impl WeightKind {
    /// Keeps the parameters of weights that already are of this kind.
    fn apply(self, weights: &mut Weights) {
        *weights = match (self, &*weights) {
            (WeightKind::TfIdf, Weights::TfIdf { .. }) => return,
            (WeightKind::TfIdf, _) => Weights::TfIdf { idf: IdfChoice::BuiltInWords, top: Top::All },
            (WeightKind::One, _) => Weights::One,
            (WeightKind::Count, _) => Weights::Count,
            (WeightKind::Logarithm, _) => Weights::Logarithm,
        };
    }
}

/// A value that is written as one of a few names.
trait Choice: Copy + 'static {
    const CHOICES: &'static [(&'static str, Self)];
}

impl Choice for Preparation {
    const CHOICES: &'static [(&'static str, Self)] = &Preparation::NAMES;
}

impl Choice for Half {
    const CHOICES: &'static [(&'static str, Self)] = &Half::NAMES;
}

impl Choice for Cutter {
    const CHOICES: &'static [(&'static str, Self)] = &Cutter::NAMES;
}

impl Choice for HashFunction {
    const CHOICES: &'static [(&'static str, Self)] = &HashFunction::NAMES;
}

impl Choice for Tie {
    const CHOICES: &'static [(&'static str, Self)] = &Tie::NAMES;
}

impl Choice for FeatureKind {
    const CHOICES: &'static [(&'static str, Self)] = &[
        ("shingles", FeatureKind::Shingles),
        ("words", FeatureKind::Words),
        ("characters", FeatureKind::Characters),
        ("letters", FeatureKind::Letters),
    ];
}

impl Choice for WeightKind {
    const CHOICES: &'static [(&'static str, Self)] = &[
        ("one", WeightKind::One),
        ("count", WeightKind::Count),
        ("logarithm", WeightKind::Logarithm),
        ("tf-idf", WeightKind::TfIdf),
    ];
}

fn choice<'de, D: Deserializer<'de>, T: Choice>(value: D) -> Result<Option<T>, D::Error> {
    struct Name<T>(PhantomData<T>);
    impl<T: Choice> Visitor<'_> for Name<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            let names: Vec<String> = T::CHOICES.iter().map(|(name, _)| format!("{name:?}")).collect();
            write!(f, "one of {}", names.join(", "))
        }

        fn visit_str<E: Error>(self, name: &str) -> Result<T, E> {
            let found = T::CHOICES.iter().find(|(other, _)| *other == name);
            found.map(|(_, value)| *value).ok_or_else(|| E::invalid_value(Unexpected::Str(name), &self))
        }
    }
    value.deserialize_str(Name(PhantomData)).map(Some)
}

fn number<'de, const LEAST: i64, const MOST: i64, D: Deserializer<'de>, N: TryFrom<i64>>(
    value: D,
) -> Result<Option<N>, D::Error> {
    struct Number<N, const LEAST: i64, const MOST: i64>(PhantomData<N>);
    impl<N: TryFrom<i64>, const LEAST: i64, const MOST: i64> Visitor<'_> for Number<N, LEAST, MOST> {
        type Value = N;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a number from {LEAST} to {MOST}")
        }

        fn visit_i64<E: Error>(self, number: i64) -> Result<N, E> {
            let found = N::try_from(number).ok().filter(|_| (LEAST..=MOST).contains(&number));
            found.ok_or_else(|| E::invalid_value(Unexpected::Signed(number), &self))
        }
    }
    value.deserialize_i64(Number::<N, LEAST, MOST>(PhantomData)).map(Some)
}

fn top<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Top>, D::Error> {
    const MOST: i64 = 1 << 20;
    struct Count;
    impl Visitor<'_> for Count {
        type Value = Top;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a number from 0 to {MOST}, or \"auto\"")
        }

        fn visit_i64<E: Error>(self, number: i64) -> Result<Top, E> {
            match usize::try_from(number) {
                Ok(0) => Ok(Top::All),
                Ok(count) if number <= MOST => Ok(Top::First(count)),
                _ => Err(E::invalid_value(Unexpected::Signed(number), &self)),
            }
        }

        fn visit_str<E: Error>(self, name: &str) -> Result<Top, E> {
            if name == "auto" {
                Ok(Top::ByLength)
            } else {
                Err(E::invalid_value(Unexpected::Str(name), &self))
            }
        }
    }
    value.deserialize_any(Count).map(Some)
}

fn summary<'de, D: Deserializer<'de>>(value: D) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(value)?;
    if text.len() > 500 {
        return Err(D::Error::invalid_length(text.len(), &"a text of at most 500 bytes"));
    }
    Ok(Some(text))
}

fn words<'de, D: Deserializer<'de>>(value: D) -> Result<Option<(usize, usize)>, D::Error> {
    match Vec::<usize>::deserialize(value)?[..] {
        [least @ 1..=16, most @ 1..=16] if least <= most => Ok(Some((least, most))),
        _ => Err(D::Error::custom(
            "expected two numbers from 1 to 16, the least and the most adjacent words of a feature: [1, 2]",
        )),
    }
}

fn bits<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Width>, D::Error> {
    let bits = u32::deserialize(value)?;
    let width = Width::from_bits(bits);
    width
        .map(Some)
        .ok_or_else(|| D::Error::invalid_value(Unexpected::Unsigned(bits.into()), &"64, 128 or 256"))
}
