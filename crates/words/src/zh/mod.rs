//! Chinese: its words by jieba's dictionary (`dictionary`, `lexicon`, `ranked`, `trie`), the cut of cppjieba
//! with its hidden Markov model (`cppjieba`, `markov`), and simplified characters in place of traditional
//! ones (`simplify`).
//!
//! Not here: other scripts (`words`), and tables of keywords (`lookalike-text`).

mod cppjieba;
mod dictionary;
mod lexicon;
mod markov;
mod ranked;
mod simplify;
mod trie;

pub use dictionary::{Dictionary, WrongWord};
pub use simplify::{simplified, simplify};
