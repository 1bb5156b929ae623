//! Plans: which blocks of a hash to probe, and how far around the query's own value, for a given k.
//!
//! The general pigeonhole principle (Qin et al., "GPH: Similarity Search in Hamming Space", ICDE 2018):
//! cut a hash into m blocks and give block i a radius `tᵢ ≥ -1` such that `Σ (tᵢ + 1) ≥ k + 1`. If a
//! stored hash differed from the query by more than `tᵢ` in every block, it would differ by at least
//! `Σ (tᵢ + 1) ≥ k + 1` bits in all; so every hash within k lies within the radius of some block. A
//! radius of -1 means that the block is not probed. The principle holds for every k, which is why k
//! belongs to the question and not to the index.

use crate::ids::Word;

/// The width of a block in bits. Blocks of 16 bits are what the tables are built for.
pub(super) const BLOCK_BITS: u32 = 16;

/// How many blocks the widest hash has.
pub(super) const MAX_BLOCKS: usize = 8;

/// What one probe costs in units of one candidate compared. A probe finds a bucket in a table (a cache
/// miss or two); a comparison reads the next word of a run. The ratio decides only when scanning wins.
const PROBE_COST: u64 = 12;

/// The radii of one query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    radii: [i8; MAX_BLOCKS],
    blocks: usize,
}

impl Plan {
    /// The balanced plan for a distance of at most `k` bits among hashes of `W`: the radii differ by at
    /// most one, which makes the fewest probes when the blocks are equally wide.
    pub fn balanced<W: Word>(k: u32) -> Plan {
        let blocks = blocks::<W>();
        let mut radii = [-1; MAX_BLOCKS];
        for unit in 0..=k {
            radii[unit as usize % blocks] += 1;
        }
        Plan { radii, blocks }
    }

    /// A plan with chosen radii; `None` if they do not cover every hash within `k`, or if there is not
    /// one for each block.
    pub fn with_radii<W: Word>(k: u32, chosen: &[i8]) -> Option<Plan> {
        let covered: i32 = chosen.iter().map(|&radius| i32::from(radius) + 1).sum();
        let in_range = chosen.iter().all(|radius| (-1..=16).contains(radius));
        if chosen.len() != blocks::<W>() || !in_range || covered < i32::try_from(k).ok()? + 1 {
            return None;
        }
        let mut radii = [-1; MAX_BLOCKS];
        radii[..chosen.len()].copy_from_slice(chosen);
        Some(Plan { radii, blocks: chosen.len() })
    }

    /// The radius of each block, the least significant block first; -1 where the block is not probed.
    pub fn radii(&self) -> &[i8] {
        &self.radii[..self.blocks]
    }

    /// How many block values lie within the radii: the probes of the plan, 16 bits a block.
    pub fn probes(&self) -> u64 {
        self.radii().iter().map(|&radius| ball(radius)).sum()
    }

    /// Whether comparing all of `hashes` is expected to be cheaper than probing, for evenly spread hashes.
    pub fn scan_is_cheaper(&self, hashes: usize) -> bool {
        self.cost(hashes) >= hashes as u64
    }

    /// The expected cost of probing, in units of one candidate compared, for evenly spread hashes.
    pub fn cost(&self, hashes: usize) -> u64 {
        let probes = self.probes();
        probes.saturating_mul(PROBE_COST) + (probes.saturating_mul(hashes as u64) >> BLOCK_BITS)
    }

    /// Whether block `at` is the first block in which `difference` (query XOR candidate) lies within the
    /// radius. A candidate is reported by that block alone, so that no answer comes twice, whatever the
    /// order in which blocks are probed and without remembering what was seen.
    #[inline]
    pub(super) fn reports<W: Word>(&self, difference: W, at: usize) -> bool {
        let within = |block: usize| {
            let ones = difference.block(block as u32).count_ones() as i8;
            ones <= self.radii[block]
        };
        within(at) && !(0..at).any(within)
    }
}

/// How many blocks a hash of `W` has: 4 or 8.
pub(super) fn blocks<W: Word>() -> usize {
    (W::WIDTH.bits() / BLOCK_BITS) as usize
}

/// How many 16-bit values lie within `radius` of one of them: `Σ C(16, i)` for i from 0 to the radius.
fn ball(radius: i8) -> u64 {
    let mut sum = 0;
    let mut choose: u64 = 1;
    for chosen in 0..=i64::from(radius) {
        sum += choose;
        let chosen = chosen.unsigned_abs();
        choose = choose * (16 - chosen.min(16)) / (chosen + 1);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_are_those_of_the_published_splits() {
        let probes = |k| Plan::balanced::<u64>(k).probes();
        let known = [(0, 1), (3, 4), (6, 52), (7, 68), (8, 188), (10, 428), (11, 548), (12, 1108)];
        for (k, expected) in known {
            assert_eq!(probes(k), expected, "k = {k}");
        }
        let wide = [(15, 136), (23, 1_096), (31, 5_576)];
        for (k, expected) in wide {
            assert_eq!(Plan::balanced::<u128>(k).probes(), expected, "128 bits, k = {k}");
        }
    }

    #[test]
    fn every_balanced_plan_covers_its_k() {
        for k in 0..=64 {
            let plan = Plan::balanced::<u64>(k);
            assert_eq!(plan.radii().iter().map(|&r| i32::from(r) + 1).sum::<i32>(), k as i32 + 1);
        }
        for k in 0..=128 {
            let plan = Plan::balanced::<u128>(k);
            assert_eq!(plan.radii().iter().map(|&r| i32::from(r) + 1).sum::<i32>(), k as i32 + 1);
        }
    }

    #[test]
    fn a_plan_that_leaves_a_gap_is_refused() {
        assert!(Plan::with_radii::<u64>(3, &[0, 0, 0, -1]).is_none());
        assert!(Plan::with_radii::<u64>(3, &[3, -1, -1, -1]).is_some());
        assert!(Plan::with_radii::<u64>(3, &[1, 1, 0]).is_none());
    }
}
