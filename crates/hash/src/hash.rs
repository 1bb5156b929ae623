//! `Hash`: a fingerprint of 64, 128 or 256 bits, its hexadecimal form, and the machine words behind it.
//!
//! The digit string is the big-endian value. Bit `j` of a hash is bit `j` of that value, the least
//! significant bit being bit 0. A hash knows its width: two hashes of different widths are never equal.

use std::fmt;
use std::str::FromStr;

use super::u256::U256;

/// The number of bits in a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
// A whole word, so that a hash is copied word by word.
#[repr(u64)]
pub enum Width {
    /// 64 bits, 16 hexadecimal digits.
    Bits64,
    /// 128 bits, 32 hexadecimal digits.
    Bits128,
    /// 256 bits, 64 hexadecimal digits.
    Bits256,
}

impl Width {
    /// All widths, the smallest first.
    pub const ALL: [Width; 3] = [Width::Bits64, Width::Bits128, Width::Bits256];

    /// The width in bits: 64, 128 or 256.
    pub const fn bits(self) -> u32 {
        match self {
            Width::Bits64 => 64,
            Width::Bits128 => 128,
            Width::Bits256 => 256,
        }
    }

    /// The number of hexadecimal digits of a hash of this width: 16, 32 or 64.
    pub const fn digits(self) -> usize {
        self.bits() as usize / 4
    }

    /// The number of bytes of a hash of this width: 8, 16 or 32.
    pub const fn bytes(self) -> usize {
        self.bits() as usize / 8
    }

    /// The width with this many bits, if there is one.
    pub const fn from_bits(bits: u32) -> Option<Width> {
        match bits {
            64 => Some(Width::Bits64),
            128 => Some(Width::Bits128),
            256 => Some(Width::Bits256),
            _ => None,
        }
    }
}

/// The value of each byte as a hexadecimal digit.
const VALUES: [u8; 256] = {
    let (mut values, mut byte) = ([NO_DIGIT; 256], 0);
    while byte < values.len() {
        values[byte] = match byte as u8 {
            digit @ b'0'..=b'9' => digit - b'0',
            digit @ b'a'..=b'f' => digit - b'a' + 10,
            digit @ b'A'..=b'F' => digit - b'A' + 10,
            _ => NO_DIGIT,
        };
        byte += 1;
    }
    values
};

/// The value of a byte that is not a digit: it has bits that no digit has.
const NO_DIGIT: u8 = 0xf0;

/// A fingerprint of 64, 128 or 256 bits.
///
/// ```
/// use lookalike_hash::Hash;
/// let a: Hash = "0xA1B2C3D4E5F60718".parse()?;
/// assert_eq!(a.to_string(), "a1b2c3d4e5f60718");
/// assert_eq!(a.distance(Hash::from_u64(0xa1b2_c3d4_e5f6_0719)), Some(1));
/// # Ok::<(), lookalike_hash::HashError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hash {
    width: Width,
    value: U256,
}

/// Why a string is not a hash.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HashError {
    /// Not 16, 32 or 64 digits.
    #[error("a hash has 16 hexadecimal digits (64 bits), 32 (128 bits) or 64 (256 bits); this has {0}")]
    Length(usize),
    /// A character that is not a hexadecimal digit.
    #[error("character {position} of the hash is {found:?}, which is not a hexadecimal digit")]
    Digit {
        /// The position of the character, from 1, without an optional `0x`.
        position: usize,
        /// The character.
        found: char,
    },
}

impl Hash {
    /// A hash of 64 bits.
    pub const fn from_u64(value: u64) -> Hash {
        Hash { width: Width::Bits64, value: U256::from_words([0, 0, 0, value]) }
    }

    /// A hash of 128 bits.
    pub const fn from_u128(value: u128) -> Hash {
        let words = [0, 0, (value >> 64) as u64, value as u64];
        Hash { width: Width::Bits128, value: U256::from_words(words) }
    }

    /// A hash of 256 bits.
    pub const fn from_u256(value: U256) -> Hash {
        Hash { width: Width::Bits256, value }
    }

    /// The hash of this width whose bits are all zero.
    pub const fn zero(width: Width) -> Hash {
        Hash { width, value: U256::from_words([0; 4]) }
    }

    /// The number of bits.
    pub const fn width(self) -> Width {
        self.width
    }

