//! A shard: a part of the buckets of a table. A bucket is some cache lines that are found by arithmetic.
//!
//! The first bits of a block select the bucket of a hash. So a bucket is one read, and its address does not
//! depend on another read: any number of buckets can be prefetched together. A full shard is rebuilt while it
//! is read: with twice as many buckets if its block has another bit to distinguish them, otherwise with more
//! lines per bucket.
//!
//! Hashes are not spread evenly, so some buckets overflow. The remaining hashes are stored in an extent: a
//! run of lines at the end of the shard to which the last line of the bucket points. The last line of an
//! extent points to the next extent, which is twice as long. A bucket of a hundred thousand hashes has about
//! a dozen extents.
//!
//! # Readers and the writer
//! There is one writer at a time, and readers take no lock. An entry changes its state only forwards: empty,
//! occupied, removed. No entry is reused and none moves, so an entry that a head reports does not change
//! while its line exists. The lines of a bucket fill in order, and then its extents.
//!
//! *Absent*: the bits of a hash that select a shard (`buckets`), distances (`probe`).

use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::memory::{Compare, LinePattern, Packed48, Work, cells, empty_lines, prefetch, with_best};
use super::entry::{BAND_BITS, IMPLIED_BITS, first, joined};

/// The number of first bits of a block that select a shard.
pub(super) const SHARD_BITS: u32 = 6;
/// A shard is rebuilt if more than one bucket in this number overflows.
const BUCKETS_PER_OVERFLOW: usize = 8;
/// Standard deviations above the mean at which a bucket overflows, if that share of buckets overflows.
const DEVIATIONS: f64 = 0.95;
/// The least number of lines of a bucket.
const LEAST_LINES: u32 = 1;
/// The minimum number of lines for extents.
const SPARE: usize = 4;
/// How many hashes ahead of the inserted one their buckets are prefetched.
const AHEAD: usize = 16;

/// The head of a line: which entries are occupied, how many were ever used, and where the bucket continues.
#[derive(Clone, Copy)]
struct Head(u32);

impl Head {
    const LIVE_BITS: u32 = 10;
    const USED_BITS: u32 = 4;
    const LINKS: usize = 1 << (u32::BITS - Head::LIVE_BITS - Head::USED_BITS);

    #[inline(always)]
    fn live(self) -> u32 {
        self.0 & ((1 << Head::LIVE_BITS) - 1)
    }

    #[inline(always)]
    fn used(self) -> usize {
        (self.0 >> Head::LIVE_BITS) as usize & ((1 << Head::USED_BITS) - 1)
    }

    /// The position of the next extent, from 1 on; 0 if there is none.
    #[inline(always)]
    fn link(self) -> usize {
        (self.0 >> (Head::LIVE_BITS + Head::USED_BITS)) as usize
    }

    /// A head whose entries up to this one are occupied.
    fn full_to(entry: usize) -> Head {
        Head(((2 << entry) - 1) | ((entry as u32 + 1) << Head::LIVE_BITS))
    }

    /// The head with one more entry, which is occupied.
    fn with_another(self) -> Head {
        Head((self.0 | 1 << self.used()) + (1 << Head::LIVE_BITS))
    }

    fn without(self, entry: usize) -> Head {
        Head(self.0 & !(1 << entry))
    }

    fn linked(self, link: usize) -> Head {
        Head(self.0 | (link as u32) << (Head::LIVE_BITS + Head::USED_BITS))
    }
}

/// The number of buckets of a shard and their size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// The number of first bits of the block that select a bucket, including those that select the shard.
    pub(super) depth: u32,
    /// The number of lines of a bucket, without its extents.
    pub(super) width: u32,
}

impl Shape {
    /// The smallest shape.
    fn least() -> Shape {
        Shape { depth: IMPLIED_BITS, width: LEAST_LINES }
    }

    /// The smallest shape of a shard of this block for this number of hashes.
    pub(super) fn suited(hashes: usize) -> Shape {
        let mut shape = Shape::least();
        while shape.room() < hashes {
            shape = shape.next();
        }
        shape
    }

