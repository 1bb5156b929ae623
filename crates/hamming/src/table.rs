//! The segment table of one block: every hash of the index, ordered by the value of the block.
//!
//! Costs: per hash, the size of the hash divided by the fill of segments ([`Fill`]), and some tens of bytes
//! per segment.
//!
//! A table is a directory of segments, chosen by the first bits of the key. It has 4 segments at first and up
//! to 4,096 as it grows. So a rebuild of a segment takes the writer some milliseconds at most, and a
//! collection of ten documents takes little more than a kilobyte. Segments grow and shrink one by one. They
//! are built to different fills, so that they do not all grow at the same time.
//!
//! *Absent*: the set of tables (`layout`), the lock of writers (`sharded`).

use super::block::{Block, Filed, KEY_BITS, LEAD_BITS};
use super::memory::{CACHE_LINE, Pin, Replaceable, prefetch_from};
use super::segment::{Fill, Segment, mask};

/// The depths of a growing table. A depth is the number of first bits of the key that select a segment.
const DEPTHS: [u32; 5] = [LEAD_BITS, 6, 8, 10, 12];
/// The mean number of hashes per segment above which the directory gets the next depth.
const DEEPEN: usize = 160 << 10;

/// How many hashes ahead of the inserted one their lines are prefetched.
const AHEAD: usize = 12;

/// The segment table of one block.
pub(super) struct Table<W: Filed> {
    block: Block,
    directory: Replaceable<Directory<W>>,
}

struct Directory<W: Filed> {
    /// The number of first bits of the key that select a segment.
    depth: u32,
    segments: Box<[Replaceable<Segment<W>>]>,
}

/// A batch of hashes that is being inserted into a table.
pub(super) struct InsertBatch<'a, W> {
    /// If `new_only`, hashes that are already stored and duplicates are removed from the list; otherwise it
    /// must have none. The order of the list changes.
    hashes: &'a mut Vec<W>,
    new_only: bool,
    /// The hashes before `at` are processed. The first `kept` of the list are those that were inserted.
    at: usize,
    kept: usize,
}

impl<'a, W> InsertBatch<'a, W> {
    pub(super) fn of(hashes: &'a mut Vec<W>, new_only: bool) -> InsertBatch<'a, W> {
        InsertBatch { hashes, new_only, at: 0, kept: 0 }
    }
}

impl<W: Filed> Table<W> {
    /// An empty table for `expected` hashes.
    pub(super) fn new(block: Block, expected: usize) -> Table<W> {
        let depth = depth_for(expected);
        let empty = || Segment::built(block, KEY_BITS - depth, &[], Fill { built: 0.5, full: 0.9 });
        Table::of_segments(block, depth, (0..1 << depth).map(|_| empty()))
    }

    /// The table of these segments, one for each value of the first `depth` bits of a key.
    pub(super) fn of_segments(
        block: Block,
        depth: u32,
        segments: impl Iterator<Item = Segment<W>>,
    ) -> Table<W> {
        let segments: Box<[_]> = segments.map(Replaceable::new).collect();
        debug_assert_eq!(segments.len(), 1 << depth);
        Table { block, directory: Replaceable::new(Directory { depth, segments }) }
    }

