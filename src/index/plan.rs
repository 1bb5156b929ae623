//! Plans: how far around the query's own value to look in which block, for a given k.
//!
//! The general pigeonhole principle (Qin et al., "GPH: Similarity Search in Hamming Space", ICDE 2018):
//! cut a hash into m blocks and give block i a radius `tᵢ ≥ -1` such that `Σ (tᵢ + 1) ≥ k + 1`. If a
//! stored hash differed from the query by more than `tᵢ` in every block, it would differ by at least
//! `Σ (tᵢ + 1) ≥ k + 1` bits in all; so every hash within k lies within the radius of some block. A
//! radius of -1 means that the block is not probed. The principle holds for every k, which is why k
//! belongs to the question and not to the index.
//!
//! It holds as well if only the first bits of a block are looked at: what differs by at most `tᵢ` in the
//! block does so in its first bits. Tables stand in the order of their keys, so the keys that begin with some
//! bits are one run; fewer bits mean fewer and longer runs. How many bits to tell apart is therefore another
//! choice of the plan, for each block, and depends on how many hashes there are.
//!
//! # Costs
//! Counted in cache lines of a segment read in a row. A run of a segment costs [`RUN`] on top of its lines:
//! it begins with a cache miss, of which some ten are under way at a time, after a search. Buckets are found
//! without one ([`BUCKET`]), and their lines, which hold all of a hash, take longer to compare ([`PACKED`]).
//! The cheapest plan of expected costs is kept for each k and each half octave of the number of hashes. Where
//! a query meets a run far longer than expected, a plan is made for that query from the true lengths of the
//! runs around it ([`Plan::for_lengths`]).

use std::sync::OnceLock;

use super::block::{Block, Filed, LEAD_BITS};
use super::layout::{KINDS, Kind, MAX_BLOCKS};
use super::memory::Packed;
use super::segment::Segment;
use super::shard::{SHARD_BITS, Shape};

/// What beginning a run costs, in lines read in a row.
const RUN: f64 = 9.0;
/// What reading a back costs whose front is near, in the same unit.
const BACK: f64 = 5.0;
/// What going to a bucket costs, what comparing a line of one does, and what a line that is read with all
/// others does.
const BUCKET: f64 = 4.5;
const PACKED: f64 = 2.3;
const PACKED_IN_A_ROW: f64 = 1.5;
/// The share of lines that extents add.
const EXTENTS: f64 = 1.06;
/// What reading an entry costs that is near by what a line of a bucket holds of it.
const ENTRY: f64 = 3.0;
/// What a line read in a row takes, about.
const NANOSECONDS: f64 = 4.0;
/// The share of entries in use that costs are reckoned with.
const USED: f64 = 0.8;
/// Classes of the number of hashes: two an octave.
const CLASSES: usize = 72;
/// A plan is not looked for beyond this radius: the scan has long been cheaper.
const MAX_RADIUS: usize = 12;

/// The radii of one query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    pub(super) kind: Kind,
    radii: [i8; MAX_BLOCKS],
    bits: [u8; MAX_BLOCKS],
}

