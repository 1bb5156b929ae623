//! Shingles: words and adjacent pairs of words in Chinese and Japanese, character grams elsewhere.
//!
//! Shingles find copies: two texts share a shingle because one was copied from the other, whereas they
//! share a keyword because they have the same topic. Every choice here is measured on labelled sets of
//! Chinese and English near-duplicates, and is part of the profiles that use it:
//!
//! - Punctuation separates like a space, because reprints often change it.
//! - A gram extends across the spaces of its run, so that it depends on the order of words.
//! - Grams that begin at every third letter of a word recall nearly as much as grams at every character: an
//!   edit changes the same share of them, and there are a third as many to count (ADR 13).
//! - Thai, Lao, Khmer and Burmese are cut into clusters of letters and not into words, because a dictionary
//!   cuts differently around a changed letter. Two adjacent clusters are a gram (ADR 30).
//! - Words of Hangul are joined, since writers space them freely, and a syllable has about three letters: a
//!   gram begins at every syllable and has a third as many (ADR 53).
//! - Chinese words that are not in the dictionary are split, which is faster and does not reduce recall.
//!
//! Not here: counts, and weights other than the choice of shingles with half the weight.

use super::characters::characters;
use super::digest::Kind;
use super::weights::ONE;
use crate::{CutsWords, NewWords, Run, System, clusters, is_word_character, runs};

/// The parameters of the cut into shingles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ShinglePlan {
    /// The length of a gram in characters, 1 or more. A gram of Thai, Lao, Khmer and Burmese has a third as
    /// many clusters, and one of Hangul a third as many syllables, rounded up.
    pub gram: usize,
    /// The distance between the first letters of grams, 1 or more. With 1, a gram begins at every character
    /// of a spaced run. With more, grams begin at the first letter of each word, at every `step`-th letter
    /// after it, and at every letter after the 24th. The last gram of a run is always included, so that no
    /// trailing letter is lost.
    pub step: usize,
    /// The weight of a gram in percent of the weight of a word, 1 to 100, in a text with next to no
    /// grams. It grows in proportion to the share of scripts cut into grams, up to 100 in a text of nothing
    /// else.
    pub gram_weight: u64,
    /// The words with half the weight.
    pub half: Half,
}

/// The words that have half the weight of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Half {
    /// Words of one character: most are particles, which occur in every text, and the pairs contain them as
    /// well.
    SingleCharacters,
    /// None: with 128 bits this recalls more, and the bits are evenly distributed all the same.
    Nothing,
}

