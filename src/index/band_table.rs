//! A band's table: the numbers of signatures, by the hash of their band.
//!
//! An entry is the band's hash and the signature's number, a question has radius 0. Few stand in a segment's
//! table, many in buckets ([`MANY`]), to which they move all at once: some milliseconds of the writer's,
//! beside readers.
//!
//! *Absent*: signatures (`bands`).

use super::block::{Block, LEAD_BITS};
use super::buckets::{Buckets, Stretch};
use super::memory::{Compare, Followed, Line, Packed, Packed48, Pin, Work, cells, prefetch, with_best};
use super::segment::{Fill, Segment};
use super::shard::Shard;
use super::table::{Run, Table};

/// The hash of a band, then the signature's number.
const BAND: Block = Block::new(32, BAND_BITS);
const BAND_BITS: u32 = 32;
const FILL: Fill = Fill { built: 0.72, full: 0.93 };
/// From this many entries on they had better stand in buckets.
pub(super) const MANY: usize = 400_000;

/// The table of one band.
pub(super) struct BandTable(Followed<Stand>);

enum Stand {
    Segments(Table<u64>),
    Buckets(Buckets<u64>),
}

/// A band that was asked for.
pub(super) enum Asked<'p> {
    Run { run: Run<'p, u64>, entry: u64 },
    Bucket { shard: &'p Shard<u64>, lines: &'p [Packed48], entry: u64 },
}

impl BandTable {
    /// An empty table.
    pub(super) fn new() -> BandTable {
        BandTable(Followed::new(Stand::Segments(Table::new(BAND, 0))))
    }

    /// What is filed for a signature with this hash of its band, under this number.
    pub(super) fn entry(hash: u32, number: u32) -> u64 {
        u64::from(hash) << BAND_BITS | u64::from(number)
    }

    /// Asks for the place of an entry.
    pub(super) fn approach(&self, entry: u64, pin: &Pin) {
        match self.0.get(pin) {
            Stand::Segments(table) => table.approach(Some(&entry), pin),
            Stand::Buckets(table) => table.approach(entry, pin),
        }
    }

    /// Asks for what says where a band's entries stand, if anything has to.
    pub(super) fn approach_place(&self, entry: u64, pin: &Pin) {
        if let Stand::Segments(table) = self.0.get(pin) {
            table.approach_segment(entry, pin);
        }
    }

    /// Asks for the entries of a band.
    pub(super) fn ask<'p>(&self, entry: u64, pin: &'p Pin) -> Asked<'p> {
        let hash = BAND.first(entry, BAND_BITS);
        match self.0.get(pin) {
            Stand::Segments(table) => {
                let run = table.view(pin).run(hash, BAND_BITS);
                run.segment.approach_line(run.from);
                Asked::Run { run, entry }
            }
            Stand::Buckets(table) => {
                let Stretch { shard, first, count, .. } = table.stretch(hash, BAND_BITS, pin);
                let lines = shard.buckets(first, count);
                prefetch(lines, lines.len());
                Asked::Bucket { shard, lines, entry }
            }
        }
    }

    /// Files an entry, which must not be there yet; `filed` is how many are. For the writer, one at a time.
    pub(super) fn insert(&self, entry: u64, filed: usize, pin: &Pin) {
        match self.0.get(pin) {
            Stand::Segments(table) => table.insert(entry, filed, FILL, pin),
            Stand::Buckets(table) => _ = table.insert(entry, pin),
        }
    }

    /// Moves the `filed` entries to buckets: whether they were not there yet. For the writer, one at a time.
    pub(super) fn settle(&self, filed: usize, pin: &Pin) -> bool {
        let Stand::Segments(table) = self.0.get(pin) else {
            return false;
        };
        let buckets = Buckets::new(BAND, filed);
        for first in 0..1 << LEAD_BITS {
            table.view(pin).hashes_with(first, LEAD_BITS, |entry| _ = buckets.insert(entry, pin));
        }
        self.0.replace(Stand::Buckets(buckets), pin);
        true
    }

    /// Takes an entry out. For the writer, one at a time.
    pub(super) fn remove(&self, entry: u64, pin: &Pin) {
        match self.0.get(pin) {
            Stand::Segments(table) => _ = table.remove(entry, FILL, pin),
            Stand::Buckets(table) => _ = table.remove(entry, pin),
        }
    }

    /// The bytes the table occupies, room to grow included.
    pub(super) fn bytes(&self, pin: &Pin) -> usize {
        match self.0.get(pin) {
            Stand::Segments(table) => table.view(pin).bytes(),
            Stand::Buckets(table) => table.bytes(pin),
        }
    }
}

