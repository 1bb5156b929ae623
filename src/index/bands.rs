//! `MinHash` signatures by bands: which stored signatures share a band with this one, and how much in all.
//!
//! A signature of bands × rows minima is cut into bands (Leskovec, Rajaraman and Ullman, "Mining of Massive
//! Datasets", 3.4). Two signatures whose similarity is s share a given band with probability s^rows, so they
//! meet in some band with probability 1 - (1 - s^rows)^bands. The tables are those of the pigeonhole index: a
//! band is a block, an entry is the band's hash and the signature's number, a question has radius 0, and what is
//! found is verified by another distance, the share of equal minima.
//!
//! A band's hash here has 32 bits, so now and then two bands look equal that are not. That brings a candidate
//! more, never an answer more: similarity is counted on the signatures.
//!
//! *Absent*: how signatures are made (`fingerprint`), documents, disks.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, RwLock};

use super::block::{Block, LEAD_BITS};
use super::memory::{Compare, Line, Work, cells, pin, prefetch, with_best};
use super::segment::Fill;
use super::table::{Run, Table};

/// The hash of a band, then the signature's number.
const BAND: Block = Block::new(32, BAND_BITS);
const BAND_BITS: u32 = 32;
const FILL: Fill = Fill { built: 0.72, full: 0.93 };

/// A stored signature and the share of its minima that equal those of the query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Similar {
    /// Its number, in the order of insertion from 0.
    pub number: u32,
    /// Equal minima ÷ all: an estimate of the Jaccard similarity, 0 to 1.
    pub similarity: f64,
}

/// An index of signatures.
///
/// ```
/// use lookalike::index::Bands;
/// let bands = Bands::new(4, 2);
/// bands.insert(&[1, 2, 3, 4, 5, 6, 7, 8]);
/// let found = bands.similar(&[1, 2, 3, 4, 0, 0, 0, 0], 0.5);
/// assert_eq!((found[0].number, found[0].similarity), (0, 0.5));
/// ```
pub struct Bands {
    rows: usize,
    tables: Box<[Table<u64>]>,
    /// The minima of all signatures, one after the other.
    signatures: RwLock<Vec<u32>>,
    len: AtomicUsize,
    turn: Mutex<()>,
}

impl Bands {
    /// An empty index of signatures of `bands` × `rows` minima.
    ///
    /// # Panics
    /// If there are no bands or no rows.
    pub fn new(bands: usize, rows: usize) -> Bands {
        assert!(bands > 0 && rows > 0, "a signature has minima");
        Bands {
            rows,
            tables: (0..bands).map(|_| Table::new(BAND, 0)).collect(),
            signatures: RwLock::new(Vec::new()),
            len: AtomicUsize::new(0),
            turn: Mutex::new(()),
        }
    }

    /// How many signatures it holds.
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a signature; its number.
    ///
    /// # Panics
    /// If it has not bands × rows minima, or if there are 2³² signatures already.
    pub fn insert(&self, signature: &[u32]) -> u32 {
        self.check(signature);
        let _turn = self.turn.lock();
        let number = u32::try_from(self.len()).expect("fewer than 2^32 signatures");
        self.signatures.write().extend_from_slice(signature);
        let pin = pin();
        let entries: Vec<u64> = self.entries(signature, number).collect();
        for (table, entry) in self.tables.iter().zip(&entries) {
            table.approach(Some(entry), &pin);
        }
        for (table, entry) in self.tables.iter().zip(entries) {
            table.insert(entry, number as usize, FILL, &pin);
        }
        self.len.store(number as usize + 1, Ordering::Relaxed);
        number
    }

    /// The signatures that share a band with this one and at least `least` of all minima, in the order of their
    /// numbers.
    ///
    /// # Panics
    /// If the signature has not bands × rows minima.
    pub fn similar(&self, signature: &[u32], least: f64) -> Vec<Similar> {
        self.check(signature);
        let mut numbers = Vec::new();
        {
            let pin = pin();
            let asked: Vec<Asked<'_>> = self
                .tables
                .iter()
                .zip(self.entries(signature, 0))
                .map(|(table, entry)| {
                    let run = table.view(&pin).run(BAND.first(entry, BAND_BITS), BAND_BITS);
                    prefetch(&run.segment.backs()[run.from..], 2);
                    Asked { run, entry }
                })
                .collect();
            with_best(Meeting { asked: &asked, numbers: &mut numbers });
        }
        numbers.sort_unstable();
        numbers.dedup();
        let width = signature.len();
        let stored = self.signatures.read();
        let similar = |number: u32| {
            let other = &stored[number as usize * width..][..width];
            let equal = signature.iter().zip(other).filter(|(own, other)| own == other).count();
            Similar { number, similarity: equal as f64 / width as f64 }
        };
        numbers.into_iter().map(similar).filter(|similar| similar.similarity >= least).collect()
    }

