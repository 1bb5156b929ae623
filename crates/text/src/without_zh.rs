//! Stand-ins for Chinese in a build without the feature `zh`: nothing is cut or converted.
//!
//! Guarantees: no text gets another fingerprint than with the feature. Profiles refuse a text with Chinese
//! (`needs`); if one came here all the same, the process would panic before it made a hash.

use std::borrow::Cow;

use super::needs::{ZH, is_chinese};
use super::words::NewWords;

/// In place of the dictionary.
#[derive(Debug)]
pub struct Dictionary;

impl Dictionary {
    pub(crate) fn built_in() -> &'static Dictionary {
        &Dictionary
    }

    pub(crate) fn cut(&self, _text: &str, _new_words: NewWords, _each: impl FnMut(&str)) {
        never()
    }

    pub(crate) fn cut_like_cppjieba(&self, _text: &str, _each: impl FnMut(&str)) {
        never()
    }
}

pub(crate) fn simplify(_text: &str) -> Cow<'_, str> {
    never()
}

pub(crate) fn simplified(sentence: &str) -> String {
    if is_chinese(sentence) {
        never()
    }
    sentence.to_owned()
}

fn never() -> ! {
    panic!("a text with Chinese passed the check: {}", ZH)
}
