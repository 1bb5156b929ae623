//! One block's table in buckets: every hash of the index, filed by the first bits of one of its blocks.
//!
//! A table is [`SHARDS`] shards, chosen by the first bits of the block, which grow and shrink one by one. It
//! takes some megabytes before it holds anything, so it is for many hashes; few of them stand in segments
//! (`table`).
//!
//! Costs: 8 to 10 bytes a hash of 64 bits when a shard is full, twice as many when it has just doubled, lines
//! for buckets that overflow included.
//!
//! *Absent*: which tables there are (`layout`), turns of writers (`sharded`).

use super::block::{Block, Filed};
use super::memory::{Followed, Pin};
use super::shard::{SHARD_BITS, Shape, Shard};

/// How many shards a table has.
pub(super) const SHARDS: usize = 1 << SHARD_BITS;

/// The table of one block.
pub(super) struct Buckets<W: Filed> {
    block: Block,
    shards: Box<[Followed<Shard<W>>]>,
}

/// Buckets whose hashes begin their block with the same bits: so many of one shard, from one on.
pub(super) struct Stretch<'p, W: Filed> {
    pub(super) shard: &'p Shard<W>,
    pub(super) number: usize,
    pub(super) first: usize,
    pub(super) count: usize,
}

impl<'p, W: Filed> Stretch<'p, W> {
    /// The buckets in the shard of the blocks that begin with the `bits` bits of `prefix`.
    #[inline(always)]
    pub(super) fn of(shard: &'p Shard<W>, prefix: u32, bits: u32) -> Stretch<'p, W> {
        let number = Buckets::<W>::number_of(prefix, bits);
        let first = shard.bucket(prefix << (u32::BITS - bits));
        let count = 1 << shard.depth().saturating_sub(bits);
        Stretch { shard, number, first, count }
    }
}

impl<W: Filed> Buckets<W> {
    /// An empty table that is to hold `expected` hashes.
    pub(super) fn new(block: Block, expected: usize) -> Buckets<W> {
        let shape = Shape::suited::<W>(block, expected >> SHARD_BITS);
        Buckets::of_shards(block, (0..SHARDS).map(|_| Shard::built(block, shape, &[])))
    }

    /// The table of these shards, one for each value of the first [`SHARD_BITS`] bits of the block.
    pub(super) fn of_shards(block: Block, shards: impl Iterator<Item = Shard<W>>) -> Buckets<W> {
        let shards: Box<[_]> = shards.map(Followed::new).collect();
        debug_assert_eq!(shards.len(), SHARDS);
        Buckets { block, shards }
    }

    /// A shard by its number.
    #[inline(always)]
    pub(super) fn shard<'p>(&self, number: usize, pin: &'p Pin) -> &'p Shard<W> {
        self.shards[number].get(pin)
    }

    #[inline(always)]
    fn number(&self, hash: W) -> usize {
        self.block.first(hash, SHARD_BITS) as usize
    }

    /// The shard of a hash.
    #[inline(always)]
    fn of<'p>(&self, hash: W, pin: &'p Pin) -> &'p Shard<W> {
        self.shard(self.number(hash), pin)
    }

    /// The buckets of the blocks that begin with the `bits` bits of `prefix`: not fewer than tell shards
    /// apart. Where the shard tells fewer bits apart, one bucket holds others as well.
    #[inline(always)]
    pub(super) fn stretch<'p>(&self, prefix: u32, bits: u32, pin: &'p Pin) -> Stretch<'p, W> {
        Stretch::of(self.shard(Buckets::<W>::number_of(prefix, bits), pin), prefix, bits)
    }

    /// The number of the shard of the blocks that begin with the `bits` bits of `prefix`.
    #[inline(always)]
    pub(super) fn number_of(prefix: u32, bits: u32) -> usize {
        (prefix >> (bits - SHARD_BITS)) as usize
    }

    /// Whether the hash is in the table.
    pub(super) fn contains(&self, hash: W, pin: &Pin) -> bool {
        self.of(hash, pin).contains(hash)
    }

    /// Whether the bucket of a hash has extents, so that there may be many to compare it with.
    pub(super) fn overflows(&self, hash: W, pin: &Pin) -> bool {
        self.of(hash, pin).overflows(hash)
    }

    /// Asks for the place of a hash.
    #[inline(always)]
    pub(super) fn approach(&self, hash: W, pin: &Pin) {
        self.of(hash, pin).approach(hash);
    }

    /// Files a hash, which must not be in the table yet: whether a shard was replaced for that. For the
    /// writer, one at a time.
    pub(super) fn insert(&self, hash: W, pin: &Pin) -> bool {
        let number = self.number(hash);
        let mut replaced = false;
        while !self.shard(number, pin).insert(hash) {
            self.shards[number].replace(self.shard(number, pin).grown(number), pin);
            #[cfg(test)]
            super::model::replaced();
            replaced = true;
        }
        replaced
    }

    /// Takes a hash out: whether it was there. For the writer, one at a time.
    pub(super) fn remove(&self, hash: W, pin: &Pin) -> bool {
        let number = self.number(hash);
        let shard = self.shard(number, pin);
        let there = shard.remove(hash);
        if there && shard.is_hollow() {
            let shape = Shape::suited::<W>(self.block, 2 * shard.len());
            self.shards[number].replace(Shard::built(self.block, shape, &shard.hashes(number)), pin);
        }
        there
    }

    /// All hashes whose block begins with the `bits` bits of `prefix`.
    pub(super) fn hashes_with(&self, prefix: u32, bits: u32, pin: &Pin, mut each: impl FnMut(W)) {
        if bits <= SHARD_BITS {
            let shards = 1 << (SHARD_BITS - bits);
            for number in prefix as usize * shards..(prefix as usize + 1) * shards {
                let shard = self.shard(number, pin);
                shard.for_each_in(number, 0, shard.count(), &mut each);
            }
            return;
        }
        let Stretch { shard, number, first, count } = self.stretch(prefix, bits, pin);
        shard.for_each_in(number, first, count, |hash| {
            if self.block.first(hash, bits) == prefix {
                each(hash);
            }
        });
    }

    /// How many shards there are.
    pub(super) fn shards(&self) -> usize {
        self.shards.len()
    }

    /// The bytes the table occupies, room to grow included, the allocator's own bookkeeping left out.
    pub(super) fn bytes(&self, pin: &Pin) -> usize {
        let shards = (0..self.shards()).map(|number| self.shard(number, pin).bytes());
        size_of::<Self>() + size_of_val(&*self.shards) + shards.sum::<usize>()
    }
}
