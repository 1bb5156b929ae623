//! Shingles: words and adjacent pairs of words where words are found by dictionary, character grams elsewhere.
//!
//! This is what finds copies: a shingle occurs in two texts because one was taken from the other, where a
//! keyword occurs in both because they are about the same thing. Every choice here was measured on labelled
//! sets of Chinese and English near-duplicates, and is part of the profiles that use it:
//!
//! - punctuation separates like a space: it is what reprints change first;
//! - a gram runs across the spaces of its run, so that it knows the order of words;
//! - a spaced run among other scripts that is not long, such as a product name in Chinese, is words and pairs:
//!   as grams one name would weigh as much as a sentence;
//! - Chinese words that are not in the dictionary are split, which is faster and loses nothing.
//!
//! Leaves out: counts and weights.

use super::characters::characters;
use super::digest::Kind;
use crate::text::{Dictionary, NewWords, Run, System, is_word_character, runs, words};

/// The numbers by which shingles are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ShinglePlan {
    /// The length of a gram in characters, 1 or more.
    pub gram: usize,
    /// The longest spaced run, in bytes, that is read as words if it stands among other scripts.
    pub name: usize,
}

impl ShinglePlan {
    /// Of the first versions of the profiles.
    pub const MEASURED: ShinglePlan = ShinglePlan { gram: 5, name: 32 };
    /// Of the second: a line of code or a name of several words in a Chinese text is words, too, not grams. On
    /// Chinese documentation precision rose from .9899 to .9913 at k=7 of 64 bits; elsewhere nothing changed much.
    pub const WIDER: ShinglePlan = ShinglePlan { gram: 5, name: 256 };
    /// For sets that are compared by Jaccard similarity: grams as long as two words, so that copies and others part at
    /// the same similarity as with words and pairs, and one threshold serves both; grams nowhere but in texts that
    /// are spaced throughout.
    pub const OF_SETS: ShinglePlan = ShinglePlan { gram: 9, name: usize::MAX };
}

/// Hands every shingle of a normalised text to `each`, as often as it occurs.
///
/// ```
/// use lookalike::features::{Kind, ShinglePlan, shingles};
/// use lookalike::text::Dictionary;
/// let mut found = Vec::new();
/// for text in ["好天气", "fish, eh"] {
///     shingles(text, ShinglePlan::MEASURED, Dictionary::built_in(), |kind, text| found.push((kind, text.to_owned())));
/// }
/// let found: Vec<_> = found.iter().map(|(kind, text)| (*kind, text.as_str())).collect();
/// assert_eq!(found, [
///     (Kind::Word, "好"), (Kind::Word, "天气"), (Kind::Pair, "好 天气"),
///     (Kind::Gram, "fish "), (Kind::Gram, "ish e"), (Kind::Gram, "sh eh"),
/// ]);
/// ```
pub fn shingles(
    normalised: &str,
    plan: ShinglePlan,
    dictionary: &Dictionary,
    mut each: impl FnMut(Kind, &str),
) {
    let mut line = String::new();
    let mut alone = true;
    let mut rest = runs(normalised).peekable();
    while let Some(run) = rest.next() {
        alone = alone && rest.peek().is_none();
        line.clear();
        if run.system == System::Spaced && (alone || run.text.len() > plan.name) {
            write_letters(run.text, &mut line);
            characters(&line, plan.gram, |gram| each(Kind::Gram, gram));
        } else {
            words_and_pairs(run, dictionary, &mut line, &mut each);
        }
        alone = false;
    }
}

/// Writes the words into one line with a space between, so that a pair is a slice of it, too.
fn words_and_pairs(
    run: Run<'_>,
    dictionary: &Dictionary,
    line: &mut String,
    each: &mut impl FnMut(Kind, &str),
) {
    let mut before = None;
    words(run, dictionary, NewWords::Split, |word| {
        if !line.is_empty() {
            line.push(' ');
        }
        let start = line.len();
        line.push_str(word);
        each(Kind::Word, &line[start..]);
        if let Some(before) = before.replace(start) {
            each(Kind::Pair, &line[before..]);
        }
    });
}

/// Writes letters, digits and marks, with one space for whatever stands between them.
fn write_letters(text: &str, line: &mut String) {
    if text.is_ascii() {
        return write_ascii_letters(text, line);
    }
    let mut is_between = true;
    for c in text.chars() {
        if is_word_character(c) {
            if std::mem::take(&mut is_between) && !line.is_empty() {
                line.push(' ');
            }
            line.push(c);
        } else {
            is_between = true;
        }
    }
}

/// The same for ASCII alone: byte by byte, without a branch, since what is a letter is a matter of chance.
fn write_ascii_letters(text: &str, line: &mut String) {
    let mut bytes = std::mem::take(line).into_bytes();
    if !bytes.is_empty() {
        bytes.push(b' ');
    }
    let start = bytes.len();
    bytes.resize(start + text.len(), 0);
    let (mut end, mut after_letter) = (start, false);
    for byte in text.bytes() {
        let is_letter = byte.is_ascii_alphanumeric();
        bytes[end] = if is_letter { byte } else { b' ' };
        // Of what stands between letters the first is a space, and the others are written over.
        end += usize::from(is_letter | after_letter);
        after_letter = is_letter;
    }
    bytes.truncate(end);
    bytes.truncate(bytes.trim_ascii_end().len());
    *line = String::from_utf8(bytes).expect("ASCII is UTF-8");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(Kind, String)> {
        let mut found = Vec::new();
        shingles(text, ShinglePlan::MEASURED, Dictionary::built_in(), |kind, text| {
            found.push((kind, text.to_owned()));
        });
        found
    }

    #[test]
    fn a_text_has_these_shingles() {
        use Kind::{Gram, Pair, Word};
        let cases: &[(&str, &[(Kind, &str)])] = &[
            ("", &[]),
            ("。,! 🙂", &[]),
            ("abcd", &[(Gram, "abcd")]),
            ("abcde", &[(Gram, "abcde")]),
            ("abcdef", &[(Gram, "abcde"), (Gram, "bcdef")]),
            ("ab -- 🙂 cde", &[(Gram, "ab cd"), (Gram, "b cde")]),
            ("день", &[(Gram, "день")]),
            ("день и", &[(Gram, "день "), (Gram, "ень и")]),
            ("हिन्दी", &[(Gram, "हिन्द"), (Gram, "िन्दी")]),
            ("用rust写", &[(Word, "用"), (Word, "rust"), (Word, "写")]),
            (
                "我来到,北京。",
                &[(Word, "我"), (Word, "来到"), (Pair, "我 来到"), (Word, "北京"), (Pair, "来到 北京")],
            ),
        ];
        for (text, expected) in cases {
            let expected: Vec<_> = expected.iter().map(|&(kind, text)| (kind, text.to_owned())).collect();
            assert_eq!(found(text), expected, "{text:?}");
        }
    }

    #[test]
    fn taiwanese_and_mainland_spelling_have_the_same_shingles() {
        assert_eq!(found("臺灣的電腦軟體"), found("台湾的电脑软件"));
    }

    #[test]
    fn a_long_spaced_run_is_grams_even_among_other_scripts() {
        let sentence = "a sentence of more than thirty-two bytes";
        let grams = |text: &str| found(text).iter().filter(|(kind, _)| *kind == Kind::Gram).count();
        assert_eq!(grams(&format!("{sentence}中")), sentence.len() - 5 + 1);
        assert_eq!(grams("a short one 中"), 0);
    }
}
