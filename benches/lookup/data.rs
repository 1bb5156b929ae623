//! Seeded hashes and queries, the same in every run.

/// The splitmix64 sequence (Steele, Lea and Flood, 2014): uniform, seeded, and cheap.
pub struct Even(pub u64);

impl Iterator for Even {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Some(mixed ^ (mixed >> 31))
    }
}
