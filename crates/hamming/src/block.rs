//! A block: the bits of a hash by which a table is read, and the words in which the table stores a hash.
//!
//! The position of a hash in a table implies the bits of the block. The words of 16 bits after them are
//! stored, each in a plane of its own, so that a word of sixteen hashes is compared at once. Of hashes of 256
//! bits six words are stored, and the number of the hash in [`super::rows`].

use super::memory::MAX_PLANES;
use lookalike_hash::{U256, Word};

/// The number of bits of a block, which the words of an entry leave out.
pub(super) const BLOCK_BITS: u32 = 16;

/// A hash that an index can hold.
pub trait Filed: Word + Default {
    /// Its blocks, the least significant first. Together they cover the whole hash.
    const BLOCKS: &'static [Block];
    /// The words of an entry: those after the block, then the number of the hash.
    const PLANES: usize;
    /// The words that are compared: all of an entry, or all but its number.
    const COMPARED: usize;
    /// The number of these words by which hashes are compared first.
    const FIRST: usize;
    /// Whether an entry has a part of the hash and its number.
    const NUMBERED: bool = Self::COMPARED < Self::PLANES;
    /// The distance from which on so many first words are near by chance that all words are compared at once.
    const WHOLE_FROM: u32;
    /// The mean number of hashes of a value of a block from which on another bit is distinguished.
    const LIMIT: usize;

    /// The 32 bits below bit `top`, downwards; after bit 0 they continue at the highest bit.
    fn below(self, top: u32) -> u32;

    /// Rotated so that it begins with bit `top` - 1.
    #[must_use]
    fn turned(self, top: u32) -> Self;

    /// Word `at` of 16 bits, the least significant first.
    fn word(self, at: usize) -> u16;

    /// Shifted to the left by a word, with this word below.
    #[must_use]
    fn with_word(self, word: u16) -> Self;

    /// The entry with the block in front of it.
    #[must_use]
    fn with_first(self, first: u32) -> Self;

    /// The entry of the hash with this number, with the block in front of it. The hash begins with the block.
    #[must_use]
    fn filed(self, number: u32) -> Self;

    /// Rotated so that the first bit becomes bit `top` - 1.
    #[must_use]
    fn turned_back(self, top: u32) -> Self;
}

macro_rules! filed {
    (
        $word:ty, $blocks:expr, $planes:expr, $compared:expr, $first:expr, $whole_from:expr, $limit:expr,
        $below:expr, $low:expr, $filed:expr
    ) => {
        impl Filed for $word {
            const BLOCKS: &'static [Block] = &$blocks;
            const PLANES: usize = $planes;
            const COMPARED: usize = $compared;
            const FIRST: usize = $first;
            const WHOLE_FROM: u32 = $whole_from;
            const LIMIT: usize = $limit;

            #[inline]
            fn below(self, top: u32) -> u32 {
                $below(self, top)
            }

            #[inline]
            fn turned(self, top: u32) -> $word {
                self.rotate_right(top)
            }

            #[inline(always)]
            fn word(self, at: usize) -> u16 {
                $low(self >> (at as u32 * u16::BITS)) as u16
            }

            #[inline(always)]
            fn with_word(self, word: u16) -> $word {
                self << u16::BITS | <$word>::from(word)
            }

            #[inline]
            fn with_first(self, first: u32) -> $word {
                <$word>::from(first) << ($planes * u16::BITS) | self
            }

            #[inline]
            fn filed(self, number: u32) -> $word {
                $filed(self, number)
            }

            #[inline]
            fn turned_back(self, top: u32) -> $word {
                self.rotate_left(top)
            }
        }
    };
}

const FOUR: [Block; 4] = Block::all();
const EIGHT: [Block; 8] = Block::all();
const SIXTEEN: [Block; 16] = Block::all();

filed!(
    u64,
    FOUR,
    3,
    3,
    3,
    0,
    40,
    |hash: u64, top| (hash.rotate_right(top) >> 32) as u32,
    |hash| hash,
    |turned, _| turned
);
filed!(
    u128,
    EIGHT,
    7,
    7,
    4,
    24,
    96,
    |hash: u128, top| (hash.rotate_right(top) >> 96) as u32,
    |hash| hash,
    |turned, _| turned
);
filed!(
    U256,
    SIXTEEN,
    8,
    6,
    6,
    u32::MAX,
    96,
    |hash: U256, top| (hash.window(top) >> 32) as u32,
    |hash: U256| hash.low(),
    |turned: U256, number| turned >> 144 << 32 | U256::from(u128::from(number))
);

