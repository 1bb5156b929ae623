//! From words and characters to weighted features: shingles or keywords, stable digests, fixed-point weights.
//!
//! Guarantees: with the same plan, the digest and weight of a feature depend on the text alone. They are
//! the same on every machine and in every release. Not here: the vote that turns features into a
//! fingerprint (`fingerprint`).

mod bag;
mod characters;
mod code;
mod counts;
mod digest;
mod first;
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
pub use characters::characters;
pub use code::token_grams;
pub use counts::WordCounts;
pub use digest::{Digest, HashFunction, Kind, Limbs, low_bytes};
pub use grams::{Letters, MAX_SAMPLED, is_sampled, sampled_grams};
pub use idf::{Idf, WrongIdf};
pub use keywords::{Keyword, keywords};
pub use origins::Origins;
pub use sentences::longest_sentences;
pub use shingles::{Half, ShinglePlan, has_grams, shingles};
pub use short_texts::{short_texts, weighs_less};
pub use stop_words::StopWords;
pub use units::Units;
pub use weights::{ONE, fixed, logarithmic, to_number};
pub use words::{Cutter, WordPlan};
