//! Seeded hashes and queries, the same in every run.

use lookalike_eval::random::Random;

/// Evenly spread numbers, by their seed.
pub struct Even(Random);

impl Even {
    pub fn seeded(seed: u64) -> Even {
        Even(Random(seed))
    }
}

impl Iterator for Even {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        Some(self.0.number())
    }
}
