//! Features of short texts, such that one changed word moves about the same share of them in every script.
//!
//! - In scripts with spaces: words, and pairs of adjacent words. A word is in three features.
//! - In Hangul, where a word carries its particles: words, and pairs of adjacent syllables, also across
//!   spaces.
//! - In Chinese and Japanese: one, two and three adjacent characters, no single kana. A segmenter would cut a
//!   word that has one other character into several new ones.
//! - In Thai, Lao, Khmer and Burmese: three and four adjacent characters.
//!
//! Features that texts share by accident more often, or that contain others, weigh less ([`weighs_less`]).
//! ADR 27 has what was measured. Not here: counts and weights.

use std::ops::RangeInclusive;

use super::characters::characters;
use super::digest::Kind;
use crate::{Run, System, is_word_character, runs, simplified};

/// Passes every feature of a normalised text to `each`, once per occurrence.
///
/// ```
/// use lookalike_text::features::short_texts;
/// let found = |text: &str| {
///     let mut found = Vec::new();
///     short_texts(text, |_, feature| found.push(feature.to_owned()));
///     found
/// };
/// assert_eq!(found("it's late"), ["it", "s", "it s", "late", "s late"]);
/// assert_eq!(found("좋은 날"), ["좋은", "좋은", "날", "은날"]);
/// assert_eq!(found("今天好"), ["今", "天", "好", "今天", "天好", "今天好"]);
/// ```
pub fn short_texts(normalised: &str, mut each: impl FnMut(Kind, &str)) {
    let mut lines = Lines::default();
    for run in runs(normalised) {
        match run.system {
            System::Spaced => lines.spaced(run, &mut each),
            System::Han => lines.dense(&simplified(run.text), 1..=3, &mut each),
            System::Japanese => lines.dense(run.text, 1..=3, &mut each),
            System::SouthEastAsian => lines.dense(run.text, 3..=4, &mut each),
        }
    }
}

/// Whether a feature has three quarters of the weight of others: words of at most three letters, most of
/// which are particles; pairs of words or syllables, which contain the words or are part of them; and in
/// scripts without spaces all grams but those of two characters, or of three in Thai and its like.
#[inline]
pub fn weighs_less(kind: Kind, text: &str) -> bool {
    match kind {
        Kind::Word => text.len() <= 12 && text.chars().nth(3).is_none() && !text.chars().any(is_sign),
        Kind::Gram => match text.chars().count() {
            2 => text.chars().any(is_syllable),
            3 => text.chars().any(is_sign),
            _ => true,
        },
        _ => true,
    }
}

/// Whether a character is a syllable, an ideograph or a kana.
fn is_sign(c: char) -> bool {
    c >= '\u{2e80}'
}

fn is_syllable(c: char) -> bool {
    matches!(c, '\u{ac00}'..='\u{d7a3}')
}

/// The words of a run: with spaces between them, so that a pair is a slice, and without, so that a gram is.
#[derive(Default)]
struct Lines {
    spaced: String,
    joined: String,
}

impl Lines {
    fn spaced(&mut self, run: Run<'_>, each: &mut impl FnMut(Kind, &str)) {
        self.spaced.clear();
        self.joined.clear();
        let (mut before, mut last) = (None, 0);
        for word in run.text.split(|c| !is_word_character(c)).filter(|word| !word.is_empty()) {
            if before.is_some() {
                self.spaced.push(' ');
            }
            let (start, joined) = (self.spaced.len(), self.joined.len());
            self.spaced.push_str(word);
            self.joined.push_str(word);
            each(Kind::Word, word);
            if is_hangul(word) {
                let mut from = last;
                for (at, c) in self.joined[joined..].char_indices() {
                    let at = joined + at;
                    if at > 0 {
                        each(Kind::Gram, &self.joined[from..at + c.len_utf8()]);
                    }
                    from = at;
                }
            } else if let Some(before) = before {
                each(Kind::Pair, &self.spaced[before..]);
            }
            before = Some(start);
            last = self.joined.len() - word.chars().next_back().map_or(0, char::len_utf8);
        }
    }

    /// The grams of these lengths, without single kana. A run that is shorter than all of them, or that is
    /// one kana, is one gram.
    fn dense(&mut self, text: &str, lengths: RangeInclusive<usize>, each: &mut impl FnMut(Kind, &str)) {
        self.joined.clear();
        self.joined.extend(text.chars().filter(|&c| is_word_character(c)));
        let is_single = self.joined.chars().nth(1).is_none();
        let least = *lengths.start();
        for length in lengths {
            if length > least && self.joined.chars().nth(length - 1).is_none() {
                break;
            }
            characters(&self.joined, length, |gram| {
                if length > 1 || is_single || !gram.starts_with(is_kana) {
                    each(Kind::Gram, gram);
                }
            });
        }
    }
}

fn is_kana(c: char) -> bool {
    matches!(c, '\u{3041}'..='\u{30ff}')
}

/// Whether most characters of a word are Hangul syllables.
fn is_hangul(word: &str) -> bool {
    let syllables = word.chars().filter(|&c| is_syllable(c)).count();
    syllables * 2 > word.chars().count()
}

#[cfg(feature = "zh")]
#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(Kind, String, bool)> {
        let mut found = Vec::new();
        short_texts(text, |kind, text| found.push((kind, text.to_owned(), weighs_less(kind, text))));
        found
    }

    #[test]
    fn a_text_has_these_features() {
        use Kind::{Gram, Pair, Word};
        type Expected<'a> = &'a [(Kind, &'static str, bool)];
        let gram = |text, less| (Gram, text, less);
        let thai = [gram("ภาษ", false), gram("าษา", false), gram("ภาษา", true)];
        let cases: &[(&str, Expected)] = &[
            ("", &[]),
            ("。!", &[]),
            ("the late", &[(Word, "the", true), (Word, "late", false), (Pair, "the late", true)]),
            ("好", &[(Gram, "好", true)]),
            ("臺灣", &[(Gram, "台", true), (Gram, "湾", true), (Gram, "台湾", false)]),
            ("ひと", &[(Gram, "ひと", false)]),
            ("3개", &[(Word, "3개", false)]),
            ("나는", &[(Word, "나는", false), (Gram, "나는", true)]),
            ("kakao 톡", &[(Word, "kakao", false), (Word, "톡", false), (Gram, "o톡", true)]),
            ("用rust写", &[(Gram, "用", true), (Word, "rust", false), (Gram, "写", true)]),
            ("ภาษา", &thai),
        ];
        for (text, expected) in cases {
            let expected: Vec<_> =
                expected.iter().map(|&(k, text, less)| (k, text.to_owned(), less)).collect();
            assert_eq!(found(text), expected, "{text:?}");
        }
    }

    #[test]
    fn spaces_between_hangul_words_do_not_matter_much() {
        let set = |text: &str| found(text).into_iter().collect::<std::collections::HashSet<_>>();
        let grams = |text: &str| {
            let mut all = set(text);
            all.retain(|feature| feature.0 == Kind::Gram);
            all
        };
        assert_eq!(grams("정말 재미 있는 영화"), grams("정말재미있는 영화"));
    }
}
