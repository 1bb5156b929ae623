//! The bits of a hash that plans cut, flip and enumerate.

use lookalike_hamming::Filed;

/// A hash whose bits can be selected and changed.
pub trait Bits: Filed {
    /// The hash of which no bit is set.
    const ZERO: Self;

    /// The `bits` bits from bit `from` upwards, as a number. `bits` is at least 1.
    #[must_use]
    fn piece(self, from: u32, bits: u32) -> Self;

    /// The number whose first bits are this one, and whose last `bits` bits are `low`, which has no others.
    #[must_use]
    fn followed_by(self, low: Self, bits: u32) -> Self;

    /// The hash in which bit `bit` is the other value.
    #[must_use]
    fn flipped(self, bit: u32) -> Self;

    /// Whether bit `bit` is set.
    fn has(self, bit: u32) -> bool {
        self.piece(bit, 1) != Self::ZERO
    }

    /// The hash with these words, the upper one first; a hash of 64 bits has only the lower one.
    fn of_words(upper: u64, lower: u64) -> Self;

    /// A number that depends on every bit of the hash.
    fn mixed(self) -> u64;
}

macro_rules! bits {
    ($word:ty, $of_words:expr) => {
        impl Bits for $word {
            const ZERO: $word = 0;

            #[inline]
            fn piece(self, from: u32, bits: u32) -> $word {
                self >> from & (<$word>::MAX >> (<$word>::BITS - bits))
            }

            #[inline]
            fn followed_by(self, low: $word, bits: u32) -> $word {
                self.checked_shl(bits).unwrap_or(0) | low
            }

            #[inline]
            fn flipped(self, bit: u32) -> $word {
                self ^ 1 << bit
            }

            fn of_words(upper: u64, lower: u64) -> $word {
                $of_words(upper, lower)
            }

            #[inline]
            fn mixed(self) -> u64 {
                let value = u128::from(self);
                let folded = value as u64 ^ ((value >> 64) as u64).wrapping_mul(0xa24b_aed4_963e_e407);
                let mixed = (folded ^ (folded >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
                (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93)
            }
        }
    };
}

bits!(u64, |_, lower| lower);
bits!(u128, |upper, lower| u128::from(upper) << 64 | u128::from(lower));

/// The number of values within `radius` of a hash of this many bits. The largest of a plan is that of 31 of
/// 128 bits, which fits.
pub(super) fn ball(bits: u32, radius: u32) -> u128 {
    (0..=radius).map(|chosen| choose(bits, chosen)).sum()
}

/// The number of ways to choose `chosen` of `all` things.
pub(super) fn choose(all: u32, chosen: u32) -> u128 {
    (0..chosen).fold(1, |ways, at| ways * u128::from(all - at) / u128::from(at + 1))
}

/// Calls `each` with every value within `radius` of the hash, itself first, each once.
pub(super) fn around<W: Bits>(hash: W, radius: u32, each: &mut impl FnMut(W)) {
    flip_from(hash, 0, radius, each);
}

/// Calls `each` with the hash, and with what it becomes if up to `left` bits from bit `from` on are flipped.
fn flip_from<W: Bits>(hash: W, from: u32, left: u32, each: &mut impl FnMut(W)) {
    each(hash);
    if left > 0 {
        (from..W::WIDTH.bits()).for_each(|bit| flip_from(hash.flipped(bit), bit + 1, left - 1, each));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_a_hash_make_it_again() {
        let hash = 0x0123_4567_89ab_cdef_u64;
        assert_eq!((hash.piece(0, 64), hash.piece(60, 4), hash.piece(4, 8)), (hash, 0, 0xde));
        let wide = u128::of_words(1, u64::MAX);
        assert_eq!((wide.piece(64, 64), wide.has(65), wide.flipped(64)), (1, false, u64::MAX.into()));
        assert_eq!(hash.piece(20, 44).followed_by(hash.piece(0, 20), 20), hash);
        assert_eq!(u64::ZERO.followed_by(hash, 64), hash);
    }

    #[test]
    fn a_ball_has_as_many_values_as_are_enumerated() {
        for radius in 0..4 {
            let mut values = Vec::new();
            around(0xff_u64, radius, &mut |value| values.push(value));
            assert!(values.iter().all(|value| (value ^ 0xff).count_ones() <= radius));
            values.sort_unstable();
            values.dedup();
            assert_eq!(values.len() as u128, ball(64, radius));
        }
        assert_eq!([ball(64, 3), ball(64, 2), ball(128, 3)], [43_745, 2_081, 349_633]);
        // Too many to enumerate: half of all values of 63 bits are within 31 of any.
        assert_eq!(ball(63, 31), 1 << 62);
    }
}