    /// The bytes the index occupies, signatures and room to grow included.
    pub fn bytes(&self) -> usize {
        let pin = pin();
        let tables: usize = self.tables.iter().map(|table| table.view(&pin).bytes()).sum();
        tables + self.signatures.read().capacity() * size_of::<u32>()
    }

    fn check(&self, signature: &[u32]) {
        let (bands, rows) = (self.tables.len(), self.rows);
        assert!(signature.len() == bands * rows, "a signature has {bands} bands of {rows} minima");
    }

    /// What is filed for a signature in each table.
    fn entries<'s>(&self, signature: &'s [u32], number: u32) -> impl Iterator<Item = u64> + use<'s> {
        signature.chunks_exact(self.rows).map(move |band| {
            let mixed = band.iter().fold(0x9e37_79b9_7f4a_7c15_u64, |hash, minimum| {
                (hash ^ u64::from(*minimum)).wrapping_mul(0xd6e8_feb8_6659_fd93).rotate_left(29)
            });
            let hash = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93) >> 32;
            hash << 32 | u64::from(number)
        })
    }
}

/// A band that was asked for.
struct Asked<'p> {
    run: Run<'p, u64>,
    entry: u64,
}

/// Collects the numbers of signatures that share a band.
struct Meeting<'r, 'p> {
    asked: &'r [Asked<'p>],
    numbers: &'r mut Vec<u32>,
}

impl Work for Meeting<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<C: Compare>(self, compare: C) {
        for Asked { run: Run { segment, from, homes, lead }, entry } in self.asked {
            // A back is the band's hash after its lead, and the first bits of the number.
            let back = BAND.store(*entry).1;
            for line in segment.run(*from, *homes) {
                for place in cells(segment.backs()[line].near(compare, back, LEAD_BITS)) {
                    if let Some(stored) = segment.hash(line, place, *lead)
                        && BAND.first(stored, BAND_BITS) == BAND.first(*entry, BAND_BITS)
                    {
                        self.numbers.push(stored as u32);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Signatures of which some share some minima.
    fn signatures(count: u32, width: u32) -> Vec<Vec<u32>> {
        let minimum = |group: u32, own: u32, row: u32| {
            let shared = (row * 7 + own * 3) % 10 < own % 11;
            let seed = if shared { group } else { group.wrapping_mul(31).wrapping_add(own + 1) << 8 };
            (seed ^ row << 24).wrapping_mul(0x9e37_79b1).rotate_left(13)
        };
        (0..count)
            .map(|number| (0..width).map(|row| minimum(number / 12, number % 12, row)).collect())
            .collect()
    }

    #[test]
    fn what_shares_a_band_is_found_with_its_similarity() {
        for (bands, rows) in [(50, 4), (16, 8), (1, 1)] {
            let stored = signatures(if cfg!(miri) { 60 } else { 3_000 }, (bands * rows) as u32);
            let index = Bands::new(bands, rows);
            for (number, signature) in stored.iter().enumerate() {
                assert_eq!(index.insert(signature) as usize, number);
            }
            assert_eq!(index.len(), stored.len());
            for query in stored.iter().step_by(17) {
                for least in [0.0, 0.3, 0.8] {
                    let shares = |other: &[u32]| {
                        query.chunks(rows).zip(other.chunks(rows)).any(|(own, other)| own == other)
                    };
                    let expected: Vec<Similar> = (0..)
                        .zip(&stored)
                        .filter(|(_, other)| shares(other))
                        .map(|(number, other)| {
                            let equal = query.iter().zip(other).filter(|(own, other)| own == other).count();
                            Similar { number, similarity: equal as f64 / query.len() as f64 }
                        })
                        .filter(|similar| similar.similarity >= least)
                        .collect();
                    assert_eq!(index.similar(query, least), expected);
                }
            }
        }
    }
}
