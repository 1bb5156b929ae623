//! From raw text to words: main text of HTML pages, normalisation, runs of one writing system, segmenters.
//!
//! Everything here depends on its arguments alone: no I/O, no clock, no settings. The dictionaries are
//! embedded in the program and are loaded on first use. Not here: counts, weights and hashes (see
//! `features`).

#![deny(unreachable_pub)]

pub mod features;
pub mod fingerprint;
pub mod profiles;

mod all_text;
mod boilerplate;
mod bytes;
mod charset;
mod class;
mod class_names;
mod clusters;
mod cppjieba;
mod declared;
mod dictionary;
mod lexicon;
mod main_text;
mod markov;
mod measure;
mod normalise;
mod notices;
mod page;
mod prepare;
mod remembered;
mod runs;
mod simplify;
mod stop;
mod tokens;
mod tree;
mod trie;
mod visible;
mod word_diff;
mod words;

pub use charset::{CharsetOf, Decoded, WrongBytes, decode, detect, named};
pub use clusters::clusters;
pub use dictionary::{Dictionary, Edition, WrongWord};
pub use main_text::{PageRead, PageText, checked_page_text, main_text, memory_for_page, page_text};
pub use normalise::normalise;
pub use prepare::Preparation;
pub use remembered::{CutsWords, Remembered};
pub use runs::{Run, System, runs};
pub use simplify::simplified;
pub use tokens::tokens;
pub use visible::visible_text;
pub use word_diff::{Change, word_diff};
pub use words::{NewWords, is_word_character, words};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
