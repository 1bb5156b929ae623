//! Texts that a build without all features of the crate cannot read.

use lookalike_pages::NeedsFeature;
use lookalike_words::is_chinese;

use crate::features::sentences;
use crate::fingerprint::{Features, Recipe};
use crate::{System, runs};

/// A text that needs the feature `zh`.
pub(crate) const ZH: NeedsFeature = NeedsFeature { what: "a text with Chinese", feature: "zh" };

/// Whether this build finds the features of a text that a recipe asks for.
pub(crate) fn check(recipe: &Recipe, text: &str) -> Result<(), NeedsFeature> {
    if cfg!(feature = "zh") || text.is_ascii() {
        return Ok(());
    }
    let prepared = recipe.preparation.apply(text);
    let needs_zh = match recipe.features {
        Features::Shingles(_) | Features::Words(_) | Features::Letters(_) | Features::ShortTexts => {
            runs(&prepared).any(|run| run.system == System::Han)
        }
        Features::Sentences { .. } => sentences(&prepared).any(is_chinese),
        Features::Characters { .. } | Features::Code(_) | Features::Supplied | Features::Images => false,
    };
    if needs_zh { Err(ZH) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use crate::fingerprint::Profile;

    proptest::proptest! {
        /// Each step of a recipe reads a text or none does, and what passes reaches nothing that the build
        /// lacks.
        #[test]
        fn every_text_is_read_or_refused(text in "([a-z的中東京ひらカナ。.;!? กภ한']|\
            \\PC){0,40}") {
            for profile in Profile::all() {
                let read = [
                    profile.try_sign(&text).is_ok(),
                    profile.try_explain(&text).is_ok(),
                    profile.try_feature_set(&text).is_ok(),
                ];
                let is_known = read == [true; 3] || (read == [false; 3] && !cfg!(feature = "zh"));
                proptest::prop_assert!(is_known, "{} {:?}", profile.id(), read);
            }
        }
    }
}
