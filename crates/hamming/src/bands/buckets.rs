//! The bucket table of one block: every hash of the index, in a bucket chosen by the first bits of the block.
//!
//! Costs: 8 to 10 bytes per hash of 64 bits when a shard is full, and twice as many when it has just doubled,
//! including the extents of overflowing buckets. An empty table takes some megabytes, so few hashes are
//! stored in segments (`table`).
//!
//! A table has [`SHARDS`] shards, chosen by the first bits of the block. They grow and shrink one by one.
//!
//! *Absent*: the set of tables (`layout`), the lock of writers (`sharded`).

use super::super::memory::{Pin, Replaceable};
use super::entry::first;
use super::shard::{SHARD_BITS, Shape, Shard};

/// The number of shards of a table.
pub(super) const SHARDS: usize = 1 << SHARD_BITS;

/// The bucket table of one block.
pub(super) struct Buckets {
    shards: Box<[Replaceable<Shard>]>,
}

/// `count` consecutive buckets of a shard: those of the blocks that begin with the same bits.
pub(super) struct BucketRange<'p> {
    pub(super) shard: &'p Shard,
    pub(super) first: usize,
    pub(super) count: usize,
}

impl<'p> BucketRange<'p> {
    /// The buckets in `shard` of the blocks that begin with the `bits` bits of `prefix`.
    #[inline(always)]
    pub(super) fn of(shard: &'p Shard, prefix: u32, bits: u32) -> BucketRange<'p> {
        let first = shard.bucket(prefix << (u32::BITS - bits));
        let count = 1 << shard.depth().saturating_sub(bits);
        BucketRange { shard, first, count }
    }
}

impl Buckets {
    /// An empty table for `expected` hashes.
    pub(super) fn new(expected: usize) -> Buckets {
        let shape = Shape::suited(expected >> SHARD_BITS);
        Buckets::of_shards((0..SHARDS).map(|_| Shard::built(shape, &[])))
    }

    /// The table of these shards, one for each value of the first [`SHARD_BITS`] bits of the block.
    pub(super) fn of_shards(shards: impl Iterator<Item = Shard>) -> Buckets {
        let shards: Box<[_]> = shards.map(Replaceable::new).collect();
        debug_assert_eq!(shards.len(), SHARDS);
        Buckets { shards }
    }

    /// A shard by its number.
    #[inline(always)]
    pub(super) fn shard<'p>(&self, number: usize, pin: &'p Pin) -> &'p Shard {
        self.shards[number].get(pin)
    }

    #[inline(always)]
    fn number(hash: u64) -> usize {
        first(hash, SHARD_BITS) as usize
    }

    /// The shard of a hash.
    #[inline(always)]
    fn shard_of<'p>(&self, hash: u64, pin: &'p Pin) -> &'p Shard {
        self.shard(Buckets::number(hash), pin)
    }

    /// The buckets of the blocks that begin with the `bits` bits of `prefix`; `bits` is at least
    /// [`SHARD_BITS`]. If the shard distinguishes fewer bits, it is one bucket, which has other blocks too.
    #[inline(always)]
    pub(super) fn range<'p>(&self, prefix: u32, bits: u32, pin: &'p Pin) -> BucketRange<'p> {
        BucketRange::of(self.shard(Buckets::shard_number(prefix, bits), pin), prefix, bits)
    }

    /// The number of the shard of the blocks that begin with the `bits` bits of `prefix`.
    #[inline(always)]
    pub(super) fn shard_number(prefix: u32, bits: u32) -> usize {
        (prefix >> (bits - SHARD_BITS)) as usize
    }

    /// Prefetches the bucket of a hash.
    #[inline(always)]
    pub(super) fn prefetch(&self, hash: u64, pin: &Pin) {
        self.shard_of(hash, pin).prefetch_bucket(hash);
    }

    /// Inserts a hash, which must not be in the table. Returns whether a shard was replaced. Only one writer
    /// may call this at a time.
    pub(super) fn insert(&self, hash: u64, pin: &Pin) -> bool {
        let number = Buckets::number(hash);
        let mut replaced = false;
        while !self.shard(number, pin).insert(hash) {
            self.shards[number].replace(self.shard(number, pin).rebuilt(number), pin);
            #[cfg(test)]
            super::super::model::replaced();
            replaced = true;
        }
        replaced
    }

    /// Removes a hash. Returns whether it was present. Only one writer may call this at a time.
    pub(super) fn remove(&self, hash: u64, pin: &Pin) -> bool {
        let number = Buckets::number(hash);
        let shard = self.shard(number, pin);
        let there = shard.remove(hash);
        if there && shard.is_sparse() {
            let shape = Shape::suited(2 * shard.len());
            self.shards[number].replace(Shard::built(shape, &shard.hashes(number)), pin);
        }
        there
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