    /// The next larger shape: larger buckets, or twice as many of the least size.
    fn next(self) -> Shape {
        let least = LEAST_LINES;
        if self.depth < BAND_BITS && self.width + 1 < 2 * least {
            Shape { width: self.width + 1, ..self }
        } else if self.depth < BAND_BITS {
            Shape { depth: self.depth + 1, width: least }
        } else {
            Shape { width: if self.width < 4 { self.width + 1 } else { self.width * 3 / 2 }, ..self }
        }
    }

    fn buckets(self) -> usize {
        1 << (self.depth - SHARD_BITS)
    }

    /// The bucket of a hash whose block begins with these bits.
    #[inline(always)]
    fn bucket(self, place: u32) -> usize {
        (place << SHARD_BITS >> (u32::BITS + SHARD_BITS - self.depth)) as usize
    }

    /// The number of lines of extents that these hashes need.
    fn overflow(self, hashes: &[u64]) -> usize {
        let mut sizes = vec![0u32; self.buckets()];
        hashes.iter().for_each(|hash| sizes[self.bucket(first(*hash, BAND_BITS))] += 1);
        let entries = self.width as usize * Packed48::ENTRIES;
        let over = sizes.iter().filter(|size| **size as usize > entries);
        // Extents of one, two, four and so on lines, until they are sufficient.
        over.map(|size| (*size as usize - entries).div_ceil(Packed48::ENTRIES) + 1)
            .map(|lines| lines.next_power_of_two() - 1)
            .sum()
    }

    /// The number of evenly spread hashes at which about the permitted number of buckets overflow. A bucket
    /// overflows if its hashes exceed the mean by [`DEVIATIONS`] roots of its number of entries.
    fn room(self) -> usize {
        let entries = (self.width as usize * Packed48::ENTRIES) as f64;
        ((entries - DEVIATIONS * entries.sqrt()) * self.buckets() as f64) as usize
    }
}

/// The hashes of a table whose blocks share their first [`SHARD_BITS`] bits.
pub(super) struct Shard {
    /// The lines of the buckets, then those of the extents.
    lines: Box<[Packed48]>,
    shape: Shape,
    /// Extents begin at multiples of 2 to the power of this number of lines.
    extent_shift: u32,
    counts: Counts,
}

/// The counters of the writer.
#[repr(align(64))]
struct Counts {
    /// The number of lines taken by extents, and the number of hashes. Only the writer changes them.
    taken: AtomicUsize,
    held: AtomicUsize,
}

impl Shard {
    /// The shard of these hashes in this shape, or in a larger one if links could not address all extents.
    pub(super) fn built(mut shape: Shape, hashes: &[u64]) -> Shard {
        loop {
            let spare = shape.buckets() / BUCKETS_PER_OVERFLOW + SPARE + 2 * shape.overflow(hashes);
            // Extents begin at positions that a link can address, which may need more lines.
            for spare in [spare, 2 * spare] {
                let shard = Shard::empty(shape, spare);
                if shard.fill(hashes) {
                    return shard;
                }
            }
            shape = shape.next();
        }
    }

    /// Inserts hashes into an empty shard that no other thread sees. Returns whether they fit. It is faster
    /// than single insertions, because it does not read the written lines again.
    fn fill(&self, hashes: &[u64]) -> bool {
        let (width, entries) = (self.shape.width as usize, Packed48::ENTRIES);
        let mut next = vec![0u32; self.shape.buckets()];
        let mut over = Vec::new();
        hashes.iter().take(AHEAD).for_each(|hash| self.prefetch_bucket(*hash));
        for (at, &hash) in hashes.iter().enumerate() {
            hashes.get(at + AHEAD).into_iter().for_each(|hash| self.prefetch_bucket(*hash));
            let bucket = self.bucket(first(hash, BAND_BITS));
            let place = next[bucket] as usize;
            let (line, entry) = if place < entries { (0, place) } else { (place / entries, place % entries) };
            if line < width {
                next[bucket] += 1;
                let line = &self.lines[bucket * width + line];
                line.write(entry, hash);
                line.set_head(Head::full_to(entry).0);
            } else {
                over.push(hash);
            }
        }
        self.counts.held.store(hashes.len() - over.len(), Ordering::Relaxed);
        over.iter().all(|hash| self.insert(*hash))
    }

