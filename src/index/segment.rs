//! A segment: a run of cache lines in which hashes stand in the order of their keys, with room between them.
//!
//! Every key has a home line, found by arithmetic: the key's place among the keys of the segment, scaled to
//! the number of lines. A hash goes to the first free entry from its home line on (linear probing by lines).
//! Homes rise with the keys, so the hashes of any run of keys, one key or all that begin with the same bits,
//! stand between the home of its first key and the first line with a free entry after the home of its last.
//! That is one run through memory whatever the number of hashes, without a directory of buckets, at any
//! ratio of hashes to keys.
//!
//! Where keys pile up, even spacing would push hashes far into the homes of others. A segment built from such
//! keys gets cuts: the homes then follow the keys' own distribution.
//!
//! # Readers beside a writer
//! One writer at a time, readers without a lock, because entries have a life of one direction: empty, holds a
//! hash, given up. None is used again and none moves; when a segment is full or stretched, a new one is built
//! beside it and takes its place. So a reader that finds a hash reads it whole (its front is
//! published last), a line that was full stays full, and whoever reads the old segment finds all that was in
//! it when it was replaced.
//!
//! *Absent*: which bits of a key tell the segments apart (`table`), distances (`probe`).

use std::sync::atomic::{AtomicU32, Ordering};

use super::block::{Block, Filed, KEY_BITS, LEAD_BITS, given_up, is_empty};
use super::memory::{Compare, Line, Work, cells, empty_lines, prefetch, with_best};

/// Lines that hashes may stand beyond the home of the next key before a segment is built anew, besides what
/// they did when it was built.
const STRETCH: usize = 64;
/// If evenly spaced homes push hashes further than this, in lines, the segment is built with cuts.
const CROWDED: usize = 8;
/// Hashes between two cuts.
const CUT: usize = 64;

/// How full segments are: built at the first share of their entries, built anew at the second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Fill {
    pub(super) built: f64,
    pub(super) full: f64,
}

/// Where keys are at home.
struct Homes {
    /// How many bits of a key tell its place.
    bits: u32,
    /// How many home lines there are.
    lines: u32,
    cuts: Option<Box<Cuts>>,
}

/// Homes that follow the keys' own distribution: some of the keys, in order, from 0 on, and the home of each,
/// then the number of lines. Between two of them homes are spaced evenly.
struct Cuts {
    keys: Box<[u64]>,
    homes: Box<[u32]>,
}

impl Homes {
    /// The home of a key, given by its last bits.
    #[inline(always)]
    fn of(&self, key: u64) -> usize {
        self.at(key << (u64::BITS - self.bits))
    }

    /// The home of a key, given by its place among the keys of the segment, in 2⁻⁶⁴ of them all.
    #[inline(always)]
    fn at(&self, place: u64) -> usize {
        match &self.cuts {
            None => ((u128::from(place) * u128::from(self.lines)) >> u64::BITS) as usize,
            Some(cuts) => cuts.home(place >> (u64::BITS - self.bits), self.bits),
        }
    }
}

impl Cuts {
    /// Cuts at every so many of the keys, which are sorted.
    fn of(keys: &[u64], lines: u32) -> Cuts {
        let chosen = (0..keys.len()).step_by(CUT).skip(1);
        let mut cuts = (vec![0], vec![0]);
        for at in chosen {
            if keys[at] > cuts.0[cuts.0.len() - 1] {
                cuts.0.push(keys[at]);
                cuts.1.push((at as u64 * u64::from(lines) / keys.len() as u64) as u32);
            }
        }
        cuts.1.push(lines);
        Cuts { keys: cuts.0.into(), homes: cuts.1.into() }
    }

    fn home(&self, key: u64, bits: u32) -> usize {
        let cut = self.keys.partition_point(|first| *first <= key) - 1;
        let (from, to) = (self.homes[cut], self.homes[cut + 1]);
        let (first, next) = (self.keys[cut], self.keys.get(cut + 1).copied().unwrap_or(1 << bits));
        let within = u128::from(key - first) * u128::from(to - from) / u128::from(next - first);
        (from as usize + within as usize).min(self.homes[self.homes.len() - 1] as usize - 1)
    }
}