impl Half {
    /// All choices, with their names in profile definitions.
    pub const NAMES: [(&'static str, Half); 2] =
        [("single-characters", Half::SingleCharacters), ("nothing", Half::Nothing)];

    /// Whether a word has half the weight.
    #[inline]
    pub fn takes(self, kind: Kind, text: &str) -> bool {
        self == Half::SingleCharacters && kind == Kind::Word && is_single(text)
    }
}

/// Whether a non-empty text has exactly one character.
#[inline]
fn is_single(text: &str) -> bool {
    text.len() <= 4 && text.chars().nth(1).is_none()
}

/// The number of letters of a word after which every letter begins a gram. A longer word is a text without
/// spaces; if steps were counted through it, one inserted letter would shift all grams after it.
const LONG_WORD: usize = 24;

impl ShinglePlan {
    /// The plan for fingerprints of 64 bits.
    pub const COPIES_64: ShinglePlan =
        ShinglePlan { gram: 5, step: 3, gram_weight: 75, half: Half::SingleCharacters };
    /// The plan for fingerprints of 128 bits: single characters have their full weight.
    pub const COPIES_128: ShinglePlan = ShinglePlan { half: Half::Nothing, ..ShinglePlan::COPIES_64 };
    /// The plan for sets that are compared by Jaccard similarity. With longer grams the same similarity
    /// separates copies from other texts for grams and for pairs, so one threshold serves both.
    pub const SETS: ShinglePlan = ShinglePlan { gram: 8, ..ShinglePlan::COPIES_64 };
}

/// Passes every shingle of a normalised text to `each`, once per occurrence. Returns the weight of a gram in
/// fixed point ([`ONE`] is that of a word). The shingles of a run depend on the run alone.
///
/// ```
/// use lookalike_text::features::{Kind, ShinglePlan, shingles};
/// use lookalike_text::Dictionary;
/// let mut found = Vec::new();
/// for text in ["好天气", "fish, and chips"] {
///     shingles(text, ShinglePlan::COPIES_64, Dictionary::built_in(), |kind, text| {
///         found.push((kind, text.to_owned()));
///     });
/// }
/// let found: Vec<_> = found.iter().map(|(kind, text)| (*kind, text.as_str())).collect();
/// assert_eq!(found, [
///     (Kind::Word, "好"), (Kind::Word, "天气"), (Kind::Pair, "好 天气"),
///     (Kind::Gram, "fish "), (Kind::Gram, "h and"), (Kind::Gram, "and c"), (Kind::Gram, "chips"),
/// ]);
/// ```
pub fn shingles(
    normalised: &str,
    plan: ShinglePlan,
    dictionary: &impl CutsWords,
    mut each: impl FnMut(Kind, &str),
) -> u64 {
    let mut line = String::new();
    let mut starts = Vec::new();
    let mut grams = Grams::new(plan);
    // The syllables, or the clusters of letters, of a gram.
    let syllables = plan.gram.div_ceil(3);
    let (mut of_grams, mut all) = (0, 0);
    for run in runs(normalised) {
        all += run.text.len() as u64;
        if has_grams(run.system) {
            of_grams += run.text.len() as u64;
        }
        match run.system {
            System::Spaced if has_hangul(run.text) => {
                of_hangul(run.text, syllables, &mut grams, &mut line, |gram| each(Kind::Gram, gram));
            }
            System::Spaced => grams.of(run.text, &mut line, |gram| each(Kind::Gram, gram)),
            System::SouthEastAsian => {
                of_clusters(run.text, syllables, &mut line, &mut starts, |gram| each(Kind::Gram, gram));
            }
            System::Han | System::Japanese => words_and_pairs(run, dictionary, &mut line, &mut each),
        }
    }
    let percent = plan.gram_weight * all + (100 - plan.gram_weight) * of_grams;
    percent * ONE / (100 * all.max(1))
}

/// Whether the shingles of a script are grams; otherwise they are words and pairs.
pub fn has_grams(system: System) -> bool {
    matches!(system, System::Spaced | System::SouthEastAsian)
}

fn has_hangul(text: &str) -> bool {
    !text.is_ascii() && text.chars().any(is_syllable)
}

fn is_syllable(c: char) -> bool {
    matches!(c, '\u{ac00}'..='\u{d7a3}')
}

/// Passes the grams of a run with Hangul. Adjacent words with a syllable, and numbers between them, are
/// joined and passed by `count` characters; the stretches of other words are cut as elsewhere.
fn of_hangul(text: &str, count: usize, grams: &mut Grams, line: &mut String, mut each: impl FnMut(&str)) {
    let mut words = text.split(|c| !is_word_character(c)).filter(|word| !word.is_empty()).peekable();
    let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
    while let Some(first) = words.peek() {
        let of_hangul = has_hangul(first);
        let belongs = |word: &&str| has_hangul(word) == of_hangul || (of_hangul && is_number(word));
        let mut stretch = String::new();
        while let Some(word) = words.next_if(belongs) {
            stretch.push_str(word);
            stretch.push_str(if of_hangul { "" } else { " " });
        }
        if of_hangul {
            characters(&stretch, count, &mut each);
        } else {
            grams.of(&stretch, line, &mut each);
        }
    }
}

/// Passes every `count` adjacent clusters of a run. A run of fewer is passed whole.
fn of_clusters(
    text: &str,
    count: usize,
    line: &mut String,
    starts: &mut Vec<usize>,
    mut each: impl FnMut(&str),
) {
    clusters(text, line, starts);
    let grams = (starts.len() + 1).saturating_sub(count).max(1).min(starts.len());
    for at in 0..grams {
        let end = starts.get(at + count).copied().unwrap_or(line.len());
        each(&line[starts[at]..end]);
    }
}

/// Passes the words and pairs of a run. The words are written into one line with spaces between them, so
/// that a pair is a slice of the line.
fn words_and_pairs(
    run: Run<'_>,
    dictionary: &impl CutsWords,
    line: &mut String,
    each: &mut impl FnMut(Kind, &str),
) {
    line.clear();
    let mut before = None;
    dictionary.words(run, NewWords::Split, |word| {
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

/// Finds the grams of spaced runs.
struct Grams {
    /// Their length in characters.
    length: usize,
    /// Whether a gram begins at the n-th letter of a word (from n = 1), or at the space after it (n = 0).
    begins: [bool; LONG_WORD + 2],
    /// The positions in the line at which grams begin; a run has less than 4 GiB.
    starts: Vec<u32>,
}

impl Grams {
    fn new(plan: ShinglePlan) -> Grams {
        let begins = |n: usize| plan.step == 1 || n > LONG_WORD || n % plan.step == 1;
        Grams { length: plan.gram, begins: std::array::from_fn(begins), starts: Vec::new() }
    }

    /// Writes the letters, digits and marks of a run into `line`, with one space for everything between
    /// them, and passes every gram of the line to `each`. A line shorter than a gram is passed whole.
    fn of(&mut self, text: &str, line: &mut String, mut each: impl FnMut(&str)) {
        self.write(text, line);
        let is_ascii = line.is_ascii();
        // The last position at which a whole gram begins.
        let last = line.char_indices().nth_back(self.length - 1).map_or(0, |(at, _)| at);
        let fit = self.starts.partition_point(|start| *start as usize <= last);
        self.starts.truncate(fit);
        if self.starts.last() != Some(&(last as u32)) {
            self.starts.push(last as u32);
        }
        for &start in &self.starts {
            let start = start as usize;
            let characters = line[start..].chars().take(self.length);
            let length = if is_ascii { self.length } else { characters.map(char::len_utf8).sum() };
            each(&line[start..line.len().min(start + length)]);
        }
    }

    /// ASCII is written byte by byte without a branch, because a processor cannot predict which bytes are
    /// letters and where grams begin.
    fn write(&mut self, text: &str, line: &mut String) {
        let mut bytes = std::mem::take(line).into_bytes();
        // The line is no longer than the text: a character that is not part of a word becomes a space or
        // nothing.
        bytes.resize(text.len(), 0);
        self.starts.resize(text.len(), 0);
        let (out, starts) = (&mut bytes[..], &mut self.starts[..]);
        let (mut rest, mut end, mut found, mut n) = (text, 0, 0, 0);
        loop {
            let ascii = rest.bytes().position(|byte| !byte.is_ascii()).unwrap_or(rest.len());
            for byte in rest[..ascii].bytes() {
                let letter = LETTERS[usize::from(byte)];
                let follows = n > 0;
                n = after(n, letter != b' ');
                out[end] = letter;
                starts[found] = end as u32;
                // Between words the first byte becomes a space, and the others are overwritten.
                let is_kept = (n > 0) | follows;
                found += usize::from(self.begins[n] & is_kept);
                end += usize::from(is_kept);
            }
            let mut others = rest[ascii..].chars();
            let Some(c) = others.next() else { break };
            rest = others.as_str();
            let follows = n > 0;
            n = after(n, is_word_character(c));
            if n > 0 || follows {
                if self.begins[n] {
                    starts[found] = end as u32;
                    found += 1;
                }
                end += if n > 0 { c } else { ' ' }.encode_utf8(&mut out[end..]).len();
            }
        }
        bytes.truncate(end);
        bytes.truncate(bytes.trim_ascii_end().len());
        self.starts.truncate(found);
        *line = String::from_utf8(bytes).expect("letters and spaces of a text");
    }
}

/// ASCII letters and digits unchanged, and a space for every other byte.
static LETTERS: [u8; 256] = {
    let mut letters = [b' '; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        if byte.is_ascii_alphanumeric() {
            letters[byte as usize] = byte;
        }
        byte += 1;
    }
    letters
};

/// The position in its word of a character after one with position `n`; 0 if it is not a letter.
#[inline]
fn after(n: usize, is_letter: bool) -> usize {
    (n + 1).min(LONG_WORD + 1) * usize::from(is_letter)
}

#[cfg(feature = "zh")]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dictionary;

    /// Grams at every letter.
    const AT_EVERY_LETTER: ShinglePlan =
        ShinglePlan { gram: 5, step: 1, gram_weight: 50, half: Half::Nothing };

    fn found(text: &str) -> Vec<(Kind, String)> {
        let mut found = Vec::new();
        shingles(text, AT_EVERY_LETTER, Dictionary::built_in(), |kind, text| {
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
            ("ไทย 5 ค", &[(Gram, "ไทย"), (Gram, "ย5"), (Gram, "5ค")]),
            ("ไท", &[(Gram, "ไท")]),
            ("用rust写", &[(Word, "用"), (Gram, "rust"), (Word, "写")]),
            (
                "我来到,北京。",
                &[
                    // The mark between the words does not part them.
                    (Word, "我"),
                    (Word, "来到"),
                    (Pair, "我 来到"),
                    (Word, "北京"),
                    (Pair, "来到 北京"),
                ],
            ),
        ];
        for (text, expected) in cases {
            let expected: Vec<_> = expected.iter().map(|&(kind, text)| (kind, text.to_owned())).collect();
            assert_eq!(found(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_gram_begins_at_every_third_letter_of_a_word() {
        let found = |text: &str| {
            let mut found = Vec::new();
            shingles(text, ShinglePlan::COPIES_64, Dictionary::built_in(), |kind, text| {
                assert_eq!(kind, Kind::Gram, "{text}");
                found.push(text.to_owned());
            });
            found
        };
        let cases: &[(&str, &[&str])] = &[
            ("", &[]),
            ("a", &["a"]),
            ("abcde", &["abcde"]),
            ("fish, and chips", &["fish ", "h and", "and c", "chips"]),
            ("the price is 5", &["the p", "price", "ce is", " is 5"]),
            ("день и ночь", &["день ", "ь и н", "и ноч", " ночь"]),
        ];
        for (text, expected) in cases {
            assert_eq!(&found(text), expected, "{text:?}");
            // ASCII has a separate code path.
            let accented = |text: &str| text.replace(['i', 'e'], "é");
            let expected: Vec<String> = expected.iter().map(|gram| accented(gram)).collect();
            assert_eq!(found(&accented(text)), expected, "{text:?}");
        }
        let long: String = (0..40).map(|n| char::from(b'a' + n % 23)).collect();
        let starts =
            |text: &str| found(text).iter().map(|gram| text.find(gram.as_str()).unwrap()).collect::<Vec<_>>();
        assert_eq!(starts(&long)[..10], [0, 3, 6, 9, 12, 15, 18, 21, 24, 25].map(|at| at % 23));
        assert_eq!(found(&long).len(), 8 + 40 - 24 - 4);
    }

    #[test]
    fn a_foreign_name_in_an_article_adds_only_its_own_shingles() {
        let set = |text: &str| {
            let mut found = std::collections::HashSet::new();
            shingles(text, ShinglePlan::COPIES_64, Dictionary::built_in(), |kind, text| {
                found.insert((kind, text.to_owned()));
            });
            found
        };
        let article = "the first sentence of an article, and one more";
        let with = set(&format!("中文 {article} 中文"));
        assert_eq!(with.difference(&set(article)).collect::<Vec<_>>(), [&(Kind::Word, "中文".to_owned())]);
        assert_eq!(set(article).difference(&with).count(), 0);
        // A difference directly before a foreign word changes the set.
        let [a, b] = ["14", "15"].map(|number| set(&format!("{article}, which costs {number} 元")));
        assert_ne!(a, b);
    }

    #[test]
    fn the_weight_of_grams_grows_with_the_share_of_their_scripts() {
        let weight = |text: &str| shingles(text, ShinglePlan::COPIES_64, Dictionary::built_in(), |_, _| ());
        assert_eq!(
            ["", "中文", "中ab文", "letters", "letters ไทย"].map(weight),
            [0, ONE * 3 / 4, ONE * 13 / 16, ONE, ONE]
        );
        let half = "letters of a text ".repeat(10);
        let both = format!("{half}{}", "中文文字".repeat(15));
        let more = weight(&format!("{both}中"));
        assert!(more < weight(&both) && weight(&both) - more < ONE / 200);
    }

    proptest::proptest! {
        #[test]
        fn ascii_and_other_letters_are_cut_alike(
            text in "[a-d e.,]{0,80}",
            gram in 1usize..9,
            step in 1usize..6,
        ) {
            let plan = ShinglePlan { gram, step, ..ShinglePlan::COPIES_64 };
            let found = |text: &str| {
                let mut found = Vec::new();
                shingles(text, plan, Dictionary::built_in(), |_, text| found.push(text.to_owned()));
                found
            };
            let pairs = [('a', "б"), ('b', "в"), ('c', "г"), ('d', "д"), ('e', "е")];
            let cyrillic = |text: &str| {
                pairs.iter().fold(text.to_owned(), |text, (latin, letter)| text.replace(*latin, letter))
            };
            let expected: Vec<String> = found(&text).iter().map(|gram| cyrillic(gram)).collect();
            proptest::prop_assert_eq!(found(&cyrillic(&text)), expected);
            // If a step is no longer than a gram, every letter is in a gram.
            if step <= gram {
                let letters = |text: &str| {
                    text.chars().filter(char::is_ascii_alphabetic).collect::<std::collections::HashSet<_>>()
                };
                proptest::prop_assert_eq!(letters(&found(&text).concat()), letters(&text));
            }
        }
    }

    #[test]
    fn taiwanese_and_mainland_spelling_have_the_same_shingles() {
        assert_eq!(found("臺灣的電腦軟體"), found("台湾的电脑软件"));
    }

    proptest::proptest! {
        #[test]
        fn the_shingles_of_a_text_are_those_of_its_runs(
            text in "[a-c ,]{0,12}[中文字 ]{0,6}[a-cд ]{0,12}[中国]{0,4}",
        ) {
            let whole = found(&text);
            let of_runs: Vec<_> = runs(&text).flat_map(|run| found(run.text)).collect();
            proptest::prop_assert_eq!(whole, of_runs);
        }
    }
}
