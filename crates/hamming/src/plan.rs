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
//! differ by at most `tᵢ` bits in its prefix. Tables are in the order of their keys, so the keys that begin
//! with the same bits are one run. Fewer prefix bits mean fewer and longer runs. Therefore a plan also
//! chooses the number of prefix bits of each block, which depends on the number of hashes.
//!
//! # Costs
//! The unit is a cache line of a segment that is read sequentially. A run of a segment costs its lines and
//! [`RUN_COST`]: a search and a cache miss; about ten misses overlap. Buckets need no search
//! ([`BUCKET_COST`]). Their lines hold whole hashes, so they take longer to compare ([`PACKED_LINE_COST`]).
//!
//! The plan of the least expected cost is cached for each k and each half octave of the number of hashes. If
//! a query reads a run that is far longer than expected, it gets its own plan from the true lengths of the
//! runs around it ([`Plan::for_lengths`]).
//!
//! *Absent*: reading the tables (`probe`).

use std::sync::OnceLock;

use super::block::{Block, Filed, LEAD_BITS};
use super::layout::{KINDS, Kind, MAX_BLOCKS};
use super::memory::{Line, Packed};
use super::segment::Segment;
use super::shard::{SHARD_BITS, Shape};
use lookalike_hash::Width;

/// The cost of beginning a run.
const RUN_COST: f64 = 9.0;
/// The cost of reading the back of a near front.
const BACK_COST: f64 = 5.0;
/// The cost of beginning to read a bucket.
const BUCKET_COST: f64 = 4.5;
/// The cost of comparing a line of a bucket.
const PACKED_LINE_COST: f64 = 2.3;
/// The cost of comparing a line of a bucket in a scan of all lines.
const SEQUENTIAL_PACKED_LINE_COST: f64 = 1.5;
/// Lines of buckets including extents, per line without them.
const EXTENT_FACTOR: f64 = 1.06;
/// The cost of verifying an entry of a bucket whose stored bits are near.
const ENTRY_COST: f64 = 3.0;
/// The approximate time of the unit of cost, in nanoseconds.
const NS_PER_LINE: f64 = 4.0;
/// The assumed share of used entries in a segment.
const FILL: f64 = 0.8;
/// The number of classes of the number of hashes: two per octave.
const CLASSES: usize = 72;
/// The bits of the widest hash.
const MAX_WIDTH: usize = Width::Bits256.bits() as usize;
/// The maximum radius of a block. A scan is cheaper than any plan with a larger radius.
const MAX_RADIUS: usize = 12;

/// The radius and the number of prefix bits of each block, for one query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    pub(super) kind: Kind,
    radii: [i8; MAX_BLOCKS],
    bits: [u8; MAX_BLOCKS],
}

