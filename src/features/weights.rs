//! Weights in fixed point, so that a sum of them is the same in every order and on every machine.
//!
//! One is 65,536. The logarithm is libm's: the standard library's is the platform's, and may differ in its
//! last bit.

use std::sync::LazyLock;

/// A weight of 1.
pub const ONE: u64 = 1 << 16;

/// The weight of a feature that occurs `count` times, 1 or more: 1 + ln count.
///
/// Linear counts are what makes the folklore recipe find topics: a word that is used thirty times says little
/// more about which text this is than one used three times.
pub fn logarithmic(count: u32) -> u64 {
    static SMALL: LazyLock<[u64; 64]> =
        LazyLock::new(|| std::array::from_fn(|count| one_plus_ln(count as u32)));
    SMALL.get(count as usize).copied().unwrap_or_else(|| one_plus_ln(count))
}

fn one_plus_ln(count: u32) -> u64 {
    fixed(1.0 + libm::log(f64::from(count.max(1))))
}

/// A weight in fixed point, to the nearest.
///
/// `weight` is not negative and below 2³².
pub fn fixed(weight: f64) -> u64 {
    libm::round(weight * ONE as f64) as u64
}

/// A fixed-point weight or sum as a number for people.
pub fn to_number(fixed: i64) -> f64 {
    fixed as f64 / ONE as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_grow_with_the_logarithm() {
        let cases = [(1, 65_536), (2, 110_962), (3, 137_535), (10, 216_438), (63, 337_060), (64, 338_093)];
        for (count, weight) in cases {
            assert_eq!(logarithmic(count), weight, "{count}");
        }
        assert!(logarithmic(u32::MAX) < 24 * ONE);
    }
}
