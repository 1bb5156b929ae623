//! One block's table: every hash of the index, filed under the value of one of its 16-bit blocks.
//!
//! A table is 256 segments, one for each value of the block's upper byte. A segment is a directory of
//! buckets keyed by the next bits of the block, each bucket behind a lock of its own. The directory has
//! up to three levels of 1, 16 and 256 buckets; a level is added when the one before it grows full, and
//! takes over all its hashes. So a collection of ten documents costs next to nothing and one of ten
//! million has all 65,536 buckets; adding a level moves under a thousand hashes of evenly spread ones.
//!
//! # Why a lock a bucket
//! A reader's lock writes to the memory that holds it. With a lock a segment, readers and writers of
//! different buckets passed that memory back and forth between the cores, which made a lookup beside a
//! writer 2.3 times slower; with a lock a bucket it is a neighbour's bucket only by chance.
//!
//! # What the locks guard
//! A bucket's lock guards its hashes and the fact that its level is the last. Only [`Segment::deepen`]
//! adds a level, and it holds every bucket of the level before while it does; so whoever holds a bucket
//! and sees no level after it holds the bucket in which its hashes are.
//!
//! Costs: a hash takes one word in each table, plus the room its bucket has to grow (an eighth of the
//! bucket and at most three words more), plus its share of 32 bytes a bucket. Buckets are contiguous, so
//! that comparing a bucket is one run through memory.
//!
//! *Absent*: order within a bucket, and any way back to a shallower directory.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::ids::Word;

/// Segments in a table: one for each value of a block's upper byte.
const SEGMENTS: usize = 256;
/// For each level of a directory, how many bits of the lower byte its buckets tell apart.
const DEPTHS: [u32; 3] = [0, 4, 8];
/// A level is added when its buckets hold more than this on average: six cache lines of 64-bit hashes,
/// little enough to compare in the time that finding a bucket takes.
const FULL: usize = 48;

type Bucket<W> = RwLock<Vec<W>>;

/// The table of one block.
pub(super) struct Table<W> {
    block: u32,
    segments: Box<[Segment<W>]>,
}

/// The part of a table whose block values share their upper byte.
pub(super) struct Segment<W> {
    levels: [OnceLock<Box<[Bucket<W>]>>; DEPTHS.len()],
    len: AtomicUsize,
}

impl<W: Word> Table<W> {
    /// An empty table of block number `block`, counted from the least significant.
    pub(super) fn new(block: u32) -> Table<W> {
        Table { block, segments: (0..SEGMENTS).map(|_| Segment::new()).collect() }
    }

    /// The segment of block values with this upper byte.
    #[inline]
    pub(super) fn segment(&self, upper: u8) -> &Segment<W> {
        &self.segments[usize::from(upper)]
    }

    /// All segments, by ascending block value.
    pub(super) fn segments(&self) -> &[Segment<W>] {
        &self.segments
    }

    /// Files `hash`, which must not be in the table yet.
    pub(super) fn insert(&self, hash: W) {
        let [upper, lower] = hash.block(self.block).to_be_bytes();
        let segment = self.segment(upper);
        push(&mut segment.write(lower), hash);
        let len = segment.len.fetch_add(1, Ordering::Relaxed) + 1;
        let level = segment.last_level();
        if level + 1 < DEPTHS.len() && len > FULL << DEPTHS[level] {
            segment.deepen(level, self.block);
        }
    }

    /// Takes `hash` out; whether it was there.
    pub(super) fn remove(&self, hash: W) -> bool {
        let [upper, lower] = hash.block(self.block).to_be_bytes();
        let segment = self.segment(upper);
        let taken = take(&mut segment.write(lower), hash);
        if taken {
            segment.len.fetch_sub(1, Ordering::Relaxed);
        }
        taken
    }

    /// Whether `hash` is in the table.
    pub(super) fn contains(&self, hash: W) -> bool {
        let [upper, lower] = hash.block(self.block).to_be_bytes();
        self.segment(upper).read(lower).contains(&hash)
    }

    /// The bytes the table occupies, the room that buckets have to grow included, the allocator's own
    /// bookkeeping left out.
    pub(super) fn bytes(&self) -> usize {
        self.segments.iter().map(|segment| size_of::<Segment<W>>() + segment.bytes()).sum()
    }
}

impl<W: Word> Segment<W> {
    fn new() -> Segment<W> {
        let segment = Segment { levels: [const { OnceLock::new() }; DEPTHS.len()], len: AtomicUsize::new(0) };
        segment.levels[0].get_or_init(|| Box::new([RwLock::new(Vec::new())]));
        segment
    }