impl Plan {
    /// The plan of the least expected cost for a distance of at most `k` among `hashes` evenly spread hashes;
    /// `None` if comparing all of them is expected to be cheaper.
    #[inline]
    pub(super) fn expected<W: Filed>(kind: Kind, k: u32, hashes: usize) -> Option<&'static Plan> {
        Plan::cached::<W>(kind, k, hashes).map(|(plan, _)| plan)
    }

    /// The expected cost of a query by the cheapest method, roughly in nanoseconds.
    pub(super) fn expected_cost<W: Filed>(kind: Kind, k: u32, hashes: usize) -> u64 {
        let known = Plan::cached::<W>(kind, k, hashes);
        known.map_or_else(|| Plan::cost_of_scan::<W>(kind, k, hashes), |(_, cost)| *cost)
    }

    /// The cheapest plan for the middle of the class of `hashes`, and its cost. It is computed once per
    /// class.
    #[inline]
    fn cached<W: Filed>(kind: Kind, k: u32, hashes: usize) -> Option<&'static (Plan, u64)> {
        type OfKind = [[OnceLock<Option<(Plan, u64)>>; MAX_WIDTH + 1]; CLASSES];
        static PLANS: [OfKind; KINDS] =
            [const { [const { [const { OnceLock::new() }; MAX_WIDTH + 1] }; CLASSES] }; KINDS];
        let class = class(hashes);
        let known = PLANS[kind as usize][class][k as usize].get_or_init(|| {
            let expectation = Expectation::of::<W>(kind, k, hashes_of(class));
            let (plan, cost) = cheapest(kind, k, |block, radius| expectation.cost(block, radius))?;
            (cost < expectation.scan()).then_some((plan, (cost * NS_PER_LINE) as u64))
        });
        known.as_ref()
    }

    /// The plan of the least cost for these lengths; `None` if a scan is cheaper. For each block, `lengths`
    /// has the true number of lines in the run of the query's own value, and in all runs one bit away
    /// together, by the prefix bits of this plan.
    pub(super) fn for_lengths<W: Filed>(&self, k: u32, hashes: usize, lengths: &[[f64; 2]]) -> Option<Plan> {
        let expectation = Expectation::of::<W>(self.kind, k, hashes);
        let (plan, cost) = cheapest(self.kind, k, |block, radius| {
            let number = self.kind.blocks().iter().position(|other| *other == block)?;
            let bits = u32::from(self.bits[number]);
            let mut cost = 0.0;
            for ones in 0..=radius as u32 {
                let runs = binomial(bits, ones);
                let known = lengths[number].get(ones as usize);
                let lines = known.map_or(runs * expectation.run(block, bits), |lines| *lines);
                cost += runs * expectation.begin() + lines * expectation.line(ones);
            }
            Some((cost, self.bits[number]))
        })?;
        (cost < expectation.scan()).then_some(plan)
    }

    /// A plan with the given radii and numbers of prefix bits; `None` if the radii do not cover every hash
    /// within `k`, if there is not one for each block, or if a value is out of range.
    pub(super) fn chosen(kind: Kind, k: u32, radii: &[i8], bits: &[u8]) -> Option<Plan> {
        let blocks = kind.blocks();
        let covered: i32 = radii.iter().map(|&radius| i32::from(radius) + 1).sum();
        if radii.len() != blocks.len() || bits.len() != blocks.len() || covered < i32::try_from(k).ok()? + 1 {
            return None;
        }
        let mut plan = Plan { kind, radii: [-1; MAX_BLOCKS], bits: [0; MAX_BLOCKS] };
        for (number, block) in blocks.iter().enumerate() {
            let width = block.bits() as i8;
            if !(-1..=width).contains(&radii[number]) || !(2..=width).contains(&(bits[number] as i8)) {
                return None;
            }
            plan.radii[number] = radii[number];
            plan.bits[number] = bits[number];
        }
        Some(plan)
    }

    /// The radius of each block, the least significant block first; -1 if the block is not probed.
    #[inline]
    pub fn radii(&self) -> &[i8] {
        &self.radii[..self.kind.blocks().len()]
    }

    /// The number of prefix bits of each block.
    #[inline]
    pub fn bits(&self) -> &[u8] {
        &self.bits[..self.kind.blocks().len()]
    }

    /// The expected cost of comparing `hashes` hashes, roughly in nanoseconds.
    pub(super) fn cost_of_scan<W: Filed>(kind: Kind, k: u32, hashes: usize) -> u64 {
        (Expectation::of::<W>(kind, k, hashes).scan() * NS_PER_LINE) as u64
    }

    /// The expected number of lines in a run of block `number` in a segment, among `hashes` hashes.
    #[inline(always)]
    pub(super) fn expected_lines<W: Filed>(&self, number: usize, hashes: usize) -> usize {
        ((hashes + hashes / 4) / Segment::<W>::PER_LINE) >> self.bits[number]
    }
}

/// The expected lengths and costs for evenly spread hashes.
struct Expectation {
    kind: Kind,
    k: u32,
    /// The number of lines of fronts of a table in segments.
    lines: f64,
    /// The shapes of the shards of each table in buckets.
    shapes: Vec<(Block, Shape)>,
    /// The cost of a line, by the number of differing prefix bits.
    line: Vec<f64>,
}

impl Expectation {
    fn of<W: Filed>(kind: Kind, k: u32, hashes: usize) -> Expectation {
        let differing = 0..=MAX_RADIUS as u32;
        let (shapes, line) = if kind.is_in_buckets() {
            let shape = |block: &Block| (*block, Shape::suited::<W>(*block, hashes >> SHARD_BITS));
            let cost =
                |ones| PACKED_LINE_COST + ENTRY_COST * near(W::Packed::BITS, W::Packed::ENTRIES, k, ones);
            (kind.blocks().iter().map(shape).collect(), differing.map(cost).collect())
        } else {
            // Either a line of fronts and sometimes a back, or a line of fronts with its backs.
            let bits = <W::Line as Line>::BITS - LEAD_BITS;
            let fronts = |ones| BACK_COST * near(bits, Segment::<W>::PER_LINE, k, ones);
            let whole = 1.0 + W::BACKS as f64;
            let is_whole = |ones| k.saturating_sub(ones) >= W::BOTH_FROM;
            let cost = |ones| if is_whole(ones) { whole } else { 1.0 + fronts(ones) };
            (Vec::new(), differing.map(cost).collect())
        };
        let lines = hashes as f64 / (FILL * Segment::<W>::PER_LINE as f64);
        Expectation { kind, k, lines, shapes, line }
    }

