//! Lines of packed entries: as many hashes as a cache line can hold, less the bits that its place implies.
//!
//! A line begins with the entries, cut into words of 16 bits: the first words of all entries, then the second
//! ones, and so on, so that words of one kind are added up at once. At its end stands the head, one number
//! that says what the entries mean. Who wants others to see an entry writes the entry, then the head; who
//! reads the head first may read every entry that it tells of.
//!
//! *Absent*: what a head says (`shard`).

use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

use super::{Cells, Compare, seen, step};

/// The bits of a word.
const WORD: u32 = 16;

/// A cache line of entries and a head. Of no use, and not to be had, outside this crate.
pub trait Packed: Cells + Default + Send + Sync + 'static {
    /// What an entry is part of: its last bits are the entry.
    type Whole: Copy;

    /// How many entries it has.
    const ENTRIES: usize;
    /// How many bits an entry has.
    const BITS: u32;

    /// The head, with all that its writer wrote before it.
    fn head(&self) -> u32;

    /// Writes the head: who reads it sees all that was written before.
    fn set_head(&self, head: u32);

    /// An entry of which a head told that was read before.
    fn read(&self, at: usize) -> Self::Whole;

    /// Writes an entry of which no head has told.
    fn write(&self, at: usize, whole: Self::Whole);

    /// What lines are compared with to find entries near this one.
    fn pattern(whole: Self::Whole) -> Pattern;

    /// Bit i is set if entry i lies within `k` bits of the pattern's. Bits of entries of which no head told
    /// mean nothing.
    fn near<C: Compare>(&self, compare: C, pattern: &Pattern, k: u32) -> u32;

    /// Bit i is set if entry i begins with these 16 bits. The same is true of them.
    fn beginning<C: Compare>(&self, compare: C, word: u16) -> u32;
}

/// A line of words of 16 bits.
pub trait Words: Cells {
    /// Bit i is set if word i is this one. What is no entry may be one way or the other.
    fn equal(&self, word: u16) -> u32;
}

/// A line whose entries are all the same.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub struct Pattern(pub(super) [u16; 32]);

impl Pattern {
    /// Of entries that are all zeros.
    pub const EMPTY: Pattern = Pattern([0; 32]);
}

macro_rules! packed {
    ($(#[$about:meta])* $line:ident, $whole:ty, $entries:expr, $words:expr, $near:ident) => {
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
                (0..$words).fold(0, |whole, at| whole << WORD | <$whole>::from(word(at)))
            }

            #[inline(always)]
            fn write(&self, at: usize, whole: $whole) {
                step();
                for word in 0..$words {
                    let value = (whole >> (($words - 1 - word) as u32 * WORD)) as u16;
                    self.words[word * $entries + at].store(value, Ordering::Relaxed);
                }
            }

            #[inline(always)]
            fn pattern(whole: $whole) -> Pattern {
                let mut words = [0; 32];
                for word in 0..$words {
                    let value = (whole >> (($words - 1 - word) as u32 * WORD)) as u16;
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
                // They stand first.
                compare.words(self, word) & ((1 << $entries) - 1)
            }
        }

        impl Words for $line {
            #[inline(always)]
            fn equal(&self, word: u16) -> u32 {
                let equal = |cell: &AtomicU16| seen(cell.load(Ordering::Relaxed)) == word;
                self.words.iter().enumerate().fold(0, |all, (at, cell)| all | u32::from(equal(cell)) << at)
            }
        }

        impl $line {
            /// Cell after cell.
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
                seen(ones).iter().enumerate().fold(0, |near, (at, ones)| near | u32::from(*ones <= k) << at)
            }
        }
    };
}

packed!(
    /// A line of ten entries of 48 bits.
    Packed48, u64, 10, 3, near48
);
packed!(
    /// A line of four entries of 112 bits.
    Packed112, u128, 4, 7, near112
);
