//! Plans: which blocks to probe for a given k, and to which radius around the query's own value.
//!
//! The general pigeonhole principle (Qin et al., "GPH: Similarity Search in Hamming Space", ICDE 2018):
//! cut a hash into m blocks and give block i a radius `tᵢ ≥ -1` such that `Σ (tᵢ + 1) ≥ k + 1`. If a
//! stored hash differed from the query by more than `tᵢ` in every block, it would differ by at least
//! `Σ (tᵢ + 1) ≥ k + 1` bits in all; so every hash within k lies within the radius of some block. A
//! radius of -1 means that the block is not probed. The principle holds for every k, so k is a parameter
//! of the query and not of the index.
//!
//! The principle also holds for a prefix of a block: hashes that differ by at most `tᵢ` bits in the block
//! differ by at most `tᵢ` bits in its prefix. A table is ordered by prefixes whose length depends on the
//! number of hashes.
//!
//! # Costs
//! A query begins to read bins at places that are not known before, and compares their tiles of sixteen
//! entries; a scan compares the tiles of a table in order. The times of these steps ([`Costs`]) are measured
//! once per process, in some milliseconds, so that they are those of the processor that the program runs on.
//! They change the plan, never the answer.
//!
//! The plan of the least expected cost is cached for each k and each half octave of the number of hashes. If
//! a query reads a bin that is far longer than expected, it gets its own plan from the true numbers of
//! hashes around it ([`Plan::for_lengths`]).
//!
//! *Absent*: reading the tables (`probe`), the measurement (`costs`).

use std::sync::OnceLock;

use super::bins::{RACK_BITS, depth_of};
use super::block::{BLOCK_BITS, Filed};
use super::costs::Costs;
use super::memory::LANES;
use super::probe::MOST_BY_PARTS;
use lookalike_hash::Width;

/// The maximum number of blocks.
pub(super) const MAX_BLOCKS: usize = 16;
/// The number of classes of the number of hashes: two per octave.
const CLASSES: usize = 72;
/// The bits of the widest hash.
const MAX_WIDTH: usize = Width::Bits256.bits() as usize;
/// How many times as long as beginning with a bin it takes to read the hash of a numbered entry: nothing of
/// it is prefetched.
const WAITS_FOR_ROW: f64 = 6.0;
/// The maximum radius of a block. A scan is cheaper than any plan with a larger radius.
const MAX_RADIUS: usize = 12;

/// The radius of each block, for one query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    blocks: u8,
    radii: [i8; MAX_BLOCKS],
    bits: u8,
}