    /// The current contents of the table.
    #[inline(always)]
    pub(super) fn view<'p>(&self, pin: &'p Pin) -> View<'p, W> {
        let directory = self.directory.get(pin);
        View { block: self.block, directory, pin }
    }

    /// Prefetches the lines of a hash, if one is given.
    #[inline]
    pub(super) fn prefetch(&self, hash: Option<&W>, pin: &Pin) {
        if let Some(hash) = hash {
            let view = self.view(pin);
            view.segment(view.number(*hash)).prefetch_key(self.block.key(*hash));
        }
    }

    /// Prefetches the header of a hash's segment, which gives the position of the hash.
    #[inline]
    pub(super) fn prefetch_segment(&self, hash: W, pin: &Pin) {
        let view = self.view(pin);
        let segment: *const Segment<W> = view.segment(view.number(hash));
        prefetch_from(segment);
        prefetch_from(segment.wrapping_byte_add(CACHE_LINE));
    }

    /// Inserts a hash, which must not be in the table; `len` is the number of hashes in the table. Only one
    /// writer may call this at a time.
    pub(super) fn insert(&self, hash: W, len: usize, fill: Fill, pin: &Pin) {
        loop {
            let view = self.view(pin);
            let number = view.number(hash);
            if view.segment(number).insert(hash) || self.grow(&view, number, &[hash], len, fill, pin) {
                return;
            }
        }
    }

    /// Inserts hashes, segment by segment, so that the written lines stay in the cache. Returns `true` when
    /// all are inserted. Returns `false` after it replaced a segment or the directory: the caller renews its
    /// pin, so that the old one is freed, and calls again. `len` is the number of hashes in the table before.
    /// Only one writer may call this at a time.
    pub(super) fn insert_batch(
        &self,
        batch: &mut InsertBatch<'_, W>,
        len: usize,
        fill: Fill,
        pin: &Pin,
    ) -> bool {
        if batch.at == 0 {
            self.order(batch.hashes, pin);
        }
        while let Some(next) = batch.hashes.get(batch.at) {
            let view = self.view(pin);
            let number = view.number(*next);
            let there = batch.hashes[batch.at..].iter().take_while(|hash| view.number(**hash) == number);
            let end = batch.at + there.count();
            if !self.fill(view.segment(number), batch, end) {
                let added = self.added(view.segment(number), &batch.hashes[batch.at..end], batch.new_only);
                if added.is_empty() || self.grow(&view, number, &added, len + batch.kept, fill, pin) {
                    batch.hashes[batch.kept..batch.kept + added.len()].copy_from_slice(&added);
                    (batch.kept, batch.at) = (batch.kept + added.len(), end);
                }
                return false;
            }
        }
        batch.hashes.truncate(batch.kept);
        true
    }

    /// Inserts the hashes up to `end` into their segment while they fit. Returns whether all are inserted.
    fn fill(&self, segment: &Segment<W>, batch: &mut InsertBatch<'_, W>, end: usize) -> bool {
        let InsertBatch { hashes, new_only, at, kept } = batch;
        if end - *at > segment.room() {
            return false;
        }
        hashes[*at..end.min(*at + AHEAD)].iter().for_each(|hash| segment.prefetch_key(self.block.key(*hash)));
        while *at < end {
            if *at + AHEAD < end {
                segment.prefetch_key(self.block.key(hashes[*at + AHEAD]));
            }
            let hash = hashes[*at];
            if !*new_only || !segment.contains(hash) {
                if !segment.insert(hash) {
                    return false;
                }
                hashes[*kept] = hash;
                *kept += 1;
            }
            *at += 1;
        }
        true
    }

    /// The hashes to add to a segment: if `new_only`, those that it does not hold, without duplicates;
    /// otherwise all.
    fn added(&self, segment: &Segment<W>, hashes: &[W], new_only: bool) -> Vec<W> {
        let mut added = hashes.to_vec();
        if new_only {
            let mut ahead = hashes.iter();
            let mut prefetch_next =
                || ahead.next().into_iter().for_each(|hash| segment.prefetch_key(self.block.key(*hash)));
            (0..AHEAD).for_each(|_| prefetch_next());
            added.retain(|hash| {
                prefetch_next();
                !segment.contains(*hash)
            });
            added.sort_unstable();
            added.dedup();
        }
        added
    }

    /// Groups the hashes by their segments.
    fn order(&self, hashes: &mut Vec<W>, pin: &Pin) {
        let view = self.view(pin);
        if hashes.len() < view.segments() {
            return;
        }
        let mut next = vec![0; view.segments() + 1];
        hashes.iter().for_each(|hash| next[view.number(*hash) + 1] += 1);
        if next.iter().filter(|count| **count > 0).count() <= 1 {
            return;
        }
        (1..next.len()).for_each(|number| next[number] += next[number - 1]);
        let mut ordered = hashes.clone();
        for hash in &*hashes {
            let next = &mut next[view.number(*hash)];
            ordered[*next] = *hash;
            *next += 1;
        }
        *hashes = ordered;
    }

    /// Enlarges a segment or the directory for new hashes of segment `number`. Returns `true` if the hashes
    /// are now inserted, `false` if the caller must insert them.
    fn grow(
        &self,
        view: &View<'_, W>,
        number: usize,
        added: &[W],
        len: usize,
        fill: Fill,
        pin: &Pin,
    ) -> bool {
        let depth = view.directory.depth;
        match DEPTHS.into_iter().find(|&deeper| deeper > depth) {
            Some(deeper) if len > DEEPEN << depth => {
                self.deepen(deeper, view, fill, pin);
                false
            }
            _ => {
                self.rebuild(view, number, added, fill, pin);
                true
            }
        }
    }

    /// Removes a hash. Returns whether it was present. Only one writer may call this at a time.
    pub(super) fn remove(&self, hash: W, fill: Fill, pin: &Pin) -> bool {
        let view = self.view(pin);
        let number = view.number(hash);
        let segment = view.segment(number);
        let there = segment.remove(hash);
        if there && segment.is_sparse() {
            self.rebuild(&view, number, &[], fill, pin);
        }
        there
    }

    fn rebuild(&self, view: &View<'_, W>, number: usize, added: &[W], fill: Fill, pin: &Pin) {
        let mut hashes = view.segment(number).hashes(view.lead(number), added.len());
        hashes.extend_from_slice(added);
        let depth = view.directory.depth;
        let segment = Segment::built(self.block, KEY_BITS - depth, &hashes, fill);
        view.directory.segments[number].replace(segment, pin);
    }

    fn deepen(&self, depth: u32, view: &View<'_, W>, fill: Fill, pin: &Pin) {
        let more = depth - view.directory.depth;
        let bits = KEY_BITS - depth;
        let mut segments = Vec::with_capacity(1 << depth);
        for number in 0..view.directory.segments.len() {
            let mut parts = vec![Vec::new(); 1 << more];
            view.segment(number).for_each(view.lead(number), |hash| {
                parts[(self.block.key(hash) >> bits) as usize & ((1 << more) - 1)].push(hash);
            });
            for part in parts {
                let fill = staggered(fill, segments.len());
                segments.push(Replaceable::new(Segment::built(self.block, bits, &part, fill)));
            }
        }
        self.directory.replace(Directory { depth, segments: segments.into() }, pin);
    }
}

