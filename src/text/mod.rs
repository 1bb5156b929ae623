//! From text as it comes to words: HTML to main text, normalisation, runs of one writing system, segmenters.
//!
//! Everything here is a function of its argument alone: no I/O, no clock, no settings. The dictionaries are
//! part of the program and loaded when first needed. Leaves out: counts, weights and hashes, which are features.

mod bytes;
mod charset;
mod class;
mod cppjieba;
mod dictionary;
mod lexicon;
mod main_text;
mod normalise;
mod page;
mod prepare;
mod runs;
mod segment;
mod simplify;
mod tokens;
mod tree;
mod trie;
mod visible;

pub use charset::{WrongBytes, decode};
pub use dictionary::{Dictionary, WrongWord};
pub use main_text::{main_text, memory_for_page};
pub use normalise::normalise;
pub use prepare::Preparation;
pub use runs::{Run, System, runs};
pub use segment::{NewWords, is_word_character, words};
pub use simplify::simplified;
pub use tokens::tokens;
pub use visible::visible_text;
