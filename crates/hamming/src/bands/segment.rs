//! A segment: cache lines in which hashes are stored in the order of their keys, with free entries between
//! them.
//!
//! Every key has a home line, found by arithmetic: its position among the keys of the segment, scaled to the
//! number of lines. A hash is stored in the first free entry from its home line on (linear probing by lines).
//! Home lines ascend with the keys. Therefore the hashes of a run of keys (one key, or all that begin with
//! the same bits) are stored between the home of the first key and the first line with a free entry after the
//! home of the last key. That is one contiguous run of memory for any number of hashes and any ratio of
//! hashes to keys, and it needs no directory of buckets.
//!
//! If keys are clustered, evenly spaced homes would displace hashes far into the homes of others. A segment
//! of such keys has cuts: its homes follow the distribution of the keys.
//!
//! # Readers and the writer
//! There is one writer at a time, and readers take no lock. This is safe because an entry changes its state
//! only forwards: empty, occupied, removed. No entry is reused and none moves. If a segment is full, or a
//! hash would be too far from its home, a new segment is built and replaces it. Consequently:
//!
//! - A reader that finds a hash reads all of it, because its front is published last.
//! - A line that was full stays full.
//! - A reader of the old segment finds all hashes that it held when it was replaced.
//!
//! *Absent*: the bits of a key that select a segment (`table`), distances (`probe`).

use std::sync::atomic::{AtomicU32, Ordering};

use super::super::memory::{Compare, Line32, Work, cells, empty_lines, prefetch, with_best};
use super::entry::{KEY_BITS, LEAD_BITS, is_empty, key, load, removed_front, store};

/// How far a hash may be stored beyond the home of the next key before the segment is rebuilt, in lines. The
/// displacement at the time of building is added.
const REACH: usize = 64;
/// If evenly spaced homes displace hashes by more lines than this, the segment is built with cuts.
const MAX_DISPLACEMENT: usize = 8;
/// The number of hashes between two cuts.
const CUT: usize = 64;

/// How full segments are, as shares of their entries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Fill {
    /// The fill after a build.
    pub(super) built: f64,
    /// The fill at which a segment is rebuilt.
    pub(super) full: f64,
}

/// The home lines of keys.
struct Homes {
    /// The number of last bits of a key that determine its position.
    bits: u32,
    /// The number of home lines.
    lines: u32,
    cuts: Option<Box<Cuts>>,
}

/// Homes that follow the distribution of the keys. `keys` has some of the keys in order, beginning with 0;
/// `homes` has the home of each, then the number of lines. Between two of them homes are spaced evenly.
struct Cuts {
    keys: Box<[u64]>,
    homes: Box<[u32]>,
}

impl Homes {
    /// The home of a key, which is given by its last bits.
    #[inline(always)]
    fn of(&self, key: u64) -> usize {
        self.at(key << (u64::BITS - self.bits))
    }

    /// The home of a key, which is given by its position in units of 2⁻⁶⁴ of the keys of the segment.
    #[inline(always)]
    fn at(&self, place: u64) -> usize {
        match &self.cuts {
            None => ((u128::from(place) * u128::from(self.lines)) >> u64::BITS) as usize,
            Some(cuts) => cuts.home(place >> (u64::BITS - self.bits), self.bits),
        }
    }
}

impl Cuts {
    /// Cuts at every [`CUT`]th of the sorted keys.
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

/// The hashes of a table whose keys share their first bits. Readers need one cache line of this header, and
/// no writer writes to that line.
#[repr(C, align(64))]
pub(super) struct Segment {
    homes: Homes,
    /// The fronts of the entries, line by line, then the backs in the same order. They are one allocation:
    /// the allocator reuses the memory of earlier segments better if allocations are large.
    lines: Box<[Line32]>,
    counts: Counts,
}

/// The counters of the writer.
#[repr(align(64))]
struct Counts {
    /// The number of used entries at which the segment is rebuilt.
    full: u32,
    /// How far beyond the home of the next key a hash may be stored, in lines.
    reach: u32,
    /// The number of used entries, which are occupied or removed, and of occupied ones. Only the writer
    /// changes them.
    used: AtomicU32,
    held: AtomicU32,
}

impl Segment {
    /// The number of entries of a line.
    pub(super) const PER_LINE: usize = Line32::CELLS;