/// The depth of a table for `expected` hashes.
pub(super) fn depth_for(expected: usize) -> u32 {
    DEPTHS.into_iter().find(|depth| expected <= DEEPEN << depth).unwrap_or(DEPTHS[DEPTHS.len() - 1])
}

/// The fill of segment `number`. It differs between segments, evenly on the logarithmic scale on which they
/// grow.
pub(super) fn staggered(fill: Fill, number: usize) -> Fill {
    let golden = (number as f64 * 0.618_033_988_749_895).fract();
    Fill { built: fill.built * (fill.full / fill.built).powf(golden), ..fill }
}

/// The contents of a table while the pin is held.
pub(super) struct View<'p, W: Filed> {
    block: Block,
    directory: &'p Directory<W>,
    pin: &'p Pin,
}

/// A run of lines to compare.
pub(super) struct Run<'p, W: Filed> {
    pub(super) segment: &'p Segment<W>,
    /// The first line.
    pub(super) from: usize,
    /// The number of home lines of the keys. The run continues after them while its last line is full.
    pub(super) homes: usize,
}

/// The runs of a view: each has the keys that begin with the same `bits` bits.
pub(super) struct Runs<'p, W: Filed> {
    segments: &'p [Replaceable<Segment<W>>],
    pin: &'p Pin,
    bits: u32,
    depth: u32,
    /// The number of keys of a run, minus one, in units of 2⁻⁶⁴ of the keys of a segment.
    keys: u64,
}

impl<'p, W: Filed> Runs<'p, W> {
    /// The run whose keys begin with these bits.
    #[inline(always)]
    pub(super) fn of(&self, prefix: u32) -> Run<'p, W> {
        let segment = self.segments[(prefix >> (self.bits - self.depth)) as usize].get(self.pin);
        let first = u64::from(prefix) << (u64::BITS - self.bits) << self.depth;
        let (from, homes) = segment.homes(first, first + self.keys);
        Run { segment, from, homes }
    }
}

impl<'p, W: Filed> View<'p, W> {
    /// The number of first bits of the key that select a segment.
    #[inline(always)]
    pub(super) fn depth(&self) -> u32 {
        self.directory.depth
    }

