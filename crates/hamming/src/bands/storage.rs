//! The table of a band: it maps the hash of a band to the numbers of the signatures that have it.
//!
//! An entry is the hash of the band and the number of the signature. A query has radius 0. Few entries are
//! stored in segments, many in buckets ([`BUCKETS_FROM`]). Moving them to buckets takes the writer some
//! milliseconds; readers do not wait.
//!
//! *Absent*: signatures (`bands`).

use super::super::memory::{Compare, Packed48, Pin, Replaceable, Work, cells, prefetch, with_best};
use super::buckets::{BucketRange, Buckets};
use super::entry::{BAND_BITS, LEAD_BITS, first, store};
use super::segment::{Fill, Segment};
use super::shard::Shard;
use super::table::{Run, Table};

const FILL: Fill = Fill { built: 0.72, full: 0.93 };
/// The number of entries per table from which on buckets are faster than segments.
pub(super) const BUCKETS_FROM: usize = 400_000;

/// The table of one band.
pub(super) struct BandTable(Replaceable<Storage>);

enum Storage {
    Segments(Table),
    Buckets(Buckets),
}

/// A band of a query, whose first lines are prefetched.
pub(super) enum Probe<'p> {
    Run { run: Run<'p>, entry: u64 },
    Bucket { shard: &'p Shard, lines: &'p [Packed48], entry: u64 },
}

impl BandTable {
    /// An empty table.
    pub(super) fn new() -> BandTable {
        BandTable(Replaceable::new(Storage::Segments(Table::new(0))))
    }

    /// The entry of a signature: the hash of its band, and its number.
    pub(super) fn entry(hash: u32, number: u32) -> u64 {
        u64::from(hash) << BAND_BITS | u64::from(number)
    }

    /// Prefetches the line of an entry, for its insertion.
    pub(super) fn prefetch(&self, entry: u64, pin: &Pin) {
        match self.0.get(pin) {
            Storage::Segments(table) => table.prefetch(Some(&entry), pin),
            Storage::Buckets(table) => table.prefetch(entry, pin),
        }
    }

    /// Prefetches the header that gives the position of a band's entries. Does nothing for buckets, whose
    /// position is computed.
    pub(super) fn prefetch_segment(&self, entry: u64, pin: &Pin) {
        if let Storage::Segments(table) = self.0.get(pin) {
            table.prefetch_segment(entry, pin);
        }
    }

    /// Begins to probe a band: finds and prefetches its first lines.
    pub(super) fn probe<'p>(&self, entry: u64, pin: &'p Pin) -> Probe<'p> {
        let hash = first(entry, BAND_BITS);
        match self.0.get(pin) {
            Storage::Segments(table) => {
                let run = table.view(pin).run(hash, BAND_BITS);
                run.segment.prefetch_line(run.from);
                Probe::Run { run, entry }
            }
            Storage::Buckets(table) => {
                let BucketRange { shard, first, count, .. } = table.range(hash, BAND_BITS, pin);
                let lines = shard.buckets(first, count);
                prefetch(lines, lines.len());
                Probe::Bucket { shard, lines, entry }
            }
        }
    }

    /// Inserts an entry, which must not be present; `filed` is the number of entries. Only one writer may
    /// call this at a time.
    pub(super) fn insert(&self, entry: u64, filed: usize, pin: &Pin) {
        match self.0.get(pin) {
            Storage::Segments(table) => table.insert(entry, filed, FILL, pin),
            Storage::Buckets(table) => _ = table.insert(entry, pin),
        }
    }

    /// Moves the `filed` entries to buckets. Returns whether they were in segments. Only one writer may call
    /// this at a time.
    pub(super) fn move_to_buckets(&self, filed: usize, pin: &Pin) -> bool {
        let Storage::Segments(table) = self.0.get(pin) else {
            return false;
        };
        let buckets = Buckets::new(filed);
        for first in 0..1 << LEAD_BITS {
            table.view(pin).hashes_with(first, LEAD_BITS, |entry| _ = buckets.insert(entry, pin));
        }
        self.0.replace(Storage::Buckets(buckets), pin);
        true
    }

    /// Removes an entry. Only one writer may call this at a time.
    pub(super) fn remove(&self, entry: u64, pin: &Pin) {
        match self.0.get(pin) {
            Storage::Segments(table) => _ = table.remove(entry, FILL, pin),
            Storage::Buckets(table) => _ = table.remove(entry, pin),
        }
    }

    /// The bytes that the table occupies, including free entries.
    pub(super) fn bytes(&self, pin: &Pin) -> usize {
        match self.0.get(pin) {
            Storage::Segments(table) => table.view(pin).bytes(),
            Storage::Buckets(table) => table.bytes(pin),
        }
    }
}

