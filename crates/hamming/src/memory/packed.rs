//! Lines of packed entries: as many hashes as fit into a cache line, without the bits that their position
//! implies.
//!
//! A line begins with the entries, cut into words of 16 bits: the first words of all entries, then the second
//! words, and so on, so that one instruction adds the words of all entries. The line ends with the head, a
//! number that states which entries are valid. A writer publishes an entry by writing the entry and then the
//! head. A reader that has read the head may read every entry that it reports.
//!
//! *Absent*: the contents of a head (`shard`).

use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

use super::{Compare, loaded, step};

/// The bits of a word.
const WORD: u32 = 16;

/// A line of equal entries.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(crate) struct LinePattern(pub(super) [u16; 32]);

/// A cache line of ten entries of 48 bits and a head.
#[repr(C, align(64))]
#[derive(Default)]
pub(crate) struct Packed48 {
    words: [AtomicU16; Packed48::ENTRIES * Packed48::WORDS],
    head: AtomicU32,
}

impl Packed48 {
    /// The number of entries.
    pub(crate) const ENTRIES: usize = 10;
    /// The words of an entry.
    const WORDS: usize = 3;

    /// Reads the head (acquire): what its writer wrote before it is visible.
    #[inline(always)]
    pub(crate) fn head(&self) -> u32 {
        step();
        self.head.load(Ordering::Acquire)
    }

    /// Writes the head (release): a reader of the head sees everything that was written before.
    #[inline(always)]
    pub(crate) fn set_head(&self, head: u32) {
        step();
        self.head.store(head, Ordering::Release);
    }

    /// Reads an entry that was reported by a head that was read before.
    #[inline(always)]
    pub(crate) fn read(&self, at: usize) -> u64 {
        step();
        let word = |word: usize| self.words[word * Packed48::ENTRIES + at].load(Ordering::Relaxed);
        (0..Packed48::WORDS).fold(0, |entry, at| entry << WORD | u64::from(word(at)))
    }

    /// Writes an entry that no head has reported.
    #[inline(always)]
    pub(crate) fn write(&self, at: usize, entry: u64) {
        step();
        for word in 0..Packed48::WORDS {
            self.words[word * Packed48::ENTRIES + at].store(word_of(entry, word), Ordering::Relaxed);
        }
    }

    /// The pattern with which lines are compared to find entries near this one.
    #[inline(always)]
    pub(crate) fn pattern(entry: u64) -> LinePattern {
        let mut words = [0; 32];
        for word in 0..Packed48::WORDS {
            words[word * Packed48::ENTRIES..][..Packed48::ENTRIES].fill(word_of(entry, word));
        }
        LinePattern(words)
    }

    /// Bit i is set if entry i is within `k` bits of the pattern. Bits of entries that no head has reported
    /// have no meaning.
    #[inline(always)]
    pub(crate) fn near<C: Compare>(&self, compare: C, pattern: &LinePattern, k: u32) -> u32 {
        compare.near48(self, pattern, k)
    }

    /// Bit i is set if entry i begins with these 16 bits. Bits of entries that no head has reported have no
    /// meaning.
    #[inline(always)]
    pub(crate) fn beginning<C: Compare>(&self, compare: C, word: u16) -> u32 {
        // The first words of all entries are first in the line.
        compare.words(self, word) & ((1 << Packed48::ENTRIES) - 1)
    }

    /// Compares cell by cell.
    #[inline(always)]
    pub(super) fn near_by_words(&self, pattern: &LinePattern, k: u32) -> u32 {
        let mut ones = [0; Packed48::ENTRIES];
        for word in 0..Packed48::WORDS {
            for (at, ones) in ones.iter_mut().enumerate() {
                let cell = word * Packed48::ENTRIES + at;
                let stored = self.words[cell].load(Ordering::Relaxed);
                *ones += (stored ^ pattern.0[cell]).count_ones();
            }
        }
        loaded(ones).iter().enumerate().fold(0, |near, (at, ones)| near | u32::from(*ones <= k) << at)
    }

    /// Bit i is set if word i equals `word`, cell by cell.
    #[inline(always)]
    pub(super) fn equal(&self, word: u16) -> u32 {
        let equal = |cell: &AtomicU16| loaded(cell.load(Ordering::Relaxed)) == word;
        self.words.iter().enumerate().fold(0, |all, (at, cell)| all | u32::from(equal(cell)) << at)
    }
}

/// Word `at` of an entry, the most significant first.
#[inline(always)]
fn word_of(entry: u64, at: usize) -> u16 {
    (entry >> ((Packed48::WORDS - 1 - at) as u32 * WORD)) as u16
}
