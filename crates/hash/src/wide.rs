//! Hashes of any width from 4 to 160 bits, which are computed and shown, and never stored.
//!
//! Stored hashes have 64, 128 or 256 bits ([`Hash`](struct@Hash)), because the index is built for these
//! widths.
//! *Absent*: distances.

use std::fmt::{self, Write};
use std::ops::RangeInclusive;

use super::hash::Hash;

/// A hash of 4 to 160 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WideHash {
    width: u32,
    /// The bits as a number, the most significant limb first.
    limbs: [u64; 3],
}

impl WideHash {
    /// The widths, in bits.
    pub const WIDTHS: RangeInclusive<u32> = 4..=160;

    /// The hash with these bits, the most significant first. The number of bits is in [`WideHash::WIDTHS`].
    pub fn of_bits(bits: impl IntoIterator<Item = bool>) -> WideHash {
        let mut hash = WideHash { width: 0, limbs: [0; 3] };
        for bit in bits {
            let [upper, middle, lower] = hash.limbs;
            hash.limbs = [upper << 1 | middle >> 63, middle << 1 | lower >> 63, lower << 1 | u64::from(bit)];
            hash.width += 1;
        }
        hash
    }

    /// The lowest `width` bits of a big-endian number; bits that it does not have are zero.
    pub fn of_low_bits(width: u32, bytes: &[u8]) -> WideHash {
        let bit = |place: u32| {
            let byte = bytes.len().checked_sub(place as usize / 8 + 1).map_or(0, |at| bytes[at]);
            byte >> (place % 8) & 1 == 1
        };
        WideHash::of_bits((0..width).rev().map(bit))
    }

    /// Parses the digits of a hash of this width: binary if there are as many digits as bits, otherwise
    /// hexadecimal with four bits for each. `None` for anything else.
    ///
    /// ```
    /// use lookalike_hash::WideHash;
    /// let hash = WideHash::parse("100101", 6).unwrap();
    /// assert_eq!((hash, hash.to_string()), (WideHash::parse("25", 6).unwrap(), "25".to_owned()));
    /// assert!(WideHash::parse("65", 6).is_none() && WideHash::parse("10010", 6).is_none());
    /// ```
    pub fn parse(digits: &str, width: u32) -> Option<WideHash> {
        if digits.len() == width as usize && digits.bytes().all(|digit| matches!(digit, b'0' | b'1')) {
            return Some(WideHash::of_bits(digits.bytes().map(|digit| digit == b'1')));
        }
        let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        if !is_hex || digits.len() != width.div_ceil(4) as usize {
            return None;
        }
        let padded = format!("{digits:0>40}");
        let byte = |at: usize| u8::from_str_radix(&padded[2 * at..2 * at + 2], 16).unwrap_or(0);
        let bytes: [u8; 20] = std::array::from_fn(byte);
        let hash = WideHash::of_low_bits(width, &bytes);
        (hash.limbs == WideHash::of_low_bits(160, &bytes).limbs).then_some(hash)
    }

    /// The number of bits.
    pub fn width(self) -> u32 {
        self.width
    }

    /// The bits, the most significant first.
    pub fn bits(self) -> impl Iterator<Item = bool> {
        let limbs = self.limbs;
        (0..self.width).rev().map(move |place| limbs[2 - place as usize / 64] >> (place % 64) & 1 == 1)
    }

    /// The binary digits.
    pub fn to_binary(self) -> String {
        self.bits().map(|bit| if bit { '1' } else { '0' }).collect()
    }

    /// This hash as a [`struct@Hash`], if it has a width that can be stored.
    pub fn to_hash(self) -> Option<Hash> {
        let [_, upper, lower] = self.limbs;
        match self.width {
            64 => Some(Hash::from_u64(lower)),
            128 => Some(Hash::from_u128(u128::from(upper) << 64 | u128::from(lower))),
            _ => None,
        }
    }
}

/// Hexadecimal digits in lower case, one for each four bits.
impl fmt::Display for WideHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits: Vec<bool> = self.bits().collect();
        // The first digit has the bits that are left over from groups of four.
        for digit in bits.rchunks(4).rev() {
            let value = digit.iter().fold(0, |value, &bit| value << 1 | u32::from(bit));
            f.write_char(char::from_digit(value, 16).unwrap_or('0'))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_of_every_width_read_back() {
        let bytes: Vec<u8> = (0..20).map(|n| n * 37 + 11).collect();
        for width in WideHash::WIDTHS {
            let hash = WideHash::of_low_bits(width, &bytes);
            assert_eq!(hash.width(), width);
            assert_eq!(hash.to_string().len(), width.div_ceil(4) as usize);
            assert_eq!(WideHash::parse(&hash.to_string(), width), Some(hash), "{width}");
            assert_eq!(WideHash::parse(&hash.to_binary(), width), Some(hash), "{width}");
            assert_eq!(
                hash.to_hash().map(|hash| hash.to_string()).unwrap_or(hash.to_string()),
                hash.to_string()
            );
        }
        assert_eq!(WideHash::of_low_bits(16, &[7]).to_string(), "0007");
        assert!(WideHash::parse("", 6).is_none() && WideHash::parse("2g", 6).is_none());
    }
}