    /// Its value as a number; the bits above its width are zero.
    pub const fn value(self) -> U256 {
        self.value
    }

    /// Its last 64 bits.
    pub const fn low(self) -> u64 {
        self.value.low()
    }

    /// Whether a bit is one; bit 0 is the least significant.
    pub fn bit(self, bit: u32) -> bool {
        (self.value >> bit).low() & 1 == 1
    }

    /// Its words, the most significant one first.
    fn words(&self) -> impl DoubleEndedIterator<Item = u64> {
        self.value.words().into_iter().skip(4 - self.width.bytes() / 8)
    }

    /// Its digits: `Width::digits` of them in lower case, at the beginning of the array.
    pub fn to_digits(self) -> [u8; 64] {
        let mut digits = [0; 64];
        let places = digits.as_chunks_mut::<16>().0;
        places.iter_mut().zip(self.words()).for_each(|(place, word)| *place = digits_of(word));
        digits
    }

    /// The Hamming distance, 0 to the width; `None` if the widths differ.
    pub fn distance(self, other: Hash) -> Option<u32> {
        (self.width == other.width).then(|| (self.value ^ other.value).count_ones())
    }

    /// The big-endian bytes: 8, 16 or 32 of them, so that byte order is the order of values.
    pub fn write_bytes(self, out: &mut Vec<u8>) {
        self.words().for_each(|word| out.extend_from_slice(&word.to_be_bytes()));
    }

    /// Reads the bytes of [`Hash::write_bytes`]; `None` if there are not 8, 16 or 32.
    pub fn from_bytes(bytes: &[u8]) -> Option<Hash> {
        let width = Width::from_bits(u32::try_from(bytes.len()).ok()?.checked_mul(8)?)?;
        let words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_be_bytes(*word));
        Some(Hash::of_words(width, words))
    }

    /// The hash with these words, the most significant one first.
    fn of_words(width: Width, words: impl DoubleEndedIterator<Item = u64>) -> Hash {
        let mut all = [0; 4];
        all.iter_mut().rev().zip(words.rev()).for_each(|(place, word)| *place = word);
        Hash { width, value: U256::from_words(all) }
    }
}

/// Only the words of its width, because maps of hashes of 64 bits are asked most often.
impl std::hash::Hash for Hash {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.words().for_each(|word| state.write_u64(word));
    }
}

impl FromStr for Hash {
    type Err = HashError;

    fn from_str(text: &str) -> Result<Hash, HashError> {
        let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
        parsed(digits).ok_or_else(|| why_not(digits))
    }
}

fn parsed(digits: &str) -> Option<Hash> {
    let width = match digits.len() {
        16 => Width::Bits64,
        32 => Width::Bits128,
        64 => Width::Bits256,
        _ => return None,
    };
    let mut words = [0; 4];
    let places = words.iter_mut().rev().zip(digits.as_bytes().as_chunks::<16>().0.iter().rev());
    for (place, digits) in places {
        *place = word(digits)?;
    }
    Some(Hash { width, value: U256::from_words(words) })
}

/// The 16 digits of a word, computed together. If they were written two at a time, a read of all of them
/// would have to wait until the writes had reached the cache.
fn digits_of(word: u64) -> [u8; 16] {
    // Spreads the nibbles to separate bytes, by halves.
    let mut nibbles = u128::from(word);
    nibbles = (nibbles | nibbles << 32) & 0x0000_0000_ffff_ffff_0000_0000_ffff_ffff;
    nibbles = (nibbles | nibbles << 16) & 0x0000_ffff_0000_ffff_0000_ffff_0000_ffff;
    nibbles = (nibbles | nibbles << 8) & 0x00ff_00ff_00ff_00ff_00ff_00ff_00ff_00ff;
    nibbles = (nibbles | nibbles << 4) & 0x0f0f_0f0f_0f0f_0f0f_0f0f_0f0f_0f0f_0f0f;
    // 1 in each byte whose nibble is at least 10: adding 6 carries into the upper half of the byte.
    let letters = (nibbles + 0x0606_0606_0606_0606_0606_0606_0606_0606) >> 4
        & 0x0101_0101_0101_0101_0101_0101_0101_0101;
    let gap = u128::from(b'a' - b'9' - 1);
    (nibbles + 0x3030_3030_3030_3030_3030_3030_3030_3030 + letters * gap).to_be_bytes()
}

