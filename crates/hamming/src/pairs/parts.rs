//! The parts of a join: which prefixes the hashes are sorted by, and how many of their bits may differ.
//!
//! They follow from the pigeonhole principle as plans do: the sum of (radius + 1) over all parts exceeds k.

use super::super::block::Filed;
use super::super::probe::next_with_as_many_ones;

/// The most blocks, the most bits of a prefix (the positions of runs then fit into a cache), and the largest
/// radius: it is cheaper to compare all pairs than to use larger ones.
const MAX_BLOCKS: u32 = 12;
pub(super) const MAX_BITS: u32 = 22;
const MAX_RADIUS: u32 = 6;
/// The expected time of a comparison, by the bytes of a hash, of beginning with two runs, and of sorting a
/// hash, in nanoseconds.
const COMPARISON_OF_A_BYTE: f64 = 0.05;
const RUNS: f64 = 4.0;
const SORT: f64 = 15.0;
/// One hash of this many is in the sample by which blocks are chosen, and the most hashes of a sample.
const SAMPLED: usize = 64;
const SAMPLE: usize = 1 << 14;

/// A prefix of a block, and how many of its bits may differ.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    /// The block begins below this bit.
    top: u32,
    pub(super) bits: u32,
    radius: u32,
}

impl Part {
    #[inline(always)]
    pub(super) fn prefix<W: Filed>(self, hash: W) -> u32 {
        if self.bits == 0 { 0 } else { hash.below(self.top) >> (32 - self.bits) }
    }

    /// Whether two hashes with this difference are within the radius.
    #[inline(always)]
    pub(super) fn holds<W: Filed>(self, difference: W) -> bool {
        self.prefix(difference).count_ones() <= self.radius
    }

    /// The difference of prefixes after this one: first those of fewer bits. `None` after the last one.
    pub(super) fn after(self, difference: u32) -> Option<u32> {
        let ones = difference.count_ones();
        let end = 1u64 << self.bits;
        let next = match difference {
            0 => end,
            _ => next_with_as_many_ones(u64::from(difference)),
        };
        if next < end {
            return Some(next as u32);
        }
        (ones < self.radius && ones < self.bits).then(|| ((1u64 << (ones + 1)) - 1) as u32)
    }
}

/// The parts of the least expected cost; one part without bits if it is cheapest to compare all pairs.
///
/// How many hashes have equal prefixes is estimated from a sample, so a prefix that very many hashes have
/// makes its block expensive. Between different prefixes, hashes are assumed to be evenly spread.
pub(super) fn parts<W: Filed>(hashes: &[W], k: u32) -> Vec<Part> {
    let width = W::WIDTH.bits();
    let pairs = (hashes.len() as f64).powi(2) / 2.0;
    let comparison = COMPARISON_OF_A_BYTE * W::WIDTH.bytes() as f64;
    let sample: Vec<W> = hashes.iter().copied().step_by(SAMPLED.max(hashes.len() / SAMPLE)).collect();
    let all = Part { top: width, bits: 0, radius: 0 };
    let (mut best, mut least) = (vec![all], pairs * comparison);
    for blocks in (1..=MAX_BLOCKS.min(k + 1)).filter(|blocks| blocks * (MAX_RADIUS + 1) > k) {
        // The least cost by the sum of (radius + 1) over the blocks so far, and the parts that have it.
        let mut sums: Vec<Option<(f64, Vec<Part>)>> = vec![None; k as usize + 2];
        sums[0] = Some((0.0, Vec::new()));
        let mut top = width;
        for block in 0..blocks {
            let most = width / blocks + u32::from(block < width % blocks);
            let equal = equal_pairs(&sample, top, most.min(MAX_BITS), hashes.len());
            let of_radius = |radius: u32| {
                let costs = (1..).zip(&equal).map(|(bits, equal)| {
                    let (runs, differences) = (f64::from(1u32 << bits), differences(bits, radius));
                    let compared = equal + (differences - 1.0) * pairs / runs;
                    (differences * RUNS * runs / 2.0 + compared * comparison, bits)
                });
                costs.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((f64::INFINITY, 1))
            };
            let costs: Vec<(f64, u32)> = (0..=MAX_RADIUS.min(k)).map(of_radius).collect();
            for sum in (0..=k as usize).rev() {
                let Some((before, chosen)) = sums[sum].clone() else { continue };
                for ((own, bits), radius) in costs.iter().zip(0..=k - sum as u32) {
                    let cost = before + own + SORT * hashes.len() as f64;
                    let to = &mut sums[sum + radius as usize + 1];
                    if cost < least && to.as_ref().is_none_or(|(other, _)| cost < *other) {
                        let part = Part { top, bits: *bits, radius };
                        *to = Some((cost, [&chosen[..], &[part]].concat()));
                    }
                }
            }
            top -= most;
        }
        if let Some((cost, parts)) = sums.pop().flatten()
            && cost < least
        {
            (best, least) = (parts, cost);
        }
    }
    best
}

/// The number of differences of prefixes within a radius.
fn differences(bits: u32, radius: u32) -> f64 {
    let (mut of_ones, mut sum) = (1.0, 1.0);
    for ones in 1..=radius.min(bits) {
        of_ones *= f64::from(bits + 1 - ones) / f64::from(ones);
        sum += of_ones;
    }
    sum
}

/// The expected pairs of equal prefixes among `hashes` hashes, for prefixes of 1 to `most` bits of the block
/// that begins below `top`: those of evenly spread hashes, or more if the sample has more.
fn equal_pairs<W: Filed>(sample: &[W], top: u32, most: u32, hashes: usize) -> Vec<f64> {
    let mut prefixes: Vec<u32> = sample.iter().map(|hash| hash.below(top) >> (32 - most)).collect();
    prefixes.sort_unstable();
    let of_pairs = |count: usize| (count * count.saturating_sub(1)) as f64 / 2.0;
    let scale = of_pairs(hashes) / of_pairs(sample.len()).max(1.0);
    let equal = |bits: u32| {
        let runs = prefixes.chunk_by(|a, b| a >> (most - bits) == b >> (most - bits));
        let sampled: f64 = runs.map(|run| of_pairs(run.len())).sum();
        (sampled * scale).max(of_pairs(hashes) / f64::from(1u32 << bits))
    };
    (1..=most).map(equal).collect()
}
