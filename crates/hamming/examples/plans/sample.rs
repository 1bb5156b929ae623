//! Random hashes and queries, the same in every run.

use fastrand::Rng;

use super::bits::Bits;

/// Evenly spread hashes.
pub fn random_hashes<W: Bits>(count: usize) -> Vec<W> {
    let mut random = Rng::with_seed(1);
    (0..count).map(|_| W::of_words(random.u64(..), random.u64(..))).collect()
}

/// Queries: random ones of the hashes, each with 0 to `k` of its bits flipped. None if there are no hashes.
pub fn queries<W: Bits>(hashes: &[W], count: usize, k: u32) -> Vec<W> {
    let mut random = Rng::with_seed(99);
    let mut drawn = || {
        let hash = *random.choice(hashes)?;
        let flips = random.u32(0..=k);
        Some((0..flips).fold(hash, |hash, _| hash.flipped(random.u32(0..W::WIDTH.bits()))))
    };
    (0..count).map_while(|_| drawn()).collect()
}
