//! Numbers that look random, the same on every machine and in every release: for samples, edits and hashes
//! that must be drawn again by the same seed.
//!
//! Not here: ids and keys, which nobody may foresee (`uuid`).

/// `SplitMix64` (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014), with
/// its seed.
///
/// ```
/// use lookalike_eval::random::Random;
///
/// assert_eq!(Random(1_234_567).number(), 6_457_827_717_110_365_317);
/// ```
#[derive(Debug)]
pub struct Random(pub u64);

impl Random {
    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; 0 if `bound` is 0. Small numbers are more frequent, by less than `bound` in
    /// 2^64.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.number() % bound.max(1) as u64) as usize
    }
}
