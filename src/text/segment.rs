//! Words: one function in front of the segmenters of all writing systems.
//!
//! Chinese is simplified and cut by jieba's dictionary and rules (`dictionary`). Japanese and the languages
//! of South-East Asia are cut by ICU's dictionaries, all other text by ICU's rules (Unicode Standard Annex
//! 29).
//!
//! Guarantees: punctuation and symbols are dropped, words of one character are kept; each segmenter is
//! loaded on first use, once per process.
//!
//! ICU's neural segmenters are not used: they compute in floating point, and word boundaries that depend on
//! the machine would make fingerprints depend on it. Not here: pairs and counts (see `features`).

use std::sync::LazyLock;

use icu_segmenter::options::WordBreakInvariantOptions;
use icu_segmenter::{WordSegmenter, WordSegmenterBorrowed};

use super::class::Class;
use super::dictionary::Dictionary;
use super::runs::{Run, System};
use super::simplify::simplify;

static ICU: LazyLock<WordSegmenterBorrowed<'static>> =
    LazyLock::new(|| WordSegmenter::new_dictionary(WordBreakInvariantOptions::default()));

/// The treatment of Chinese words that the dictionary does not have, such as names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewWords {
    /// They are cut into shorter words and single characters: faster, and independent of the context.
    Split,
    /// jieba's hidden Markov model guesses where they begin and end.
    Guess,
}

/// Passes the words of a run to `each`, in order.
///
/// ```
/// use lookalike::text::{Dictionary, NewWords, runs, words};
/// let mut found = Vec::new();
/// let dictionary = Dictionary::built_in();
/// for run in runs("我来到北京, ok") {
///     words(run, dictionary, NewWords::Split, |word| found.push(word.to_owned()));
/// }
/// assert_eq!(found, ["我", "来到", "北京", "ok"]);
/// ```
pub fn words(run: Run<'_>, dictionary: &Dictionary, new_words: NewWords, each: impl FnMut(&str)) {
    match run.system {
        System::Han => chinese(run.text, dictionary, new_words, each),
        System::Japanese | System::SouthEastAsian | System::Spaced => by_icu(run.text, each),
    }
}

/// Whether a character of a normalised text can be part of a word: true for letters, digits and marks.
#[inline]
pub fn is_word_character(c: char) -> bool {
    Class::of(c).is_in_word()
}

fn chinese(text: &str, dictionary: &Dictionary, new_words: NewWords, mut each: impl FnMut(&str)) {
    dictionary.cut(&simplify(text), new_words, |word| {
        if has_letter(word) {
            each(word);
        }
    });
}

fn by_icu(text: &str, mut each: impl FnMut(&str)) {
    let mut start = 0;
    for end in ICU.segment_str(text) {
        let word = &text[start..end];
        if has_letter(word) {
            each(word);
        }
        start = end;
    }
}

/// Whether a segment has a letter, digit or mark, and so is not only punctuation.
#[inline]
fn has_letter(segment: &str) -> bool {
    segment.chars().any(is_word_character)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{normalise, runs};

    fn cut(text: &str, new_words: NewWords) -> Vec<String> {
        let mut found = Vec::new();
        let dictionary = Dictionary::built_in();
        runs(&normalise(text))
            .for_each(|run| words(run, dictionary, new_words, |word| found.push(word.to_owned())));
        found
    }

    #[test]
    fn each_writing_system_has_its_segmenter() {
        let cases: &[(&str, &[&str])] = &[
            ("臺灣的電腦軟體", &["台湾", "的", "电脑软件"]),
            ("我来到北京清华大学。", &["我", "来到", "北京", "清华大学"]),
            ("café 的", &["café", "的"]),
            ("東京タワーへ行く", &["東京", "タワー", "へ", "行く"]),
            ("ภาษาไทย", &["ภาษา", "ไทย"]),
            ("Привет, мир!", &["привет", "мир"]),
            ("2023年10月", &["2023", "年", "10", "月"]),
            ("!?🙂", &[]),
        ];
        for (text, expected) in cases {
            assert_eq!(&cut(text, NewWords::Split), expected, "{text}");
        }
    }

    #[test]
    fn new_words_are_guessed_only_if_the_caller_chooses_it() {
        assert_eq!(
            cut("他来到了网易杭研大厦", NewWords::Guess),
            ["他", "来到", "了", "网易", "杭研", "大厦"]
        );
        assert_eq!(
            cut("他来到了网易杭研大厦", NewWords::Split),
            ["他", "来到", "了", "网易", "杭", "研", "大厦"]
        );
    }
}