impl Plan {
    /// The plan of the least expected cost for a distance of at most `k` among so many evenly spread hashes;
    /// `None` if comparing all of them is expected to be cheaper.
    #[inline]
    pub(super) fn expected<W: Filed>(kind: Kind, k: u32, hashes: usize) -> Option<&'static Plan> {
        Plan::known::<W>(kind, k, hashes).map(|(plan, _)| plan)
    }

    /// What a question takes in the cheapest way that is expected, in nanoseconds or so.
    pub(super) fn expected_cost<W: Filed>(kind: Kind, k: u32, hashes: usize) -> u64 {
        let known = Plan::known::<W>(kind, k, hashes);
        known.map_or_else(|| Plan::cost_of_scan::<W>(kind, k, hashes), |(_, cost)| *cost)
    }

    /// The cheapest plan and its cost among as many hashes as the class has in the middle; reckoned once.
    #[inline]
    fn known<W: Filed>(kind: Kind, k: u32, hashes: usize) -> Option<&'static (Plan, u64)> {
        type OfKind = [[OnceLock<Option<(Plan, u64)>>; 129]; CLASSES];
        static PLANS: [OfKind; KINDS] =
            [const { [const { [const { OnceLock::new() }; 129] }; CLASSES] }; KINDS];
        let class = class(hashes);
        let known = PLANS[kind as usize][class][k as usize].get_or_init(|| {
            let expectation = Expectation::of::<W>(kind, k, hashes_of(class));
            let (plan, cost) = cheapest(kind, k, |block, radius| expectation.cost(block, radius))?;
            (cost < expectation.scan()).then_some((plan, (cost * NANOSECONDS) as u64))
        });
        known.as_ref()
    }

    /// The plan of the least cost where `lengths` are the true lines in the run of the query's own value
    /// and in all runs one bit away together, for each block in the bits of this plan.
    pub(super) fn for_lengths<W: Filed>(&self, k: u32, hashes: usize, lengths: &[[f64; 2]]) -> Option<Plan> {
        let expectation = Expectation::of::<W>(self.kind, k, hashes);
        let (plan, cost) = cheapest(self.kind, k, |block, radius| {
            let number = self.kind.blocks().iter().position(|other| *other == block)?;
            let bits = u32::from(self.bits[number]);
            let mut cost = 0.0;
            for ones in 0..=radius as u32 {
                let runs = choose(bits, ones);
                let known = lengths[number].get(ones as usize);
                let lines = known.map_or(runs * expectation.run(block, bits), |lines| *lines);
                cost += runs * expectation.begin() + lines * expectation.line(ones);
            }
            Some((cost, self.bits[number]))
        })?;
        (cost < expectation.scan()).then_some(plan)
    }

    /// A plan with chosen radii and chosen first bits of the blocks; `None` if the radii do not cover every
    /// hash within `k`, if there is not one for each block, or if bits are out of range.
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

    /// The radius of each block, the least significant block first; -1 where the block is not probed.
    #[inline]
    pub fn radii(&self) -> &[i8] {
        &self.radii[..self.kind.blocks().len()]
    }

    /// How many first bits of each block are told apart.
    #[inline]
    pub fn bits(&self) -> &[u8] {
        &self.bits[..self.kind.blocks().len()]
    }

    /// What comparing all of so many hashes is expected to take, in nanoseconds or so.
    pub(super) fn cost_of_scan<W: Filed>(kind: Kind, k: u32, hashes: usize) -> u64 {
        (Expectation::of::<W>(kind, k, hashes).scan() * NANOSECONDS) as u64
    }

    /// The lines expected in a run of a segment, of block `number` among so many hashes.
    #[inline(always)]
    pub(super) fn expected_lines<W: Filed>(&self, number: usize, hashes: usize) -> usize {
        ((hashes + hashes / 4) / Segment::<W>::PER_LINE) >> self.bits[number]
    }
}

/// What is expected of evenly spread hashes.
struct Expectation {
    kind: Kind,
    k: u32,
    /// The lines of fronts of a table in segments.
    lines: f64,
    /// The shapes of the shards of each table in buckets.
    shapes: Vec<(Block, Shape)>,
    /// The cost of a line where the prefix differs by so many bits.
    line: Vec<f64>,
}

impl Expectation {
    fn of<W: Filed>(kind: Kind, k: u32, hashes: usize) -> Expectation {
        let differing = 0..=MAX_RADIUS as u32;
        let (shapes, line) = if kind.is_in_buckets() {
            let shape = |block: &Block| (*block, Shape::suited::<W>(*block, hashes >> SHARD_BITS));
            let cost = |ones| PACKED + ENTRY * near(W::Packed::BITS, W::Packed::ENTRIES, k, ones);
            (kind.blocks().iter().map(shape).collect(), differing.map(cost).collect())
        } else {
            // Alone, and now and then a back, or with its backs.
            let fronts = |ones| BACK * near(W::WIDTH.bits() / 2 - LEAD_BITS, Segment::<W>::PER_LINE, k, ones);
            let cost = |ones| if k.saturating_sub(ones) >= W::BOTH_FROM { 2.0 } else { 1.0 + fronts(ones) };
            (Vec::new(), differing.map(cost).collect())
        };
        let lines = hashes as f64 / (USED * Segment::<W>::PER_LINE as f64);
        Expectation { kind, k, lines, shapes, line }
    }

    /// The shape of the shards of a table in buckets.
    fn shape(&self, block: Block) -> Option<Shape> {
        self.shapes.iter().find(|(of, _)| *of == block).map(|(_, shape)| *shape)
    }

    /// The lines in one run of the keys that share so many bits. In a segment most begin and end within a
    /// line.
    fn run(&self, block: Block, bits: u32) -> f64 {
        match self.shape(block) {
            Some(Shape { depth, width }) => {
                f64::from(width) * f64::from(1 << depth.saturating_sub(bits)) * EXTENTS
            }
            None => self.lines / (1u64 << bits) as f64 + 0.6,
        }
    }

    /// The cost of going to a run.
    fn begin(&self) -> f64 {
        if self.kind.is_in_buckets() { BUCKET } else { RUN }
    }

    /// The cost of a line where the prefix differs by so many bits.
    fn line(&self, ones: u32) -> f64 {
        self.line[ones as usize]
    }

    /// The cost of comparing everything.
    fn scan(&self) -> f64 {
        match self.shapes.last() {
            Some((_, Shape { depth, width })) => {
                f64::from(*width)
                    * f64::from(1 << depth)
                    * EXTENTS
                    * (PACKED_IN_A_ROW + self.line(0) - PACKED)
            }
            None => self.lines * self.line(0),
        }
    }

