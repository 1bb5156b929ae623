//! What the steps of a query cost on this processor, measured once per process.
//!
//! The measured work is that of a query, in the preferred form: slots that give the places of entries, and
//! tiles, prefetched as a query does it. Other work of the machine only makes times longer, so the least of
//! some rounds counts. It is measured in memory that a second-level cache holds and in memory that it does
//! not hold; the costs of an index follow from its size.

use std::hint::black_box;
use std::sync::OnceLock;
use std::time::Instant;

use super::memory::{Compare, MAX_PLANES, Plane, Work, empty_lines, prefetch_from, with_best};

/// Times in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Costs {
    /// Beginning to read a bin that the query selects, in which nothing is compared yet.
    pub(super) begin: f64,
    /// Going to the next bin in a scan.
    pub(super) next: f64,
    /// Comparing a plane of a tile.
    pub(super) compared: f64,
    /// Comparing a plane of a tile in a scan.
    pub(super) scanned: f64,
}

/// The bytes of the two memories.
const SMALL: usize = 1 << 18;
const LARGE: usize = 1 << 25;
const ROUNDS: u64 = 8;
/// The bins of a round, and of a batch of a query.
const BINS: u64 = 1 << 10;
const BATCH: u64 = 16;
/// The planes for each plane that is read as a slot.
const PER_SLOT: u64 = 64;
/// The lines of a bin that a query prefetches.
const LINES: usize = 6;
/// The tiles of four planes of a short bin and of a long one.
const SHORT: usize = 2;
const LONG: usize = 12;
const PLANES: usize = 4;

impl Costs {
    /// Measures the costs, unless it was done before in this process.
    pub(super) fn measure() -> &'static [Costs; 2] {
        static MEASURED: OnceLock<[Costs; 2]> = OnceLock::new();
        MEASURED.get_or_init(|| [SMALL, LARGE].map(Costs::measured))
    }

    /// The costs in an index of this many bytes.
    pub(super) fn of(bytes: f64) -> Costs {
        let [small, large] = Costs::measure();
        let share = (bytes / SMALL as f64).log2() / (LARGE as f64 / SMALL as f64).log2();
        let between = |small: f64, large: f64| small + (large - small) * share.clamp(0.0, 1.0);
        Costs {
            begin: between(small.begin, large.begin),
            next: between(small.next, large.next),
            compared: between(small.compared, large.compared),
            scanned: between(small.scanned, large.scanned),
        }
    }

    fn measured(bytes: usize) -> Costs {
        let planes: Box<[Plane]> = empty_lines(bytes / size_of::<Plane>());
        // Memory that was never written to is one page for the system.
        planes.iter().step_by(2).enumerate().for_each(|(at, plane)| plane.write(0, at as u16));
        // In turns, so that other work of the machine does not fall on one of them only.
        let mut least = [[f64::INFINITY; 2]; 2];
        for round in 0..ROUNDS {
            for (in_order, least) in [false, true].into_iter().zip(&mut least) {
                for (tiles, least) in [SHORT, LONG].into_iter().zip(least) {
                    *least = least.min(with_best(Run { planes: &planes, round, tiles, in_order }));
                }
            }
        }
        // The time of a short bin without its planes, and of a plane.
        let [(begin, compared), (next, scanned)] = least.map(|[short, long]| {
            let plane = ((long - short) / ((LONG - SHORT) * PLANES) as f64).max(0.05);
            ((short - plane * (SHORT * PLANES) as f64).max(1.0), plane)
        });
        Costs { begin, next: next.min(begin), compared, scanned: scanned.min(compared) }
    }
}

/// Compares bins of some tiles, at random places or in order. The result is the time of a bin.
struct Run<'a> {
    planes: &'a [Plane],
    /// Each round reads other places.
    round: u64,
    tiles: usize,
    in_order: bool,
}

impl Work for Run<'_> {
    type Output = f64;

    #[inline(always)]
    fn run<C: Compare>(self, compare: C) -> f64 {
        let pattern = compare.pattern(&[0x5555; MAX_PLANES]);
        let mut places = [0; BATCH as usize];
        let mut few = 0;
        let start = Instant::now();
        for first in (self.round * BINS..(self.round + 1) * BINS).step_by(BATCH as usize) {
            let batch = first..first + BATCH;
            if !self.in_order {
                batch.clone().for_each(|number| prefetch_from(self.slot(number + BATCH)));
            }
            // Those of the batch before are compared while these are prefetched.
            for (number, place) in batch.zip(&mut places) {
                let before = std::mem::replace(place, self.place(number));
                let next = &raw const self.planes[*place];
                (0..LINES).for_each(|line| prefetch_from(next.wrapping_add(2 * line)));
                for tile in self.planes[before..][..self.tiles * PLANES].as_chunks::<PLANES>().0 {
                    few |= compare.few(compare.add_four(tile, &pattern, 0, compare.none()), 3);
                }
            }
        }
        black_box(few);
        start.elapsed().as_nanos() as f64 / BINS as f64
    }
}

impl Run<'_> {
    fn random(number: u64, below: u64) -> usize {
        ((number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % below) as usize
    }

    /// The slot of a bin.
    #[inline(always)]
    fn slot(&self, number: u64) -> &Plane {
        &self.planes[Run::random(!number, self.planes.len() as u64 / PER_SLOT)]
    }

    /// The first plane of a bin.
    #[inline(always)]
    fn place(&self, number: u64) -> usize {
        let length = self.tiles * PLANES;
        let places = (self.planes.len() - length) as u64;
        if self.in_order {
            return (number * length as u64 % places) as usize;
        }
        // It depends on what the slot has.
        Run::random(number, places) + usize::from(self.slot(number).read(3))
    }
}
