//! Near pairs of hashes.
//!
//! A hash is cut into blocks, and each block has a radius, as in a [`Plan`](super::super::Plan): two hashes
//! within k differ by at most the radius in some block. For each block a counting sort orders the hashes by a
//! prefix of it. Hashes with one prefix are a run. Every run is compared with
//! itself and with the runs whose prefixes differ within the radius. The first block in which a pair is
//! within the radius reports it.
//!
//! Costs: 12 or 20 bytes a hash for the sorted copy. The blocks and their radii are those of the least
//! expected cost (`parts`), so a block in which very many hashes have one prefix is avoided if possible.

use super::super::block::Filed;
use super::super::memory::{Compare, Work, cells, with_best};
use super::parts::{MAX_BITS, Part, parts};
use super::{NearPair, NearPairs};
use lookalike_hash::Hash;

/// The number of comparisons in a step, which takes about ten milliseconds.
const STEP: u64 = 1 << 24;
/// The number of comparisons that take as long as reporting a pair. A step reports about `STEP / FOUND` pairs
/// at most.
const FOUND: u64 = 1 << 6;
/// The number of hashes that are compared at once.
const LANES: usize = 8;

/// Distinct ascending hashes, and where a pass is.
pub(super) struct HashPairs<W> {
    hashes: Vec<W>,
    parts: Vec<Part>,
    /// The part, the difference of prefixes, the prefix and the place in its run that come next.
    part: usize,
    difference: u32,
    prefix: usize,
    row: usize,
    /// The hashes in the order of their prefixes of the part, their places, and where each run begins.
    sorted: Vec<W>,
    places: Vec<u32>,
    starts: Vec<u32>,
}

impl<W: Filed> HashPairs<W> {
    pub(super) fn new() -> HashPairs<W> {
        HashPairs {
            hashes: Vec::new(),
            parts: Vec::new(),
            part: 0,
            difference: 0,
            prefix: 0,
            row: 0,
            sorted: Vec::new(),
            places: Vec::new(),
            starts: Vec::new(),
        }
    }

    /// Sorts the hashes by their prefixes.
    fn sort(&mut self, part: Part) {
        self.starts.clear();
        self.starts.resize((1 << part.bits) + 1, 0);
        for hash in &self.hashes {
            self.starts[part.prefix(*hash) as usize + 1] += 1;
        }
        let mut sum = 0;
        for start in &mut self.starts {
            sum += *start;
            *start = sum;
        }
        self.sorted.clear();
        self.sorted.extend_from_slice(&self.hashes);
        self.places.resize(self.hashes.len(), 0);
        for (hash, place) in self.hashes.iter().zip(0..) {
            // Each start moves to the end of its run.
            let start = &mut self.starts[part.prefix(*hash) as usize];
            self.sorted[*start as usize] = *hash;
            self.places[*start as usize] = place;
            *start += 1;
        }
        self.starts.rotate_right(1);
        self.starts[0] = 0;
    }
}

/// A step, compiled for the instructions of the processor.
struct Step<'a, W> {
    pass: &'a mut HashPairs<W>,
    k: u32,
    near: &'a mut Vec<NearPair>,
}

impl<W: Filed> Work for Step<'_, W> {
    /// Whether the pass goes on.
    type Output = bool;

    #[inline(always)]
    fn run<C: Compare>(self, _: C) -> bool {
        let Step { pass, k, near } = self;
        let (mut left, mut known) = (STEP, near.len());
        while let Some(&part) = pass.parts.get(pass.part) {
            if pass.sorted.is_empty() {
                pass.sort(part);
                left = left.saturating_sub(pass.hashes.len() as u64 * 16);
            }
            let earlier = &pass.parts[..pass.part];
            let run = |prefix: usize| pass.starts[prefix] as usize..pass.starts[prefix + 1] as usize;
            // Of two runs, the one without the highest differing bit is compared with the other.
            let highest = pass.difference.checked_ilog2().map_or(0, |bit| 1usize << bit);
            while pass.prefix < 1 << part.bits {
                let own = run(pass.prefix);
                if pass.prefix & highest == 0 && !own.is_empty() {
                    let other = run(pass.prefix ^ pass.difference as usize);
                    while pass.row < own.len() {
                        let at = own.start + pass.row;
                        let from = if pass.difference == 0 { at + 1 } else { other.start };
                        let (hash, others) = (pass.sorted[at], &pass.sorted[from..other.end]);
                        compare(hash, others, (k, earlier), |nth| {
                            let distance = (hash ^ others[nth]).ones();
                            let (a, b) = (pass.places[at], pass.places[from + nth]);
                            near.push(NearPair { first: a.min(b), second: a.max(b), distance });
                        });
                        pass.row += 1;
                        let found = near.len() - known;
                        known = near.len();
                        left = left.saturating_sub(others.len() as u64 + 1 + found as u64 * FOUND);
                        if left == 0 {
                            return true;
                        }
                    }
                }
                pass.row = 0;
                pass.prefix += 1;
            }
            left = left.saturating_sub(1 << part.bits);
            pass.prefix = 0;
            if let Some(difference) = part.after(pass.difference) {
                pass.difference = difference;
            } else {
                pass.part += 1;
                pass.difference = 0;
                pass.sorted.clear();
            }
            if left == 0 {
                break;
            }
        }
        pass.part < pass.parts.len()
    }
}

/// Calls `each` with the places of those of `others` that are within `k` bits of `hash` and that no earlier
/// part reports.
#[inline(always)]
fn compare<W: Filed>(hash: W, others: &[W], (k, earlier): (u32, &[Part]), mut each: impl FnMut(usize)) {
    let (lanes, rest) = others.as_chunks::<LANES>();
    for (lane, others) in lanes.iter().enumerate() {
        let near = lanes_of(others, |other| (hash ^ other).ones() <= k);
        if near != 0 {
            let unreported = |near, part: &Part| near & !lanes_of(others, |other| part.holds(hash ^ other));
            cells(earlier.iter().fold(near, unreported)).for_each(|at| each(lane * LANES + at));
        }
    }
    for (at, other) in rest.iter().enumerate() {
        let difference = hash ^ *other;
        if difference.ones() <= k && !earlier.iter().any(|part| part.holds(difference)) {
            each(others.len() - rest.len() + at);
        }
    }
}

/// Bit i is set if the condition holds for hash i.
#[inline(always)]
fn lanes_of<W: Filed>(hashes: &[W; LANES], holds: impl Fn(W) -> bool) -> u32 {
    hashes.iter().enumerate().fold(0, |all, (at, hash)| all | u32::from(holds(*hash)) << at)
}

impl<W: Filed> NearPairs for HashPairs<W> {
    fn push(&mut self, hash: Hash, _: &[u8]) {
        let hash = W::from_hash(hash).expect("the caller compares widths");
        debug_assert!(self.hashes.last().is_none_or(|last| *last < hash));
        self.hashes.push(hash);
    }

    fn begin(&mut self, k: u32) {
        self.parts = parts(&self.hashes, k.min(W::WIDTH.bits()));
        (self.part, self.difference, self.prefix, self.row) = (0, 0, 0, 0);
        self.sorted.clear();
        if self.hashes.is_empty() {
            self.parts.clear();
        }
    }

    fn step(&mut self, k: u32, found: &mut Vec<NearPair>) -> bool {
        with_best(Step { pass: self, k, near: found })
    }

    fn bytes(&self) -> usize {
        self.hashes.len() * (2 * size_of::<W>() + size_of::<u32>()) + (size_of::<u32>() << MAX_BITS)
    }
}