/// The numbers of the signatures that share a band with what was asked for, some of them more than once.
pub(super) fn met(asked: &[Asked<'_>]) -> Vec<u32> {
    let (mut noted, mut numbers) = (Vec::with_capacity(asked.len()), Vec::with_capacity(asked.len()));
    with_best(Meeting { asked, noted: &mut noted, numbers: &mut numbers });
    numbers.extend(noted.iter().filter_map(Noted::number));
    numbers
}

/// An entry of a segment whose back is that of a band asked for.
struct Noted<'p> {
    segment: &'p Segment<u64>,
    line: usize,
    place: usize,
    entry: u64,
}

impl Noted<'_> {
    /// The number of the signature, if it shares the band.
    fn number(&self) -> Option<u32> {
        let stored = self.segment.hash(self.line, self.place, BAND.first(self.entry, LEAD_BITS))?;
        (BAND.first(stored, BAND_BITS) == BAND.first(self.entry, BAND_BITS)).then_some(stored as u32)
    }
}

/// Finds the entries of bands asked for: in buckets their numbers, in segments what may be one.
struct Meeting<'r, 'p> {
    asked: &'r [Asked<'p>],
    noted: &'r mut Vec<Noted<'p>>,
    numbers: &'r mut Vec<u32>,
}

impl<'p> Work for Meeting<'_, 'p> {
    type Output = ();

    #[inline(always)]
    fn run<C: Compare>(self, compare: C) {
        let Meeting { asked, noted, numbers } = self;
        let mut look = |segment: &'p Segment<u64>, line: usize, entry: u64| {
            // A back is the band's hash after its lead, and the first bits of the number.
            let back = BAND.store(entry).1;
            for place in cells(segment.backs()[line].near(compare, back, LEAD_BITS)) {
                noted.push(Noted { segment, line, place, entry });
            }
        };
        let mut take = |line: &Packed48, entry: u64| {
            // The bucket tells the first 16 bits of the band's hash and the first word of an entry the
            // others.
            let (same, head) = Shard::<u64>::alike(compare, line, (entry >> BAND_BITS) as u16);
            numbers.extend(cells(same).map(|place| line.read(place) as u32));
            head
        };
        // The first line of each, then what goes on after it: few do.
        let mut open = Vec::new();
        for asked in asked {
            match asked {
                Asked::Run { run: Run { segment, from, homes }, entry } => {
                    look(segment, *from, *entry);
                    if *homes > 1 || segment.goes_on_after(*from) {
                        segment.approach_line(from + 1);
                        open.push(asked);
                    }
                }
                Asked::Bucket { shard, lines, entry } => {
                    let last = lines.iter().fold(0, |_, line| take(line, *entry));
                    if Shard::<u64>::goes_on(last) {
                        shard.approach_extent(last);
                        open.push(asked);
                    }
                }
            }
        }
        for asked in open {
            match asked {
                Asked::Run { run: Run { segment, from, homes }, entry } => {
                    segment.run(*from, *homes).skip(1).for_each(|line| look(segment, line, *entry));
                }
                Asked::Bucket { shard, lines, entry } => {
                    for extent in shard.extents_after(&lines[lines.len() - 1]) {
                        extent.iter().for_each(|line| _ = take(line, *entry));
                    }
                }
            }
        }
    }
}
