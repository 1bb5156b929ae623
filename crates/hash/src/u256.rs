//! `U256`: an unsigned number of 256 bits, with the arithmetic that hashes of this width need.
//!
//! *Absent*: multiplication, division, decimal digits.

use std::fmt;
use std::ops::{Add, BitOr, BitXor, Shl, Shr, Sub};

/// An unsigned number of 256 bits.
///
/// ```
/// use lookalike_hash::U256;
/// let number = U256::from(3) << 200;
/// assert_eq!((number.count_ones(), number >> 200), (2, U256::from(3)));
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct U256(
    // The most significant word first, so that the derived order is that of numbers.
    [u64; 4],
);

impl U256 {
    /// The number of bits.
    pub const BITS: u32 = 256;
    /// The largest number.
    pub const MAX: U256 = U256([u64::MAX; 4]);

    /// The number with these words, the most significant one first.
    pub const fn from_words(words: [u64; 4]) -> U256 {
        U256(words)
    }

    /// Its words, the most significant one first.
    pub const fn words(self) -> [u64; 4] {
        self.0
    }

    /// The last 64 bits.
    pub const fn low(self) -> u64 {
        self.0[3]
    }

    /// The last 128 bits.
    pub const fn low_128(self) -> u128 {
        (self.0[2] as u128) << 64 | self.0[3] as u128
    }

    /// The number of one bits.
    #[inline]
    pub fn count_ones(self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// The number of zeros before the first one bit.
    pub fn leading_zeros(self) -> u32 {
        let first = self.0.iter().position(|word| *word != 0);
        first.map_or(U256::BITS, |at| 64 * at as u32 + self.0[at].leading_zeros())
    }

    /// The 64 bits below bit `top`, downwards; after bit 0 they continue at the highest bit.
    #[inline]
    pub fn window(self, top: u32) -> u64 {
        let [a, b, c, d] = self.0;
        let (upper, lower) = match top.wrapping_sub(1) / 64 % 4 {
            0 => (d, a),
            1 => (c, d),
            2 => (b, c),
            _ => (a, b),
        };
        let both = u128::from(upper) << 64 | u128::from(lower);
        (both >> (top.wrapping_sub(1) % 64 + 1)) as u64
    }

    /// Rotated so that it begins with bit `top` - 1.
    #[inline]
    #[must_use]
    pub fn rotate_right(self, top: u32) -> U256 {
        U256([0, 192, 128, 64].map(|further| self.window(top + further)))
    }

    /// The inverse of [`U256::rotate_right`].
    #[inline]
    #[must_use]
    pub fn rotate_left(self, top: u32) -> U256 {
        self.rotate_right(U256::BITS - top % U256::BITS)
    }

    /// The sum; `None` if it has more than 256 bits.
    pub fn checked_add(self, other: U256) -> Option<U256> {
        let mut carry = false;
        let mut sum = self.0;
        for (own, other) in sum.iter_mut().zip(other.0).rev() {
            let (partial, first) = own.overflowing_add(other);
            let (whole, second) = partial.overflowing_add(u64::from(carry));
            (*own, carry) = (whole, first | second);
        }
        (!carry).then_some(U256(sum))
    }

    fn halves(self) -> (u128, u128) {
        let [a, b, c, d] = self.0.map(u128::from);
        (a << 64 | b, c << 64 | d)
    }

    fn from_halves(upper: u128, lower: u128) -> U256 {
        U256([(upper >> 64) as u64, upper as u64, (lower >> 64) as u64, lower as u64])
    }
}

impl From<u128> for U256 {
    fn from(number: u128) -> U256 {
        U256::from_halves(0, number)
    }
}

macro_rules! from {
    ($($small:ty),*) => {
        $(impl From<$small> for U256 {
            fn from(number: $small) -> U256 {
                U256([0, 0, 0, u64::from(number)])
            }
        })*
    };
}

from!(u16, u32, u64);

// A literal without a type.
impl From<i32> for U256 {
    /// # Panics
    /// If the number is negative.
    fn from(number: i32) -> U256 {
        U256::from(u32::try_from(number).expect("a number that is not negative"))
    }
}

impl BitXor for U256 {
    type Output = U256;

    #[inline]
    fn bitxor(self, other: U256) -> U256 {
        U256(std::array::from_fn(|at| self.0[at] ^ other.0[at]))
    }
}

impl BitOr for U256 {
    type Output = U256;