/// The hashes of a table whose keys share their first bits. What a reader needs of it is in one cache line,
/// which no writer writes to.
#[repr(C, align(64))]
pub(super) struct Segment<W: Filed> {
    homes: Homes,
    /// The fronts of the entries, line by line, then in the same places the backs. One piece of memory: the
    /// larger the pieces, the better the allocator uses what an earlier segment left.
    lines: Box<[W::Line]>,
    block: Block,
    counts: Counts,
}

/// What the writer keeps of a segment.
#[repr(align(64))]
struct Counts {
    /// From this many used entries on it is built anew.
    full: u32,
    /// How far beyond the home of the next key a hash may stand, in lines.
    reach: u32,
    /// Entries that hold a hash or were given up, and those that hold one. Only the writer changes them.
    used: AtomicU32,
    held: AtomicU32,
}

impl<W: Filed> Segment<W> {
    /// Entries in a line.
    pub(super) const PER_LINE: usize = <W::Line as Line>::CELLS;

    /// A segment of the hashes given, whose keys share all but their last `bits` bits.
    pub(super) fn built(block: Block, bits: u32, hashes: &[W], fill: Fill) -> Segment<W> {
        debug_assert!(bits + LEAD_BITS <= KEY_BITS);
        let wanted = hashes.len() as f64 / (fill.built * Self::PER_LINE as f64);
        let lines = (wanted.ceil() as u32).max(1);
        let mut homes = Homes { bits, lines, cuts: None };
        let home_of = |homes: &Homes, hash: &W| homes.of(block.key(*hash) & mask(bits)) as u32;
        let mut at_home: Vec<u32> = hashes.iter().map(|hash| home_of(&homes, hash)).collect();
        let mut places = Places::of(&at_home, lines, Self::PER_LINE);
        if places.crowded > CROWDED {
            let mut keys: Vec<u64> = hashes.iter().map(|hash| block.key(*hash) & mask(bits)).collect();
            keys.sort_unstable();
            homes.cuts = Some(Box::new(Cuts::of(&keys, lines)));
            at_home.iter_mut().zip(hashes).for_each(|(home, hash)| *home = home_of(&homes, hash));
            places = Places::of(&at_home, lines, Self::PER_LINE);
        }
        let spare = (lines as usize / 16).clamp(usize::from(lines > 2), 4);
        let count = places.end.max(lines as usize) + spare;
        let halves: Box<[W::Line]> = empty_lines(2 * count);
        let (fronts, backs) = halves.split_at(count);
        for (&hash, home) in hashes.iter().zip(at_home) {
            let next = &mut places.next[home as usize];
            let (line, entry) = (*next as usize / Self::PER_LINE, *next as usize % Self::PER_LINE);
            *next += 1;
            let (front, back) = block.store(hash);
            backs[line].write(entry, back);
            fronts[line].publish(entry, front);
        }
        let room = (count * Self::PER_LINE) as f64;
        let len = hashes.len() as u32;
        Segment {
            homes,
            lines: halves,
            block,
            counts: Counts {
                full: ((room * fill.full) as u32).max(len + 1),
                reach: (STRETCH + places.crowded * 3 / 2) as u32,
                used: AtomicU32::new(len),
                held: AtomicU32::new(len),
            },
        }
    }

    /// How many hashes it holds.
    pub(super) fn len(&self) -> usize {
        self.counts.held.load(Ordering::Relaxed) as usize
    }

    /// How many hashes can be filed before it is built anew, at most.
    pub(super) fn room(&self) -> usize {
        self.counts.full.saturating_sub(self.counts.used.load(Ordering::Relaxed)) as usize
    }

