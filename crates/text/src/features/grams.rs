//! Letter grams: stretches of sixteen letters, by which parts of a text are found inside another one.
//!
//! A gram ignores punctuation, spaces, line breaks, case, and the Chinese script. Letters of scripts that
//! write a syllable or a word with one sign (Chinese, kana, Hangul) count two, so there a gram has eight
//! letters. Two texts that share a gram share a passage, because sixteen letters hardly ever agree by
//! accident.
//!
//! Not here: how much of a text is in another one (`fingerprint::Containment`).

use std::collections::{HashMap, HashSet};
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

    /// The number of the letter after the gram that begins at letter `from`.
    fn end_of_gram(&self, from: usize) -> usize {
        let mut held = 0;
        let is_before_end = |letter: &&char| {
            let is_before_end = held < GRAM_UNITS;
            held += units(**letter);
            is_before_end
        };
        from + self.letters[from..].iter().take_while(is_before_end).count()
    }

    /// The grams in order: the number of the first letter, and the hash. A text shorter than a gram is one.
    pub fn grams(&self) -> impl Iterator<Item = (usize, u64)> {
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
            let gram = mixed(hash);
            held -= units(self.letters[from]);
            hash = hash.wrapping_sub(value(self.letters[from]).wrapping_mul(POWERS[end - from - 1]));
            Some((from, gram))
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
    let is_sampled = |&(from, hash): &(usize, u64)| hash % SAMPLED < units(letters.letters[from]) as u64;
    let mut seen: HashSet<u64, RandomState> = HashSet::default();
    let sampled = letters.grams().filter(is_sampled).filter(|(_, hash)| seen.insert(*hash));
    let placed = |(from, hash)| {
        let chars = letters.chars(from, letters.end_of_gram(from));
        Gram { hash, from: chars.start as u32, to: chars.end as u32 }
    };
    sampled.take(MAX_SAMPLED).map(placed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashes(text: &str) -> Vec<u64> {
        Letters::of(text).grams().map(|(_, hash)| hash).collect()
    }

    #[test]
    fn equal_letters_and_no_others_have_equal_grams() {
        let text = "Ferries 渡轮 run every 二十分钟, also on Sundays; tickets: 3 €. ".repeat(3);
        let letters = Letters::of(&text);
        let all: Vec<(usize, u64)> = letters.grams().collect();
        let of = |from: usize| &letters.as_slice()[from..letters.end_of_gram(from)];
        for (a, one) in &all {
            for (b, other) in &all {
                assert_eq!(of(*a) == of(*b), one == other, "{:?} {:?}", of(*a), of(*b));
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