    /// A segment of these hashes, whose keys share all but their last `bits` bits.
    pub(super) fn built(bits: u32, hashes: &[u64], fill: Fill) -> Segment {
        debug_assert!(bits + LEAD_BITS <= KEY_BITS);
        let wanted = hashes.len() as f64 / (fill.built * Self::PER_LINE as f64);
        let lines = (wanted.ceil() as u32).max(1);
        let mut homes = Homes { bits, lines, cuts: None };
        let home_of = |homes: &Homes, hash: &u64| homes.of(key(*hash) & mask(bits)) as u32;
        let mut at_home: Vec<u32> = hashes.iter().map(|hash| home_of(&homes, hash)).collect();
        let mut places = Places::of(&at_home, lines, Self::PER_LINE);
        if places.displacement > MAX_DISPLACEMENT {
            let mut keys: Vec<u64> = hashes.iter().map(|hash| key(*hash) & mask(bits)).collect();
            keys.sort_unstable();
            homes.cuts = Some(Box::new(Cuts::of(&keys, lines)));
            at_home.iter_mut().zip(hashes).for_each(|(home, hash)| *home = home_of(&homes, hash));
            places = Places::of(&at_home, lines, Self::PER_LINE);
        }
        let spare = (lines as usize / 16).clamp(usize::from(lines > 2), 4);
        let count = places.end.max(lines as usize) + spare;
        let all: Box<[Line32]> = empty_lines(2 * count);
        let (fronts, backs) = all.split_at(count);
        for (&hash, home) in hashes.iter().zip(at_home) {
            let next = &mut places.next[home as usize];
            let (line, entry) = (*next as usize / Self::PER_LINE, *next as usize % Self::PER_LINE);
            *next += 1;
            let (front, back) = store(hash);
            backs[line].write(entry, back);
            fronts[line].publish(entry, front);
        }
        let room = (count * Self::PER_LINE) as f64;
        let len = hashes.len() as u32;
        Segment {
            homes,
            lines: all,
            counts: Counts {
                full: ((room * fill.full) as u32).max(len + 1),
                reach: (REACH + places.displacement * 3 / 2) as u32,
                used: AtomicU32::new(len),
                held: AtomicU32::new(len),
            },
        }
    }

    /// The number of hashes.
    pub(super) fn len(&self) -> usize {
        self.counts.held.load(Ordering::Relaxed) as usize
    }

    /// The bytes that it occupies, without the bookkeeping of the allocator.
    pub(super) fn bytes(&self) -> usize {
        let cuts =
            self.homes.cuts.as_ref().map_or(0, |cuts| size_of_val(&*cuts.keys) + size_of_val(&*cuts.homes));
        size_of::<Segment>() + size_of_val(&*self.lines) + cuts
    }

    /// The fronts, line by line.
    #[inline(always)]
    pub(super) fn fronts(&self) -> &[Line32] {
        &self.lines[..self.lines.len() / 2]
    }

    /// The backs, a line for each line of fronts.
    #[inline(always)]
    pub(super) fn backs(&self) -> &[Line32] {
        &self.lines[self.lines.len() / 2..]
    }

    /// The back of an entry that its front published, which was read before.
    #[inline(always)]
    fn back(&self, line: usize, entry: usize) -> u32 {
        self.backs()[line].read_beside(entry)
    }

    /// The home lines of the keys from `first` to `last`: positions in units of 2^-64 of all keys.
    /// Returns the first line and the number of lines. The hashes of the keys are stored in these lines, and
    /// in each following line while the line before it is full.
    #[inline(always)]
    pub(super) fn homes(&self, first: u64, last: u64) -> (usize, usize) {
        let from = self.homes.at(first);
        (from, self.homes.at(last) - from + 1)
    }

    /// The hash in an entry of a line; `lead` has the first bits of the segment's keys.
    #[inline(always)]
    pub(super) fn hash(&self, line: usize, entry: usize, lead: u32) -> Option<u64> {
        let front = self.fronts()[line].read(entry);
        load((front, self.back(line, entry)), lead)
    }

    /// Calls `each` with every hash, nearly in the order of their keys.
    #[inline(always)]
    pub(super) fn for_each(&self, lead: u32, mut each: impl FnMut(u64)) {
        self.for_each_from(0, self.fronts().len(), lead, &mut each);
    }

    /// Calls `each` with every hash of a run: see [`Segment::run`].
    #[inline(always)]
    pub(super) fn for_each_from(&self, from: usize, homes: usize, lead: u32, mut each: impl FnMut(u64)) {
        for line in self.run(from, homes) {
            for entry in 0..Self::PER_LINE {
                if let Some(hash) = self.hash(line, entry, lead) {
                    each(hash);
                }
            }
        }
    }

