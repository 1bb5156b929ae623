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
//! the machine would make fingerprints depend on it. Not here: pairs and counts (`lookalike-text`).

use std::sync::LazyLock;

use icu_segmenter::options::WordBreakInvariantOptions;
use icu_segmenter::{WordSegmenter, WordSegmenterBorrowed};

use super::class::Class;
use super::runs::{Run, System};
use super::{Dictionary, simplify};

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

/// The words and probabilities of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edition {
    /// Those of jieba: 349,000 words.
    Jieba,
    /// Those of cppjieba 5.6: without most words of letters and characters (`U盘`), and with the words of
    /// its user dictionary (`云计算`). For [`Dictionary::cut_like_cppjieba`] only.
    Cppjieba,
}

/// Passes the words of a run to `each`, in order.
///
/// ```
/// use lookalike_words::{Dictionary, NewWords, runs, words};
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
        System::Spaced => spaced(run.text, each),
        System::Japanese | System::SouthEastAsian => by_icu(run.text, each),
    }
}

/// Whether a character of a normalised text can be part of a word: true for letters, digits and marks.
#[inline]
pub fn is_word_character(c: char) -> bool {
    Class::of(c).is_in_word()
}

/// Whether a sentence has Chinese characters and is not Japanese, so that it may have to be simplified.
pub fn is_chinese(sentence: &str) -> bool {
    let has = |class: Class| sentence.chars().any(|c| Class::of(c) == class);
    has(Class::Han) && !has(Class::Kana)
}

fn chinese(text: &str, dictionary: &Dictionary, new_words: NewWords, mut each: impl FnMut(&str)) {
    dictionary.cut(&simplify(text), new_words, |word| {
        if has_letter(word) {
            each(word);
        }
    });
}

/// The words of a spaced run. Stretches of ASCII are cut without tables, which is faster. No rule reaches
/// across a space, unless a mark follows it.
fn spaced(text: &str, mut each: impl FnMut(&str)) {
    let mut rest = text;
    while let Some(other) = rest.bytes().position(|byte| !byte.is_ascii()) {
        let (ascii, from) = rest.split_at(rest[..other.saturating_sub(1)].rfind(' ').unwrap_or(0));
        ascii_words(ascii, &mut each);
        let is_end = |pair: &[u8]| pair[0] == b' ' && pair[1].is_ascii();
        let end = from.as_bytes()[other - ascii.len()..].windows(2).position(is_end);
        let (others, after) = from.split_at(end.map_or(from.len(), |end| other - ascii.len() + end));
        by_icu(others, &mut each);
        rest = after;
    }
    ascii_words(rest, each);
}

/// The words of an ASCII text by the rules of ICU: letters, digits and `_`; a `.`, `'` or `:` between two
/// letters joins them, and a `.`, `'`, `,` or `;` two digits.
fn ascii_words(text: &str, mut each: impl FnMut(&str)) {
    let bytes = text.as_bytes();
    let is_word = |at: usize| bytes.get(at).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let joins = |at: usize| {
        let (Some(mark), Some(next)) = (bytes.get(at), bytes.get(at + 1)) else { return false };
        let before = bytes[at - 1];
        let of_letters = before.is_ascii_alphabetic() && next.is_ascii_alphabetic();
        let of_digits = before.is_ascii_digit() && next.is_ascii_digit();
        match mark {
            b'.' | b'\'' => of_letters || of_digits,
            b':' => of_letters,
            b',' | b';' => of_digits,
            _ => false,
        }
    };
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        at += 1;
        if !is_word(start) {
            continue;
        }
        while is_word(at) || joins(at) {
            at += 1;
        }
        if has_letter(&text[start..at]) {
            each(&text[start..at]);
        }
    }
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

/// Whether a piece has a letter, digit or mark, and so is not only punctuation.
#[inline]
fn has_letter(piece: &str) -> bool {
    piece.chars().any(is_word_character)
}

#[cfg(feature = "zh")]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::{normalise, runs};

    fn all(cut: impl Fn(&str, &mut dyn FnMut(&str)), text: &str) -> Vec<String> {
        let mut found = Vec::new();
        cut(text, &mut |word| found.push(word.to_owned()));
        found
    }

    #[test]
    fn ascii_is_cut_as_icu_cuts_it() {
        // One of each kind that the rules know, and some of none.
        const KINDS: [&str; 14] = ["a", "Z", "1", "_", "'", ".", ":", ",", ";", " ", "-", "\"", "\n", "@"];
        for length in 0..=5_u32 {
            for number in 0..KINDS.len().pow(length) {
                let kind = |place: u32| KINDS[number / KINDS.len().pow(place) % KINDS.len()];
                let text: String = (0..length).map(kind).collect();
                assert_eq!(
                    all(|text, each| ascii_words(text, each), &text),
                    all(|text, each| by_icu(text, each), &text),
                    "{text:?}"
                );
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn a_spaced_run_is_cut_as_icu_cuts_it(
            text in "([a-c1_'.:,; -]|[ -~]|\
                [éж\u{301}\u{200d}\u{ad}א\"״ʼ·٫ا۱한'’🇩🇪\u{1f468}\u{a0}\u{3000}]){0,40}",
        ) {
            proptest::prop_assert_eq!(
                all(|text, each| spaced(text, each), &text),
                all(|text, each| by_icu(text, each), &text)
            );
        }
    }

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
