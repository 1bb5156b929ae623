//! Which kept signatures agree with another one in a band: a table of numbers for each band.
//!
//! A table has lines of 64 bytes. A hash of a band names a line, and eight more bits of it are beside each
//! number there. So a lookup reads a line for each band, and few signatures that agree in no band.
//!
//! Costs: some 7 bytes for each band of a signature, besides the signature. A table grows by half, from the
//! signatures, so that there are never two copies of more than one table. *Absent*: removal.

use std::hint::black_box;

use super::documents::Documents;
use lookalike_hamming::band_hash;
use lookalike_hash::SignatureShape;

/// The places of a line, and how many are taken on average when a table grows.
const PLACES: usize = 15;
const TAKEN: usize = 12;
/// The bits of a number in an entry; the bits of the hash are above them.
const NUMBER_BITS: u32 = 24;
const NUMBER: u32 = (1 << NUMBER_BITS) - 1;
/// The most signatures of a group. No entry has this number.
const MOST: u32 = if cfg!(test) { 60 } else { NUMBER };
/// A place without an entry.
const FREE: u32 = u32::MAX;

/// A cache line of a table.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line {
    entries: [u32; PLACES],
    /// The full line that continues this one, counted from 1; 0 if there is none.
    next: u32,
}

const EMPTY: Line = Line { entries: [FREE; PLACES], next: 0 };

/// The numbers of the signatures of a group, by the hash of one band.
struct Table {
    lines: Vec<Line>,
    full: Vec<Line>,
}

impl Table {
    fn of(lines: usize) -> Table {
        Table { lines: vec![EMPTY; lines], full: Vec::new() }
    }

    fn place(&self, hash: u32) -> usize {
        ((u64::from(hash) * self.lines.len() as u64) >> 32) as usize
    }

    fn line(&self, hash: u32) -> &Line {
        &self.lines[self.place(hash)]
    }

    fn insert(&mut self, hash: u32, number: u32) {
        let place = self.place(hash);
        let line = &mut self.lines[place];
        if line.entries[PLACES - 1] != FREE {
            self.full.push(*line);
            *line = Line { next: self.full.len() as u32, ..EMPTY };
        }
        let free = line.entries.iter().position(|entry| *entry == FREE).expect("the last place is free");
        line.entries[free] = hash << NUMBER_BITS | number;
    }

    /// Calls `each` with the numbers under a hash, and with a few under other hashes.
    #[inline]
    fn each(&self, hash: u32, mut each: impl FnMut(u32)) {
        let (mut line, tag) = (self.line(hash), hash << NUMBER_BITS);
        loop {
            let differs = |entry: u32| (entry ^ tag) & !NUMBER;
            // The whole line is compared before any entry of it is looked at.
            let alike = line.entries.iter().fold(0, |any, entry| any | u32::from(differs(*entry) == 0));
            if alike != 0 {
                let alike = line.entries.iter().filter(|entry| differs(**entry) == 0 && **entry != FREE);
                alike.for_each(|entry| each(entry & NUMBER));
            }
            match line.next {
                0 => return,
                next => line = &self.full[next as usize - 1],
            }
        }
    }

    fn bytes(&self) -> usize {
        (self.lines.capacity() + self.full.capacity()) * size_of::<Line>()
    }
}

/// The tables of all bands, for signatures from number `first` on.
struct Group {
    first: u32,
    len: u32,
    tables: Vec<Table>,
}

/// The bands of all signatures of some documents.
pub(super) struct Minima {
    shape: SignatureShape,
    groups: Vec<Group>,
    /// The lines of a new table.
    lines: usize,
}

impl Minima {
    /// No signatures yet, with room for so many.
    pub(super) fn new(shape: SignatureShape, expected: usize) -> Minima {
        Minima { shape, groups: Vec::new(), lines: expected / TAKEN + 1 }
    }

    /// Adds the signature of the last document. Those of all others were added before.
    pub(super) fn insert(&mut self, documents: &Documents<'_>) {
        let number = documents.len() - 1;
        if self.groups.last().is_none_or(|group| group.len == MOST) {
            let tables = (0..self.shape.bands).map(|_| Table::of(self.lines)).collect();
            self.groups.push(Group { first: number, len: 0, tables });
        }
        let bytes = usize::from(self.shape.cell_bytes) * usize::from(self.shape.rows);
        let group = self.groups.last_mut().expect("it was pushed");
        let is_full = group.len as usize >= group.tables[0].lines.len() * TAKEN;
        for (band, table) in group.tables.iter_mut().enumerate() {
            let from = if is_full { 0 } else { group.len };
            if is_full {
                *table = Table::of(table.lines.len() * 3 / 2 + 1);
            }
            for own in from..=group.len {
                let signature = documents.signature(group.first + own);
                table.insert(band_hash(&signature[band * bytes..][..bytes]), own);
            }
        }
        group.len += 1;
    }

    /// The signatures that agree with this one in a band and differ from it in at most `radius` cells, with
    /// their distances, are appended to `found`.
    pub(super) fn within(
        &self,
        documents: &Documents<'_>,
        signature: &[u8],
        radius: u32,
        found: &mut Vec<(u32, u32)>,
    ) {
        let hashes: Vec<u32> = self.hashes(signature).collect();
        let mut numbers = Vec::new();
        for group in &self.groups {
            // The processor waits for all lines at once, and not for one after the other.
            let lines = group.tables.iter().zip(&hashes).map(|(table, hash)| table.line(*hash).next);
            black_box(lines.fold(0, |all, next| all ^ next));
            for (table, hash) in group.tables.iter().zip(&hashes) {
                table.each(*hash, |own| numbers.push(group.first + own));
            }
        }
        numbers.sort_unstable();
        numbers.dedup();
        found.extend(numbers.into_iter().filter_map(|number| {
            let other = documents.signature(number);
            let distance = self.shape.distance(signature, other);
            // A few numbers are of signatures that agree in no band.
            let is_near = distance <= radius && self.hashes(other).zip(&hashes).any(|(a, b)| a == *b);
            is_near.then_some((distance, number))
        }));
    }

    /// The hashes of the bands of a signature.
    fn hashes(&self, signature: &[u8]) -> impl Iterator<Item = u32> {
        let band = usize::from(self.shape.cell_bytes) * usize::from(self.shape.rows);
        signature.chunks_exact(band).take(usize::from(self.shape.bands)).map(band_hash)
    }

    /// The bytes that the tables occupy.
    pub(super) fn bytes(&self) -> usize {
        self.groups.iter().flat_map(|group| &group.tables).map(Table::bytes).sum()
    }
}
