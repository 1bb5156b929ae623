//! Random hashes and queries, the same in every run.

use super::bits::Bits;
use crate::random::Random;

/// Evenly spread hashes.
pub fn random_hashes<W: Bits>(count: usize) -> Vec<W> {
    let mut random = Random(1);
    (0..count).map(|_| W::of_words(random.number(), random.number())).collect()
}

/// Queries: random ones of the hashes, each with 0 to `k` of its bits flipped. None if there are no hashes.
pub fn queries<W: Bits>(hashes: &[W], count: usize, k: u32) -> Vec<W> {
    if hashes.is_empty() {
        return Vec::new();
    }
    let mut random = Random(99);
    let mut drawn = || {
        let hash = hashes[random.below(hashes.len())];
        let flips = random.below(k as usize + 1);
        (0..flips).fold(hash, |hash, _| hash.flipped(random.below(W::WIDTH.bits() as usize) as u32))
    };
    (0..count).map(|_| drawn()).collect()
}
