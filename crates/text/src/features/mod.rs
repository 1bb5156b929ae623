//! From words and characters to weighted features: shingles or keywords, stable digests, fixed-point weights.
//!
//! Guarantees: with the same plan, the digest and weight of a feature depend on the text alone. They are
//! the same on every machine and in every release. Not here: the vote that turns features into a
//! fingerprint (`fingerprint`).

mod bag;
mod characters;
mod code;
#[cfg(feature = "zh")]
mod counts;
mod digest;
mod distinct;
mod first;
#[cfg(feature = "zh")]
mod grams;
mod idf;
mod keywords;
mod lookup3;
mod origins;
mod sentences;
mod shingles;
mod short;
mod short_texts;
mod stop_words;
mod units;
mod weights;
mod words;

pub use bag::{Bag, Class};
pub use characters::{characters, letter_grams, letters};
pub use code::{CodePlan, token_grams};
pub use digest::{Digest, HashFunction, Kind, Limbs, low_bytes};
pub use keywords::{Keyword, keywords};
pub use lookalike_hash::{Frequencies, WrongFrequencies};
pub use origins::Origins;
pub use shingles::{Half, ShinglePlan, has_grams, shingles};
pub use short_texts::weighs_less;
pub use stop_words::StopWords;
pub use units::Units;
pub use weights::{ONE, fixed, logarithmic, to_number};
pub use words::{Cutter, WordPlan};

pub(crate) use distinct::distinct;
pub(crate) use sentences::sentences;

// Without the feature, the callers have refused texts with Chinese.
#[cfg(feature = "zh")]
pub use {
    counts::WordCounts,
    grams::{Letters, MAX_EXACT, MAX_SAMPLED, all_grams, exact_grams, is_sampled, sampled_grams},
    idf::{Idf, WrongIdf},
    sentences::longest_sentences,
    short_texts::short_texts,
};
#[cfg(not(feature = "zh"))]
pub(crate) use {idf::Idf, sentences::longest_sentences, short_texts::short_texts};
