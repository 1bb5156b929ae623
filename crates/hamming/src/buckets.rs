//! The bucket table of one block: every hash of the index, in a bucket chosen by the first bits of the block.
//!
//! Costs: 8 to 10 bytes per hash of 64 bits when a shard is full, and twice as many when it has just doubled,
//! including the extents of overflowing buckets. An empty table takes some megabytes, so few hashes are
//! stored in segments (`table`).
//!
//! A table has [`SHARDS`] shards, chosen by the first bits of the block. They grow and shrink one by one.
//!
//! *Absent*: the set of tables (`layout`), the lock of writers (`sharded`).

use super::block::{Block, Filed};
use super::memory::{Pin, Replaceable};
use super::shard::{SHARD_BITS, Shape, Shard};

/// The number of shards of a table.
pub(super) const SHARDS: usize = 1 << SHARD_BITS;

/// The bucket table of one block.
pub(super) struct Buckets<W: Filed> {
    block: Block,
    shards: Box<[Replaceable<Shard<W>>]>,
}

/// `count` consecutive buckets of a shard: those of the blocks that begin with the same bits.
pub(super) struct BucketRange<'p, W: Filed> {
    pub(super) shard: &'p Shard<W>,
    pub(super) number: usize,
    pub(super) first: usize,
    pub(super) count: usize,
}

impl<'p, W: Filed> BucketRange<'p, W> {
    /// The buckets in `shard` of the blocks that begin with the `bits` bits of `prefix`.
    #[inline(always)]
    pub(super) fn of(shard: &'p Shard<W>, prefix: u32, bits: u32) -> BucketRange<'p, W> {
        let number = Buckets::<W>::shard_number(prefix, bits);
        let first = shard.bucket(prefix << (u32::BITS - bits));
        let count = 1 << shard.depth().saturating_sub(bits);
        BucketRange { shard, number, first, count }
    }
}

impl<W: Filed> Buckets<W> {
    /// An empty table for `expected` hashes.
    pub(super) fn new(block: Block, expected: usize) -> Buckets<W> {
        let shape = Shape::suited::<W>(block, expected >> SHARD_BITS);
        Buckets::of_shards(block, (0..SHARDS).map(|_| Shard::built(block, shape, &[])))
    }

    /// The table of these shards, one for each value of the first [`SHARD_BITS`] bits of the block.
    pub(super) fn of_shards(block: Block, shards: impl Iterator<Item = Shard<W>>) -> Buckets<W> {
        let shards: Box<[_]> = shards.map(Replaceable::new).collect();
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
    fn shard_of<'p>(&self, hash: W, pin: &'p Pin) -> &'p Shard<W> {
        self.shard(self.number(hash), pin)
    }

    /// The buckets of the blocks that begin with the `bits` bits of `prefix`; `bits` is at least
    /// [`SHARD_BITS`]. If the shard distinguishes fewer bits, it is one bucket, which has other blocks too.
    #[inline(always)]
    pub(super) fn range<'p>(&self, prefix: u32, bits: u32, pin: &'p Pin) -> BucketRange<'p, W> {
        BucketRange::of(self.shard(Buckets::<W>::shard_number(prefix, bits), pin), prefix, bits)
    }

    /// The number of the shard of the blocks that begin with the `bits` bits of `prefix`.
    #[inline(always)]
    pub(super) fn shard_number(prefix: u32, bits: u32) -> usize {
        (prefix >> (bits - SHARD_BITS)) as usize
    }

    /// Whether the hash is in the table.
    pub(super) fn contains(&self, hash: W, pin: &Pin) -> bool {
        self.shard_of(hash, pin).contains(hash)
    }

    /// Whether the bucket of a hash has extents, so that it may hold many hashes.
    pub(super) fn overflows(&self, hash: W, pin: &Pin) -> bool {
        self.shard_of(hash, pin).overflows(hash)
    }

    /// Prefetches the bucket of a hash.
    #[inline(always)]
    pub(super) fn prefetch(&self, hash: W, pin: &Pin) {
        self.shard_of(hash, pin).prefetch_bucket(hash);
    }

    /// Inserts a hash, which must not be in the table. Returns whether a shard was replaced. Only one writer
    /// may call this at a time.
    pub(super) fn insert(&self, hash: W, pin: &Pin) -> bool {
        let number = self.number(hash);
        let mut replaced = false;
        while !self.shard(number, pin).insert(hash) {
            self.shards[number].replace(self.shard(number, pin).rebuilt(number), pin);
            #[cfg(test)]
            super::model::replaced();
            replaced = true;
        }
        replaced
    }

    /// Removes a hash. Returns whether it was present. Only one writer may call this at a time.
    pub(super) fn remove(&self, hash: W, pin: &Pin) -> bool {
        let number = self.number(hash);
        let shard = self.shard(number, pin);
        let there = shard.remove(hash);
        if there && shard.is_sparse() {
            let shape = Shape::suited::<W>(self.block, 2 * shard.len());
            self.shards[number].replace(Shard::built(self.block, shape, &shard.hashes(number)), pin);
        }
        there
    }

    /// Calls `each` with all hashes whose block begins with the `bits` bits of `prefix`.
    pub(super) fn hashes_with(&self, prefix: u32, bits: u32, pin: &Pin, mut each: impl FnMut(W)) {
        if bits <= SHARD_BITS {
            let shards = 1 << (SHARD_BITS - bits);
            for number in prefix as usize * shards..(prefix as usize + 1) * shards {
                let shard = self.shard(number, pin);
                shard.for_each_in(number, 0, shard.count(), &mut each);
            }
            return;
        }
        let BucketRange { shard, number, first, count } = self.range(prefix, bits, pin);
        shard.for_each_in(number, first, count, |hash| {
            if self.block.first(hash, bits) == prefix {
                each(hash);
            }
        });
    }

    /// The number of shards.
    pub(super) fn shards(&self) -> usize {
        self.shards.len()
    }

    /// The bytes that the table occupies, including free entries, without the bookkeeping of the allocator.
    pub(super) fn bytes(&self, pin: &Pin) -> usize {
        let shards = (0..self.shards()).map(|number| self.shard(number, pin).bytes());
        size_of::<Self>() + size_of_val(&*self.shards) + shards.sum::<usize>()
    }
}