impl Plan {
    /// The plan of the least expected cost for a distance of at most `k` among `hashes` evenly spread hashes;
    /// `None` if comparing all of them is expected to be cheaper.
    #[inline]
    pub(super) fn expected<W: Filed>(k: u32, hashes: usize) -> Option<&'static Plan> {
        Plan::cached::<W>(k, hashes).map(|(plan, _)| plan)
    }

    /// The expected cost of a query by the cheapest method, in nanoseconds.
    pub(super) fn expected_cost<W: Filed>(k: u32, hashes: usize) -> u64 {
        let known = Plan::cached::<W>(k, hashes);
        known.map_or_else(|| Plan::cost_of_scan::<W>(hashes), |(_, cost)| *cost)
    }

    /// The cheapest plan for the middle of the class of `hashes`, and its cost. It is computed once per
    /// class.
    #[inline]
    fn cached<W: Filed>(k: u32, hashes: usize) -> Option<&'static (Plan, u64)> {
        type OfWidth = [[OnceLock<Option<(Plan, u64)>>; MAX_WIDTH + 1]; CLASSES];
        static PLANS: [OfWidth; 3] =
            [const { [const { [const { OnceLock::new() }; MAX_WIDTH + 1] }; CLASSES] }; 3];
        let of_width = &PLANS[(W::WIDTH.bits() / 128) as usize];
        let class = class(hashes);
        let known = of_width[class][k as usize].get_or_init(|| {
            let hashes = hashes_of(class);
            let expectation = Expectation::of::<W>(k, hashes);
            let (plan, cost) = cheapest::<W>(k, hashes, |_, radius| expectation.cost(radius, &[]))?;
            (cost < expectation.scan()).then_some((plan, cost as u64))
        });
        known.as_ref()
    }

    /// The plan of the least cost for these lengths; `None` if a scan is cheaper. For each block, `lengths`
    /// has the true number of hashes of the query's own value, and of all values one bit away together.
    pub(super) fn for_lengths<W: Filed>(k: u32, hashes: usize, lengths: &[[f64; 2]]) -> Option<Plan> {
        let expectation = Expectation::of::<W>(k, hashes);
        let (plan, cost) =
            cheapest::<W>(k, hashes, |number, radius| expectation.cost(radius, &lengths[number]))?;
        (cost < expectation.scan()).then_some(plan)
    }

    /// A plan with the given radii; `None` if they do not cover every hash within `k`, if there is not one
    /// for each block, or if one is out of range.
    pub(super) fn chosen<W: Filed>(k: u32, radii: &[i8], hashes: usize) -> Option<Plan> {
        let covered: i32 = radii.iter().map(|&radius| i32::from(radius) + 1).sum();
        let is_valid = |radius: &i8| (-1..=BLOCK_BITS as i8).contains(radius);
        if radii.len() != W::BLOCKS.len()
            || covered < i32::try_from(k).ok()? + 1
            || !radii.iter().all(is_valid)
        {
            return None;
        }
        let mut plan = Plan::of::<W>(hashes);
        plan.radii[..radii.len()].copy_from_slice(radii);
        Some(plan)
    }

    /// The plan that reads nothing.
    fn of<W: Filed>(hashes: usize) -> Plan {
        let bits = depth_of(W::LIMIT, hashes) as u8;
        Plan { blocks: W::BLOCKS.len() as u8, radii: [-1; MAX_BLOCKS], bits }
    }

    /// The radius of each block, the least significant block first; -1 if the block is not probed.
    #[inline]
    pub fn radii(&self) -> &[i8] {
        &self.radii[..usize::from(self.blocks)]
    }

    /// The number of first bits of a block by which its table is expected to be ordered.
    #[inline]
    pub fn bits(&self) -> u32 {
        self.bits.into()
    }

    /// The expected cost of comparing `hashes` hashes, in nanoseconds.
    pub(super) fn cost_of_scan<W: Filed>(hashes: usize) -> u64 {
        Expectation::of::<W>(0, hashes).scan() as u64
    }
}

/// The expected lengths and costs for evenly spread hashes.
struct Expectation {
    k: u32,
    hashes: f64,
    /// The costs of reading what a query selects, and of reading all of a table.
    costs: [Costs; 2],
    /// The number of bits of a block that position implies.
    depth: u32,
    /// The time of comparing a tile in a scan, and in a query by the number of bits in which the position
    /// differs.
    scanned: f64,
    compared: Vec<f64>,
}

impl Expectation {
    fn of<W: Filed>(k: u32, hashes: usize) -> Expectation {
        let costs = [W::BLOCKS.len(), 1].map(|tables| Costs::of((hashes * W::PLANES * 2 * tables) as f64));
        // The share of unlike hashes that are near in this many planes.
        let near = |planes: usize, k| ball(16 * planes as u32, k) / 2f64.powi(16 * planes as i32);
        let rows = |k| if W::NUMBERED { near(W::COMPARED, k) * LANES as f64 * WAITS_FOR_ROW } else { 0.0 };
        let compared = |ones| {
            let rest = k.saturating_sub(ones);
            let first = W::FIRST as f64;
            let planes = if rest >= W::WHOLE_FROM || W::FIRST == W::COMPARED {
                W::COMPARED as f64
            } else {
                first + (near(W::FIRST, rest) * LANES as f64).min(1.0) * W::COMPARED as f64
            };
            planes * costs[0].compared + rows(rest) * costs[0].begin
        };
        let by_rows = W::NUMBERED && k > MOST_BY_PARTS;
        let planes = if by_rows { W::WIDTH.bits() as usize / 16 } else { W::COMPARED };
        let rows_of_scan = if by_rows { 0.0 } else { rows(k) * costs[1].begin };
        Expectation {
            k,
            hashes: hashes as f64,
            costs,
            depth: depth_of(W::LIMIT, hashes),
            scanned: planes as f64 * costs[1].scanned + rows_of_scan,
            compared: (0..=MAX_RADIUS as u32).map(compared).collect(),
        }
    }