    /// The bytes it occupies, without the allocator's own.
    pub(super) fn bytes(&self) -> usize {
        let cuts =
            self.homes.cuts.as_ref().map_or(0, |cuts| size_of_val(&*cuts.keys) + size_of_val(&*cuts.homes));
        size_of::<Segment<W>>() + size_of_val(&*self.lines) + cuts
    }

    /// The fronts, line by line.
    #[inline(always)]
    pub(super) fn fronts(&self) -> &[W::Line] {
        &self.lines[..self.lines.len() / 2]
    }

    /// The backs, line by line.
    #[inline(always)]
    pub(super) fn backs(&self) -> &[W::Line] {
        &self.lines[self.lines.len() / 2..]
    }

    /// The home lines of the keys from `first` to `last`, given by their places in 2⁻⁶⁴ of all: the first
    /// one, and how many. The keys' hashes stand in those and, as long as the line before is full, in lines
    /// after them.
    #[inline(always)]
    pub(super) fn homes(&self, first: u64, last: u64) -> (usize, usize) {
        let from = self.homes.at(first);
        (from, self.homes.at(last) - from + 1)
    }

    /// The hash in an entry of a line; `lead` is the first bits of the segment's keys.
    #[inline(always)]
    pub(super) fn hash(&self, line: usize, entry: usize, lead: u32) -> Option<W> {
        let front = self.fronts()[line].read(entry);
        self.block.load((front, self.backs()[line].read_beside(entry)), lead)
    }

    /// Calls `each` with every hash, keys nearly in order.
    #[inline(always)]
    pub(super) fn for_each(&self, lead: u32, mut each: impl FnMut(W)) {
        self.for_each_from(0, self.fronts().len(), lead, &mut each);
    }

    /// Calls `each` with every hash in the lines from `from` on: in so many homes, and as long as the line
    /// before is full.
    #[inline(always)]
    pub(super) fn for_each_from(&self, from: usize, homes: usize, lead: u32, mut each: impl FnMut(W)) {
        for line in self.run(from, homes) {
            let (fronts, backs) = (&self.fronts()[line], &self.backs()[line]);
            for entry in 0..Self::PER_LINE {
                let front = fronts.read(entry);
                if let Some(hash) = self.block.load((front, backs.read_beside(entry)), lead) {
                    each(hash);
                }
            }
        }
    }

    /// The lines of a run: from `from` on in so many homes, and as long as the line before is full.
    #[inline(always)]
    pub(super) fn run(&self, from: usize, homes: usize) -> impl Iterator<Item = usize> {
        let mut next = from;
        std::iter::from_fn(move || {
            let goes_on = next < from + homes.max(1) || self.goes_on_after(next - 1);
            goes_on.then(|| {
                next += 1;
                next - 1
            })
        })
    }

    /// Whether a run that reads this line must read the next one: the line is full, and not the last.
    #[inline(always)]
    pub(super) fn goes_on_after(&self, line: usize) -> bool {
        line + 1 < self.fronts().len() && !has_room::<W>(&self.fronts()[line])
    }

    /// All hashes and room for so many more, keys nearly in order.
    pub(super) fn hashes(&self, lead: u32, more: usize) -> Vec<W> {
        let mut hashes = Vec::with_capacity(self.len() + more);
        self.for_each(lead, |hash| hashes.push(hash));
        hashes
    }

    /// Whether the hash is here.
    pub(super) fn contains(&self, hash: W) -> bool {
        self.find(hash).is_some()
    }