    /// The lines of a run: `homes` lines from `from` on, then each line while the line before it is full.
    #[inline(always)]
    pub(super) fn run(&self, from: usize, homes: usize) -> impl Iterator<Item = usize> {
        let mut next = from;
        std::iter::from_fn(move || {
            let continues = next < from + homes.max(1) || self.continues_after(next - 1);
            continues.then(|| {
                next += 1;
                next - 1
            })
        })
    }

    /// Whether a run that reads this line must read the next one: the line is full and is not the last one.
    #[inline(always)]
    pub(super) fn continues_after(&self, line: usize) -> bool {
        line + 1 < self.fronts().len() && !has_room(&self.fronts()[line])
    }

    /// All hashes, nearly in the order of their keys, in a vector with capacity for `more` others.
    pub(super) fn hashes(&self, lead: u32, more: usize) -> Vec<u64> {
        let mut hashes = Vec::with_capacity(self.len() + more);
        self.for_each(lead, |hash| hashes.push(hash));
        hashes
    }

    /// Whether the segment holds the hash.
    #[cfg(test)]
    pub(super) fn contains(&self, hash: u64) -> bool {
        self.find(hash).is_some()
    }

    /// Inserts a hash, which must not be in the segment. Returns `false` if the segment must be rebuilt
    /// first. Only the writer may call this.
    pub(super) fn insert(&self, hash: u64) -> bool {
        let used = self.counts.used.load(Ordering::Relaxed);
        if used >= self.counts.full {
            return false;
        }
        let key = key(hash) & mask(self.homes.bits);
        let home = self.homes.of(key);
        let at_home = has_room(&self.fronts()[home]).then_some(home);
        let Some(line) = at_home.or_else(|| self.room_after(home, key)) else {
            return false;
        };
        let entry = first_free(&self.fronts()[line]);
        let (front, back) = store(hash);
        self.backs()[line].write(entry, back);
        self.fronts()[line].publish(entry, front);
        self.counts.used.store(used + 1, Ordering::Relaxed);
        self.counts.held.store(self.counts.held.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        true
    }

    /// The first line with a free entry after the home of a key, within the permitted distance.
    fn room_after(&self, home: usize, key: u64) -> Option<usize> {
        let next = if key == mask(self.homes.bits) { self.fronts().len() } else { self.homes.of(key + 1) };
        let end = (next + self.counts.reach as usize).min(self.fronts().len());
        (home + 1..end).find(|line| has_room(&self.fronts()[*line]))
    }

    /// Removes a hash. Returns whether it was present. Only the writer may call this.
    pub(super) fn remove(&self, hash: u64) -> bool {
        let Some((line, entry)) = self.find(hash) else {
            return false;
        };
        self.fronts()[line].publish(entry, removed_front());
        self.counts.held.store(self.counts.held.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
        true
    }

    /// Whether so many hashes were removed that a rebuild frees memory.
    pub(super) fn is_sparse(&self) -> bool {
        self.fronts().len() > 4 && self.len() * 3 < self.fronts().len() * Self::PER_LINE
    }

    /// Prefetches the home line of a key.
    #[inline(always)]
    pub(super) fn prefetch_key(&self, key: u64) {
        self.prefetch_line(self.homes.of(key & mask(self.homes.bits)));
    }

    /// Prefetches the fronts and the backs of a line.
    #[inline(always)]
    pub(super) fn prefetch_line(&self, line: usize) {
        prefetch(&self.fronts()[line..], 1);
        prefetch(&self.backs()[line..], 1);
    }

    #[inline]
    fn find(&self, hash: u64) -> Option<(usize, usize)> {
        with_best(Find { segment: self, hash })
    }
}

struct Find<'a> {
    segment: &'a Segment,
    hash: u64,
}

impl Work for Find<'_> {
    type Output = Option<(usize, usize)>;