    /// The cost of comparing every hash.
    fn scan(&self) -> f64 {
        let bins = f64::from(1u32 << (self.depth - 1));
        let tiles = self.hashes / LANES as f64 + bins / 2.0;
        bins * self.costs[1].next + tiles * self.scanned
    }

    /// The expected cost of a radius in a block, perhaps with the true numbers of hashes of the query's own
    /// value, and of those one bit away, and so on.
    fn cost(&self, radius: usize, lengths: &[f64]) -> f64 {
        let depth = self.depth;
        let of_value = self.hashes / f64::from(1u32 << depth);
        let begun = |ones| binomial(depth - 1, ones) * self.costs[0].begin;
        let compared = |ones| {
            let values = binomial(depth, ones);
            let hashes = lengths.get(ones as usize).copied().unwrap_or(values * of_value);
            // A value begins or ends inside a tile.
            (hashes / LANES as f64 + values / 2.0) * self.compared[ones as usize]
        };
        let racks = binomial(RACK_BITS, 1) * self.costs[0].next;
        racks
            + (0..=(radius as u32).min(depth).min(self.k))
                .map(|ones| begun(ones) + compared(ones))
                .sum::<f64>()
    }
}

/// The cheapest radii that cover k, and their cost; `cost` is that of a radius in the block of a number.
fn cheapest<W: Filed>(k: u32, hashes: usize, cost: impl Fn(usize, usize) -> f64) -> Option<(Plan, f64)> {
    let wanted = k as usize + 1;
    let blocks = W::BLOCKS.len();
    // For each number of blocks and each coverage: the least cost, and the step of the last block.
    let mut least = vec![vec![Step { cost: f64::INFINITY, units: 0, before: 0 }; wanted + 1]; blocks + 1];
    least[0][0].cost = 0.0;
    for number in 0..blocks {
        for units in 0..=wanted.min(MAX_RADIUS + 1) {
            let own = if units == 0 { 0.0 } else { cost(number, units - 1) };
            for before in 0..=wanted {
                let sum = least[number][before].cost + own;
                let step = &mut least[number + 1][(before + units).min(wanted)];
                if sum < step.cost {
                    *step = Step { cost: sum, units, before };
                }
            }
        }
    }
    let total = least[blocks][wanted].cost;
    if total.is_infinite() {
        return None;
    }
    let mut radii = [-1; MAX_BLOCKS];
    let mut covered = wanted;
    for number in (0..blocks).rev() {
        let Step { units, before, .. } = least[number + 1][covered];
        radii[number] = units as i8 - 1;
        covered = before;
    }
    Some((Plan { radii, ..Plan::of::<W>(hashes) }, total))
}

#[derive(Clone, Copy)]
struct Step {
    cost: f64,
    /// The coverage that the block adds: its radius plus one.
    units: usize,
    /// The coverage of the blocks before it.
    before: usize,
}

fn class(hashes: usize) -> usize {
    let octave = (usize::BITS - hashes.leading_zeros()) as usize;
    let upper_half = octave > 1 && hashes >> (octave - 2) & 1 == 1;
    (2 * octave + usize::from(upper_half)).min(CLASSES - 1)
}

/// The number of hashes in the middle of a class.
fn hashes_of(class: usize) -> usize {
    let octave = class / 2;
    if octave < 2 {
        return octave;
    }
    let quarter = 1usize << (octave - 2);
    if class.is_multiple_of(2) { quarter * 5 / 2 } else { quarter * 7 / 2 }
}

/// The number of values of `bits` bits within `radius` of one of them.
pub(super) fn ball(bits: u32, radius: u32) -> f64 {
    (0..=radius.min(bits)).map(|ones| binomial(bits, ones)).sum()
}

