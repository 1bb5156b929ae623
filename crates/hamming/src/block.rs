//! A block: the bits of a hash by which a table is probed, and the form in which the table stores a hash.
//!
//! A table orders hashes by a key: the block, then bits mixed from the whole hash. Queries use the bits of
//! the block. The mixed bits only spread the hashes of one block: they lead a writer directly to the line of
//! a hash, even if many similar hashes share its block.
//!
//! A segment stores a hash in two parts, in different lines: the back begins with the block, and the front
//! has the remaining bits, at most 62. A query reads the run of its own block, so the bits of the block say
//! little about the distance and the other bits say much. Therefore only fronts are compared, and a back is
//! read if its front is near. That halves the memory that a query reads, or more.
//!
//! The position of a hash in a table implies the first two bits of its key. They are not stored; the front
//! has the state of the entry in their place: empty, occupied or removed. So every value of a hash can be
//! stored, an entry is as large as the hash, and one read returns the state and the front.

use std::fmt;

use super::memory::{Compare, Line, Line32, Line64, Packed, Packed48, Packed112, Packed240};
use lookalike_hash::{U256, Word};

/// The bits of a key: those of the widest block, and enough more to distinguish the hashes of one block.
pub(super) const KEY_BITS: u32 = 56;
/// The maximum number of bits of a block.
const MAX_BITS: u32 = 32;
/// The number of first bits of a key that its position implies.
pub(super) const LEAD_BITS: u32 = 2;

/// A hash that an index can hold.
pub trait Filed: Word {
    /// The lines of a segment: one of fronts, then [`Filed::BACKS`] of backs.
    type Line: Line;
    /// The cells of a back.
    type Back: Copy + Default + PartialEq + fmt::Debug + AsRef<[u64]> + Send + Sync + 'static;
    /// The number of cells of a back.
    const BACKS: usize;
    /// The lines of a bucket, which hold it without the bits that its position implies.
    type Packed: Packed<Whole = Self>;
    /// The distance of fronts at which about one line in three has a front that is near by chance. From this
    /// distance on, fronts and backs are compared together.
    const BOTH_FROM: u32;

    /// The back of these cells.
    fn back_of(cell: impl FnMut(usize) -> u64) -> Self::Back;

    /// Bit i is set if entry i is within `k` bits of the query, front and back together. `backs` has
    /// [`Filed::BACKS`] lines.
    fn near_whole<C: Compare>(
        compare: C,
        front: &Self::Line,
        backs: &[Self::Line],
        query: (u64, Self::Back),
        k: u32,
    ) -> u32;

    /// The 32 bits below bit `top`, downwards; after bit 0 they continue at the highest bit.
    fn below(self, top: u32) -> u32;

    /// A number that depends on every bit of the hash.
    fn mixed(self) -> u64;

    /// Its parts, in the bit order of [`Filed::below`].
    fn parts(self, top: u32) -> Parts<Self::Back>;

    /// The hash that has these parts.
    fn from_parts(parts: Parts<Self::Back>, top: u32) -> Self;

    /// Rotated so that it begins with bit `top` - 1.
    #[must_use]
    fn turned(self, top: u32) -> Self;

    /// The hash that begins with `first`, from bit `top` downwards, and ends with the bits of the packed
    /// entry `rest`.
    #[must_use]
    fn joined(first: u32, rest: Self, top: u32) -> Self;
}

/// The parts of a hash of w bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts<B> {
    /// The first two bits.
    lead: u32,
    /// The bits after them: w/2, or 192 of 256.
    back: B,
    /// The rest.
    front: u64,
}

