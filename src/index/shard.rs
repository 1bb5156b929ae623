//! A shard: a share of a table's buckets, each of which is some cache lines that are found by arithmetic.
//!
//! The bucket of a hash is told by the first bits of its block, as many as the shard has buckets for. So a
//! bucket is one read from memory whose place depends on nothing that has to be read before, and any number
//! of buckets can be asked for together. A shard that becomes full is built anew beside its readers, with
//! twice as many buckets as long as its block has bits to tell them apart by, with more lines a bucket after
//! that.
//!
//! Hashes are spread, and not evenly, so some buckets overflow: what does not fit stands in an extent, a run
//! of lines at the end of the shard to which the bucket's last line points; the next extent is twice as long,
//! and the last line of each points to the next one. A bucket with a hundred thousand hashes is a dozen such
//! runs.
//!
//! # Readers beside a writer
//! One writer at a time, readers without a lock. Entries have a life of one direction: free, holds a hash,
//! given up. None is used again and none moves, so that what a head tells of stays as it is while the line is
//! there. The lines of a bucket fill in order, and its extents after them.
//!
//! *Absent*: which bits of a hash tell shards apart (`buckets`), distances (`probe`).

use std::sync::atomic::{AtomicUsize, Ordering};

use super::block::{Block, Filed, IMPLIED_BITS};
use super::memory::{Compare, Packed, Pattern, Work, cells, empty_lines, prefetch, with_best};

/// The first bits of a block, which tell shards apart.
pub(super) const SHARD_BITS: u32 = 6;
/// One of so many buckets may overflow before a shard is built anew: where a query reads few of them, which
/// would all be done but for one extent, and where it reads many.
const OVERFLOWING: [usize; 2] = [32, 8];
/// How many roots of the number of its entries a bucket must then be fuller than the mean to overflow.
const FULLER: [f64; 2] = [1.5, 0.95];
/// Lines for extents that every shard has.
const SPARE: usize = 4;
/// Hashes whose places are asked for before the first of them is filed.
const AHEAD: usize = 16;

/// What the head of a line says: which entries hold a hash, how many were ever used, and where the bucket
/// goes on.
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

    /// The number of the next extent's place, from 1 on; 0 if there is none.
    #[inline(always)]
    fn link(self) -> usize {
        (self.0 >> (Head::LIVE_BITS + Head::USED_BITS)) as usize
    }

    /// All entries up to this one hold a hash.
    fn full_to(entry: usize) -> Head {
        Head(((2 << entry) - 1) | ((entry as u32 + 1) << Head::LIVE_BITS))
    }

    /// With one more entry, which holds a hash.
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

/// Which of the two it is: blocks that have no more bits than their places imply are few and read one bucket
/// each.
fn case(block: Block) -> usize {
    usize::from(block.bits() > IMPLIED_BITS)
}

/// How many buckets a shard has, and how large they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// How many first bits of the block tell buckets apart, those that tell shards apart included.
    pub(super) depth: u32,
    /// Lines a bucket, without its extents.
    pub(super) width: u32,
}

impl Shape {
    /// The smallest shape of a shard of this block for so many hashes.
    pub(super) fn suited<W: Filed>(block: Block, hashes: usize) -> Shape {
        let mut shape = Shape { depth: IMPLIED_BITS, width: 1 };
        while shape.room::<W>(block) < hashes {
            shape = shape.next(block);
        }
        shape
    }