    #[inline(always)]
    fn run<C: Compare>(self, compare: C) -> Option<(usize, usize)> {
        let Find { segment, hash } = self;
        let (front, back) = store(hash);
        let home = segment.homes.of(key(hash) & mask(segment.homes.bits));
        for line in segment.run(home, 1) {
            for entry in cells(segment.fronts()[line].near(compare, front, 0)) {
                // Read again with acquire ordering: the comparison guarantees no order.
                let stored = (segment.fronts()[line].read(entry), segment.back(line, entry));
                if stored == (front, back) {
                    return Some((line, entry));
                }
            }
        }
        None
    }
}

/// Whether a line has a free entry: its last entry is free. Entries are used in order and never become free
/// again, so a full line stays full.
#[inline(always)]
fn has_room(line: &Line32) -> bool {
    is_empty(line.read_beside(Segment::PER_LINE - 1))
}

/// The first free entry of a line that has one. It is a binary search, because the processor mispredicts the
/// end of a linear search.
#[inline(always)]
fn first_free(line: &Line32) -> usize {
    let (mut first, mut step) = (0, Segment::PER_LINE / 2);
    while step > 0 {
        first += step * usize::from(!is_empty(line.read_beside(first + step - 1)));
        step /= 2;
    }
    first
}

/// A number whose last `bits` bits are ones.
#[inline(always)]
pub(super) fn mask(bits: u32) -> u64 {
    (1 << bits) - 1
}

/// The positions of the hashes in a new segment.
struct Places {
    /// For each home line, the entry that its next hash takes.
    next: Vec<u32>,
    /// The line after the last used one.
    end: usize,
    /// The maximum number of lines that hashes are stored beyond their home.
    displacement: usize,
}

impl Places {
    /// The positions of hashes with these homes, of `lines` lines.
    fn of(at_home: &[u32], lines: u32, per_line: usize) -> Places {
        let mut next = vec![0u32; lines as usize];
        at_home.iter().for_each(|home| next[*home as usize] += 1);
        let (mut free, mut displacement) = (0, 0);
        for (line, next) in next.iter_mut().enumerate() {
            let count = *next as usize;
            let first = free.max(line * per_line);
            *next = first as u32;
            if count > 0 {
                free = first + count;
                displacement = displacement.max(free.div_ceil(per_line) - (line + 1));
            }
        }
        Places { next, end: free.div_ceil(per_line), displacement }
    }
}

#[cfg(test)]
mod tests {
    use super::super::entry::first;
    use super::*;

    const FILL: Fill = Fill { built: 0.7, full: 0.9 };

    fn model(bits: u32, hashes: &[u64]) {
        let mut segment = Segment::built(bits, &[], FILL);
        let mut rebuilt = 0;
        let lead = first(hashes[0], LEAD_BITS);
        for (count, &hash) in hashes.iter().enumerate() {
            assert!(!segment.contains(hash));
            if !segment.insert(hash) {
                rebuilt += 1;
                let mut all = segment.hashes(lead, 1);
                all.push(hash);
                segment = Segment::built(bits, &all, FILL);
            }
            assert!(segment.contains(hash));
            assert_eq!(segment.len(), count + 1);
        }
        assert!(rebuilt < 200, "the segment was rebuilt {rebuilt} times");
        let mut all = segment.hashes(lead, 0);
        let mut expected = hashes.to_vec();
        all.sort_unstable();
        expected.sort_unstable();
        assert_eq!(all, expected);
        for &hash in hashes {
            let place = (key(hash) & mask(bits)) << (u64::BITS - bits);
            let (from, homes) = segment.homes(place, place);
            let ends = |line: &usize| *line + 1 >= from + homes && has_room(&segment.fronts()[*line]);
            let last = (from..segment.fronts().len()).find(ends).unwrap_or(segment.fronts().len() - 1);
            let here = |line| (0..Segment::PER_LINE).any(|at| segment.hash(line, at, lead) == Some(hash));
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
    fn evenly_spread_keys_are_found_in_their_runs() {
        let hashes: Vec<u64> = (0..5_000).map(|i| spread(i) >> 8).collect();
        model(48, &hashes);
        model(54, &hashes.iter().map(|&hash| hash & !(0xc000 << 48)).collect::<Vec<_>>());
    }

    /// Entries that differ only in their last bits, in ascending order.
    #[test]
    fn consecutive_entries_do_not_displace_each_other() {
        let row: Vec<u64> = (0..20_000).collect();
        model(54, &row);
    }

    #[test]
    fn clustered_keys_get_more_lines() {
        let one_key: Vec<u64> = (0..6_000).map(|i| 0x0042 << 48 | i).collect();
        model(48, &one_key);
        model(54, &one_key);
        let few: Vec<u64> = (0..6_000).map(|i| (i % 3 * 85) << 48 | spread(i) >> 16).collect();
        model(48, &few);
    }
}
