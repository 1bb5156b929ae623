//! A text in one form, and cut into its words, in every language.
//!
//! [`normalise()`] and [`folded()`] make one form of equal letters, [`runs()`] cuts where the writing system
//! changes, and [`words()`] cuts words by the dictionary or the rules of each. [`located()`] cuts a text as
//! it is, with places.
//!
//! ```
//! use lookalike_words::{System, folded, normalise, runs};
//!
//! let text = folded(normalise("Ｒｕｓｔ カメラ"));
//! let found: Vec<_> = runs(&text).map(|run| (run.system, run.text)).collect();
//! assert_eq!(found, [(System::Spaced, "rust"), (System::Japanese, "かめら")]);
//! ```
//!
//! The feature `zh`, on by default, brings Chinese. Without it the caller refuses Chinese texts
//! ([`is_chinese`], [`System::Han`]); what needs a dictionary would panic.
//!
//! Everything depends on its arguments alone. The dictionaries are embedded and are loaded on first use. Not
//! here: what is made of words, such as pairs, weights and hashes (`lookalike-text`).

#![deny(unreachable_pub)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod bytes;
mod class;
mod clusters;
mod folded;
mod located;
mod normalise;
mod prepare;
mod remembered;
mod runs;
mod words;

pub use clusters::clusters;
pub use folded::folded;
pub use located::{Located, located};
pub use normalise::normalise;
pub use prepare::Preparation;
pub use remembered::{CutsWords, Remembered};
pub use runs::{Run, System, runs};
pub use words::{Edition, NewWords, is_chinese, is_word_character, words};

#[cfg(feature = "zh")]
mod tokens;
#[cfg(feature = "zh")]
mod zh;
#[cfg(feature = "zh")]
pub use {
    tokens::tokens,
    zh::{Dictionary, WrongWord, simplified, simplify},
};
#[cfg(not(feature = "zh"))]
mod without_zh;
#[cfg(not(feature = "zh"))]
pub use without_zh::{Dictionary, simplified, simplify};

#[cfg(all(doctest, feature = "zh"))]
#[doc = include_str!("../README.md")]
struct Readme;