    /// The next larger shape: twice as many buckets, or larger ones.
    fn next(self, block: Block) -> Shape {
        if self.depth < block.bits() {
            Shape { depth: self.depth + 1, ..self }
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

    /// The lines of the extents that these hashes take.
    fn overflow<W: Filed>(self, block: Block, hashes: &[W]) -> usize {
        let mut sizes = vec![0u32; self.buckets()];
        hashes.iter().for_each(|hash| sizes[self.bucket(block.place(*hash))] += 1);
        let entries = self.width as usize * W::Packed::ENTRIES;
        let over = sizes.iter().filter(|size| **size as usize > entries);
        // One, two, four and so on, until they suffice.
        over.map(|size| (*size as usize - entries).div_ceil(W::Packed::ENTRIES) + 1)
            .map(|lines| lines.next_power_of_two() - 1)
            .sum()
    }

    /// How many evenly spread hashes make about as many buckets overflow as may. A bucket of so many entries
    /// does if it gets some more than the root of their number more than the mean.
    fn room<W: Filed>(self, block: Block) -> usize {
        let entries = (self.width as usize * W::Packed::ENTRIES) as f64;
        ((entries - FULLER[case(block)] * entries.sqrt()) * self.buckets() as f64) as usize
    }
}

/// The hashes of a table whose blocks share their first [`SHARD_BITS`] bits.
pub(super) struct Shard<W: Filed> {
    /// The lines of the buckets, then those of the extents.
    lines: Box<[W::Packed]>,
    shape: Shape,
    /// Places of extents are multiples of 2 to the power of this many lines.
    unit: u32,
    block: Block,
    counts: Counts,
}

/// What the writer keeps of a shard.
#[repr(align(64))]
struct Counts {
    /// Lines that extents have taken, and hashes. Only the writer changes them.
    taken: AtomicUsize,
    held: AtomicUsize,
}

impl<W: Filed> Shard<W> {
    /// The shard of these hashes, in this shape, or in a larger one if its extents could not all be told
    /// apart.
    pub(super) fn built(block: Block, mut shape: Shape, hashes: &[W]) -> Shard<W> {
        loop {
            let spare =
                shape.buckets() / OVERFLOWING[case(block)] + SPARE + 2 * shape.overflow(block, hashes);
            // Extents begin where their places can be told, which takes some lines more.
            for spare in [spare, 2 * spare] {
                let shard = Shard::empty(block, shape, spare);
                if shard.fill(hashes) {
                    return shard;
                }
            }
            shape = shape.next(block);
        }
    }

    /// Files hashes in an empty shard that nobody else sees: whether they fit. Nothing is read back of what
    /// was written.
    fn fill(&self, hashes: &[W]) -> bool {
        let (width, entries) = (self.shape.width as usize, W::Packed::ENTRIES);
        let mut next = vec![0u32; self.shape.buckets()];
        let mut over = Vec::new();
        hashes.iter().take(AHEAD).for_each(|hash| self.approach(*hash));
        for (at, &hash) in hashes.iter().enumerate() {
            hashes.get(at + AHEAD).into_iter().for_each(|hash| self.approach(*hash));
            let bucket = self.bucket(self.block.place(hash));
            let place = next[bucket] as usize;
            let (line, entry) = if place < entries { (0, place) } else { (place / entries, place % entries) };
            if line < width {
                next[bucket] += 1;
                let line = &self.lines[bucket * width + line];
                line.write(entry, self.block.turned(hash));
                line.set_head(Head::full_to(entry).0);
            } else {
                over.push(hash);
            }
        }
        self.counts.held.store(hashes.len() - over.len(), Ordering::Relaxed);
        over.iter().all(|hash| self.insert(*hash))
    }

    fn empty(block: Block, shape: Shape, spare: usize) -> Shard<W> {
        let unit = (spare / Head::LINKS + 1).next_power_of_two().ilog2();
        let lines = empty_lines(shape.buckets() * shape.width as usize + spare);
        let counts = Counts { taken: AtomicUsize::new(0), held: AtomicUsize::new(0) };
        Shard { lines, shape, unit, block, counts }
    }

    /// The same hashes in a shape in which there is room for more.
    pub(super) fn grown(&self, number: usize) -> Shard<W> {
        let crowded = self.len() * 2 > self.shape.room::<W>(self.block);
        let shape = if crowded { self.shape.next(self.block) } else { self.shape };
        Shard::built(self.block, shape, &self.hashes(number))
    }

    /// How many hashes it holds.
    pub(super) fn len(&self) -> usize {
        self.counts.held.load(Ordering::Relaxed)
    }

    fn taken(&self) -> usize {
        self.counts.taken.load(Ordering::Relaxed)
    }

    /// How many bits of the block tell its buckets apart.
    #[inline(always)]
    pub(super) fn depth(&self) -> u32 {
        self.shape.depth
    }

    /// Bytes it occupies.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.lines)
    }

    /// Whether so much was taken out that a smaller shape would do by far.
    pub(super) fn is_hollow(&self) -> bool {
        let smallest = self.shape == Shape { depth: IMPLIED_BITS, width: 1 };
        !smallest && self.len() * 8 < self.shape.room::<W>(self.block)
    }

    /// The line where extents begin.
    #[inline(always)]
    fn extents(&self) -> usize {
        self.shape.buckets() * self.shape.width as usize
    }

    /// The bucket of a hash whose block begins with these bits.
    #[inline(always)]
    pub(super) fn bucket(&self, place: u32) -> usize {
        self.shape.bucket(place)
    }

    /// The lines of so many buckets, without their extents.
    #[inline(always)]
    pub(super) fn buckets(&self, first: usize, count: usize) -> &[W::Packed] {
        let width = self.shape.width as usize;
        &self.lines[first * width..(first + count) * width]
    }

    /// The lines of each bucket, without their extents.
    #[inline(always)]
    pub(super) fn each_bucket(&self) -> impl Iterator<Item = &[W::Packed]> {
        self.lines[..self.extents()].chunks_exact(self.shape.width as usize)
    }

    /// The bucket of which line `at` of those that begin with bucket `first` is one.
    #[inline(always)]
    pub(super) fn bucket_of(&self, first: usize, at: usize) -> usize {
        if self.shape.width == 1 { first + at } else { first + at / self.shape.width as usize }
    }

    /// The first bits of the blocks in a bucket of shard `number`, which no entry repeats.
    #[inline(always)]
    pub(super) fn implied(&self, number: usize, bucket: usize) -> u32 {
        let first = (number << (self.shape.depth - SHARD_BITS) | bucket) as u32;
        first >> (self.shape.depth - IMPLIED_BITS)
    }

    /// The extent that a head points to, if it does; `after` is the number of the bucket's extents before it.
    #[inline(always)]
    fn extent(&self, head: Head, after: u32) -> Option<&[W::Packed]> {
        let from = head.link().checked_sub(1)?;
        let from = self.extents() + (from << self.unit);
        Some(&self.lines[from..from + (1 << after)])
    }

    /// Every extent of the bucket whose last line is this one.
    #[inline(always)]
    pub(super) fn extents_after<'s>(&'s self, last: &'s W::Packed) -> impl Iterator<Item = &'s [W::Packed]> {
        let mut last = last;
        let mut after = 0;
        std::iter::from_fn(move || {
            let extent = self.extent(Head(last.head()), after)?;
            after += 1;
            last = &extent[extent.len() - 1];
            Some(extent)
        })
    }

    /// Asks for what says where a bucket goes on, if it does.
    #[inline(always)]
    pub(super) fn approach_extent(&self, head: u32) {
        if let Some(extent) = self.extent(Head(head), 0) {
            prefetch(extent, 1);
        }
    }

    /// Asks for the place of a hash.
    #[inline(always)]
    pub(super) fn approach(&self, hash: W) {
        let bucket = self.bucket(self.block.place(hash));
        let lines = self.buckets(bucket, 1);
        prefetch(lines, lines.len());
    }

    /// Whether the bucket of a hash has extents.
    pub(super) fn overflows(&self, hash: W) -> bool {
        let lines = self.buckets(self.bucket(self.block.place(hash)), 1);
        Head(lines[lines.len() - 1].head()).link() > 0
    }

    /// Files a hash, which must not be here yet: `false` if that needs a shard built anew. For the writer.
    pub(super) fn insert(&self, hash: W) -> bool {
        let mut lines = self.buckets(self.bucket(self.block.place(hash)), 1);
        let mut after = 0;
        loop {
            let last = &lines[lines.len() - 1];
            let head = Head(last.head());
            if head.used() < W::Packed::ENTRIES {
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
        let full = |line: &W::Packed| Head(line.head()).used() == W::Packed::ENTRIES;
        let line = if lines.len() == 1 { &lines[0] } else { &lines[lines.partition_point(full)] };
        let head = Head(line.head());
        line.write(head.used(), self.block.turned(hash));
        line.set_head(head.with_another().0);
        self.counts.held.store(self.len() + 1, Ordering::Relaxed);
        true
    }

    /// Takes lines for an extent of the bucket that ends with this line.
    fn take_extent(&self, last: &W::Packed, head: Head, after: u32) -> Option<&[W::Packed]> {
        let (taken, lines) = (self.taken(), 1usize << after);
        let end = taken + lines.next_multiple_of(1 << self.unit);
        if self.extents() + end > self.lines.len() {
            return None;
        }
        let head = head.linked((taken >> self.unit) + 1);
        last.set_head(head.0);
        self.counts.taken.store(end, Ordering::Relaxed);
        self.extent(head, after)
    }

    /// Whether the hash is here.
    pub(super) fn contains(&self, hash: W) -> bool {
        with_best(Find { shard: self, hash }).is_some()
    }

    /// Takes a hash out: whether it was here. For the writer.
    pub(super) fn remove(&self, hash: W) -> bool {
        let Some((line, entry)) = with_best(Find { shard: self, hash }) else {
            return false;
        };
        line.set_head(Head(line.head()).without(entry).0);
        self.counts.held.store(self.len() - 1, Ordering::Relaxed);
        true
    }

    /// Calls `each` with every hash of shard `number` in so many buckets.
    #[inline(always)]
    pub(super) fn for_each_in(&self, number: usize, first: usize, count: usize, mut each: impl FnMut(W)) {
        for bucket in first..first + count {
            let lines = self.buckets(bucket, 1);
            let implied = self.implied(number, bucket);
            let mut all = |lines: &[W::Packed]| {
                for line in lines {
                    for entry in cells(Head(line.head()).live()) {
                        each(self.block.joined(implied, line.read(entry)));
                    }
                }
            };
            all(lines);
            self.extents_after(&lines[lines.len() - 1]).for_each(&mut all);
        }
    }

    /// All hashes of shard `number`.
    pub(super) fn hashes(&self, number: usize) -> Vec<W> {
        let mut hashes = Vec::with_capacity(self.len());
        self.for_each_in(number, 0, self.shape.buckets(), |hash| hashes.push(hash));
        hashes
    }

    /// How many buckets it has.
    pub(super) fn count(&self) -> usize {
        self.shape.buckets()
    }

    /// The entries of a line that hold a hash near the pattern's, and the line's head.
    #[inline(always)]
    pub(super) fn near<C: Compare>(compare: C, line: &W::Packed, pattern: &Pattern, k: u32) -> (u32, u32) {
        let head = line.head();
        (line.near(compare, pattern, k) & Head(head).live(), head)
    }

    /// The entries of a line that hold a hash and begin with this word, and the line's head.
    #[inline(always)]
    pub(super) fn alike<C: Compare>(compare: C, line: &W::Packed, word: u16) -> (u32, u32) {
        let head = line.head();
        (line.beginning(compare, word) & Head(head).live(), head)
    }

    /// Whether every entry of the line with this head was used, so that more may stand in the next.
    #[inline(always)]
    pub(super) fn is_full(head: u32) -> bool {
        Head(head).used() == W::Packed::ENTRIES
    }

    /// Whether the bucket goes on after the line that has this head.
    #[inline(always)]
    pub(super) fn goes_on(head: u32) -> bool {
        Head(head).link() > 0
    }
}

struct Find<'a, W: Filed> {
    shard: &'a Shard<W>,
    hash: W,
}

impl<'a, W: Filed> Work for Find<'a, W> {
    type Output = Option<(&'a W::Packed, usize)>;

    #[inline(always)]
    fn run<C: Compare>(self, compare: C) -> Option<(&'a W::Packed, usize)> {
        let Find { shard, hash } = self;
        let pattern = W::Packed::pattern(shard.block.turned(hash));
        let find = |lines: &'a [W::Packed]| {
            lines.iter().find_map(|line| {
                let (near, _) = Shard::<W>::near(compare, line, &pattern, 0);
                // What is equal in all bits but the implied ones, and they are.
                (near != 0).then(|| (line, near.trailing_zeros() as usize))
            })
        };
        let lines = shard.buckets(shard.bucket(shard.block.place(hash)), 1);
        find(lines).or_else(|| shard.extents_after(&lines[lines.len() - 1]).find_map(find))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(number: u64) -> u64 {
        number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23) ^ number
    }

    /// Hashes of one shard, filed one by one, built anew as often as that takes, and taken out again.
    fn model<W: Filed>(block: Block, hashes: &[W]) {
        let number = block.first(hashes[0], SHARD_BITS) as usize;
        let mut shard = Shard::built(block, Shape::suited::<W>(block, 0), &[]);
        let mut rebuilt = 0;
        for (count, &hash) in hashes.iter().enumerate() {
            assert_eq!(block.first(hash, SHARD_BITS) as usize, number);
            assert!(!shard.contains(hash) && !shard.remove(hash));
            while !shard.insert(hash) {
                rebuilt += 1;
                shard = shard.grown(number);
            }
            assert!(shard.contains(hash));
            assert_eq!(shard.len(), count + 1);
        }
        assert!(rebuilt < 40, "{rebuilt} times");
        let sorted = |mut hashes: Vec<W>| {
            hashes.sort_unstable();
            hashes
        };
        let expected = sorted(hashes.to_vec());
        assert!(sorted(shard.hashes(number)) == expected);
        let built = Shard::built(block, Shape::suited::<W>(block, hashes.len()), hashes);
        assert!(sorted(built.hashes(number)) == expected && built.len() == hashes.len());
        for &hash in hashes {
            assert!(built.contains(hash));
            assert!(shard.remove(hash) && !shard.remove(hash) && !shard.contains(hash));
        }
        assert!(shard.len() == 0 && shard.hashes(number).is_empty() && shard.is_hollow() == (rebuilt > 0));
    }

    #[test]
    fn even_hashes_come_and_go() {
        let count = if cfg!(miri) { 200 } else { 60_000 };
        let even: Vec<u64> = (0..count).map(|number| spread(number) >> 6 | 5 << 58).collect();
        model(Block::new(48, 16), &even);
        model(Block::new(42, 22), &even);
        let wide: Vec<u128> = even.iter().map(|hash| u128::from(*hash) << 64 | 0x77).collect();
        model(Block::new(106, 22), &wide);
    }

    #[test]
    fn hashes_of_one_bucket_go_to_its_extents() {
        let count = if cfg!(miri) { 100 } else { 20_000 };
        let one: Vec<u64> = (0..count).map(|number| 0xabcd << 48 | number).collect();
        model(Block::new(48, 16), &one);
        model(Block::new(42, 22), &one);
        let wide: Vec<u128> = one.iter().map(|hash| u128::from(*hash) << 64 | 0x77).collect();
        model(Block::new(106, 22), &wide);
    }

    #[test]
    fn hashes_in_a_row_fill_one_bucket_after_the_other() {
        let row: Vec<u64> = (0..if cfg!(miri) { 200 } else { 30_000 }).collect();
        model(Block::new(48, 16), &row);
        model(Block::new(0, 21), &row.iter().map(|number| number & 0x7fff).take(30_000).collect::<Vec<_>>());
    }

    /// So many hashes of one bucket that links have no bits for each line.
    #[test]
    fn extents_may_begin_at_every_other_line_only() {
        let hashes: Vec<u64> = (0..if cfg!(miri) { 0 } else { 3_000_000 }).collect();
        let block = Block::new(48, 16);
        let shard = Shard::built(block, Shape { depth: 16, width: 1 }, &hashes);
        assert!(cfg!(miri) || shard.unit > 0);
        assert!(hashes.iter().step_by(100_000).all(|hash| shard.contains(*hash)));
        assert_eq!(shard.hashes(0).len(), hashes.len());
    }

    /// So many buckets with extents that links have too few bits for them, however many lines there are.
    #[test]
    fn a_shard_with_more_extents_than_links_gets_more_buckets() {
        let (buckets, block) = (if cfg!(miri) { 0 } else { 140_000 }, Block::new(32, 32));
        let bucket = |bucket: u64| (0..21).map(move |at| (((bucket << 7) + at * 6) << 32) + at);
        let hashes: Vec<u64> = (0..buckets).flat_map(bucket).collect();
        let shard = Shard::built(block, Shape { depth: 25, width: 1 }, &hashes);
        assert!(cfg!(miri) || shard.depth() > 25);
        assert_eq!(shard.len(), hashes.len());
        assert!(hashes.iter().step_by(10_007).all(|hash| shard.contains(*hash)));
    }

    #[test]
    fn a_shape_has_room_for_what_suits_it() {
        for block in [Block::new(48, 16), Block::new(0, 21), Block::new(42, 22)] {
            let mut before = Shape::suited::<u64>(block, 0);
            for hashes in (0..60).map(|step| 1usize << (step / 2) | (step % 2) << (step / 2)) {
                let shape = Shape::suited::<u64>(block, hashes);
                assert!(shape.room::<u64>(block) >= hashes);
                assert!(shape.depth >= before.depth && shape.width >= before.width);
                assert!(shape.depth == block.bits() || shape.width == 1);
                before = shape;
            }
        }
    }
}