    /// The bucket in which a block value with this lower byte is filed, locked for reading. It holds every
    /// hash with that value, and while the directory is shallow others beside them.
    pub(super) fn read(&self, lower: u8) -> RwLockReadGuard<'_, Vec<W>> {
        loop {
            let level = self.last_level();
            let guard = self.bucket(level, place(level, lower)).read();
            if self.is_last(level) {
                return guard;
            }
        }
    }

    /// Brings the lock and the header of the bucket of `lower` near, without waiting for either. Called
    /// for several buckets before the first is locked, it lets their cache misses overlap, which locking
    /// one after the other does not.
    #[inline]
    pub(super) fn touch(&self, lower: u8) -> bool {
        let level = self.last_level();
        self.bucket(level, place(level, lower)).is_locked_exclusive()
    }

    /// Calls `each` with the buckets whose part of the lower byte, as far as the directory tells values
    /// apart, differs from `lower` by one of `flips(depth)`.
    ///
    /// `flips` are distinct values of `depth` bits, so every bucket comes once; if the directory deepens
    /// meanwhile, the buckets that took over come in the place of their parent.
    pub(super) fn read_around<'f>(
        &self,
        lower: u8,
        flips: impl Fn(u32) -> &'f [u8],
        each: &mut impl FnMut(&[W]),
    ) {
        let level = self.last_level();
        let own = place(level, lower);
        for &flip in flips(DEPTHS[level]) {
            self.visit(level, own ^ usize::from(flip), each);
        }
    }

    /// Calls `each` with every bucket, by ascending block value.
    pub(super) fn read_all(&self, each: &mut impl FnMut(&[W])) {
        let level = self.last_level();
        for at in 0..1 << DEPTHS[level] {
            self.visit(level, at, each);
        }
    }

    /// Reads bucket `at` of `level`, or the buckets that have taken its hashes over.
    fn visit(&self, level: usize, at: usize, each: &mut impl FnMut(&[W])) {
        let guard = self.bucket(level, at).read();
        if self.is_last(level) {
            return each(&guard);
        }
        drop(guard);
        let more = DEPTHS[level + 1] - DEPTHS[level];
        for child in at << more..(at + 1) << more {
            self.visit(level + 1, child, each);
        }
    }

    fn write(&self, lower: u8) -> RwLockWriteGuard<'_, Vec<W>> {
        loop {
            let level = self.last_level();
            let guard = self.bucket(level, place(level, lower)).write();
            if self.is_last(level) {
                return guard;
            }
        }
    }

    /// Adds the level after `level`, unless another writer has done so, and moves the hashes there.
    fn deepen(&self, level: usize, block: u32) {
        let mut guards: Vec<_> = self.buckets(level).iter().map(Bucket::write).collect();
        if !self.is_last(level) {
            return;
        }
        let mut deeper: Vec<Vec<W>> = vec![Vec::new(); 1 << DEPTHS[level + 1]];
        for hash in guards.iter().flat_map(|bucket| bucket.iter()) {
            let [_, lower] = hash.block(block).to_be_bytes();
            push(&mut deeper[place(level + 1, lower)], *hash);
        }
        let deeper = deeper.into_iter().map(RwLock::new).collect();
        assert!(self.levels[level + 1].set(deeper).is_ok(), "nobody adds a level without its parent's locks");
        guards.iter_mut().for_each(|bucket| **bucket = Vec::new());
    }

    #[inline]
    fn last_level(&self) -> usize {
        self.levels.iter().rposition(|level| level.get().is_some()).unwrap_or(0)
    }

    #[inline]
    fn is_last(&self, level: usize) -> bool {
        self.levels.get(level + 1).is_none_or(|next| next.get().is_none())
    }

    #[inline]
    fn buckets(&self, level: usize) -> &[Bucket<W>] {
        self.levels[level].get().expect("a level that was seen stays")
    }

    #[inline]
    fn bucket(&self, level: usize, at: usize) -> &Bucket<W> {
        &self.buckets(level)[at]
    }

    fn bytes(&self) -> usize {
        let buckets = self.levels.iter().filter_map(OnceLock::get).flatten();
        buckets.map(|bucket| size_of::<Bucket<W>>() + bucket.read().capacity() * size_of::<W>()).sum()
    }
}

/// Where in a level a lower byte is filed.
#[inline]
fn place(level: usize, lower: u8) -> usize {
    usize::from(lower) >> (8 - DEPTHS[level])
}

/// Appends with little room to spare: `Vec` alone would double, and a third of the index would be air.
fn push<W>(bucket: &mut Vec<W>, hash: W) {
    if bucket.len() == bucket.capacity() {
        let more = room_for(bucket.len() + 1) - bucket.len();
        bucket.reserve_exact(more);
    }
    bucket.push(hash);
}

/// Takes a hash out and gives back room, so that a bucket that shrinks does not keep its largest size.
fn take<W: Word>(bucket: &mut Vec<W>, hash: W) -> bool {
    let Some(at) = bucket.iter().position(|&stored| stored == hash) else {
        return false;
    };
    bucket.swap_remove(at);
    if bucket.is_empty() {
        *bucket = Vec::new();
    } else if bucket.capacity() > 2 * room_for(bucket.len()) {
        bucket.shrink_to(room_for(bucket.len()));
    }
    true
}

/// The capacity given to a bucket of `len` hashes: an eighth more, in steps of two words.
fn room_for(len: usize) -> usize {
    (len + len / 8 + 1) & !1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_keeps_its_hashes_through_every_level() {
        let table = Table::<u64>::new(0);
        let hashes: Vec<u64> = (0..9_000u64).map(|i| (i << 16) | (i % 256)).collect();
        let mut levels = Vec::new();
        for (inserted, &hash) in hashes.iter().enumerate() {
            table.insert(hash);
            levels.push(table.segment(0).last_level());
            let mut seen = 0;
            if inserted % 97 == 0 {
                table.segment(0).read_all(&mut |bucket| seen += bucket.len());
                assert_eq!(seen, inserted + 1);
            }
        }
        levels.dedup();
        assert_eq!(levels, [0, 1, 2]);
        for &hash in &hashes {
            assert!(table.contains(hash));
            assert!(table.remove(hash));
            assert!(!table.remove(hash));
        }
    }

    #[test]
    fn hashes_of_one_block_value_share_one_bucket_without_much_air() {
        let table = Table::<u128>::new(7);
        let empty = table.bytes();
        for i in 0..5_000u128 {
            table.insert((0xabcd << 112) | i);
        }
        assert_eq!(table.segment(0xab).read(0xcd).len(), 5_000);
        let room = table.bytes() - empty;
        assert!(room < 5_000 * 16 * 12 / 10 + 273 * 32, "{room} bytes");
    }
}