    fn empty(shape: Shape, spare: usize) -> Shard {
        let extent_shift = (spare / Head::LINKS + 1).next_power_of_two().ilog2();
        let lines = empty_lines(shape.buckets() * shape.width as usize + spare);
        let counts = Counts { taken: AtomicUsize::new(0), held: AtomicUsize::new(0) };
        Shard { lines, shape, extent_shift, counts }
    }

    /// A shard of the same hashes that has space for more.
    pub(super) fn rebuilt(&self, number: usize) -> Shard {
        let is_half_full = self.len() * 2 > self.shape.room();
        let shape = if is_half_full { self.shape.next() } else { self.shape };
        Shard::built(shape, &self.hashes(number))
    }

    /// The number of hashes.
    pub(super) fn len(&self) -> usize {
        self.counts.held.load(Ordering::Relaxed)
    }

    fn taken(&self) -> usize {
        self.counts.taken.load(Ordering::Relaxed)
    }

    /// The number of first bits of the block that select a bucket.
    #[inline(always)]
    pub(super) fn depth(&self) -> u32 {
        self.shape.depth
    }

    /// The bytes that it occupies.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.lines)
    }

    /// Whether so many hashes were removed that a much smaller shape is sufficient.
    pub(super) fn is_sparse(&self) -> bool {
        self.shape != Shape::least() && self.len() * 8 < self.shape.room()
    }

    /// The line at which extents begin.
    #[inline(always)]
    fn extents(&self) -> usize {
        self.shape.buckets() * self.shape.width as usize
    }

    /// The bucket of a hash whose block begins with these bits.
    #[inline(always)]
    pub(super) fn bucket(&self, place: u32) -> usize {
        self.shape.bucket(place)
    }

    /// The lines of `count` buckets, without their extents.
    #[inline(always)]
    pub(super) fn buckets(&self, first: usize, count: usize) -> &[Packed48] {
        let width = self.shape.width as usize;
        &self.lines[first * width..(first + count) * width]
    }

    /// The first bits of the blocks in a bucket of shard `number`. Entries do not store them.
    #[inline(always)]
    pub(super) fn implied(&self, number: usize, bucket: usize) -> u32 {
        let first = (number << (self.shape.depth - SHARD_BITS) | bucket) as u32;
        first >> (self.shape.depth - IMPLIED_BITS)
    }

    /// The extent to which a head points, if there is one; `after` is the number of extents before it.
    #[inline(always)]
    fn extent(&self, head: Head, after: u32) -> Option<&[Packed48]> {
        let from = head.link().checked_sub(1)?;
        let from = self.extents() + (from << self.extent_shift);
        Some(&self.lines[from..from + (1 << after)])
    }

    /// The extents of the bucket whose last line is `last`.
    #[inline(always)]
    pub(super) fn extents_after<'s>(&'s self, last: &'s Packed48) -> impl Iterator<Item = &'s [Packed48]> {
        let mut last = last;
        let mut after = 0;
        std::iter::from_fn(move || {
            let extent = self.extent(Head(last.head()), after)?;
            after += 1;
            last = &extent[extent.len() - 1];
            Some(extent)
        })
    }

    /// Prefetches the first line of the first extent, if the head points to one.
    #[inline(always)]
    pub(super) fn prefetch_extent(&self, head: u32) {
        if let Some(extent) = self.extent(Head(head), 0) {
            prefetch(extent, 1);
        }
    }

    /// Prefetches the bucket of a hash.
    #[inline(always)]
    pub(super) fn prefetch_bucket(&self, hash: u64) {
        let bucket = self.bucket(first(hash, BAND_BITS));
        let lines = self.buckets(bucket, 1);
        prefetch(lines, lines.len());
    }

    /// Inserts a hash, which must not be in the shard. Returns `false` if the shard must be rebuilt first.
    /// Only the writer may call this.
    pub(super) fn insert(&self, hash: u64) -> bool {
        let mut lines = self.buckets(self.bucket(first(hash, BAND_BITS)), 1);
        let mut after = 0;
        loop {
            let last = &lines[lines.len() - 1];
            let head = Head(last.head());
            if head.used() < Packed48::ENTRIES {
                break;
            }
            let extent = match self.extent(head, after) {
                Some(extent) => extent,
                None => match self.take_extent(last, head, after) {
                    Some(extent) => extent,
                    None => return false,
                },
            };
            lines = extent;
            after += 1;
        }
        // Lines fill in order.
        let full = |line: &Packed48| Head(line.head()).used() == Packed48::ENTRIES;
        let line = if lines.len() == 1 { &lines[0] } else { &lines[lines.partition_point(full)] };
        let head = Head(line.head());
        line.write(head.used(), hash);
        line.set_head(head.with_another().0);
        self.counts.held.store(self.len() + 1, Ordering::Relaxed);
        true
    }

    /// Allocates an extent and links it to the last line of a bucket. Returns `None` if there are too few
    /// lines.
    fn take_extent(&self, last: &Packed48, head: Head, after: u32) -> Option<&[Packed48]> {
        let (taken, lines) = (self.taken(), 1usize << after);
        let end = taken + lines.next_multiple_of(1 << self.extent_shift);
        if self.extents() + end > self.lines.len() {
            return None;
        }
        let head = head.linked((taken >> self.extent_shift) + 1);
        last.set_head(head.0);
        self.counts.taken.store(end, Ordering::Relaxed);
        self.extent(head, after)
    }

    /// Whether the shard holds the hash.
    #[cfg(test)]
    fn contains(&self, hash: u64) -> bool {
        with_best(Find { shard: self, hash }).is_some()
    }

    /// Removes a hash. Returns whether it was present. Only the writer may call this.
    pub(super) fn remove(&self, hash: u64) -> bool {
        let Some((line, entry)) = with_best(Find { shard: self, hash }) else {
            return false;
        };
        line.set_head(Head(line.head()).without(entry).0);
        self.counts.held.store(self.len() - 1, Ordering::Relaxed);
        true
    }

    /// Calls `each` with every hash in `count` buckets of this shard, whose number is `number`.
    #[inline(always)]
    pub(super) fn for_each_in(&self, number: usize, first: usize, count: usize, mut each: impl FnMut(u64)) {
        for bucket in first..first + count {
            let lines = self.buckets(bucket, 1);
            let implied = self.implied(number, bucket);
            let mut all = |lines: &[Packed48]| {
                for line in lines {
                    for entry in cells(Head(line.head()).live()) {
                        each(joined(implied, line.read(entry)));
                    }
                }
            };
            all(lines);
            self.extents_after(&lines[lines.len() - 1]).for_each(&mut all);
        }
    }

    /// All hashes of this shard, whose number is `number`.
    pub(super) fn hashes(&self, number: usize) -> Vec<u64> {
        let mut hashes = Vec::with_capacity(self.len());
        self.for_each_in(number, 0, self.shape.buckets(), |hash| hashes.push(hash));
        hashes
    }

    /// The occupied entries of a line within `k` bits of the pattern, and the head of the line.
    #[inline(always)]
    pub(super) fn near<C: Compare>(compare: C, line: &Packed48, pattern: &LinePattern, k: u32) -> (u32, u32) {
        let head = line.head();
        (line.near(compare, pattern, k) & Head(head).live(), head)
    }

    /// The occupied entries of a line that begin with this word, and the head of the line.
    #[inline(always)]
    pub(super) fn starting_with<C: Compare>(compare: C, line: &Packed48, word: u16) -> (u32, u32) {
        let head = line.head();
        (line.beginning(compare, word) & Head(head).live(), head)
    }

    /// Whether the bucket continues in an extent after the line with this head.
    #[inline(always)]
    pub(super) fn has_extent(head: u32) -> bool {
        Head(head).link() > 0
    }
}