    /// The shape of the shards of a table in buckets.
    fn shape(&self, block: Block) -> Option<Shape> {
        self.shapes.iter().find(|(of, _)| *of == block).map(|(_, shape)| *shape)
    }

    /// The expected number of lines in a run of keys that share `bits` bits. In a segment most runs begin and
    /// end inside a line.
    fn run(&self, block: Block, bits: u32) -> f64 {
        match self.shape(block) {
            Some(Shape { depth, width }) => {
                f64::from(width) * f64::from(1 << depth.saturating_sub(bits)) * EXTENT_FACTOR
            }
            None => self.lines / (1u64 << bits) as f64 + 0.6,
        }
    }

    /// The cost of beginning to read a run.
    fn begin(&self) -> f64 {
        if self.kind.is_in_buckets() { BUCKET_COST } else { RUN_COST }
    }

    /// The cost of a line whose prefix differs in `ones` bits.
    fn line(&self, ones: u32) -> f64 {
        self.line[ones as usize]
    }

    /// The cost of comparing every hash.
    fn scan(&self) -> f64 {
        match self.shapes.last() {
            Some((_, Shape { depth, width })) => {
                f64::from(*width)
                    * f64::from(1 << depth)
                    * EXTENT_FACTOR
                    * (SEQUENTIAL_PACKED_LINE_COST + self.line(0) - PACKED_LINE_COST)
            }
            None => self.lines * self.line(0),
        }
    }

    /// The cost of all runs within a radius, by `bits` prefix bits.
    fn ball(&self, block: Block, bits: u32, radius: u32) -> f64 {
        (0..=radius.min(bits).min(self.k))
            .map(|ones| binomial(bits, ones) * (self.begin() + self.run(block, bits) * self.line(ones)))
            .sum()
    }

    /// The least cost of a radius in a block, and the number of prefix bits for it.
    fn cost(&self, block: Block, radius: usize) -> Option<(f64, u8)> {
        let bits = self.shape(block).map_or(2..=block.bits(), |shape| SHARD_BITS..=shape.depth);
        let costs = bits.map(|bits| (self.ball(block, bits, radius as u32), bits as u8));
        costs.min_by(|a, b| a.0.total_cmp(&b.0))
    }
}

