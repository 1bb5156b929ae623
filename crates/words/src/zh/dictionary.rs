//! The dictionary of Chinese words: jieba's or cppjieba's edition, alone or with a user's own words, and the
//! cut of a text by it.
//!
//! Guarantees: the same text and words give the same cut on every machine. Not here: scripts that jieba
//! does not know, and simplification. The caller handles both.

use std::collections::HashSet;
use std::sync::LazyLock;

use jieba_rs::Jieba;

use super::cppjieba;
use super::lexicon::Lexicon;
use super::ranked::{Ranked, entries, entry, unpacked};
use crate::{Edition, NewWords};

/// The built-in words, as `build.rs` ranked them.
static RANKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/ranked"));
/// The differences of cppjieba's edition: `-` before a word that it does not have, `+` before a word of its
/// user dictionary.
static CPPJIEBA: &str = include_str!("../../assets/words-cppjieba.txt");

/// All users share it, because it is read-only.
static BUILT_IN: LazyLock<Lexicon> = LazyLock::new(|| {
    let ranked = Ranked::from_bytes(RANKED).expect("the build script wrote it");
    Lexicon::of(ranked)
});

/// Loading takes a tenth of a second.
static BUILT_IN_CPPJIEBA: LazyLock<Lexicon> = LazyLock::new(|| {
    let text = unpacked();
    of_cppjieba(&text, Vec::new()).expect("the built-in dictionary is not too large")
});

/// Chinese words with their frequencies.
#[derive(Debug)]
pub struct Dictionary {
    /// An edition with a user's own words. `None` means `BUILT_IN` and `BUILT_IN_CPPJIEBA`, which are loaded
    /// with the first cut that needs them.
    own: Option<Lexicon>,
}

/// User words that are invalid or too many.
#[derive(Debug, thiserror::Error)]
pub enum WrongWord {
    /// A line without a valid word and frequency.
    #[error("line {line} of the dictionary, {text:?}, is not a word, or a word, a space and its frequency")]
    Line {
        /// The number of the line, from 1.
        line: usize,
        /// The first 40 characters of the line.
        text: String,
    },
    /// The words exceed the capacity of the lexicon.
    #[error("the dictionary has too many words, or more than 65,535 different frequencies")]
    TooMany,
}

impl Dictionary {
    /// The built-in dictionary, in the edition that a cut needs.
    pub fn built_in() -> &'static Dictionary {
        &Dictionary { own: None }
    }

    /// An edition and these words. Each line has a word, optionally a space and a frequency, and optionally a
    /// part of speech, which is ignored. A word without a frequency gets one that makes it more probable than
    /// its parts, or with cppjieba's edition the median of all words. Empty lines and lines that begin with
    /// `#` are ignored.
    ///
    /// # Errors
    /// [`WrongWord::Line`] for the first invalid line; [`WrongWord::TooMany`] beyond the capacity.
    ///
    /// # Panics
    /// Never: the built-in dictionary is readable.
    pub fn with_words(lines: &str, edition: Edition) -> Result<Dictionary, WrongWord> {
        let built_in = unpacked();
        let own = match edition {
            Edition::Cppjieba => {
                of_cppjieba(&built_in, own_words(lines, |_, frequency| frequency.unwrap_or(MEDIAN))?)
            }
            Edition::Jieba => {
                // jieba computes the frequency of a word that is given without one.
                let mut jieba =
                    Jieba::with_dict(&mut built_in.as_bytes()).expect("lines of words and frequencies");
                let mut words = entries(&built_in);
                words.extend(own_words(lines, |word, frequency| jieba.add_word(word, frequency, None))?);
                Ranked::of(sorted(words)).map(Lexicon::of)
            }
        };
        Ok(Dictionary { own: Some(own.ok_or(WrongWord::TooMany)?) })
    }

    /// The lexicon for all cuts but that of cppjieba.
    fn lexicon(&self) -> &Lexicon {
        self.own.as_ref().unwrap_or_else(|| &BUILT_IN)
    }

    /// Passes the words of a text to `each`, in order, and the text between them character by character.
    pub fn cut(&self, text: &str, new_words: NewWords, each: impl FnMut(&str)) {
        match new_words {
            NewWords::Split => self.lexicon().cut(text, each),
            NewWords::Guess => self.lexicon().cut_and_guess(text, each),
        }
    }

    /// As [`Dictionary::cut`], with the cut of cppjieba: see the module `cppjieba`.
    pub fn cut_like_cppjieba(&self, text: &str, each: impl FnMut(&str)) {
        cppjieba::cut(self.own.as_ref().unwrap_or_else(|| &BUILT_IN_CPPJIEBA), text, each);
    }
}

/// The median frequency of cppjieba's words, which it gives to words of users.
const MEDIAN: usize = 3;
/// The least frequency of cppjieba's words, which it gives to characters that are no words.
const LEAST: usize = 2;

