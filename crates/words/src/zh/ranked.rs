//! The built-in words with their frequencies, and words ranked by frequency in a trie. `build.rs` compiles
//! this file, too.

use std::io::Read;

use flate2::read::GzDecoder;

use super::trie::{MAX_VALUE, Trie};

static PACKED: &[u8] = include_bytes!("../../assets/words.txt.gz");

/// The lines of the built-in dictionary: a word, a space and its frequency, sorted by bytes.
pub(super) fn unpacked() -> String {
    let mut text = String::new();
    GzDecoder::new(PACKED).read_to_string(&mut text).expect("the embedded dictionary is readable");
    text
}

pub(super) fn entries(text: &str) -> Vec<(&str, usize)> {
    text.lines().filter_map(entry).collect()
}

pub(super) fn entry(line: &str) -> Option<(&str, usize)> {
    let (word, count) = line.split_once(' ')?;
    Some((word, count.parse().ok()?))
}

/// Words, each with the rank of its frequency.
#[derive(Debug)]
pub(super) struct Ranked {
    /// The value of a word is the rank of its frequency, from 1.
    pub(super) trie: Trie,
    /// The different frequencies, in ascending order.
    pub(super) frequencies: Vec<usize>,
    /// The sum of the frequencies of all words.
    pub(super) total: usize,
}

impl Ranked {
    /// Ranks words, which are sorted and distinct, and none is empty. `None` if they are too many, or have
    /// too many different frequencies: see [`Trie::of`].
    pub(super) fn of(words: Vec<(&str, usize)>) -> Option<Ranked> {
        let total = words.iter().map(|&(_, frequency)| frequency).sum();
        let mut frequencies: Vec<usize> = words.iter().map(|&(_, frequency)| frequency).collect();
        frequencies.sort_unstable();
        frequencies.dedup();
        u32::try_from(frequencies.len()).ok().filter(|&count| count <= MAX_VALUE)?;
        let rank = |frequency| frequencies.partition_point(|&other| other < frequency) as u32 + 1;
        let ranks: Vec<(&str, u32)> =
            words.into_iter().map(|(word, frequency)| (word, rank(frequency))).collect();
        Some(Ranked { trie: Trie::of(&ranks)?, frequencies, total })
    }

    /// The total, the number of frequencies, each of them, and the trie.
    #[allow(dead_code, reason = "the build script uses it")]
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let numbers = [self.total, self.frequencies.len()];
        let numbers = numbers.iter().chain(&self.frequencies);
        let mut bytes: Vec<u8> = numbers.flat_map(|number| (*number as u64).to_le_bytes()).collect();
        bytes.extend(self.trie.to_bytes());
        bytes
    }

    /// What has these bytes. `None` if nothing has them.
    pub(super) fn from_bytes(bytes: &'static [u8]) -> Option<Ranked> {
        let number = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes) as usize;
        let (total, rest) = bytes.split_first_chunk()?;
        let (count, rest) = rest.split_first_chunk()?;
        let (frequencies, trie) = rest.split_at_checked(number(count) * 8)?;
        Some(Ranked {
            trie: Trie::from_bytes(trie)?,
            frequencies: frequencies.as_chunks().0.iter().map(number).collect(),
            total: number(total),
        })
    }
}