/// The first `bits` bits of the block in front of an entry.
pub(super) fn first_of<W: Filed>(filed: W, bits: u32) -> u32 {
    u32::from(filed.word(W::PLANES)) >> (BLOCK_BITS - bits)
}

/// The number of the hash of an entry, if entries are numbered.
pub(super) fn row_of<W: Filed>(entry: W) -> u32 {
    u32::from(entry.word(1)) << u16::BITS | u32::from(entry.word(0))
}

/// The words of an entry in the order of the planes.
#[inline(always)]
pub(super) fn words<W: Filed>(entry: W) -> [u16; MAX_PLANES] {
    let mut words = [0; MAX_PLANES];
    for (plane, word) in words.iter_mut().take(W::PLANES).enumerate() {
        *word = entry.word(W::PLANES - 1 - plane);
    }
    words
}

/// [`BLOCK_BITS`] bits of a hash that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The bit above its highest bit.
    top: u16,
}

impl Block {
    const fn all<const N: usize>() -> [Block; N] {
        let mut blocks = [Block { top: 0 }; N];
        let mut at = 0;
        while at < N {
            blocks[at].top = (at as u32 + 1) as u16 * BLOCK_BITS as u16;
            at += 1;
        }
        blocks
    }

    /// Whether it has the highest bit of a hash of `width` bits.
    pub(super) const fn is_top(self, width: u32) -> bool {
        self.top as u32 == width
    }

    /// The first bits of the block of a hash: 1 to all of them.
    #[inline(always)]
    pub(super) fn first<W: Filed>(self, hash: W, bits: u32) -> u32 {
        hash.below(self.top.into()) >> (u32::BITS - bits)
    }

    /// The 32 bits of a hash that begin with the block.
    #[inline(always)]
    pub(super) fn place<W: Filed>(self, hash: W) -> u32 {
        hash.below(self.top.into())
    }

    /// The entry of the hash with this number, with the block in front of it.
    #[inline(always)]
    pub(super) fn filed<W: Filed>(self, hash: W, number: u32) -> W {
        hash.turned(self.top.into()).filed(number)
    }

    /// The hash of an entry that is not numbered, with the block in front of it.
    #[inline(always)]
    pub(super) fn hash<W: Filed>(self, filed: W) -> W {
        debug_assert!(!W::NUMBERED);
        filed.turned_back(self.top.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<W: Filed>(hash: W) {
        let width = W::WIDTH.bits();
        assert_eq!(W::BLOCKS.len() as u32 * BLOCK_BITS, width);
        assert!(W::BLOCKS[W::BLOCKS.len() - 1].is_top(width));
        assert!(W::NUMBERED || W::PLANES as u32 * u16::BITS + BLOCK_BITS == width);
        let mut of_blocks = 0;
        for block in W::BLOCKS {
            let filed = block.filed(hash, 0xabcd_1234);
            let entry =
                words(filed)[..W::PLANES].iter().fold(W::default(), |entry, word| entry.with_word(*word));
            let first = block.first(hash, BLOCK_BITS);
            assert_eq!(entry.with_first(first), filed);
            if W::NUMBERED {
                assert_eq!(row_of(entry), 0xabcd_1234);
                let turned = hash.turned(block.top.into());
                let last = W::BLOCKS.len() - 2;
                assert!((0..W::COMPARED).all(|at| words(filed)[at] == turned.word(last - at)));
            } else {
                assert_eq!(block.hash(filed), hash);
            }
            assert_eq!(block.place(hash) >> (u32::BITS - BLOCK_BITS), first);
            of_blocks += first.count_ones();
        }
        assert_eq!(of_blocks, hash.ones(), "the blocks do not partition the hash");
    }

    #[test]
    fn a_hash_is_its_blocks_and_the_words_of_each_entry() {
        let mut state = 3u128;
        for _ in 0..2_000 {
            state = state.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_0c62_1234_5677).wrapping_add(11);
            check(state as u64);
            check(state ^ state >> 61);
            check(U256::from(state) << 128 | U256::from(!state.rotate_left(37)));
        }
        check(u64::MAX);
        check(0u128);
        check(U256::MAX);
    }
}