struct Find<'a> {
    shard: &'a Shard,
    hash: u64,
}

impl<'a> Work for Find<'a> {
    type Output = Option<(&'a Packed48, usize)>;

    #[inline(always)]
    fn run<C: Compare>(self, compare: C) -> Option<(&'a Packed48, usize)> {
        let Find { shard, hash } = self;
        let pattern = Packed48::pattern(hash);
        let find = |lines: &'a [Packed48]| {
            lines.iter().find_map(|line| {
                let (near, _) = Shard::near(compare, line, &pattern, 0);
                // The entry equals the hash in all stored bits, and the bucket implies the others.
                (near != 0).then(|| (line, near.trailing_zeros() as usize))
            })
        };
        let lines = shard.buckets(shard.bucket(first(hash, BAND_BITS)), 1);
        find(lines).or_else(|| shard.extents_after(&lines[lines.len() - 1]).find_map(find))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(number: u64) -> u64 {
        number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23) ^ number
    }

    /// Inserts the hashes of one shard one by one, with the necessary rebuilds, then removes them.
    fn model(hashes: &[u64]) {
        let number = first(hashes[0], SHARD_BITS) as usize;
        let mut shard = Shard::built(Shape::suited(0), &[]);
        let mut rebuilt = 0;
        for (count, &hash) in hashes.iter().enumerate() {
            assert_eq!(first(hash, SHARD_BITS) as usize, number);
            assert!(!shard.contains(hash) && !shard.remove(hash));
            while !shard.insert(hash) {
                rebuilt += 1;
                shard = shard.rebuilt(number);
            }
            assert!(shard.contains(hash));
            assert_eq!(shard.len(), count + 1);
        }
        assert!(rebuilt < 40, "the shard was rebuilt {rebuilt} times");
        let sorted = |mut hashes: Vec<u64>| {
            hashes.sort_unstable();
            hashes
        };
        let expected = sorted(hashes.to_vec());
        assert!(sorted(shard.hashes(number)) == expected);
        let built = Shard::built(Shape::suited(hashes.len()), hashes);
        assert!(sorted(built.hashes(number)) == expected && built.len() == hashes.len());
        for &hash in hashes {
            assert!(built.contains(hash));
            assert!(shard.remove(hash) && !shard.remove(hash) && !shard.contains(hash));
        }
        assert!(shard.len() == 0 && shard.hashes(number).is_empty() && shard.is_sparse() == (rebuilt > 0));
    }

