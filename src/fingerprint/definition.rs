//! Definitions: a user's recipe, given key by key as differences from a built-in profile.
//!
//! Guarantees: a finished definition is a valid recipe, and equal recipes have equal digests. The digest is
//! that of the canonical form of the recipe and of the contents of its files, and does not depend on how
//! the keys are written. Not here: reading files and TOML (`profiles`).

use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use super::profile::{Profile, ProfileId, Profiles};
use super::recipe::{Features, IdfChoice, MIN_FEATURES, Recipe, Weights};
use super::vote::Tie;
use crate::features::{Cutter, Half, HashFunction, Idf, ShinglePlan, StopWords, WordPlan, WrongIdf};
use crate::ids::{SignatureShape, Width};
use crate::text::{Dictionary, Preparation, WrongWord};

/// The value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A text or a name.
    Text(String),
    /// A number.
    Number(i64),
    /// Two numbers, the least and the most.
    Span(i64, i64),
    /// The contents of a named file.
    File(String),
}

/// The reason why a definition is invalid.
#[derive(Debug, thiserror::Error)]
pub enum DefinitionError {
    /// The name is not allowed.
    #[error(
        "a profile cannot be called {0:?}: a name has 1 to 64 of a-z, 0-9 and -, and is not that of another \
         profile"
    )]
    Name(String),
    /// There is no built-in profile of the name in `like`.
    #[error("like: there is no built-in profile {0:?}; the built-in profiles are {1}")]
    Like(String, String),
    /// There is no such key.
    #[error("there is no key {key:?}; the keys are like, {}", Definition::KEYS.join(", "))]
    Key {
        /// The key.
        key: String,
    },
    /// The value is invalid for the key.
    #[error("{key} takes {takes}")]
    Value {
        /// The key.
        key: &'static str,
        /// The valid values.
        takes: String,
    },
    /// The key does not apply to features or weights of this kind.
    #[error("{key} is valid only with {with}")]
    Misplaced {
        /// The key.
        key: &'static str,
        /// The setting that it needs.
        with: &'static str,
    },
    /// A file is not a valid dictionary.
    #[error("user_dictionary: {0}")]
    Dictionary(#[from] WrongWord),
    /// A file is not a valid idf table.
    #[error("idf: {0}")]
    Idf(#[from] WrongIdf),
}

/// A profile that is being defined.
#[derive(Debug)]
pub struct Definition {
    name: String,
    version: u32,
    summary: String,
    recipe: Recipe,
    /// The digests of the contents of files, by key.
    contents: Vec<(&'static str, u64)>,
}

impl Definition {
    /// All keys except `like`, in the order in which they must be set: `features` and `weights` come before
    /// the keys that refine them.
    pub const KEYS: [&'static str; 22] = [
        "version",
        "summary",
        "normalisation",
        "features",
        "gram",
        "gram_step",
        "gram_share",
        "name_bytes",
        "half",
        "words",
        "least_characters",
        "segmenter",
        "user_dictionary",
        "stop_words",
        "weights",
        "idf",
        "top",
        "hash",
        "tie",
        "bits",
        "k",
        "min_features",
    ];

    /// A definition that begins as the built-in profile `like`, or as the default profile.
    ///
    /// # Errors
    /// [`DefinitionError::Name`] if the name is invalid or taken; [`DefinitionError::Like`] if there is no
    /// such profile.
    pub fn new(name: &str, like: Option<&str>) -> Result<Definition, DefinitionError> {
        let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let is_new = Profile::named(name).is_none();
        if name.is_empty() || name.len() > 64 || !name.chars().all(is_allowed) || !is_new {
            return Err(DefinitionError::Name(name.chars().take(80).collect()));
        }
        let base = match like {
            None => Profile::default_profile(),
            Some(like) => Profile::named(like)
                .ok_or_else(|| DefinitionError::Like(like.to_owned(), Profiles::default().listing()))?,
        };
        Ok(Definition {
            name: name.to_owned(),
            version: 1,
            summary: String::new(),
            recipe: base.recipe.clone(),
            contents: Vec::new(),
        })
    }

    /// Whether this value of this key is the name of a file: the key takes files, and the value is not one
    /// of the built-in choices.
    pub fn takes_file(key: &str, value: &str) -> bool {
        match key {
            "user_dictionary" => true,
            "stop_words" => !["none", "built-in", "cppjieba"].contains(&value),
            "idf" => !["built-in", "built-in-words"].contains(&value),
            _ => false,
        }
    }

    /// Sets a key. `features` and `weights` must be set before the keys that refine them: set keys in the
    /// order of [`Definition::order`].
    ///
    /// # Errors
    /// [`DefinitionError`] if the key or its value is invalid.
    pub fn set(&mut self, key: &str, value: Value) -> Result<(), DefinitionError> {
        let recipe = &mut self.recipe;
        match key {
            "version" => self.version = number("version", &value, 1, 1 << 30)?,
            "summary" => self.summary = text("summary", value, 500)?,
            "normalisation" => {
                recipe.preparation = one_of("normalisation", &value, &Preparation::NAMES)?;
            }
            "features" => {
                let was = std::mem::discriminant(&recipe.features);
                recipe.features = features(&value, &recipe.features)?;
                if was != std::mem::discriminant(&recipe.features) {
                    // The bound of the base profile is measured on another kind of features.
                    recipe.min_features = MIN_FEATURES;
                }
            }
            "gram" => set_gram(&mut recipe.features, &value)?,
            "gram_step" => {
                let step = &mut shingles_of(&mut recipe.features, "gram_step")?.step;
                // With step 1 a text has several times as many features for the same information, so the
                // lower bound of a stepped plan is too low.
                if std::mem::replace(step, number("gram_step", &value, 1, 16)?) > 1 && *step == 1 {
                    recipe.min_features = MIN_FEATURES;
                }
            }
            "gram_share" => {
                shingles_of(&mut recipe.features, "gram_share")?.share =
                    number("gram_share", &value, 0, 100)?;
            }
            "name_bytes" => {
                shingles_of(&mut recipe.features, "name_bytes")?.name =
                    number("name_bytes", &value, 0, 1 << 20)?;
            }
            "half" => {
                shingles_of(&mut recipe.features, "half")?.half = one_of("half", &value, &Half::NAMES)?;
            }
            "words" => {
                let plan = words_of(&mut recipe.features, "words")?;
                let Value::Span(least @ 1..=16, most @ 1..=16) = value else { return Err(span()) };
                if most < least {
                    return Err(span());
                }
                (plan.shortest, plan.longest) = (least as usize, most as usize);
            }
            "least_characters" => {
                let plan = words_of(&mut recipe.features, "least_characters")?;
                plan.least_characters = number("least_characters", &value, 1, 16)?;
            }
            "segmenter" => {
                let plan = words_of(&mut recipe.features, "segmenter")?;
                plan.cutter = one_of("segmenter", &value, &Cutter::NAMES)?;
            }
            "user_dictionary" => {
                let lines = self.file("user_dictionary", value, "the name of a file")?;
                self.recipe.dictionary = Some(Arc::new(Dictionary::with_words(&lines)?));
            }
            "stop_words" => self.set_stop_words(&value)?,
            "weights" => recipe.weights = weights(&value, &recipe.weights)?,
            "top" => {
                let Weights::TfIdf { top, .. } = &mut recipe.weights else {
                    return Err(misplaced("top", "weights = \"tf-idf\""));
                };
                *top = Some(number("top", &value, 0, 1 << 20)?).filter(|top| *top > 0);
            }
            "idf" => self.set_idf(value)?,
            "hash" => recipe.hash = one_of("hash", &value, &HashFunction::NAMES)?,
            "tie" => recipe.tie = one_of("tie", &value, &Tie::NAMES)?,
            "bits" => {
                let bits = number::<u32>("bits", &value, 0, 1 << 16)?;
                recipe.width = Width::from_bits(bits)
                    .ok_or_else(|| DefinitionError::Value { key: "bits", takes: "64 or 128".into() })?;
            }
            "k" => recipe.k = number("k", &value, 0, 128)?,
            "min_features" => recipe.min_features = number("min_features", &value, 1, 1 << 20)?,
            _ => return Err(DefinitionError::Key { key: key.chars().take(80).collect() }),
        }
        Ok(())
    }

    /// The position of a key in the order in which keys must be set; the last position for an unknown key.
    pub fn order(key: &str) -> usize {
        Definition::KEYS.iter().position(|other| *other == key).unwrap_or(usize::MAX)
    }

    /// The profile.
    ///
    /// # Errors
    /// [`DefinitionError`] if the settings contradict each other.
    pub fn finish(mut self) -> Result<Profile, DefinitionError> {
        let recipe = &self.recipe;
        if recipe.width.bits() > recipe.hash.bits() {
            let takes = format!("64 with this hash, which has {} bits", recipe.hash.bits());
            return Err(DefinitionError::Value { key: "bits", takes });
        }
        let most = recipe.signature.map_or(recipe.width.bits(), |shape| u32::from(shape.cells));
        if recipe.k > most {
            return Err(DefinitionError::Value { key: "k", takes: format!("0 to {most}") });
        }
        if recipe.signature.is_some() && recipe.width != Width::Bits128 {
            return Err(misplaced("bits", "profiles that vote: names of signatures have 128 bits"));
        }
        if let Weights::TfIdf { .. } = recipe.weights {
            let is_single =
                matches!(&recipe.features, Features::Words(plan) if (plan.shortest, plan.longest) == (1, 1));
            if !is_single {
                let with = "features = \"words\" and words = [1, 1]";
                return Err(misplaced("weights = \"tf-idf\"", with));
            }
        }
        self.contents.sort_unstable();
        let digest = xxh3_64(self.canonical().as_bytes());
        Ok(Profile {
            id: ProfileId::new(self.name, self.version, Some(digest)),
            summary: self.summary,
            recipe: self.recipe,
        })
    }

    fn set_stop_words(&mut self, value: &Value) -> Result<(), DefinitionError> {
        let list = match value {
            Value::Text(name) if name == "none" => StopWords::default(),
            Value::Text(name) if name == "built-in" => StopWords::built_in(),
            Value::Text(name) if name == "cppjieba" => StopWords::cppjieba(),
            Value::File(lines) => StopWords::parse(lines),
            _ => {
                let takes = "none, built-in, cppjieba or the name of a file".to_owned();
                return Err(DefinitionError::Value { key: "stop_words", takes });
            }
        };
        words_of(&mut self.recipe.features, "stop_words")?.stop_words = list;
        Ok(())
    }

    fn set_idf(&mut self, value: Value) -> Result<(), DefinitionError> {
        let choice = match &value {
            Value::Text(name) if name == "built-in" => IdfChoice::BuiltIn,
            Value::Text(name) if name == "built-in-words" => IdfChoice::BuiltInWords,
            _ => IdfChoice::Own(Idf::parse(&self.file(
                "idf",
                value,
                "built-in, built-in-words or the name of a file",
            )?)?),
        };
        let Weights::TfIdf { idf, .. } = &mut self.recipe.weights else {
            return Err(misplaced("idf", "weights = \"tf-idf\""));
        };
        *idf = choice;
        Ok(())
    }

    /// The contents of a file. Its digest is recorded.
    fn file(&mut self, key: &'static str, value: Value, takes: &str) -> Result<String, DefinitionError> {
        match value {
            Value::File(contents) => {
                self.contents.push((key, xxh3_64(contents.as_bytes())));
                Ok(contents)
            }
            _ => Err(DefinitionError::Value { key, takes: takes.to_owned() }),
        }
    }

    /// Everything that a fingerprint depends on, in a canonical form. The form must not change, because the
    /// ids of users' profiles contain its digest.
    fn canonical(&self) -> String {
        let recipe = &self.recipe;
        let features = match &recipe.features {
            // Newer parameters appear only if they differ from the original behaviour, so that older ids
            // stay valid.
            Features::Shingles(ShinglePlan { gram, step: 1, name, share: 100, half: Half::Grams }) => {
                format!("shingles {gram} {name}")
            }
            Features::Shingles(ShinglePlan { gram, step, name, share, half }) => {
                format!("shingles {gram} {name} {step} {share} {}", name_of(&Half::NAMES, half))
            }
            Features::Words(plan) => format!(
                "words {} {} {} {} {} {:016x}",
                name_of(&Cutter::NAMES, &plan.cutter),
                plan.shortest,
                plan.longest,
                plan.least_characters,
                plan.drops_numbers,
                plan.stop_words.digest()
            ),
            Features::Characters(length) => format!("characters {length}"),
            Features::Sentences(count) => format!("sentences {count}"),
        };
        let weights = match &recipe.weights {
            Weights::One => "one".to_owned(),
            Weights::Count => "count".to_owned(),
            Weights::Logarithm => "logarithm".to_owned(),
            Weights::TfIdf { idf, top } => {
                let idf = match idf {
                    IdfChoice::BuiltIn => "built-in",
                    IdfChoice::BuiltInWords => "built-in-words",
                    IdfChoice::Own(_) => "own",
                };
                format!("tf-idf {idf} {}", top.unwrap_or(0))
            }
        };
        let parts = [
            name_of(&Preparation::NAMES, &recipe.preparation).to_owned(),
            features,
            weights,
            name_of(&HashFunction::NAMES, &recipe.hash).to_owned(),
            name_of(&Tie::NAMES, &recipe.tie).to_owned(),
            recipe.width.bits().to_string(),
        ];
        let signature = recipe.signature.map_or(String::new(), |shape| {
            let SignatureShape { cells, cell_bytes, bands, rows, is_set } = shape;
            format!("\nsignature {cells} {cell_bytes} {bands} {rows} {is_set}")
        });
        let contents = self.contents.iter().map(|(key, digest)| format!("\n{key} {digest:016x}"));
        parts.join("\n") + &signature + &contents.collect::<String>()
    }
}

/// The name of a choice in definitions.
fn name_of<T: PartialEq>(names: &[(&'static str, T)], value: &T) -> &'static str {
    names.iter().find(|(_, other)| other == value).map_or("", |(name, _)| name)
}

fn one_of<T: Copy>(
    key: &'static str,
    value: &Value,
    names: &[(&'static str, T)],
) -> Result<T, DefinitionError> {
    let found = match value {
        Value::Text(name) => names.iter().find(|(other, _)| other == name),
        _ => None,
    };
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<String> = names.iter().map(|(name, _)| format!("{name:?}")).collect();
        DefinitionError::Value { key, takes: format!("one of {}", names.join(", ")) }
    })
}

fn number<T: TryFrom<i64>>(
    key: &'static str,
    value: &Value,
    least: i64,
    most: i64,
) -> Result<T, DefinitionError> {
    let found = match value {
        Value::Number(number) if (least..=most).contains(number) => T::try_from(*number).ok(),
        _ => None,
    };
    found.ok_or_else(|| DefinitionError::Value { key, takes: format!("a number from {least} to {most}") })
}

fn text(key: &'static str, value: Value, most: usize) -> Result<String, DefinitionError> {
    match value {
        Value::Text(text) if text.len() <= most => Ok(text),
        _ => Err(DefinitionError::Value { key, takes: format!("a text of at most {most} bytes") }),
    }
}

fn misplaced(key: &'static str, with: &'static str) -> DefinitionError {
    DefinitionError::Misplaced { key, with }
}

fn span() -> DefinitionError {
    let takes = "two numbers from 1 to 16, the least and the most adjacent words of a feature: [1, 2]".into();
    DefinitionError::Value { key: "words", takes }
}

/// The kind of features of this name. If the recipe already has this kind, its parameters are kept.
fn features(value: &Value, before: &Features) -> Result<Features, DefinitionError> {
    let plain = WordPlan {
        cutter: Cutter::Split,
        least_characters: 1,
        drops_numbers: false,
        stop_words: StopWords::default(),
        shortest: 1,
        longest: 1,
    };
    let names = [("shingles", 0), ("words", 1), ("characters", 2)];
    Ok(match (one_of("features", value, &names)?, before) {
        (0, Features::Shingles(plan)) => Features::Shingles(*plan),
        (0, _) => Features::Shingles(ShinglePlan::MEASURED),
        (1, Features::Words(plan)) => Features::Words(plan.clone()),
        (1, _) => Features::Words(plain),
        (_, Features::Characters(length)) => Features::Characters(*length),
        _ => Features::Characters(5),
    })
}

fn weights(value: &Value, before: &Weights) -> Result<Weights, DefinitionError> {
    let names = [("one", 0), ("count", 1), ("logarithm", 2), ("tf-idf", 3)];
    Ok(match (one_of("weights", value, &names)?, before) {
        (0, _) => Weights::One,
        (1, _) => Weights::Count,
        (2, _) => Weights::Logarithm,
        (_, before @ Weights::TfIdf { .. }) => before.clone(),
        _ => Weights::TfIdf { idf: IdfChoice::BuiltInWords, top: None },
    })
}

fn set_gram(features: &mut Features, value: &Value) -> Result<(), DefinitionError> {
    match features {
        Features::Shingles(plan) => plan.gram = number("gram", value, 1, 64)?,
        Features::Characters(length) => *length = number("gram", value, 1, 64)?,
        Features::Words(_) | Features::Sentences(_) => {
            return Err(misplaced("gram", "features = \"shingles\" or \"characters\""));
        }
    }
    Ok(())
}

fn shingles_of<'a>(
    features: &'a mut Features,
    key: &'static str,
) -> Result<&'a mut ShinglePlan, DefinitionError> {
    match features {
        Features::Shingles(plan) => Ok(plan),
        _ => Err(misplaced(key, "features = \"shingles\"")),
    }
}

fn words_of<'a>(features: &'a mut Features, key: &'static str) -> Result<&'a mut WordPlan, DefinitionError> {
    match features {
        Features::Words(plan) => Ok(plan),
        _ => Err(misplaced(key, "features = \"words\"")),
    }
}

#[cfg(test)]
mod tests;
