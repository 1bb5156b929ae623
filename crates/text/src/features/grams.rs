//! Letter grams: stretches of sixteen letters, by which parts of a text are found inside another one: a
//! sample, or so many that every quotation of a length has one.
//!
//! A gram ignores punctuation, spaces, line breaks, case, and the Chinese script. Letters of scripts that
//! write a syllable or a word with one sign (Chinese, kana, Hangul) count two, so there a gram has eight
//! letters. Two texts that share a gram share a passage, because sixteen letters hardly ever agree by
//! accident.
//!
//! Not here: how much of a text is in another one (`fingerprint::Containment`).

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;

use crate::{folded, is_word_character, normalise, simplified};
use foldhash::fast::RandomState;
use lookalike_hash::Gram;

/// The size of a gram, in units: a letter of an alphabet counts one, other letters two.
const GRAM_UNITS: usize = 16;
/// One gram of this many units is sampled.
const SAMPLED: u64 = 64;
/// The most sampled grams of a text. A text of 1 MiB has about 14,000; one that was constructed to have a
/// sampled gram at every letter would otherwise have a million.
pub const MAX_SAMPLED: usize = 16_384;
/// The weight of the runs of letters that have a gram of [`exact_grams`]: 100 letters, or 25 signs.
const RUN: usize = 100;
/// The most grams of [`exact_grams`]. A text of 1 MiB has about 24,000, or in Chinese 37,000.
pub const MAX_EXACT: usize = 65_536;

/// The letters of a text and where they are.
#[derive(Debug, Default)]
pub struct Letters {
    letters: Vec<char>,
    /// For each letter, the number of its character in the text.
    at: Vec<u32>,
}

impl Letters {
    /// The letters, digits and marks of a text, in normal form and in simplified script.
    pub fn of(text: &str) -> Letters {
        let mut found =
            Letters { letters: Vec::with_capacity(text.len() / 3), at: Vec::with_capacity(text.len() / 3) };
        let mut forms: HashMap<char, Box<str>, RandomState> = HashMap::default();
        for (at, c) in (0..).zip(text.chars()) {
            if c.is_ascii() {
                if c.is_ascii_alphanumeric() {
                    found.push(c.to_ascii_lowercase(), at);
                }
                continue;
            }
            let form = forms
                .entry(c)
                .or_insert_with(|| simplified(&folded(normalise(c.encode_utf8(&mut [0; 4])))).into());
            form.chars().filter(|&c| is_word_character(c)).for_each(|c| found.push(c, at));
        }
        found
    }

    fn push(&mut self, letter: char, at: u32) {
        self.letters.push(letter);
        self.at.push(at);
    }

    /// The letters.
    pub fn as_slice(&self) -> &[char] {
        &self.letters
    }

    /// The characters of the text from letter `from` to before letter `to`, which are two different letters.
    pub fn chars(&self, from: usize, to: usize) -> Range<usize> {
        self.at[from] as usize..self.at[to - 1] as usize + 1
    }

    /// The units of the letters from `from` to before `to`.
    pub fn units(&self, from: usize, to: usize) -> usize {
        self.letters[from..to].iter().map(|c| units(*c)).sum()
    }

    /// The grams in order: the number of the first letter, and the hash. A text shorter than a gram is one.
    pub fn grams(&self) -> impl Iterator<Item = (usize, u64)> {
        self.placed_grams().map(|(letters, hash)| (letters.start, hash))
    }

    /// The grams in order: the numbers of the letters, and the hash.
    fn placed_grams(&self) -> impl Iterator<Item = (Range<usize>, u64)> {
        let (mut end, mut held, mut hash) = (0, 0, 0_u64);
        (0..self.letters.len()).map_while(move |from| {
            while held < GRAM_UNITS && end < self.letters.len() {
                held += units(self.letters[end]);
                hash = hash.wrapping_mul(BASE).wrapping_add(value(self.letters[end]));
                end += 1;
            }
            if held < GRAM_UNITS && from > 0 {
                return None;
            }
            let gram = (from..end, mixed(hash));
            held -= units(self.letters[from]);
            hash = hash.wrapping_sub(value(self.letters[from]).wrapping_mul(POWERS[end - from - 1]));
            Some(gram)
        })
    }
}

/// The base of the rolling hash of Karp and Rabin ("Efficient randomized pattern-matching algorithms", 1987),
/// modulo 2^64.
const BASE: u64 = 0x9e37_79b9_7f4a_7c15;

/// The powers of the base, one for each letter of a gram.
const POWERS: [u64; GRAM_UNITS] = {
    let mut powers = [1; GRAM_UNITS];
    let mut at = 1;
    while at < GRAM_UNITS {
        powers[at] = BASE.wrapping_mul(powers[at - 1]);
        at += 1;
    }
    powers
};

fn value(letter: char) -> u64 {
    u64::from(letter) + 1
}

