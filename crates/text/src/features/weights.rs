//! Weights in fixed point, so that a sum of weights is the same in every order and on every machine.
//!
//! A weight of 1 is 65,536. The logarithm is that of libm, because that of the standard library depends on
//! the platform and may differ in its last bit. Not here: TF-IDF weights (`keywords`).

use std::sync::LazyLock;

/// A weight of 1.
pub const ONE: u64 = 1 << 16;

/// The weight of a feature that occurs `count` times, 1 or more: 1 + ln count.
///
/// With linear counts, frequent words dominate and the fingerprint reflects the topic: a word that occurs
/// thirty times identifies a text hardly better than a word that occurs three times.
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

/// A fixed-point weight or sum as a floating-point number.
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