    #[test]
    fn evenly_spread_hashes_are_inserted_and_removed() {
        let count = if cfg!(miri) { 200 } else { 60_000 };
        let even: Vec<u64> = (0..count).map(|number| spread(number) >> 6 | 5 << 58).collect();
        model(&even);
    }

    #[test]
    fn hashes_of_one_bucket_overflow_into_its_extents() {
        let count = if cfg!(miri) { 100 } else { 20_000 };
        let one: Vec<u64> = (0..count).map(|number| 0xabcd << 48 | number).collect();
        model(&one);
    }

    #[test]
    fn consecutive_hashes_fill_one_bucket_after_another() {
        let row: Vec<u64> = (0..if cfg!(miri) { 200 } else { 30_000 }).collect();
        model(&row);
        model(&row.iter().map(|number| number << 32).collect::<Vec<_>>());
    }

    /// There are so many extent lines that a link has too few bits to address each line.
    #[test]
    fn extents_start_at_even_lines_when_links_are_too_short() {
        let hashes: Vec<u64> = (0..if cfg!(miri) { 0 } else { 3_000_000 }).collect();
        let shard = Shard::built(Shape { depth: 16, width: 1 }, &hashes);
        assert!(cfg!(miri) || shard.extent_shift > 0);
        assert!(hashes.iter().step_by(100_000).all(|hash| shard.contains(*hash)));
        assert_eq!(shard.hashes(0).len(), hashes.len());
    }

    /// There are more buckets with extents than a link can address, for any number of lines.
    #[test]
    fn a_shard_with_more_extents_than_links_gets_more_buckets() {
        let buckets = if cfg!(miri) { 0 } else { 140_000 };
        let bucket = |bucket: u64| (0..21).map(move |at| (((bucket << 7) + at * 6) << 32) + at);
        let hashes: Vec<u64> = (0..buckets).flat_map(bucket).collect();
        let shard = Shard::built(Shape { depth: 25, width: 1 }, &hashes);
        assert!(cfg!(miri) || shard.depth() > 25);
        assert_eq!(shard.len(), hashes.len());
        assert!(hashes.iter().step_by(10_007).all(|hash| shard.contains(*hash)));
    }

    #[test]
    fn a_suited_shape_holds_its_hashes() {
        let mut before = Shape::suited(0);
        for hashes in (0..60).map(|step| 1usize << (step / 2) | (step % 2) << (step / 2)) {
            let shape = Shape::suited(hashes);
            assert!(shape.room() >= hashes);
            assert!(shape.depth >= before.depth && shape.width >= before.width);
            assert!(shape.depth == BAND_BITS || shape.width == 1);
            before = shape;
        }
    }
}
