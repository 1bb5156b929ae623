//! What the steps of a query cost on this processor, measured once per process.
//!
//! The measured work is that of a query, in the preferred form: from bin to bin, a header that gives the
//! place of the entries, and tiles. Other work of the machine only makes times longer, so the least of some
//! rounds counts. It is measured in memory that a second-level cache holds and in memory that it does not
//! hold; the costs of an index follow from its size.

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
/// The number of bins at random places whose waiting times overlap in a query. They are measured one after
/// another.
const OVERLAPPING: f64 = 2.0;
/// The bins of a round.
const BINS: u64 = 1 << 10;
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
        let begin = begin / OVERLAPPING;
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
        const AHEAD: u64 = 4;
        let Run { planes, round, tiles, in_order } = self;
        let length = tiles * PLANES;
        let pattern = compare.pattern(&[0x5555; MAX_PLANES]);
        let places = (planes.len() - length) as u64;
        let random = |number: u64| (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % places;
        let mut few = 0;
        let start = Instant::now();
        for number in round * BINS..(round + 1) * BINS {
            // A mask has sixteen bits: this adds nothing, but the next place waits for the comparison.
            let number = number + u64::from(black_box(few) >> 16);
            let place = if in_order {
                prefetch_from(&raw const planes[((number + AHEAD) * length as u64 % places) as usize]);
                number * length as u64 % places
            } else {
                // The header of a bin is anywhere, and the place of the entries depends on what is read
                // there.
                random(number) + u64::from(planes[random(!number) as usize].read(3))
            };
            for tile in planes[place as usize..][..length].as_chunks::<PLANES>().0 {
                few |= compare.few(compare.add_four(tile, &pattern, 0, compare.none()), 3);
            }
        }
        black_box(few);
        start.elapsed().as_nanos() as f64 / BINS as f64
    }
}