    /// Files a hash, which must not be here yet: `false` if that needs a segment built anew. For the writer.
    pub(super) fn insert(&self, hash: W) -> bool {
        let used = self.counts.used.load(Ordering::Relaxed);
        if used >= self.counts.full {
            return false;
        }
        let key = self.block.key(hash) & mask(self.homes.bits);
        let home = self.homes.of(key);
        let at_home = has_room::<W>(&self.fronts()[home]).then_some(home);
        let Some(line) = at_home.or_else(|| self.room_after(home, key)) else {
            return false;
        };
        let entry = first_free::<W>(&self.fronts()[line]);
        let (front, back) = self.block.store(hash);
        self.backs()[line].write(entry, back);
        self.fronts()[line].publish(entry, front);
        self.counts.used.store(used + 1, Ordering::Relaxed);
        self.counts.held.store(self.counts.held.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        true
    }

    /// The first line with room after the home of a key, as far as its hashes may stand from there.
    fn room_after(&self, home: usize, key: u64) -> Option<usize> {
        let next = if key == mask(self.homes.bits) { self.fronts().len() } else { self.homes.of(key + 1) };
        let end = (next + self.counts.reach as usize).min(self.fronts().len());
        (home + 1..end).find(|line| has_room::<W>(&self.fronts()[*line]))
    }

    /// Takes a hash out: whether it was here. For the writer.
    pub(super) fn remove(&self, hash: W) -> bool {
        let Some((line, entry)) = self.find(hash) else {
            return false;
        };
        self.fronts()[line].publish(entry, given_up::<W>());
        self.counts.held.store(self.counts.held.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
        true
    }

    /// Whether so much was taken out that building it anew gives memory back.
    pub(super) fn is_hollow(&self) -> bool {
        self.fronts().len() > 4 && self.len() * 3 < self.fronts().len() * Self::PER_LINE
    }

    /// Asks for the lines in which a key's hashes begin.
    #[inline(always)]
    pub(super) fn approach(&self, key: u64) {
        self.approach_line(self.homes.of(key & mask(self.homes.bits)));
    }

    /// Asks for a line, fronts and backs.
    #[inline(always)]
    pub(super) fn approach_line(&self, line: usize) {
        prefetch(&self.fronts()[line..], 1);
        prefetch(&self.backs()[line..], 1);
    }

    #[inline]
    fn find(&self, hash: W) -> Option<(usize, usize)> {
        with_best(Find { segment: self, hash })
    }
}

struct Find<'a, W: Filed> {
    segment: &'a Segment<W>,
    hash: W,
}

impl<W: Filed> Work for Find<'_, W> {
    type Output = Option<(usize, usize)>;

    #[inline(always)]
    fn run<C: Compare>(self, compare: C) -> Option<(usize, usize)> {
        let Find { segment, hash } = self;
        let (front, back) = segment.block.store(hash);
        let home = segment.homes.of(segment.block.key(hash) & mask(segment.homes.bits));
        for line in segment.run(home, 1) {
            for entry in cells(segment.fronts()[line].near(compare, front, 0)) {
                // Read once more with what was written before: the comparison promises no order.
                let stored = (segment.fronts()[line].read(entry), segment.backs()[line].read_beside(entry));
                if stored == (front, back) {
                    return Some((line, entry));
                }
            }
        }
        None
    }
}

/// Whether the last entry of a line is free. Entries are filled in order and not emptied again, so a line
/// without room never has any later.
#[inline(always)]
fn has_room<W: Filed>(line: &W::Line) -> bool {
    is_empty(line.read_beside(Segment::<W>::PER_LINE - 1))
}

/// The first free entry of a line that has room. By halves: a loop from the first on would end where the
/// processor cannot foretell.
#[inline(always)]
fn first_free<W: Filed>(line: &W::Line) -> usize {
    let (mut first, mut step) = (0, Segment::<W>::PER_LINE / 2);
    while step > 0 {
        first += step * usize::from(!is_empty(line.read_beside(first + step - 1)));
        step /= 2;
    }
    first
}

/// So many ones, the last bits.
#[inline(always)]
pub(super) fn mask(bits: u32) -> u64 {
    (1 << bits) - 1
}

/// Where the hashes of a new segment go.
struct Places {
    /// For each home line the entry that its next hash takes.
    next: Vec<u32>,
    /// The line after the last used one.
    end: usize,
    /// The most lines that the hashes of a home take beyond it.
    crowded: usize,
}