/// The number of values of `bits` bits that differ from one of them in `ones` bits.
fn binomial(bits: u32, ones: u32) -> f64 {
    (0..ones).fold(1.0, |choose, at| choose * f64::from(bits - at) / f64::from(at + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lookalike_hash::U256;

    fn covers(plan: &Plan, k: u32) -> bool {
        plan.radii().iter().map(|&radius| i32::from(radius) + 1).sum::<i32>() > k as i32
    }

    #[test]
    fn balls_are_sums_of_binomials() {
        let ball = |bits, radius| ball(bits, radius) as u64;
        assert_eq!([ball(16, 0), ball(16, 1), ball(16, 2), ball(16, 16)], [1, 17, 137, 65_536]);
        assert_eq!([ball(21, 3), ball(22, 5), ball(2, 9)], [1_562, 35_443, 4]);
    }

    #[test]
    fn every_plan_covers_its_k() {
        for hashes in [100, 10_000, 1 << 20, 10_000_000, 100_000_000] {
            for k in 0..=64 {
                assert!(
                    Plan::expected::<u64>(k, hashes).is_none_or(|plan| covers(plan, k)),
                    "{k} of {hashes}"
                );
            }
            for k in 0..=128 {
                assert!(
                    Plan::expected::<u128>(k, hashes).is_none_or(|plan| covers(plan, k)),
                    "{k} of {hashes}"
                );
            }
            for k in 0..=256 {
                assert!(
                    Plan::expected::<U256>(k, hashes).is_none_or(|plan| covers(plan, k)),
                    "{k} of {hashes}"
                );
            }
        }
    }

    /// Whatever the costs of this processor are.
    #[test]
    fn small_distances_among_many_hashes_are_not_scanned() {
        let plan = Plan::expected::<u64>(3, 10_000_000).expect("cheaper than a scan");
        assert_eq!(plan.bits(), 16);
        assert!(Plan::expected::<u128>(7, 10_000_000).is_some());
        assert!(Plan::expected::<U256>(15, 10_000_000).is_some());
        assert!(Plan::expected::<u64>(40, 100_000_000).is_none(), "k = 40 is scanned");
        assert!(Plan::expected::<U256>(200, 1_000_000).is_none(), "k = 200 is scanned");
    }

    /// No other split of a small k is cheaper than the plan that was found.
    #[test]
    fn no_other_split_is_cheaper() {
        let hashes = 10_000_000;
        for k in 0..9 {
            let expectation = Expectation::of::<u64>(k, hashes);
            let cost = |_, radius| expectation.cost(radius, &[]);
            let (_, found) = cheapest::<u64>(k, hashes, cost).expect("there is a plan");
            let of = |units: usize| if units == 0 { 0.0 } else { expectation.cost(units - 1, &[]) };
            let all = k as usize + 1;
            for a in 0..=all {
                for b in 0..=all - a {
                    for c in 0..=all - a - b {
                        let sum = of(a) + of(b) + of(c) + of(all - a - b - c);
                        assert!(found <= sum * 1.000_001, "k = {k}: {found}, {sum} for {a}, {b}, {c}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_plan_avoids_a_hot_value() {
        let mut lengths = [[150.0, 2_400.0]; 4];
        lengths[2] = [4_000_000.0, 9_000_000.0];
        let around = Plan::for_lengths::<u64>(3, 10_000_000, &lengths).expect("cheaper than a scan");
        assert_eq!(around.radii()[2], -1);
        assert!(covers(&around, 3));
    }

    #[test]
    fn radii_that_do_not_cover_k_are_rejected() {
        let chosen = |radii: &[i8]| Plan::chosen::<u64>(3, radii, 1_000);
        assert!(chosen(&[0, 0, 0, -1]).is_none());
        assert!(chosen(&[3, -1, -1, -1]).is_some());
        assert!(chosen(&[1, 1, 0]).is_none());
        assert!(chosen(&[17, 1, 0, 0]).is_none());
    }
}
