//! A Bloom filter: tells that a hash is not stored, or that it may be.
//!
//! Bloom, "Space/time trade-offs in hash coding with allowable errors" (CACM 13, 1970). It has at least 12
//! bits for each hash and sets 4 of them, so about one in 150 of the hashes that are not stored passes, or
//! fewer. In contrast to a set, a filter of millions of hashes fits into the cache.

use super::bits::Bits;

/// The bits of the filter for each hash, before the number of all bits is raised to a power of two.
const BITS: u128 = 12;
/// The bits that a hash sets.
const SET: u64 = 4;

pub(super) struct Filter(Vec<u64>);

/// The bytes of a filter of this many hashes.
pub(super) fn bytes(hashes: u128) -> u128 {
    (hashes * BITS).div_ceil(64).next_power_of_two() * 8
}

impl Filter {
    pub(super) fn new<W: Bits>(hashes: &[W]) -> Filter {
        let mut filter = Filter(vec![0; bytes(hashes.len() as u128) as usize / 8]);
        for &hash in hashes {
            filter.places(hash).for_each(|(word, bit)| filter.0[word] |= bit);
        }
        filter
    }

    /// The words and bits of a hash. Every bit of the two halves of its mixed value depends on all its bits,
    /// and the places are sums of multiples of the halves (Kirsch and Mitzenmacher, ESA 2006).
    fn places<W: Bits>(&self, hash: W) -> impl Iterator<Item = (usize, u64)> + use<W> {
        let last = self.0.len() * 64 - 1;
        let mixed = hash.mixed();
        (0..SET).map(move |number| {
            let at = mixed.wrapping_add(number.wrapping_mul(mixed >> 32 | 1)) as usize & last;
            (at / 64, 1 << (at % 64))
        })
    }

    pub(super) fn may_hold<W: Bits>(&self, hash: W) -> bool {
        self.places(hash).all(|(word, bit)| self.0[word] & bit != 0)
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::random_hashes;

    #[test]
    fn stored_hashes_pass_and_few_others() {
        let hashes: Vec<u64> = random_hashes(40_000);
        let (stored, others) = hashes.split_at(20_000);
        let filter = Filter::new(stored);
        assert!(stored.iter().all(|hash| filter.may_hold(*hash)));
        let passed = others.iter().filter(|hash| filter.may_hold(**hash)).count();
        // A filter of 262,144 bits for 20,000 hashes lets one in 209 pass.
        assert!((50..=150).contains(&passed), "{passed} of 20,000");
    }
}