impl Places {
    /// For hashes with these homes among so many lines.
    fn of(at_home: &[u32], lines: u32, per_line: usize) -> Places {
        let mut next = vec![0u32; lines as usize];
        at_home.iter().for_each(|home| next[*home as usize] += 1);
        let (mut free, mut crowded) = (0, 0);
        for (line, next) in next.iter_mut().enumerate() {
            let count = *next as usize;
            let first = free.max(line * per_line);
            *next = first as u32;
            if count > 0 {
                free = first + count;
                crowded = crowded.max(free.div_ceil(per_line) - (line + 1));
            }
        }
        Places { next, end: free.div_ceil(per_line), crowded }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILL: Fill = Fill { built: 0.7, full: 0.9 };

    fn model<W: Filed>(block: Block, bits: u32, hashes: &[W]) {
        let mut segment = Segment::built(block, bits, &[], FILL);
        let mut rebuilt = 0;
        let lead = block.first(hashes[0], LEAD_BITS);
        for (count, &hash) in hashes.iter().enumerate() {
            assert!(!segment.contains(hash));
            if !segment.insert(hash) {
                rebuilt += 1;
                let mut all = segment.hashes(lead, 1);
                all.push(hash);
                segment = Segment::built(block, bits, &all, FILL);
            }
            assert!(segment.contains(hash));
            assert_eq!(segment.len(), count + 1);
        }
        assert!(rebuilt < 200, "{rebuilt} times");
        let mut all = segment.hashes(lead, 0);
        let mut expected = hashes.to_vec();
        all.sort_unstable();
        expected.sort_unstable();
        assert_eq!(all, expected);
        for &hash in hashes {
            let place = (block.key(hash) & mask(bits)) << (u64::BITS - bits);
            let (from, homes) = segment.homes(place, place);
            let ends = |line: &usize| *line + 1 >= from + homes && has_room::<W>(&segment.fronts()[*line]);
            let last = (from..segment.fronts().len()).find(ends).unwrap_or(segment.fronts().len() - 1);
            let here =
                |line| (0..Segment::<W>::PER_LINE).any(|at| segment.hash(line, at, lead) == Some(hash));
            assert_eq!((from..=last).filter(|line| here(*line)).count(), 1);
        }
        for &hash in hashes {
            assert!(segment.remove(hash));
            assert!(!segment.remove(hash) && !segment.contains(hash));
        }
        assert!(segment.len() == 0 && segment.hashes(lead, 0).is_empty());
    }

    fn spread(number: u64) -> u64 {
        number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23) ^ number
    }

    #[test]
    fn even_keys_stay_where_they_are_looked_for() {
        let hashes: Vec<u64> = (0..5_000).map(|i| spread(i) >> 8).collect();
        model(Block::new(48, 16), 48, &hashes);
        model(Block::new(0, 16), 54, &hashes.iter().map(|&hash| hash & !0xc000).collect::<Vec<_>>());
        let wide: Vec<u128> = (0..3_000).map(|i| u128::from(spread(i)) << 40 | u128::from(i)).collect();
        model(Block::new(102, 26), 48, &wide);
    }

    /// Hashes that are alike in everything but their last bits, and in the order in which they come.
    #[test]
    fn hashes_in_a_row_do_not_get_in_each_others_way() {
        let row: Vec<u64> = (0..20_000).collect();
        model(Block::new(48, 16), 54, &row);
        let wide: Vec<u128> = (0..20_000).collect();
        model(Block::new(102, 26), 48, &wide);
    }

    #[test]
    fn keys_that_pile_up_get_room_where_they_are() {
        let one_key: Vec<u64> = (0..6_000).map(|i| 0x0042 << 48 | i).collect();
        model(Block::new(48, 16), 48, &one_key);
        model(Block::new(48, 16), 54, &one_key);
        let few: Vec<u64> = (0..6_000).map(|i| (i % 3 * 85) << 48 | spread(i) >> 16).collect();
        model(Block::new(48, 16), 48, &few);
        let one_wide: Vec<u128> = (0..4_000u128).map(|i| 77 << 102 | i).collect();
        model(Block::new(102, 26), 54, &one_wide);
    }
}
