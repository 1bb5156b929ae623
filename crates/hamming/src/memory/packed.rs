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

use super::{Cells, Compare, loaded, step};
use lookalike_hash::U256;

/// The bits of a word.
const WORD: u32 = 16;

/// A cache line of entries and a head. It cannot be used outside this crate.
pub trait Packed: Cells + Default + Send + Sync + 'static {
    /// The number whose last bits are an entry.
    type Whole: Copy;

    /// The number of entries.
    const ENTRIES: usize;
    /// The number of bits of an entry.
    const BITS: u32;
    /// The minimum number of lines of a bucket: of fewer entries it would overflow too often.
    const LEAST_LINES: u32;

    /// Reads the head (acquire): what its writer wrote before it is visible.
    fn head(&self) -> u32;

    /// Writes the head (release): a reader of the head sees everything that was written before.
    fn set_head(&self, head: u32);

    /// Reads an entry that was reported by a head that was read before.
    fn read(&self, at: usize) -> Self::Whole;

    /// Writes an entry that no head has reported.
    fn write(&self, at: usize, whole: Self::Whole);

    /// The pattern with which lines are compared to find entries near this one.
    fn pattern(whole: Self::Whole) -> Pattern;

    /// Bit i is set if entry i is within `k` bits of the pattern. Bits of entries that no head has reported
    /// have no meaning.
    fn near<C: Compare>(&self, compare: C, pattern: &Pattern, k: u32) -> u32;

    /// Bit i is set if entry i begins with these 16 bits. Bits of entries that no head has reported have no
    /// meaning.
    fn beginning<C: Compare>(&self, compare: C, word: u16) -> u32;
}

/// A line of words of 16 bits.
pub trait Words: Cells {
    /// Bit i is set if word i equals `word`. Bits of words outside the entries have no meaning.
    fn equal(&self, word: u16) -> u32;
}

/// A line of equal entries.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub struct Pattern(pub(super) [u16; 32]);

impl Pattern {
    /// The pattern of entries that are 0.
    pub const EMPTY: Pattern = Pattern([0; 32]);
}

macro_rules! packed {
    (
        $(#[$about:meta])* $line:ident, $whole:ty, $low:expr, $entries:expr, $words:expr, $least_lines:expr,
        $near:ident
    ) => {
        $(#[$about])*
        #[repr(C, align(64))]
        #[derive(Default)]
        pub struct $line {
            words: [AtomicU16; $entries * $words],
            head: AtomicU32,
        }

        impl Packed for $line {
            type Whole = $whole;
            const ENTRIES: usize = $entries;
            const BITS: u32 = $words * WORD;
            const LEAST_LINES: u32 = $least_lines;

            #[inline(always)]
            fn head(&self) -> u32 {
                step();
                self.head.load(Ordering::Acquire)
            }

            #[inline(always)]
            fn set_head(&self, head: u32) {
                step();
                self.head.store(head, Ordering::Release);
            }

            #[inline(always)]
            fn read(&self, at: usize) -> $whole {
                step();
                let word = |word: usize| self.words[word * $entries + at].load(Ordering::Relaxed);
                (0..$words).fold(<$whole>::default(), |whole, at| whole << WORD | <$whole>::from(word(at)))
            }

            #[inline(always)]
            fn write(&self, at: usize, whole: $whole) {
                step();
                for word in 0..$words {
                    let value = $low(whole >> (($words - 1 - word) as u32 * WORD));
                    self.words[word * $entries + at].store(value, Ordering::Relaxed);
                }
            }

            #[inline(always)]
            fn pattern(whole: $whole) -> Pattern {
                let mut words = [0; 32];
                for word in 0..$words {
                    let value = $low(whole >> (($words - 1 - word) as u32 * WORD));
                    words[word * $entries..][..$entries].fill(value);
                }
                Pattern(words)
            }

            #[inline(always)]
            fn near<C: Compare>(&self, compare: C, pattern: &Pattern, k: u32) -> u32 {
                compare.$near(self, pattern, k)
            }

            #[inline(always)]
            fn beginning<C: Compare>(&self, compare: C, word: u16) -> u32 {
                // The first words of all entries are first in the line.
                compare.words(self, word) & ((1 << $entries) - 1)
            }
        }

        impl Words for $line {
            #[inline(always)]
            fn equal(&self, word: u16) -> u32 {
                let equal = |cell: &AtomicU16| loaded(cell.load(Ordering::Relaxed)) == word;
                self.words.iter().enumerate().fold(0, |all, (at, cell)| all | u32::from(equal(cell)) << at)
            }
        }

        impl $line {
            /// Compares cell by cell.
            #[inline(always)]
            pub(super) fn near_by_words(&self, pattern: &Pattern, k: u32) -> u32 {
                let mut ones = [0; $entries];
                for word in 0..$words {
                    for (at, ones) in ones.iter_mut().enumerate() {
                        let cell = word * $entries + at;
                        let stored = self.words[cell].load(Ordering::Relaxed);
                        *ones += (stored ^ pattern.0[cell]).count_ones();
                    }
                }
                loaded(ones).iter().enumerate().fold(0, |near, (at, ones)| near | u32::from(*ones <= k) << at)
            }
        }
    };
}

packed!(
    /// A line of ten entries of 48 bits.
    Packed48, u64, |whole| whole as u16, 10, 3, 1, near48
);
packed!(
    /// A line of four entries of 112 bits.
    Packed112, u128, |whole| whole as u16, 4, 7, 1, near112
);
packed!(
    /// A line of two entries of 240 bits.
    Packed240, U256, |whole: U256| whole.low() as u16, 2, 15, 4, near240
);