/// cppjieba's edition with the words of a user. The words of users do not change the probabilities of others.
fn of_cppjieba(built_in: &str, own: Vec<(&str, usize)>) -> Option<Lexicon> {
    let dropped: HashSet<&str> = CPPJIEBA.lines().filter_map(|line| line.strip_prefix('-')).collect();
    let mut words = entries(built_in);
    words.retain(|(word, _)| !dropped.contains(word));
    words.extend(entries(CPPJIEBA).into_iter().filter(|(word, _)| !word.starts_with('+')));
    let total = words.iter().map(|&(_, frequency)| frequency).sum::<usize>() as f64;
    let user_words = CPPJIEBA.lines().filter_map(|line| line.strip_prefix('+')).filter_map(entry);
    words.extend(user_words.chain(own));
    let ranked = Ranked::of(sorted(words))?;
    Some(Lexicon::with_probabilities(ranked, LEAST, |frequency| libm::log(frequency as f64 / total)))
}

/// The words of a user, each with the frequency that `frequency` makes of the one in its line, if any.
fn own_words(
    lines: &str,
    mut frequency: impl FnMut(&str, Option<usize>) -> usize,
) -> Result<Vec<(&str, usize)>, WrongWord> {
    let mut words = Vec::new();
    for (line, text) in (1..).zip(lines.lines()) {
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let mut parts = text.split_whitespace();
        let word = parts.next().unwrap_or_default();
        let given = parts.next().map(str::parse).transpose();
        let given = given.map_err(|_| WrongWord::Line { line, text: text.chars().take(40).collect() })?;
        words.push((word, frequency(word, given)));
    }
    Ok(words)
}

/// The words in the order of their bytes. The last entry of a word takes effect.
fn sorted(mut words: Vec<(&str, usize)>) -> Vec<(&str, usize)> {
    words.reverse();
    words.sort_by_key(|&(word, _)| word);
    words.dedup_by_key(|&mut (word, _)| word);
    words
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
    fn user_words_are_not_split() {
        assert_eq!(cut(Dictionary::built_in(), "江大桥讲话"), ["江", "大桥", "讲话"]);
        let own = Dictionary::with_words("# people\n江大桥\n\n讲话 5000 v\n", Edition::Jieba).unwrap();
        assert_eq!(cut(&own, "江大桥讲话"), ["江大桥", "讲话"]);
    }

    /// jieba-rs with the same words: the reference for both cuts.
    fn jieba(own: &[(&str, Option<usize>)]) -> Jieba {
        let mut jieba = Jieba::with_dict(&mut unpacked().as_bytes()).unwrap();
        own.iter().for_each(|(word, frequency)| _ = jieba.add_word(word, *frequency, None));
        jieba
    }

    fn assert_cuts_alike(dictionary: &Dictionary, jieba: &Jieba, text: &str) {
        for new_words in [NewWords::Split, NewWords::Guess] {
            let mut found = Vec::new();
            dictionary.cut(text, new_words, |word| found.push(word.to_owned()));
            let expected: Vec<&str> =
                jieba.cut(text, new_words == NewWords::Guess).iter().map(|token| token.word).collect();
            assert_eq!(found, expected, "{new_words:?} {text}");
        }
    }

    #[test]
    fn cuts_match_jieba() {
        let own = [
            ("江大桥", None),
            ("讲话", Some(5000)),
            (
                "大桥\
                讲",
                None,
            ),
            ("c++", Some(7)),
            ("𠀀中", Some(0)),
        ];
        let lines: Vec<String> = own
            .iter()
            .map(|(word, count)| format!("{word} {}", count.map_or(String::new(), |count| count.to_string())))
            .collect();
        let cases = [
            (Dictionary::built_in(), jieba(&[])),
            (&Dictionary::with_words(&lines.join("\n"), Edition::Jieba).unwrap(), jieba(&own)),
        ];
        let texts = [
            "",
            "我来到北京清华大学。他来到了网易杭研大厦",
            "江大桥讲话,c++ 和 c#,3.5%的 utf-8\r\n\n当上总经理,出任ceo,走上人生巅峰",
            "𠀀𠀁𠀀中㐀龥鿿豈々〇ー한abc-1.2_3 e\u{301}",
            "在一个好的我不是了有人这中大来上国",
        ];
        // Concatenated words of the dictionary, so that words overlap in many ways.
        let unpacked = unpacked();
        let words: Vec<&str> = unpacked.lines().map(|line| line.split(' ').next().unwrap()).collect();
        let concatenated = |seed: usize| -> String {
            (0..60).map(|at| words[(seed * 7919 + at * at * 104_729 + at * 31) % words.len()]).collect()
        };
        for (dictionary, jieba) in &cases {
            texts.iter().for_each(|text| assert_cuts_alike(dictionary, jieba, text));
            (0..400).for_each(|seed| assert_cuts_alike(dictionary, jieba, &concatenated(seed)));
        }
    }

    #[test]
    fn user_words_of_cppjieba_have_its_median_frequency() {
        let own = Dictionary::with_words("习总书记 4\n江大桥", Edition::Cppjieba).unwrap();
        let mut found = Vec::new();
        own.cut_like_cppjieba("习总书记在江大桥用区块链", |word| found.push(word.to_owned()));
        assert_eq!(found, ["习总书记", "在", "江大桥", "用", "区块链"]);
    }

    #[test]
    fn an_invalid_line_is_named() {
        let error = Dictionary::with_words("江大桥\n讲话 often\n", Edition::Jieba).unwrap_err();
        assert_eq!(
            error.to_string(),
            "line 2 of the dictionary, \"讲话 often\", is not a word, or a word, a space and its frequency"
        );
    }
}
