//! Stand-ins for Chinese in a build without the feature `zh`: nothing is cut or converted.
//!
//! Guarantees: no text gets other words than with the feature. Callers refuse a text with Chinese; if one
//! came here all the same, the process would panic.

use std::borrow::Cow;

use super::words::{NewWords, is_chinese};

/// In place of the dictionary.
#[derive(Debug)]
pub struct Dictionary;

impl Dictionary {
    /// It has no words.
    pub fn built_in() -> &'static Dictionary {
        &Dictionary
    }

    /// Panics.
    pub fn cut(&self, _text: &str, _new_words: NewWords, _each: impl FnMut(&str)) {
        never()
    }

    /// Panics.
    pub fn cut_like_cppjieba(&self, _text: &str, _each: impl FnMut(&str)) {
        never()
    }
}

/// Panics: only Chinese is simplified.
pub fn simplify(_text: &str) -> Cow<'_, str> {
    never()
}

/// The sentence, if it is not Chinese. Panics otherwise.
pub fn simplified(sentence: &str) -> String {
    if is_chinese(sentence) {
        never()
    }
    sentence.to_owned()
}

fn never() -> ! {
    panic!("a text with Chinese in a build of lookalike-words without the feature `zh`")
}
