//! A block: the bits of a hash by which a table is read, and the words in which the table stores a hash.
//!
//! The position of a hash in a table implies the first bits of the block. The other words of 16 bits are
//! stored, each in a plane of its own, so that a word of sixteen hashes is compared at once.

use super::memory::MAX_PLANES;
use lookalike_hash::{U256, Word};

/// The maximum number of bits of a block.
const MAX_BITS: u32 = 32;
/// The number of first bits of a block that the words of an entry leave out.
pub(super) const IMPLIED_BITS: u32 = 16;

/// A hash that an index can hold.
pub trait Filed: Word + Default {
    /// Its blocks, the least significant first. Together they cover the whole hash.
    const BLOCKS: &'static [Block];
    /// The words of an entry: all but the first 16 bits of the block.
    const PLANES: usize;
    /// The number of these words by which hashes are compared first.
    const FIRST: usize;
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

    /// The entry with these bits in place of those that it leaves out.
    #[must_use]
    fn with_first(self, first: u32) -> Self;

    /// Rotated so that the first bit becomes bit `top` - 1.
    #[must_use]
    fn turned_back(self, top: u32) -> Self;
}

macro_rules! filed {
    (
        $word:ty, $blocks:expr, $planes:expr, $first:expr, $whole_from:expr, $limit:expr, $below:expr,
        $low:expr
    ) => {
        impl Filed for $word {
            const BLOCKS: &'static [Block] = &$blocks;
            const PLANES: usize = $planes;
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
            fn turned_back(self, top: u32) -> $word {
                self.rotate_left(top)
            }
        }
    };
}

const FOUR: [Block; 4] = Block::equal(16);
const EIGHT: [Block; 8] = Block::equal(16);
/// Six blocks of 26 bits above four of 25.
const TEN: [Block; 10] = [
    Block::new(0, 25),
    Block::new(25, 25),
    Block::new(50, 25),
    Block::new(75, 25),
    Block::new(100, 26),
    Block::new(126, 26),
    Block::new(152, 26),
    Block::new(178, 26),
    Block::new(204, 26),
    Block::new(230, 26),
];

filed!(u64, FOUR, 3, 3, 0, 40, |hash: u64, top| (hash.rotate_right(top) >> 32) as u32, |hash| hash);
filed!(u128, EIGHT, 7, 4, 24, 96, |hash: u128, top| (hash.rotate_right(top) >> 96) as u32, |hash| hash);
filed!(U256, TEN, 15, 8, 52, 96, |hash: U256, top| (hash.window(top) >> 32) as u32, |hash: U256| hash.low());

/// The words of a hash that is turned so that it begins with its block, in the order of the planes.
#[inline(always)]
pub(super) fn words<W: Filed>(turned: W) -> [u16; MAX_PLANES] {
    let mut words = [0; MAX_PLANES];
    for (plane, word) in words.iter_mut().take(W::PLANES).enumerate() {
        *word = turned.word(W::PLANES - 1 - plane);
    }
    words
}

/// A range of bits of a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The bit above its highest bit.
    top: u16,
    bits: u8,
}

impl Block {
    /// The block of the `bits` bits from bit `shift` upwards: [`IMPLIED_BITS`] to 32.
    pub(super) const fn new(shift: u32, bits: u32) -> Block {
        assert!(bits >= IMPLIED_BITS && bits <= MAX_BITS && shift + bits <= 256);
        Block { top: (shift + bits) as u16, bits: bits as u8 }
    }

    const fn equal<const N: usize>(bits: u32) -> [Block; N] {
        let mut blocks = [Block::new(0, bits); N];
        let mut at = 1;
        while at < N {
            blocks[at] = Block::new(at as u32 * bits, bits);
            at += 1;
        }
        blocks
    }

    /// The number of its bits.
    #[inline(always)]
    pub(super) const fn bits(self) -> u32 {
        self.bits as u32
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

    /// The hash rotated so that it begins with the block.
    #[inline(always)]
    pub(super) fn turned<W: Filed>(self, hash: W) -> W {
        hash.turned(self.top.into())
    }

    /// The hash of an entry, whose block begins with the [`IMPLIED_BITS`] bits of `first`.
    #[inline(always)]
    pub(super) fn joined<W: Filed>(self, first: u32, entry: W) -> W {
        entry.with_first(first).turned_back(self.top.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<W: Filed>(hash: W) {
        let width = W::WIDTH.bits();
        assert_eq!(W::BLOCKS.iter().map(|block| block.bits()).sum::<u32>(), width);
        assert!(W::BLOCKS[W::BLOCKS.len() - 1].is_top(width));
        assert_eq!(W::PLANES as u32 * u16::BITS + IMPLIED_BITS, width);
        let mut of_blocks = 0;
        for block in W::BLOCKS {
            let turned = block.turned(hash);
            let entry = (0..W::PLANES)
                .fold(W::default(), |entry, plane| entry.with_word(turned.word(W::PLANES - 1 - plane)));
            assert_eq!(block.joined(block.first(hash, IMPLIED_BITS), entry), hash);
            assert_eq!(block.place(hash) >> (u32::BITS - block.bits()), block.first(hash, block.bits()));
            of_blocks += block.first(hash, block.bits()).count_ones();
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
