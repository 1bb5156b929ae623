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

use super::super::memory::{CACHE_LINE, Pin, Replaceable, prefetch_from};
use super::entry::{KEY_BITS, LEAD_BITS, first, key};
use super::segment::{Fill, Segment, mask};

/// The depths of a growing table. A depth is the number of first bits of the key that select a segment.
const DEPTHS: [u32; 5] = [LEAD_BITS, 6, 8, 10, 12];
/// The mean number of hashes per segment above which the directory gets the next depth.
const DEEPEN: usize = 160 << 10;

/// The segment table of one block.
pub(super) struct Table {
    directory: Replaceable<Directory>,
}

struct Directory {
    /// The number of first bits of the key that select a segment.
    depth: u32,
    segments: Box<[Replaceable<Segment>]>,
}

impl Table {
    /// An empty table for `expected` hashes.
    pub(super) fn new(expected: usize) -> Table {
        let depth = depth_for(expected);
        let empty = || Segment::built(KEY_BITS - depth, &[], Fill { built: 0.5, full: 0.9 });
        Table::of_segments(depth, (0..1 << depth).map(|_| empty()))
    }

    /// The table of these segments, one for each value of the first `depth` bits of a key.
    pub(super) fn of_segments(depth: u32, segments: impl Iterator<Item = Segment>) -> Table {
        let segments: Box<[_]> = segments.map(Replaceable::new).collect();
        debug_assert_eq!(segments.len(), 1 << depth);
        Table { directory: Replaceable::new(Directory { depth, segments }) }
    }

    /// The current contents of the table.
    #[inline(always)]
    pub(super) fn view<'p>(&self, pin: &'p Pin) -> View<'p> {
        let directory = self.directory.get(pin);
        View { directory, pin }
    }

    /// Prefetches the lines of a hash, if one is given.
    #[inline]
    pub(super) fn prefetch(&self, hash: Option<&u64>, pin: &Pin) {
        if let Some(hash) = hash {
            let view = self.view(pin);
            view.segment(view.number(*hash)).prefetch_key(key(*hash));
        }
    }

    /// Prefetches the header of a hash's segment, which gives the position of the hash.
    #[inline]
    pub(super) fn prefetch_segment(&self, hash: u64, pin: &Pin) {
        let view = self.view(pin);
        let segment: *const Segment = view.segment(view.number(hash));
        prefetch_from(segment);
        prefetch_from(segment.wrapping_byte_add(CACHE_LINE));
    }

    /// Inserts a hash, which must not be in the table; `len` is the number of hashes in the table. Only one
    /// writer may call this at a time.
    pub(super) fn insert(&self, hash: u64, len: usize, fill: Fill, pin: &Pin) {
        loop {
            let view = self.view(pin);
            let number = view.number(hash);
            if view.segment(number).insert(hash) || self.grow(&view, number, &[hash], len, fill, pin) {
                return;
            }
        }
    }

    /// Enlarges a segment or the directory for new hashes of segment `number`. Returns `true` if the hashes
    /// are now inserted, `false` if the caller must insert them.
    fn grow(&self, view: &View<'_>, number: usize, added: &[u64], len: usize, fill: Fill, pin: &Pin) -> bool {
        let depth = view.directory.depth;
        match DEPTHS.into_iter().find(|&deeper| deeper > depth) {
            Some(deeper) if len > DEEPEN << depth => {
                self.deepen(deeper, view, fill, pin);
                false
            }
            _ => {
                Table::rebuild(view, number, added, fill, pin);
                true
            }
        }
    }

    /// Removes a hash. Returns whether it was present. Only one writer may call this at a time.
    pub(super) fn remove(&self, hash: u64, fill: Fill, pin: &Pin) -> bool {
        let view = self.view(pin);
        let number = view.number(hash);
        let segment = view.segment(number);
        let there = segment.remove(hash);
        if there && segment.is_sparse() {
            Table::rebuild(&view, number, &[], fill, pin);
        }
        there
    }

    fn rebuild(view: &View<'_>, number: usize, added: &[u64], fill: Fill, pin: &Pin) {
        let mut hashes = view.segment(number).hashes(view.lead(number), added.len());
        hashes.extend_from_slice(added);
        let depth = view.directory.depth;
        let segment = Segment::built(KEY_BITS - depth, &hashes, fill);
        view.directory.segments[number].replace(segment, pin);
    }

    fn deepen(&self, depth: u32, view: &View<'_>, fill: Fill, pin: &Pin) {
        let more = depth - view.directory.depth;
        let bits = KEY_BITS - depth;
        let mut segments = Vec::with_capacity(1 << depth);
        for number in 0..view.directory.segments.len() {
            let mut parts = vec![Vec::new(); 1 << more];
            view.segment(number).for_each(view.lead(number), |hash| {
                parts[(key(hash) >> bits) as usize & ((1 << more) - 1)].push(hash);
            });
            for part in parts {
                let fill = staggered(fill, segments.len());
                segments.push(Replaceable::new(Segment::built(bits, &part, fill)));
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
pub(super) struct View<'p> {
    directory: &'p Directory,
    pin: &'p Pin,
}

/// A run of lines to compare.
pub(super) struct Run<'p> {
    pub(super) segment: &'p Segment,
    /// The first line.
    pub(super) from: usize,
    /// The number of home lines of the keys. The run continues after them while its last line is full.
    pub(super) homes: usize,
}

/// The runs of a view: each has the keys that begin with the same `bits` bits.
pub(super) struct Runs<'p> {
    segments: &'p [Replaceable<Segment>],
    pin: &'p Pin,
    bits: u32,
    depth: u32,
    /// The number of keys of a run, minus one, in units of 2⁻⁶⁴ of the keys of a segment.
    keys: u64,
}

