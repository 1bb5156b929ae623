//! Random hashes and queries, the same in every run.

use super::bits::Bits;

/// `SplitMix64` (Steele, Lea and Flood, OOPSLA 2014): small, and the same on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// Evenly spread hashes.
pub fn random_hashes<W: Bits>(count: usize) -> Vec<W> {
    let mut random = Random(1);
    (0..count).map(|_| W::of_words(random.next(), random.next())).collect()
}

/// Queries: random ones of the hashes, each with 0 to `k` of its bits flipped. None if there are no hashes.
pub fn queries<W: Bits>(hashes: &[W], count: usize, k: u32) -> Vec<W> {
    if hashes.is_empty() {
        return Vec::new();
    }
    let mut random = Random(99);
    let mut drawn = || {
        let hash = hashes[random.below(hashes.len() as u64) as usize];
        let flips = random.below(u64::from(k) + 1);
        (0..flips).fold(hash, |hash, _| hash.flipped(random.below(W::WIDTH.bits().into()) as u32))
    };
    (0..count).map(|_| drawn()).collect()
}