/// Spreads the bits of a rolling hash, whose lower bits depend on the lower bits of the letters alone. The
/// steps are those of the 64-bit finalizer of `MurmurHash3`.
fn mixed(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

fn units(letter: char) -> usize {
    if letter >= '\u{2e80}' { 2 } else { 1 }
}

/// Whether a gram with this hash may be sampled: those that begin with a letter of one unit only if their
/// hash is divisible by 64.
pub fn is_sampled(hash: u64) -> bool {
    hash % SAMPLED < 2
}

/// The sampled grams of a text, in its order and each once: those whose hash is divisible by 64, or by 32 if
/// they begin with a letter of two units; the first [`MAX_SAMPLED`] of them. Every text of a few hundred
/// letters has some, and a text that contains this one has the same (Broder, "On the resemblance and
/// containment of documents", 1997).
pub fn sampled_grams(text: &str) -> Vec<Gram> {
    let letters = Letters::of(text);
    let is_sampled =
        |(of, hash): &(Range<usize>, u64)| hash % SAMPLED < units(letters.letters[of.start]) as u64;
    once(&letters, letters.placed_grams().filter(is_sampled)).take(MAX_SAMPLED).collect()
}

/// Grams of a text in its order and each once, so that every run of 100 letters, of 25 letters of two units,
/// or of a mixture, has one that every other text with the same run has too; the first [`MAX_EXACT`] of
/// them. None if the text is shorter than a run.
///
/// Of the grams in each run, the one with the smallest hash is selected (winnowing: Schleimer, Wilkerson and
/// Aiken, "Winnowing: local algorithms for document fingerprinting", SIGMOD 2003). A text of an alphabet has
/// one for each 43 letters, and a Chinese one for each 9.5 characters.
pub fn exact_grams(text: &str) -> Vec<Gram> {
    let letters = Letters::of(text);
    let weight = |at: usize| units(letters.letters[at]).pow(2);
    let mut grams = letters.placed_grams().peekable();
    let (mut start, mut held) = (0, 0);
    // The grams that are the smallest of their run, or will be when those before them have left it.
    let mut least: VecDeque<(Range<usize>, u64)> = VecDeque::new();
    let selected = (0..letters.letters.len()).filter_map(|last| {
        held += weight(last);
        while let Some(gram) = grams.next_if(|(of, _)| of.end <= last + 1) {
            while least.back().is_some_and(|(_, other)| *other > gram.1) {
                least.pop_back();
            }
            least.push_back(gram);
        }
        while held - weight(start) >= RUN {
            held -= weight(start);
            start += 1;
        }
        while least.front().is_some_and(|(of, _)| of.start < start) {
            least.pop_front();
        }
        least.front().filter(|_| held >= RUN).cloned()
    });
    once(&letters, selected).take(MAX_EXACT).collect()
}

/// All grams of a text that is too short to have one of [`exact_grams`]: a query that may be found by chance.
pub fn all_grams(text: &str) -> Vec<Gram> {
    let letters = Letters::of(text);
    once(&letters, letters.placed_grams()).take(RUN).collect()
}

/// Each of these grams once, with its characters.
fn once(letters: &Letters, grams: impl Iterator<Item = (Range<usize>, u64)>) -> impl Iterator<Item = Gram> {
    let mut seen: HashSet<u64, RandomState> = HashSet::default();
    grams.filter(move |(_, hash)| seen.insert(*hash)).map(|(of, hash)| {
        let chars = letters.chars(of.start, of.end);
        Gram { hash, from: chars.start as u32, to: chars.end as u32 }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hashes(text: &str) -> Vec<u64> {
        Letters::of(text).grams().map(|(_, hash)| hash).collect()
    }

    #[test]
    fn equal_letters_and_no_others_have_equal_grams() {
        let text = "Ferries 渡轮 run every 二十分钟, also on Sundays; tickets: 3 €. ".repeat(3);
        let letters = Letters::of(&text);
        let all: Vec<(Range<usize>, u64)> = letters.placed_grams().collect();
        let of = |place: &Range<usize>| &letters.as_slice()[place.clone()];
        for (a, one) in &all {
            for (b, other) in &all {
                assert_eq!(of(a) == of(b), one == other, "{:?} {:?}", of(a), of(b));
            }
        }
    }

    #[test]
    fn grams_ignore_marks_lines_case_and_script() {
        let equal = [
            ["The harbour ferry runs again.", "the HARBOUR, ferry\nruns again"],
            [
                "臺灣的電腦與網路公司在國際市場",
                "台\
                湾的电脑与网路公司，在国际市场",
            ],
            ["Ｆｕｌｌ width letters of a text", "full width letters of a text"],
        ];
        for [a, b] in equal {
            assert_eq!(hashes(a), hashes(b), "{a}");
            assert!(hashes(a).len() > 2);
        }
    }

    #[test]
    fn a_gram_has_sixteen_letters_or_eight_signs() {
        let alphabet = "abcdefghijklmnopqrstuvwxyz";
        assert_eq!(hashes(alphabet).len(), 26 - 16 + 1);
        assert_eq!(hashes("一二三四五六七八九十").len(), 3);
        assert_eq!(hashes("abc"), hashes("a b,c"));
        assert_eq!(hashes("abc").len(), 1);
        assert!(hashes("").is_empty() && hashes(" .!").is_empty());
        let letters = Letters::of("a-b c");
        assert_eq!((letters.as_slice(), letters.chars(1, 3)), (&['a', 'b', 'c'][..], 2..5));
    }

    #[test]
    fn a_text_that_contains_another_has_its_sampled_grams() {
        let sentence = |n: u64| format!("{:x} tells of {:x}. ", n * 0x9e37_79b9, n.pow(3) * 0x85eb_ca6b);
        let inner: String = (1..60).map(sentence).collect();
        let outer: String = (100..160).map(sentence).collect::<String>()
            + &inner
            + &(200..260).map(sentence).collect::<String>();
        let [own, all] = [&inner, &outer].map(|text| sampled_grams(text));
        assert!(own.len() > 10, "{}", own.len());
        let letters = |text: &str, gram: &Gram| {
            let chars = text.chars().skip(gram.from as usize).take((gram.to - gram.from) as usize);
            chars.filter(|c| c.is_alphanumeric()).collect::<String>()
        };
        for gram in &own {
            let same = all.iter().find(|other| other.hash == gram.hash).unwrap();
            assert_eq!(letters(&inner, gram), letters(&outer, same));
            assert_eq!(letters(&inner, gram).len(), GRAM_UNITS);
        }
        assert!(own.is_sorted_by_key(|gram| gram.from));
    }

    #[test]
    fn a_text_shorter_than_a_run_has_no_exact_gram() {
        let counts =
            |letter: &str, runs: usize| [runs - 1, runs].map(|n| exact_grams(&letter.repeat(n)).len());
        assert_eq!((counts("a", 100), counts("渡", 25)), ([0, 1], [0, 1]));
        assert_eq!(all_grams("the ferry leaves at noon").len(), 20 - 16 + 1);
        let text: String = (0..4_000_u64).map(|n| format!("{:x}", mixed(n))).collect();
        let letters_of_each = text.len() / exact_grams(&text).len();
        assert!((41..45).contains(&letters_of_each), "{letters_of_each}");
    }

    proptest! {
        /// The promise of exact passages, in texts of few letters, in which grams are repeated, and of many.
        #[test]
        fn every_run_that_is_quoted_has_a_gram_in_both_texts(
            (text, before, after) in prop_oneof![
                ("[a-c]{100,400}", "[a-c]{0,300}", "[a-c]{0,300}"),
                ("\\PC{100,400}", "\\PC{0,300}", "\\PC{0,300}"),
                ("[a-z 一-龥]{100,400}", "[一-龥]{0,99}", "[a-z]{0,300}"),
            ],
            place in 0.0..1.0,
        ) {
            let letters = Letters::of(&text);
            let weight = |from: usize, to: usize| -> usize {
                letters.letters[from..to].iter().map(|letter| units(*letter).pow(2)).sum()
            };
            let from = (place * letters.letters.len() as f64) as usize;
            let to = (from..=letters.letters.len()).find(|to| weight(from, *to) >= RUN);
            prop_assume!(to.is_some());
            let quoted = letters.chars(from, to.unwrap());
            let quote: String = text.chars().skip(quoted.start).take(quoted.len()).collect();
            let other = exact_grams(&format!("{before}{quote}{after}"));
            let own = exact_grams(&text);
            let inside = |gram: &&Gram| other.iter().any(|other| other.hash == gram.hash);
            prop_assert!(own.iter().any(|gram| inside(&gram)), "{quote}");
            // A quotation alone has no other gram than these.
            prop_assert!(exact_grams(&quote).iter().all(|gram| own.iter().any(|own| own.hash == gram.hash)));
        }
    }

    #[test]
    fn each_sampled_gram_is_there_once_and_their_number_is_bounded() {
        let line = "one sentence that is repeated again and again and again. ";
        assert!(sampled_grams(&line.repeat(100)).len() <= line.len());
        // Each text is one gram. Those that are sampled stand alone between other letters.
        let sampled = |n: u64| sampled_grams(&format!("{n:016}")).len() == 1;
        let text: String = (0..4_000_000).filter(|n| sampled(*n)).map(|n| format!("{n:016}")).collect();
        assert!(text.len() > 16 * MAX_SAMPLED, "{}", text.len());
        assert_eq!(sampled_grams(&text).len(), MAX_SAMPLED);
    }
}