impl<'p> Runs<'p> {
    /// The run whose keys begin with these bits.
    #[inline(always)]
    pub(super) fn of(&self, prefix: u32) -> Run<'p> {
        let segment = self.segments[(prefix >> (self.bits - self.depth)) as usize].get(self.pin);
        let first = u64::from(prefix) << (u64::BITS - self.bits) << self.depth;
        let (from, homes) = segment.homes(first, first + self.keys);
        Run { segment, from, homes }
    }
}

impl<'p> View<'p> {
    /// The number of first bits of the key that select a segment.
    #[cfg(test)]
    fn depth(&self) -> u32 {
        self.directory.depth
    }

    /// The runs of keys that begin with the same `bits` bits. `bits` is at least the depth and at most the
    /// bits of the block.
    #[inline(always)]
    pub(super) fn runs(&self, bits: u32) -> Runs<'p> {
        let depth = self.directory.depth;
        let within = KEY_BITS - depth;
        let keys = mask(KEY_BITS - bits) << (u64::BITS - within);
        Runs { segments: &self.directory.segments, pin: self.pin, bits, depth, keys }
    }

    /// The run of the keys that begin with the `bits` bits of `prefix`; `bits` as for [`View::runs`].
    #[inline(always)]
    pub(super) fn run(&self, prefix: u32, bits: u32) -> Run<'p> {
        self.runs(bits).of(prefix)
    }

    /// A segment by its number.
    #[inline(always)]
    pub(super) fn segment(&self, number: usize) -> &'p Segment {
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
    #[cfg(test)]
    fn contains(&self, hash: u64) -> bool {
        self.segment(self.number(hash)).contains(hash)
    }

    /// Calls `each` with all hashes whose keys begin with the `bits` bits of `prefix`; `bits` is at most the
    /// bits of the block.
    pub(super) fn hashes_with(&self, prefix: u32, bits: u32, mut each: impl FnMut(u64)) {
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
            if first(hash, bits) == prefix {
                each(hash);
            }
        });
    }

    /// The bytes that the table occupies, including free entries, without the bookkeeping of the allocator.
    pub(super) fn bytes(&self) -> usize {
        let segments = (0..self.segments()).map(|number| self.segment(number).bytes());
        size_of::<Table>() + size_of::<Directory>() + self.segments() * 8 + segments.sum::<usize>()
    }

    #[inline(always)]
    fn number(&self, hash: u64) -> usize {
        first(hash, self.directory.depth) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::memory::pin;
    use super::*;

    #[test]
    fn a_table_keeps_its_hashes_at_every_depth() {
        let fill = Fill { built: 0.75, full: 0.92 };
        let table = Table::new(0);
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
                table.view(&pin).hashes_with(first(hash(i), 20), 20, |hash| near.push(hash));
                assert!(near.contains(&hash(i)));
            }
        }
        drop(pin);
        for i in 0..count {
            let pin = super::super::super::memory::pin();
            assert!(table.remove(hash(i), fill, &pin) && !table.remove(hash(i), fill, &pin));
        }
        let left = table.view(&super::super::super::memory::pin()).bytes();
        assert!(left < 64 * 1_000, "{left} bytes remain");
    }
}
