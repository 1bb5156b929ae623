//! Profiles of users: a recipe that is checked, and an id that ends in its digest.
//!
//! Guarantees: equal recipes have equal digests. The digest is that of the canonical form of the recipe and
//! of the contents of its files, and does not depend on how a definition is written. Not here: definitions
//! (`profiles`).

use xxhash_rust::xxh3::xxh3_64;

use super::profile::{Profile, ProfileId};
use super::recipe::{Features, IdfChoice, Recipe, Top, Weights};
use super::vote::Tie;
use crate::Preparation;
use crate::features::{CodePlan, Cutter, Half, HashFunction, ShinglePlan};
use lookalike_hash::{SignatureShape, Width};

/// Settings of a recipe that exclude each other.
#[derive(Debug, thiserror::Error)]
pub enum Contradiction {
    /// The hash of a feature has fewer bits than the fingerprint.
    #[error("bits takes 64 with this hash, which has {0} bits")]
    Width(u32),
    /// No two fingerprints are that far apart.
    #[error("k takes 0 to {0}")]
    Distance(u32),
    /// Names of signatures have 128 bits.
    #[error("bits is valid only with profiles that vote: names of signatures have 128 bits")]
    Signature,
    /// Fingerprints of texts have fewer bits.
    #[error(
        "bits takes 64 or 128 with features of texts; 256 needs hashes that the client makes: like = \
         \"hashes-256\" without features"
    )]
    Supplied,
    /// No hash of images has this width.
    #[error("bits takes 64 or 256 with hashes of images: leave it out")]
    Images,
    /// A signature cannot have this shape.
    #[error(
        "bands × rows takes 1 to {}, and cells that number to {}",
        SignatureShape::MAX_CELLS,
        SignatureShape::MAX_CELLS
    )]
    Shape,
    /// TF-IDF weighs single words.
    #[error("weights = \"tf-idf\" is valid only with features = \"words\" and words = [1, 1]")]
    TfIdf,
}

impl Profile {
    /// A profile of a user. `files` are the contents of the files that the recipe was made from, each with
    /// the key that names it, in the order of the keys.
    ///
    /// # Errors
    /// [`Contradiction`] if the settings of the recipe exclude each other.
    pub(crate) fn of_user(
        name: &str,
        version: u32,
        summary: String,
        recipe: Recipe,
        files: &[(&str, Option<String>)],
    ) -> Result<Profile, Contradiction> {
        if matches!(recipe.features, Features::Images) && recipe.width == Width::Bits128 {
            return Err(Contradiction::Images);
        }
        let is_supplied = matches!(recipe.features, Features::Supplied | Features::Images);
        if recipe.width == Width::Bits256 && !is_supplied {
            return Err(Contradiction::Supplied);
        }
        if !is_supplied && recipe.width.bits() > recipe.hash.bits() {
            return Err(Contradiction::Width(recipe.hash.bits()));
        }
        if recipe.signature.is_some_and(|shape| shape.checked().is_none()) {
            return Err(Contradiction::Shape);
        }
        let most = recipe.signature.map_or(recipe.width.bits(), |shape| u32::from(shape.cells));
        if recipe.k > most {
            return Err(Contradiction::Distance(most));
        }
        if recipe.signature.is_some() && recipe.width != Width::Bits128 {
            return Err(Contradiction::Signature);
        }
        let is_of_single_words =
            matches!(&recipe.features, Features::Words(plan) if (plan.shortest, plan.longest) == (1, 1));
        if matches!(recipe.weights, Weights::TfIdf { .. }) && !is_of_single_words {
            return Err(Contradiction::TfIdf);
        }
        let digest = xxh3_64(canonical(&recipe, files).as_bytes());
        Ok(Profile { id: ProfileId::new(name, version, Some(digest)), summary, recipe })
    }
}

/// Everything that a fingerprint depends on, in a canonical form. The form must not change, because the ids
/// of users' profiles contain its digest.
fn canonical(recipe: &Recipe, files: &[(&str, Option<String>)]) -> String {
    let features = match &recipe.features {
        Features::Shingles(ShinglePlan { gram, step, gram_weight, half }) => {
            format!("shingles {gram} {step} {gram_weight} {}", name_of(&Half::NAMES, half))
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
        Features::Characters { length, takes_short } => {
            format!("characters {length}{}", if *takes_short { "" } else { " or none" })
        }
        Features::Letters(units) => format!("letters {units}"),
        Features::Code(CodePlan { tokens, keeps_marks }) => {
            format!("code {tokens}{}", if *keeps_marks { "" } else { " without marks" })
        }
        Features::Sentences { count, as_one } => {
            format!("sentences {count}{}", if *as_one { " as one" } else { "" })
        }
        Features::ShortTexts => "short texts".to_owned(),
        Features::Supplied => "supplied".to_owned(),
        Features::Images => "images".to_owned(),
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
            match top {
                Top::All => format!("tf-idf {idf} 0"),
                Top::First(count) => format!("tf-idf {idf} {count}"),
                Top::ByLength => format!("tf-idf {idf} auto"),
            }
        }
    };
    let mut parts = vec![
        name_of(&Preparation::NAMES, &recipe.preparation).to_owned(),
        features,
        weights,
        name_of(&HashFunction::NAMES, &recipe.hash).to_owned(),
        name_of(&Tie::NAMES, &recipe.tie).to_owned(),
        recipe.width.bits().to_string(),
    ];
    if let Some(SignatureShape { cells, cell_bytes, bands, rows, is_set }) = recipe.signature {
        parts.push(format!("signature {cells} {cell_bytes} {bands} {rows} {is_set}"));
    }
    let contents = files.iter().filter_map(|(key, contents)| Some((key, contents.as_ref()?)));
    parts.extend(contents.map(|(key, contents)| format!("{key} {:016x}", xxh3_64(contents.as_bytes()))));
    parts.join("\n")
}

/// The name of a choice in definitions.
fn name_of<T: PartialEq>(names: &[(&'static str, T)], value: &T) -> &'static str {
    names.iter().find(|(_, other)| other == value).map_or("", |(name, _)| name)
}