/// The word with these 16 digits; `None` if a byte is not a digit.
fn word(digits: &[u8; 16]) -> Option<u64> {
    let (mut word, mut all) = (0, 0);
    for &digit in digits {
        let value = VALUES[usize::from(digit)];
        word = word << 4 | u64::from(value);
        all |= value;
    }
    (all & NO_DIGIT == 0).then_some(word)
}

fn why_not(digits: &str) -> HashError {
    let wrong = digits.chars().enumerate().find(|(_, found)| !found.is_ascii_hexdigit());
    match wrong {
        Some((before, found)) => HashError::Digit { position: before + 1, found },
        None => HashError::Length(digits.len()),
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.to_digits();
        f.write_str(std::str::from_utf8(&digits[..self.width.digits()]).unwrap_or_default())
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hash({self})")
    }
}

/// The number behind a hash, so that code for all widths is written once.
pub trait Word:
    Copy + Ord + Send + Sync + fmt::Debug + std::hash::Hash + std::ops::BitXor<Output = Self> + 'static
{
    /// The width of its hashes.
    const WIDTH: Width;

    /// The number of one bits.
    fn ones(self) -> u32;

    /// The word of a hash; `None` if the hash has another width.
    fn from_hash(hash: Hash) -> Option<Self>;

    /// The hash with this value.
    fn to_hash(self) -> Hash;
}

macro_rules! word {
    ($word:ty, $width:expr, $of_value:expr, $to_hash:expr) => {
        impl Word for $word {
            const WIDTH: Width = $width;

            #[inline]
            fn ones(self) -> u32 {
                self.count_ones()
            }

            fn from_hash(hash: Hash) -> Option<Self> {
                (hash.width == $width).then(|| $of_value(hash.value))
            }

            fn to_hash(self) -> Hash {
                $to_hash(self)
            }
        }
    };
}

word!(u64, Width::Bits64, U256::low, Hash::from_u64);
word!(u128, Width::Bits128, U256::low_128, Hash::from_u128);
word!(U256, Width::Bits256, std::convert::identity, Hash::from_u256);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_and_bytes_of_a_hash_read_back() {
        let texts = [
            "0000000000000000",
            "f776119227163845",
            "ffffffffffffffff0000000000000001",
            "f8f8f0cce0f4e84d0e370a22028f67f0b36e2ed596623e1d33e6b39c4e9c9b22",
        ];
        for text in texts {
            let hash: Hash = text.parse().unwrap();
            assert_eq!(hash.to_string(), text);
            assert_eq!(hash.width().digits(), text.len());
            let mut bytes = Vec::new();
            hash.write_bytes(&mut bytes);
            assert_eq!(Hash::from_bytes(&bytes), Some(hash));
        }
    }

    #[test]
    fn every_byte_has_the_value_of_its_digit() {
        for byte in 0..=u8::MAX {
            let digits = [[byte], [b'0']].concat().repeat(8);
            let value = char::from(byte).to_digit(16);
            let word = super::word(&digits.try_into().unwrap());
            assert_eq!(word, value.map(|value| u64::from(value) * 0x1010_1010_1010_1010), "{byte}");
            let hash = Hash::from_u64(u64::from(byte) * 0x0101_0101_0101_0101);
            assert_eq!(hash.to_string(), format!("{byte:02x}").repeat(8));
        }
    }

    #[test]
    fn a_string_that_is_not_a_hash_gives_the_reason() {
        let cases = [
            ("", HashError::Length(0)),
            ("0x", HashError::Length(0)),
            ("abc", HashError::Length(3)),
            ("000000000000000g", HashError::Digit { position: 16, found: 'g' }),
            ("０000000000000000", HashError::Digit { position: 1, found: '０' }),
            ("00000000000000000000000000000000ff", HashError::Length(34)),
        ];
        for (text, error) in cases {
            assert_eq!(text.parse::<Hash>(), Err(error), "{text:?}");
        }
    }

    #[test]
    fn widths_do_not_mix() {
        assert_eq!(Hash::from_u64(1).distance(Hash::from_u128(1)), None);
        assert_ne!(Hash::from_u64(1), Hash::from_u128(1));
        assert_eq!(Hash::from_u128(1).distance(Hash::from_u256(1.into())), None);
    }
}