macro_rules! filed {
    ($word:ty, $line:ty, $packed:ty, $both_from:expr) => {
        impl Filed for $word {
            type Line = $line;
            type Packed = $packed;
            type Back = [u64; 1];
            const BACKS: usize = 1;
            const BOTH_FROM: u32 = $both_from;

            #[inline(always)]
            fn back_of(cell: impl FnMut(usize) -> u64) -> [u64; 1] {
                [0].map(cell)
            }

            #[inline(always)]
            fn near_whole<C: Compare>(
                compare: C,
                front: &$line,
                backs: &[$line],
                query: (u64, [u64; 1]),
                k: u32,
            ) -> u32 {
                front.near_both(compare, &backs[0], (query.0, query.1[0]), k)
            }

            #[inline]
            fn below(self, top: u32) -> u32 {
                (self.rotate_right(top) >> (<$word>::BITS - 32)) as u32
            }

            #[inline]
            fn mixed(self) -> u64 {
                let value = u128::from(self);
                let folded = value as u64 ^ ((value >> 64) as u64).wrapping_mul(0xa24b_aed4_963e_e407);
                let mixed = (folded ^ (folded >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
                (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93)
            }

            #[inline]
            fn parts(self, top: u32) -> Parts<[u64; 1]> {
                const HALF: u32 = <$word>::BITS / 2;
                let turned = self.rotate_right(top);
                Parts {
                    lead: (turned >> (<$word>::BITS - 2)) as u32,
                    back: [(turned << 2 >> HALF) as u64],
                    front: (turned << (HALF + 2) >> (HALF + 2)) as u64,
                }
            }

            #[inline]
            fn from_parts(Parts { lead, back: [back], front }: Parts<[u64; 1]>, top: u32) -> $word {
                const HALF: u32 = <$word>::BITS / 2;
                let turned = <$word>::from(lead) << (<$word>::BITS - 2)
                    | <$word>::from(back) << (HALF - 2)
                    | <$word>::from(front);
                turned.rotate_left(top)
            }

            #[inline]
            fn turned(self, top: u32) -> $word {
                self.rotate_right(top)
            }

            #[inline]
            fn joined(first: u32, rest: $word, top: u32) -> $word {
                (<$word>::from(first) << <$packed>::BITS | rest).rotate_left(top)
            }
        }
    };
}

filed!(u64, Line32, Packed48, 9);
filed!(u128, Line64, Packed112, 24);

/// The number of bits of the front of a hash of 256 bits, and a number of that many ones.
const FRONT: u32 = u64::BITS - LEAD_BITS;
const FRONT_MASK: u64 = u64::MAX >> LEAD_BITS;

impl Filed for U256 {
    type Line = Line64;
    type Back = [u64; 3];
    type Packed = Packed240;
    const BACKS: usize = 3;
    const BOTH_FROM: u32 = 24;

    #[inline(always)]
    fn back_of(cell: impl FnMut(usize) -> u64) -> [u64; 3] {
        [0, 1, 2].map(cell)
    }

    #[inline(always)]
    fn near_whole<C: Compare>(
        compare: C,
        front: &Line64,
        backs: &[Line64],
        (of_front, [a, b, c]): (u64, [u64; 3]),
        k: u32,
    ) -> u32 {
        compare.all64([front, &backs[0], &backs[1], &backs[2]], [of_front, a, b, c], k).into()
    }

    #[inline]
    fn below(self, top: u32) -> u32 {
        (self.window(top) >> 32) as u32
    }

    #[inline]
    fn mixed(self) -> u64 {
        let fold =
            |folded: u64, word: &u64| folded.wrapping_mul(0xa24b_aed4_963e_e407).rotate_left(29) ^ word;
        let folded = self.words().iter().fold(0, fold);
        let mixed = (folded ^ (folded >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93)
    }

    #[inline]
    fn parts(self, top: u32) -> Parts<[u64; 3]> {
        let [a, b, c, d] = self.rotate_right(top).words();
        let join = |upper: u64, lower: u64| upper << LEAD_BITS | lower >> FRONT;
        let lead = (a >> FRONT) as u32;
        Parts { lead, back: [join(a, b), join(b, c), join(c, d)], front: d & FRONT_MASK }
    }

    #[inline]
    fn from_parts(Parts { lead, back: [a, b, c], front }: Parts<[u64; 3]>, top: u32) -> U256 {
        let join = |upper: u64, lower: u64| upper << FRONT | lower >> LEAD_BITS;
        let words = [join(lead.into(), a), join(a, b), join(b, c), c << FRONT | front];
        U256::from_words(words).rotate_left(top)
    }

    #[inline]
    fn turned(self, top: u32) -> U256 {
        self.rotate_right(top)
    }

    #[inline]
    fn joined(first: u32, rest: U256, top: u32) -> U256 {
        (U256::from(first) << Packed240::BITS | rest).rotate_left(top)
    }
}

/// The number of first bits of a block that the position of a [`Packed`] entry implies.
pub(super) const IMPLIED_BITS: u32 = 16;

/// The states of an entry, in the two highest bits of its front. 0 is an empty entry.
const OCCUPIED: u64 = 0b01;
const REMOVED: u64 = 0b10;

/// A range of bits of a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// The bit above its highest bit.
    top: u16,
    bits: u8,
}

impl Block {
    /// The block of the `bits` bits from bit `shift` upwards: 2 to 32, at most half of the hash.
    pub(super) const fn new(shift: u32, bits: u32) -> Block {
        assert!(bits >= LEAD_BITS && bits <= MAX_BITS && shift + bits <= 256);
        Block { top: (shift + bits) as u16, bits: bits as u8 }
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

    /// The key of a hash in the table of this block.
    #[inline(always)]
    pub(super) fn key<W: Filed>(self, hash: W) -> u64 {
        let rest = KEY_BITS - self.bits();
        u64::from(self.first(hash, self.bits())) << rest | hash.mixed() >> (64 - rest)
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

    /// The hash of the packed entry `rest`, whose block begins with the [`IMPLIED_BITS`] bits of `first`.
    #[inline(always)]
    pub(super) fn joined<W: Filed>(self, first: u32, rest: W) -> W {
        W::joined(first, rest, self.top.into())
    }

    /// The stored parts of a hash: front and back.
    #[inline(always)]
    pub(super) fn store<W: Filed>(self, hash: W) -> (u64, W::Back) {
        let Parts { back, front, .. } = hash.parts(self.top.into());
        (front | OCCUPIED << state_at::<W>(), back)
    }

    /// The hash of these parts, whose key begins with `lead`; `None` if the entry is not occupied.
    #[inline(always)]
    pub(super) fn load<W: Filed>(self, (front, back): (u64, W::Back), lead: u32) -> Option<W> {
        if front >> state_at::<W>() != OCCUPIED {
            return None;
        }
        let front = front ^ OCCUPIED << state_at::<W>();
        Some(W::from_parts(Parts { lead, back, front }, self.top.into()))
    }
}

#[inline(always)]
const fn state_at<W: Filed>() -> u32 {
    <W::Line as Line>::BITS - LEAD_BITS
}

/// The front of an entry whose hash was removed.
pub(super) const fn removed_front<W: Filed>() -> u64 {
    REMOVED << state_at::<W>()
}

/// Whether an entry was never used: the front is 0 only then, because the other states are not 0.
#[inline(always)]
pub(super) const fn is_empty(front: u64) -> bool {
    front == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_round_trip<W: Filed>(block: Block, hash: W) {
        let lead = block.first(hash, LEAD_BITS);
        let (front, back) = block.store(hash);
        assert!(!is_empty(front));
        assert_eq!(block.load::<W>((front, back), lead), Some(hash));
        assert_eq!(block.load::<W>((removed_front::<W>(), back), lead), None);
        assert_eq!(block.load::<W>((0, W::Back::default()), lead), None);
        let all = back.as_ref().iter().fold(front, |all, cell| all | cell);
        assert!(<W::Line as Line>::BITS == 64 || all < 1 << <W::Line as Line>::BITS);
        assert_eq!(W::back_of(|at| back.as_ref()[at]), back);
    }

    /// The fronts do not contain the bits of the block: a differing bit is not counted in both.
    fn check_fronts_exclude_the_block<W: Filed>(block: Block, hash: W, other: W) {
        let (front, _) = block.store(hash);
        let apart = (front ^ block.store(other).0).count_ones();
        let in_block = (block.first(hash, block.bits()) ^ block.first(other, block.bits())).count_ones();
        assert!(apart + in_block <= (hash ^ other).ones());
    }

    #[test]
    fn keys_begin_with_the_block_and_differ_between_hashes() {
        assert_eq!(Block::new(16, 16).key(0x1122_3344_5566_7788_u64) >> 40, 0x5566);
        assert_eq!(Block::new(0, 16).key(0x1122_3344_5566_7788_u64) >> 40, 0x7788);
        assert_eq!(Block::new(48, 16).first(0x9122_3344_5566_7788_u64, 4), 0x9);
        assert_eq!(Block::new(102, 26).key(0xabcd_ef01_u128 << 96) >> 30, 0xabcd_ef01 >> 6);
        assert_eq!(Block::new(0, 26).first(0x3ff_ffff_u128, 26), 0x3ff_ffff);
        let mut keys: Vec<u64> = (0..100_000u128).map(|number| Block::new(102, 26).key(number)).collect();
        keys.sort_unstable();
        keys.dedup();
        assert!(keys.len() > 99_900 && keys[0] < 1 << 16 && keys[keys.len() - 1] >> 29 == 1);
    }

    #[test]
    fn a_stored_hash_is_loaded_unchanged() {
        let mut state = 3u128;
        for _ in 0..2_000 {
            state = state.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_0c62_1234_5677).wrapping_add(11);
            let (hash, other) = (state ^ state >> 61, state.rotate_left(37) ^ 0xff);
            for block in [Block::new(48, 16), Block::new(0, 21), Block::new(42, 22), Block::new(32, 32)] {
                [hash as u64, 0, u64::MAX].into_iter().for_each(|hash| check_round_trip(block, hash));
                check_fronts_exclude_the_block(block, hash as u64, other as u64);
            }
            for block in [Block::new(51, 26), Block::new(102, 26), Block::new(0, 26), Block::new(40, 26)] {
                [hash, 0, u128::MAX].into_iter().for_each(|hash| check_round_trip(block, hash));
                check_fronts_exclude_the_block(block, hash, other);
            }
            let long = |upper: u128, lower: u128| U256::from(upper) << 128 | U256::from(lower);
            for block in [Block::new(232, 24), Block::new(0, 23), Block::new(115, 23), Block::new(54, 24)] {
                let (hash, other) = (long(hash, other), long(other, !hash));
                [hash, U256::default(), U256::MAX].into_iter().for_each(|hash| check_round_trip(block, hash));
                check_fronts_exclude_the_block(block, hash, other);
            }
        }
    }
}