    #[inline]
    fn bitor(self, other: U256) -> U256 {
        U256(std::array::from_fn(|at| self.0[at] | other.0[at]))
    }
}

impl Shl<u32> for U256 {
    type Output = U256;

    /// Bits that are shifted out are lost, also by 256 bits and more.
    fn shl(self, by: u32) -> U256 {
        let (upper, lower) = self.halves();
        match by {
            0 => self,
            1..128 => U256::from_halves(upper << by | lower >> (128 - by), lower << by),
            128..256 => U256::from_halves(lower << (by - 128), 0),
            _ => U256::default(),
        }
    }
}

impl Shr<u32> for U256 {
    type Output = U256;

    /// Bits that are shifted out are lost, also by 256 bits and more.
    fn shr(self, by: u32) -> U256 {
        let (upper, lower) = self.halves();
        match by {
            0 => self,
            1..128 => U256::from_halves(upper >> by, lower >> by | upper << (128 - by)),
            128..256 => U256::from_halves(0, upper >> (by - 128)),
            _ => U256::default(),
        }
    }
}

impl Add for U256 {
    type Output = U256;

    /// # Panics
    /// If the sum has more than 256 bits.
    fn add(self, other: U256) -> U256 {
        self.checked_add(other).expect("a sum of at most 256 bits")
    }
}

impl Sub for U256 {
    type Output = U256;

    /// The difference modulo 2^256.
    fn sub(self, other: U256) -> U256 {
        let (upper, lower) = self.halves();
        let (other_upper, other_lower) = other.halves();
        let (lower, borrow) = lower.overflowing_sub(other_lower);
        U256::from_halves(upper.wrapping_sub(other_upper).wrapping_sub(u128::from(borrow)), lower)
    }
}

impl fmt::Debug for U256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|word| write!(f, "{word:016x}"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn number() -> impl Strategy<Value = U256> {
        let word = prop_oneof![Just(0), Just(u64::MAX), any::<u64>()];
        proptest::array::uniform4(word).prop_map(U256)
    }

    /// The bits, the least significant first.
    fn bits(number: U256) -> Vec<bool> {
        (0..256).map(|bit| number.0[3 - bit / 64] >> (bit % 64) & 1 == 1).collect()
    }

    fn of_bits(bits: &[bool]) -> U256 {
        let mut words = [0; 4];
        for (at, bit) in bits.iter().take(256).enumerate() {
            words[3 - at / 64] |= u64::from(*bit) << (at % 64);
        }
        U256(words)
    }

    proptest! {
        /// Each operation equals the same operation bit by bit.
        #[test]
        fn arithmetic_is_that_of_bits(a in number(), b in number(), by in 0u32..300) {
            let (of_a, of_b) = (bits(a), bits(b));
            let zeros = vec![false; by as usize];
            prop_assert_eq!(a << by, of_bits(&[&zeros[..], &of_a].concat()));
            prop_assert_eq!(a >> by, of_bits(of_a.get(by as usize..).unwrap_or_default()));
            let each = |of: fn(bool, bool) -> bool| {
                of_bits(&of_a.iter().zip(&of_b).map(|(a, b)| of(*a, *b)).collect::<Vec<_>>())
            };
            prop_assert_eq!((a ^ b, a | b), (each(|a, b| a ^ b), each(|a, b| a | b)));
            prop_assert_eq!(a.count_ones() as usize, of_a.iter().filter(|bit| **bit).count());
            prop_assert_eq!(a.leading_zeros() as usize, of_a.iter().rev().take_while(|bit| !**bit).count());
            prop_assert_eq!(a.cmp(&b), of_a.iter().rev().cmp(of_b.iter().rev()));
            let mut rotated = of_a.clone();
            rotated.rotate_left(by as usize % 256);
            prop_assert_eq!(a.rotate_right(by), of_bits(&rotated));
            prop_assert_eq!(a.rotate_right(by).rotate_left(by), a);
            prop_assert_eq!(a.window(by), a.rotate_right(by).0[0]);
        }

        #[test]
        fn sums_carry_and_differences_borrow(a in number(), b in number()) {
            let (mut carry, mut sum) = (false, Vec::new());
            for (a, b) in bits(a).into_iter().zip(bits(b)) {
                let ones = u8::from(a) + u8::from(b) + u8::from(carry);
                sum.push(ones & 1 == 1);
                carry = ones > 1;
            }
            prop_assert_eq!(a.checked_add(b), (!carry).then(|| of_bits(&sum)));
            prop_assert_eq!(of_bits(&sum) - b, a);
        }
    }
}