/// The numbers of the signatures that share one of these bands, possibly with duplicates.
pub(super) fn candidates(probes: &[Probe<'_>]) -> Vec<u32> {
    let (mut near, mut numbers) = (Vec::with_capacity(probes.len()), Vec::with_capacity(probes.len()));
    with_best(FindEntries { probes, near: &mut near, numbers: &mut numbers });
    numbers.extend(near.iter().filter_map(NearEntry::number));
    numbers
}

/// An entry of a segment that has the same back as a queried band, so that it may share the band.
struct NearEntry<'p> {
    segment: &'p Segment,
    line: usize,
    place: usize,
    entry: u64,
}

impl NearEntry<'_> {
    /// The number of the signature; `None` if it does not share the band.
    fn number(&self) -> Option<u32> {
        let stored = self.segment.hash(self.line, self.place, first(self.entry, LEAD_BITS))?;
        (first(stored, BAND_BITS) == first(self.entry, BAND_BITS)).then_some(stored as u32)
    }
}

/// Finds the entries of the queried bands: the numbers in buckets, and candidates in segments.
struct FindEntries<'r, 'p> {
    probes: &'r [Probe<'p>],
    near: &'r mut Vec<NearEntry<'p>>,
    numbers: &'r mut Vec<u32>,
}

impl<'p> Work for FindEntries<'_, 'p> {
    type Output = ();

    #[inline(always)]
    fn run<C: Compare>(self, compare: C) {
        let FindEntries { probes, near, numbers } = self;
        let mut compare_line = |segment: &'p Segment, line: usize, entry: u64| {
            // A back is the hash of the band without its lead, then the first bits of the number.
            let back = store(entry).1;
            for place in cells(segment.backs()[line].near(compare, back, LEAD_BITS)) {
                near.push(NearEntry { segment, line, place, entry });
            }
        };
        let mut take = |line: &Packed48, entry: u64| {
            // The bucket implies the first 16 bits of the band's hash. The first word of an entry has the
            // others.
            let (same, head) = Shard::starting_with(compare, line, (entry >> BAND_BITS) as u16);
            numbers.extend(cells(same).map(|place| line.read(place) as u32));
            head
        };
        // Reads the first line of each band, then the remaining lines of the few bands that have more. Those
        // lines are prefetched meanwhile.
        let mut open = Vec::new();
        for probe in probes {
            match probe {
                Probe::Run { run: Run { segment, from, homes }, entry } => {
                    compare_line(segment, *from, *entry);
                    if *homes > 1 || segment.continues_after(*from) {
                        segment.prefetch_line(from + 1);
                        open.push(probe);
                    }
                }
                Probe::Bucket { shard, lines, entry } => {
                    let last = lines.iter().fold(0, |_, line| take(line, *entry));
                    if Shard::has_extent(last) {
                        shard.prefetch_extent(last);
                        open.push(probe);
                    }
                }
            }
        }
        for probe in open {
            match probe {
                Probe::Run { run: Run { segment, from, homes }, entry } => {
                    segment.run(*from, *homes).skip(1).for_each(|line| compare_line(segment, line, *entry));
                }
                Probe::Bucket { shard, lines, entry } => {
                    for extent in shard.extents_after(&lines[lines.len() - 1]) {
                        extent.iter().for_each(|line| _ = take(line, *entry));
                    }
                }
            }
        }
    }
}
