//! Seeded hashes and queries, the same in every run.

use std::fmt;

use lookalike_hamming::Filed;
use lookalike_hash::U256;

use crate::data::Even;

/// How hashes are distributed.
#[derive(Clone, Copy, PartialEq)]
pub enum Spread {
    Even,
    /// 30 % within 6 bits of one of 1,000 centres, 5 % with the same 16 highest bits, the rest even.
    Skewed,
    /// Even, and distinct from the hashes of the other variants.
    Fresh,
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Spread::Even => "even",
            Spread::Skewed => "skewed: 30 % within 6 bits of 1,000 centres, 5 % with 16 bits in common",
            Spread::Fresh => "fresh",
        })
    }
}

/// A hash made from random words.
pub trait Hash: Filed {
    fn made(word: impl FnMut() -> u64) -> Self;
    /// The hash with one bit flipped.
    fn flipped(self, bit: u64) -> Self;
    fn with_top_16(self) -> Self;
}

impl Hash for u64 {
    fn made(mut word: impl FnMut() -> u64) -> u64 {
        let made = word();
        word();
        made
    }
    fn flipped(self, bit: u64) -> u64 {
        self ^ 1 << (bit % 64)
    }
    fn with_top_16(self) -> u64 {
        0xbeef << 48 | self >> 16
    }
}

impl Hash for u128 {
    fn made(mut word: impl FnMut() -> u64) -> u128 {
        u128::from(word()) << 64 | u128::from(word())
    }
    fn flipped(self, bit: u64) -> u128 {
        self ^ 1 << (bit % 128)
    }
    fn with_top_16(self) -> u128 {
        0xbeef << 112 | self >> 16
    }
}

impl Hash for U256 {
    fn made(mut word: impl FnMut() -> u64) -> U256 {
        U256::from_words(std::array::from_fn(|_| word()))
    }
    fn flipped(self, bit: u64) -> U256 {
        self ^ U256::from(1) << (bit % 256) as u32
    }
    fn with_top_16(self) -> U256 {
        U256::from(0xbeef) << 240 | self >> 16
    }
}

/// Distinct hashes.
pub fn hashes<W: Hash>(count: usize, spread: Spread) -> Vec<W> {
    let mut even = Even::seeded(if spread == Spread::Fresh { 1 << 50 } else { 1 });
    let mut next = move || even.next().unwrap_or_default();
    let mut made = move || W::made(&mut next);
    if spread != Spread::Skewed {
        return (0..count).map(|_| made()).collect();
    }
    let mut dice = Even::seeded(17);
    let mut roll = move || dice.next().unwrap_or_default();
    let centres: Vec<W> = (0..1_000).map(|_| made()).collect();
    let mut all: Vec<W> = (0..count + count / 50)
        .map(|number| match number % 20 {
            0..6 => {
                let centre = centres[(roll() % 1_000) as usize];
                (0..roll() % 7).fold(centre, |hash, _| hash.flipped(roll()))
            }
            6 => made().with_top_16(),
            _ => made(),
        })
        .collect();
    all.sort_unstable();
    all.dedup();
    // In random order, as documents arrive.
    for at in (1..all.len()).rev() {
        all.swap(at, (roll() % (at as u64 + 1)) as usize);
    }
    all.truncate(count);
    all
}

/// Distinct queries: every other one a stored hash with 0 to `k` bits flipped, the rest random.
pub fn queries<W: Hash>(stored: &[W], count: usize, k: u32, seed: u64) -> Vec<W> {
    let mut even = Even::seeded(99 + (seed << 40));
    let mut next = move || even.next().unwrap_or_default();
    (0..count)
        .map(|number| {
            if number % 2 == 1 {
                return W::made(&mut next);
            }
            let hash = stored[(next() % stored.len() as u64) as usize];
            (0..next() % u64::from(k + 1)).fold(hash, |hash, _| hash.flipped(next()))
        })
        .collect()
}
