//! The dictionary of Chinese words: jieba's, alone or with words of a user's own, and how to cut by it.
//!
//! Promises: the same text and words give the same cut on every machine. Leaves out: the scripts that jieba does
//! not know, and simplification, which are for who calls.

use std::sync::LazyLock;

use jieba_rs::Jieba;

use super::cppjieba;
use super::segment::NewWords;

/// About 32 MiB and a tenth of a second to load; shared, since it is read only.
static JIEBA: LazyLock<Jieba> = LazyLock::new(Jieba::new);

/// Chinese words with their frequencies.
#[derive(Debug)]
pub struct Dictionary {
    /// jieba's dictionary with words of a user's own; without any it is `JIEBA`, which is loaded when a first Chinese
    /// word is to be cut.
    own: Option<Jieba>,
}

/// A line of a user's dictionary that is none.
#[derive(Debug, thiserror::Error)]
#[error("line {line} of the dictionary, {text:?}, is not a word, or a word, a space and its frequency")]
pub struct WrongWord {
    line: usize,
    text: String,
}

impl Dictionary {
    /// jieba's dictionary of 349,000 words.
    pub fn built_in() -> &'static Dictionary {
        &Dictionary { own: None }
    }

    /// jieba's dictionary and these words: one a line, with a space and a frequency if it has one, and a part of
    /// speech, which is passed over. Without a frequency a word gets one that makes it win over its parts.
    /// Empty lines and those that begin with `#` are passed over.
    ///
    /// # Errors
    /// [`WrongWord`] names the first line that is something else.
    pub fn with_words(lines: &str) -> Result<Dictionary, WrongWord> {
        let mut jieba = Jieba::new();
        for (line, text) in (1..).zip(lines.lines()) {
            let text = text.trim();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            let mut parts = text.split_whitespace();
            let word = parts.next().unwrap_or_default();
            let frequency = parts.next().map(str::parse).transpose();
            let frequency =
                frequency.map_err(|_| WrongWord { line, text: text.chars().take(40).collect() })?;
            jieba.add_word(word, frequency, None);
        }
        Ok(Dictionary { own: Some(jieba) })
    }

    fn jieba(&self) -> &Jieba {
        self.own.as_ref().unwrap_or_else(|| &JIEBA)
    }

    /// Hands the words of a text to `each`, in order, and what stands between them character by character.
    pub fn cut(&self, text: &str, new_words: NewWords, mut each: impl FnMut(&str)) {
        for token in self.jieba().cut(text, new_words == NewWords::Guess) {
            each(token.word);
        }
    }

    /// The same as cppjieba cuts: see `cppjieba`.
    pub fn cut_like_cppjieba(&self, text: &str, each: impl FnMut(&str)) {
        cppjieba::cut(self.jieba(), text, each);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(dictionary: &Dictionary, text: &str) -> Vec<String> {
        let mut found = Vec::new();
        dictionary.cut(text, NewWords::Split, |word| found.push(word.to_owned()));
        found
    }

    #[test]
    fn words_of_a_user_are_found_whole() {
        assert_eq!(cut(Dictionary::built_in(), "江大桥讲话"), ["江", "大桥", "讲话"]);
        let own = Dictionary::with_words("# people\n江大桥\n\n讲话 5000 v\n").unwrap();
        assert_eq!(cut(&own, "江大桥讲话"), ["江大桥", "讲话"]);
    }

    #[test]
    fn a_line_that_is_no_word_is_named() {
        let error = Dictionary::with_words("江大桥\n讲话 often\n").unwrap_err();
        assert_eq!(
            error.to_string(),
            "line 2 of the dictionary, \"讲话 often\", is not a word, or a word, a space and its frequency"
        );
    }
}