    /// The runs of keys that begin with the same `bits` bits. `bits` is at least the depth and at most the
    /// bits of the block.
    #[inline(always)]
    pub(super) fn runs(&self, bits: u32) -> Runs<'p, W> {
        let depth = self.directory.depth;
        let within = KEY_BITS - depth;
        let keys = mask(KEY_BITS - bits) << (u64::BITS - within);
        Runs { segments: &self.directory.segments, pin: self.pin, bits, depth, keys }
    }

    /// The run of the keys that begin with the `bits` bits of `prefix`; `bits` as for [`View::runs`].
    #[inline(always)]
    pub(super) fn run(&self, prefix: u32, bits: u32) -> Run<'p, W> {
        self.runs(bits).of(prefix)
    }

    /// A segment by its number.
    #[inline(always)]
    pub(super) fn segment(&self, number: usize) -> &'p Segment<W> {
        self.directory.segments[number].get(self.pin)
    }

    /// The number of segments.
    pub(super) fn segments(&self) -> usize {
        self.directory.segments.len()
    }

    /// The first two bits of the keys of a segment.
    #[inline(always)]
    pub(super) fn lead(&self, number: usize) -> u32 {
        number as u32 >> (self.directory.depth - LEAD_BITS)
    }

    /// Whether the hash is in the table.
    pub(super) fn contains(&self, hash: W) -> bool {
        self.segment(self.number(hash)).contains(hash)
    }

    /// Calls `each` with all hashes whose keys begin with the `bits` bits of `prefix`; `bits` is at most the
    /// bits of the block.
    pub(super) fn hashes_with(&self, prefix: u32, bits: u32, mut each: impl FnMut(W)) {
        let depth = self.directory.depth;
        if bits <= depth {
            let from = (prefix as usize) << (depth - bits);
            for number in from..from + (1 << (depth - bits)) {
                self.segment(number).for_each(self.lead(number), &mut each);
            }
            return;
        }
        let Run { segment, from, homes } = self.run(prefix, bits);
        segment.for_each_from(from, homes, prefix >> (bits - LEAD_BITS), |hash| {
            if self.block.first(hash, bits) == prefix {
                each(hash);
            }
        });
    }

    /// The bytes that the table occupies, including free entries, without the bookkeeping of the allocator.
    pub(super) fn bytes(&self) -> usize {
        let segments = (0..self.segments()).map(|number| self.segment(number).bytes());
        size_of::<Table<W>>() + size_of::<Directory<W>>() + self.segments() * 8 + segments.sum::<usize>()
    }

    #[inline(always)]
    fn number(&self, hash: W) -> usize {
        self.block.first(hash, self.directory.depth) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::pin;
    use super::*;

    #[test]
    fn a_table_keeps_its_hashes_at_every_depth() {
        let fill = Fill { built: 0.75, full: 0.92 };
        let table = Table::<u64>::new(Block::new(20, 22), 0);
        let hash = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let count = if cfg!(miri) { 300 } else { 800_000 };
        let mut depths = Vec::new();
        for i in 0..count {
            let pin = pin();
            table.insert(hash(i), i as usize, fill, &pin);
            depths.push(table.view(&pin).depth());
        }
        depths.dedup();
        assert!(cfg!(miri) || depths == [2, 6]);
        let pin = pin();
        let mut all = Vec::new();
        (0..4).for_each(|prefix| table.view(&pin).hashes_with(prefix, 2, |hash| all.push(hash)));
        all.sort_unstable();
        let mut expected: Vec<u64> = (0..count).map(hash).collect();
        expected.sort_unstable();
        assert!(all == expected);
        let bytes = table.view(&pin).bytes() as f64 / count as f64;
        assert!(cfg!(miri) || bytes < 8.0 / 0.75 + 0.5, "{bytes} bytes a hash");
        for i in 0..count {
            assert!(table.view(&pin).contains(hash(i)));
            if i % 1_000 == 0 {
                let mut near = Vec::new();
                table.view(&pin).hashes_with(table.block.first(hash(i), 20), 20, |hash| near.push(hash));
                assert!(near.contains(&hash(i)));
            }
        }
        drop(pin);
        for i in 0..count {
            let pin = super::super::memory::pin();
            assert!(table.remove(hash(i), fill, &pin) && !table.remove(hash(i), fill, &pin));
        }
        let left = table.view(&super::super::memory::pin()).bytes();
        assert!(left < 64 * 1_000, "{left} bytes remain");
    }
}
