//! Skew: how unevenly hashes fill the buckets of an index by blocks of 16 bits.
//!
//! Not here: buckets of other sizes.

use std::collections::HashSet;

use lookalike_hash::Hash;

/// How unevenly the distinct hashes of a set fill buckets of 16 bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Skew {
    /// The number of distinct hashes.
    pub distinct: usize,
    /// The share of the distinct hashes in the fullest bucket of any block, 0 to 1.
    pub fullest: f64,
    /// The probability that two distinct hashes have the same value in a block of 16 bits, averaged over
    /// all blocks, times 65,536. 1 for evenly distributed hashes.
    pub collision_factor: f64,
    /// The collision factor of the worst block.
    pub(crate) worst_block: f64,
}

/// The skew of the hashes for which `taken` is true.
pub fn skew(hashes: &[Hash], taken: &[bool]) -> Skew {
    let distinct: HashSet<Hash> =
        hashes.iter().zip(taken).filter(|(_, taken)| **taken).map(|(hash, _)| *hash).collect();
    let blocks = hashes.first().map_or(64, |hash| hash.width().bits()) / 16;
    let (mut fullest, mut worst, mut sum) = (0, 0.0_f64, 0.0);
    for block in 0..blocks {
        let mut counts = vec![0_u64; 1 << 16];
        let value = |hash: &Hash| (hash.value() >> (16 * block)).low() as usize & 0xffff;
        distinct.iter().for_each(|hash| counts[value(hash)] += 1);
        fullest = fullest.max(counts.iter().copied().max().unwrap_or(0));
        let pairs: u64 = counts.iter().map(|count| count * count.saturating_sub(1)).sum();
        worst = worst.max(pairs as f64);
        sum += pairs as f64;
    }
    let n = distinct.len() as f64;
    let factor = 65_536.0 / (n * (n - 1.0)).max(1.0);
    Skew {
        distinct: distinct.len(),
        fullest: fullest as f64 / n.max(1.0),
        collision_factor: sum / f64::from(blocks) * factor,
        worst_block: worst * factor,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skew_has_the_mean_of_all_blocks_and_the_worst_block() {
        let hashes: Vec<Hash> =
            (0..100).map(|low| Hash::from_u64(0xaaaa_0000_0000_0000 | low << 16 | low)).collect();
        let skew = skew(&hashes, &[true; 100]);
        // Two blocks are the same in all hashes, and two differ in each hash.
        assert_eq!((skew.distinct, skew.fullest), (100, 1.0));
        assert_eq!((skew.collision_factor, skew.worst_block), (32_768.0, 65_536.0));
    }
}