    /// The cost of all runs within a radius, the keys told apart by so many bits.
    fn ball(&self, block: Block, bits: u32, radius: u32) -> f64 {
        (0..=radius.min(bits).min(self.k))
            .map(|ones| choose(bits, ones) * (self.begin() + self.run(block, bits) * self.line(ones)))
            .sum()
    }

    /// The least cost of a radius in a block, and the number of bits to tell apart.
    fn cost(&self, block: Block, radius: usize) -> Option<(f64, u8)> {
        let bits = self.shape(block).map_or(2..=block.bits(), |shape| SHARD_BITS..=shape.depth);
        let costs = bits.map(|bits| (self.ball(block, bits, radius as u32), bits as u8));
        costs.min_by(|a, b| a.0.total_cmp(&b.0))
    }
}

/// The cheapest radii that cover k, given what each radius costs in each block, and that cost.
fn cheapest(kind: Kind, k: u32, cost: impl Fn(Block, usize) -> Option<(f64, u8)>) -> Option<(Plan, f64)> {
    let wanted = k as usize + 1;
    let blocks = kind.blocks();
    // For each number of blocks and each coverage: the least cost, and how the last block came to it.
    let mut least =
        vec![vec![Step { cost: f64::INFINITY, units: 0, before: 0 }; wanted + 1]; blocks.len() + 1];
    least[0][0].cost = 0.0;
    let mut bits = vec![[2u8; MAX_RADIUS + 2]; blocks.len()];
    for (number, block) in blocks.iter().enumerate() {
        for units in 0..=wanted.min(MAX_RADIUS + 1).min(block.bits() as usize + 1) {
            // A block that is not probed keeps the bits by which it would be, for who comes to need it.
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
    /// The units of coverage that the block adds: its radius and one.
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

/// How many of the entries of a line are near by chance, where `k` bits less those that differ elsewhere may
/// differ.
fn near(bits: u32, entries: usize, k: u32, elsewhere: u32) -> f64 {
    ball(bits, k.saturating_sub(elsewhere)) / 2f64.powi(bits as i32) * entries as f64
}

/// How many values of so many bits lie within `radius` of one of them.
fn ball(bits: u32, radius: u32) -> f64 {
    (0..=radius.min(bits)).map(|ones| choose(bits, ones)).sum()
}

/// How many values of so many bits differ from one of them in so many.
fn choose(bits: u32, ones: u32) -> f64 {
    (0..ones).fold(1.0, |choose, at| choose * f64::from(bits - at) / f64::from(at + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        }
    }

    #[test]
    fn what_is_expected_depends_on_k_and_on_how_many_there_are() {
        let at_a_million = Plan::expected::<u64>(Kind::Four, 3, 1_000_000).expect("it pays");
        assert_eq!(at_a_million.radii(), [0, 0, 0, 0]);
        let at_ten = Plan::expected::<u64>(Kind::Three, 3, 10_000_000).expect("it pays");
        assert_eq!(at_ten.radii().iter().sum::<i8>(), 1);
        assert!(Plan::expected::<u64>(Kind::Four, 3, 20).is_none(), "twenty hashes are scanned");
        assert!(Plan::expected::<u64>(Kind::Three, 40, 100_000_000).is_none(), "k = 40 is scanned");
        let [few, many] = [8_000, 800_000].map(|n| Plan::expected::<u64>(Kind::Four, 6, n));
        assert!(few.zip(many).is_none_or(|(few, many)| few.bits()[0] <= many.bits()[0]));
    }

    /// The plan found is no dearer than any other split of a small k.
    #[test]
    fn no_split_is_cheaper() {
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
    fn a_hot_run_is_gone_around() {
        let plan = Plan::expected::<u64>(Kind::Three, 3, 10_000_000).expect("it pays");
        let mut lengths = [[1.0, 30.0]; 3];
        lengths[2] = [4_000.0, 9_000.0];
        let around = plan.for_lengths::<u64>(3, 10_000_000, &lengths).expect("it pays");
        assert_eq!(around.radii()[2], -1);
        assert!(covers(&around, 3));
    }

    #[test]
    fn a_plan_that_leaves_a_gap_is_refused() {
        let bits = [16, 10, 2, 16];
        assert!(Plan::chosen(Kind::Four, 3, &[0, 0, 0, -1], &bits).is_none());
        assert!(Plan::chosen(Kind::Four, 3, &[3, -1, -1, -1], &bits).is_some());
        assert!(Plan::chosen(Kind::Four, 3, &[1, 1, 0], &bits).is_none());
        assert!(Plan::chosen(Kind::Four, 3, &[3, 1, 0, 0], &[17, 10, 2, 16]).is_none());
    }
}