/// The cheapest radii that cover k, and their cost; `cost` is that of a radius in a block.
fn cheapest(kind: Kind, k: u32, cost: impl Fn(Block, usize) -> Option<(f64, u8)>) -> Option<(Plan, f64)> {
    let wanted = k as usize + 1;
    let blocks = kind.blocks();
    // For each number of blocks and each coverage: the least cost, and the step of the last block.
    let mut least =
        vec![vec![Step { cost: f64::INFINITY, units: 0, before: 0 }; wanted + 1]; blocks.len() + 1];
    least[0][0].cost = 0.0;
    let mut bits = vec![[2u8; MAX_RADIUS + 2]; blocks.len()];
    for (number, block) in blocks.iter().enumerate() {
        for units in 0..=wanted.min(MAX_RADIUS + 1).min(block.bits() as usize + 1) {
            // A block that is not probed also gets prefix bits: `for_lengths` may probe it.
            let (own, of_bits) = cost(*block, units.saturating_sub(1))?;
            let own = if units == 0 { 0.0 } else { own };
            bits[number][units] = of_bits;
            for before in 0..=wanted {
                let sum = least[number][before].cost + own;
                let step = &mut least[number + 1][(before + units).min(wanted)];
                if sum < step.cost {
                    *step = Step { cost: sum, units, before };
                }
            }
        }
    }
    let total = least[blocks.len()][wanted].cost;
    if total.is_infinite() {
        return None;
    }
    let mut plan = Plan { kind, radii: [-1; MAX_BLOCKS], bits: [2; MAX_BLOCKS] };
    let mut covered = wanted;
    for number in (0..blocks.len()).rev() {
        let Step { units, before, .. } = least[number + 1][covered];
        plan.radii[number] = units as i8 - 1;
        plan.bits[number] = bits[number][units];
        covered = before;
    }
    Some((plan, total))
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

/// The expected number of entries of a line that are near by chance. They may differ in `k` bits, minus the
/// bits that differ `elsewhere`.
fn near(bits: u32, entries: usize, k: u32, elsewhere: u32) -> f64 {
    ball(bits, k.saturating_sub(elsewhere)) / 2f64.powi(bits as i32) * entries as f64
}

/// The number of values of `bits` bits within `radius` of one of them.
fn ball(bits: u32, radius: u32) -> f64 {
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
                for kind in [Kind::Four, Kind::FourInBuckets, Kind::Three] {
                    let plan = Plan::expected::<u64>(kind, k, hashes);
                    assert!(plan.is_none_or(|plan| covers(plan, k)), "{plan:?}");
                }
            }
            for k in 0..=128 {
                for kind in [Kind::Six, Kind::SixInBuckets] {
                    let plan = Plan::expected::<u128>(kind, k, hashes);
                    assert!(plan.is_none_or(|plan| covers(plan, k)), "{plan:?}");
                }
            }
            for k in 0..=256 {
                for kind in [Kind::Eleven, Kind::ElevenInBuckets] {
                    let plan = Plan::expected::<U256>(kind, k, hashes);
                    assert!(plan.is_none_or(|plan| covers(plan, k)), "{plan:?}");
                }
            }
        }
    }

    #[test]
    fn plans_depend_on_k_and_on_the_number_of_hashes() {
        let at_a_million = Plan::expected::<u64>(Kind::Four, 3, 1_000_000).expect("cheaper than a scan");
        assert_eq!(at_a_million.radii(), [0, 0, 0, 0]);
        let at_ten = Plan::expected::<u64>(Kind::Three, 3, 10_000_000).expect("cheaper than a scan");
        assert_eq!(at_ten.radii().iter().sum::<i8>(), 1);
        assert!(Plan::expected::<u64>(Kind::Four, 3, 20).is_none(), "twenty hashes are scanned");
        assert!(Plan::expected::<u64>(Kind::Three, 40, 100_000_000).is_none(), "k = 40 is scanned");
        let wide = Plan::expected::<U256>(Kind::Eleven, 31, 10_000_000).expect("cheaper than a scan");
        assert!(wide.radii().iter().all(|radius| *radius <= 2), "{wide:?}");
        let [few, many] = [8_000, 800_000].map(|n| Plan::expected::<u64>(Kind::Four, 6, n));
        assert!(few.zip(many).is_none_or(|(few, many)| few.bits()[0] <= many.bits()[0]));
    }

    /// No other split of a small k is cheaper than the plan that was found.
    #[test]
    fn no_other_split_is_cheaper() {
        for k in 0..9 {
            let expectation = Expectation::of::<u64>(Kind::Three, k, 10_000_000);
            let cost = |block, radius| expectation.cost(block, radius);
            let (_, found) = cheapest(Kind::Three, k, cost).expect("there is a plan");
            let blocks = Kind::Three.blocks();
            let of = |number: usize, units: usize| match units {
                0 => 0.0,
                _ => cost(blocks[number], units - 1).expect("any radius has a cost").0,
            };
            for a in 0..=k as usize + 1 {
                for b in 0..=k as usize + 1 - a {
                    let sum = of(0, a) + of(1, b) + of(2, k as usize + 1 - a - b);
                    assert!(found <= sum * 1.000_001, "k = {k}: {found} against {sum} for {a}, {b}");
                }
            }
        }
    }

    #[test]
    fn the_plan_avoids_a_hot_run() {
        let plan = Plan::expected::<u64>(Kind::Three, 3, 10_000_000).expect("cheaper than a scan");
        let mut lengths = [[1.0, 30.0]; 3];
        lengths[2] = [4_000.0, 9_000.0];
        let around = plan.for_lengths::<u64>(3, 10_000_000, &lengths).expect("cheaper than a scan");
        assert_eq!(around.radii()[2], -1);
        assert!(covers(&around, 3));
    }

    #[test]
    fn radii_that_do_not_cover_k_are_rejected() {
        let bits = [16, 10, 2, 16];
        assert!(Plan::chosen(Kind::Four, 3, &[0, 0, 0, -1], &bits).is_none());
        assert!(Plan::chosen(Kind::Four, 3, &[3, -1, -1, -1], &bits).is_some());
        assert!(Plan::chosen(Kind::Four, 3, &[1, 1, 0], &bits).is_none());
        assert!(Plan::chosen(Kind::Four, 3, &[3, 1, 0, 0], &[17, 10, 2, 16]).is_none());
    }
}
