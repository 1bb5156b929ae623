//! Ascending hashes as gaps: the content of a chunk of a snapshot, and the code that reads it.
//!
//! Ascending hashes are encoded as the gaps between them. Uniformly distributed hashes have gaps with a
//! geometric distribution. Golomb's code is optimal for that distribution; Rice's code is the special case
//! whose divisor is a power of two (R. F. Rice, "Some Practical Universal Noiseless Coding Techniques",
//! 1979). The last `rice` bits of a gap are stored as they are, and the rest, its quotient, is stored in
//! unary. This takes 0.03 to 0.1 bits for each hash above the information.
//!
//! *Bounded for every input*: if 2^rice is more than half of the mean gap of a chunk, the sum of all
//! quotients is less than twice the number of gaps. So with that `rice` a chunk takes at most `rice` + 3
//! bits for each hash, for any distribution. The encoder uses another `rice` only where it is shorter.
//!
//! ```text
//! remainders   the last `rice` bits of each gap
//! quotients    for each gap as many zeros as its quotient, then a one
//! ```
//! Each of the two parts begins at a byte boundary. Bits fill a byte from the least significant one on.
//!
//! *Absent*: checksums and files (`format`).

use std::ops::{Add, BitOr, Shl, Shr, Sub};

use crate::Filed;
use lookalike_hash::{Hash, U256, Width};

/// The most hashes in a chunk: few enough to fit the cache of a processor, and to adapt `rice` to the local
/// density of the hashes.
pub(super) const CHUNK: usize = 16_384;

/// Bytes of zeros after the packed bits in memory, so that a read of a whole word never passes the end.
pub(super) const PAD: usize = 16;

/// An unsigned word with arithmetic.
pub(super) trait Number:
    Filed
    + Add<Output = Self>
    + Sub<Output = Self>
    + BitOr<Output = Self>
    + Shl<u32, Output = Self>
    + Shr<u32, Output = Self>
{
    /// The number of bits of a word.
    const BITS: u32;

    /// The number as a word.
    fn of(number: u64) -> Self;
    /// The last 64 bits.
    fn low(self) -> u64;
    /// The sum; `None` if it overflows.
    fn sum(self, other: Self) -> Option<Self>;
    /// The number of leading zeros.
    fn zeros(self) -> u32;
}

macro_rules! number {
    ($word:ty, $low:expr) => {
        impl Number for $word {
            const BITS: u32 = <$word>::BITS;

            #[inline]
            fn of(number: u64) -> $word {
                number.into()
            }

            #[inline]
            fn low(self) -> u64 {
                $low(self)
            }

            #[inline]
            fn sum(self, other: $word) -> Option<$word> {
                self.checked_add(other)
            }

            #[inline]
            fn zeros(self) -> u32 {
                self.leading_zeros()
            }
        }
    };
}

number!(u64, std::convert::identity);
number!(u128, |number| number as u64);
number!(U256, U256::low);

/// A packed chunk of ascending hashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Packed {
    /// The number of hashes: 1 to [`CHUNK`].
    pub(super) count: u32,
    /// The number of last bits of a gap that are stored as they are; less than the width of a hash.
    pub(super) rice: u8,
    pub(super) first: Hash,
    /// The packed gaps, then [`PAD`] zeros.
    pub(super) bits: Vec<u8>,
}

/// The most bytes that the gaps of `count` hashes take.
pub(super) fn most_bytes(count: u32, width: Width) -> usize {
    (count as usize * (width.bits() as usize + 3)).div_ceil(8) + 2
}

impl Packed {
    /// Packs ascending hashes, at least one and at most [`CHUNK`]; `None` if they do not ascend.
    pub(super) fn of<W: Number>(hashes: &[W]) -> Option<Packed> {
        let (&first, &last) = (hashes.first()?, hashes.last()?);
        if !hashes.is_sorted_by(|one, next| one < next) {
            return None;
        }
        // Gaps count the numbers between two hashes: consecutive hashes have a gap of 0.
        let gaps: Vec<W> = hashes.windows(2).map(|pair| pair[1] - pair[0] - W::of(1)).collect();
        let rice = best(&gaps, last - first);
        let mut bits = Bits::default();
        for gap in &gaps {
            for from in (0..rice).step_by(64) {
                bits.put((*gap >> from).low(), (rice - from).min(64));
            }
        }
        bits.end_byte();
        for gap in &gaps {
            bits.put_unary((*gap >> rice).low());
        }
        bits.end_byte();
        let mut bits = bits.bytes;
        bits.resize(bits.len() + PAD, 0);
        bits.shrink_to_fit();
        Some(Packed { count: hashes.len() as u32, rice: rice as u8, first: first.to_hash(), bits })
    }

    /// The packed gaps as they are stored.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bits[..self.bits.len() - PAD]
    }

    /// Replaces the content of `hashes` with the hashes, which ascend. Returns `false` if the bits are not
    /// valid gaps of hashes of this width.
    #[must_use]
    pub(super) fn unpack<W: Number>(&self, hashes: &mut Vec<W>) -> bool {
        hashes.clear();
        let Some(mut hash) = W::from_hash(self.first) else {
            return false;
        };
        hashes.push(hash);
        let (gaps, rice) = (self.count as usize - 1, u32::from(self.rice));
        let remainders = gaps * rice as usize;
        let (mut at, end) = (remainders.div_ceil(8) * 8, self.bytes().len() * 8);
        if rice >= W::BITS || at > end {
            return false;
        }
        for number in 0..gaps {
            let Some((quotient, next)) = self.unary(at, end) else {
                return false;
            };
            at = next;
            let place = number * rice as usize;
            let mut gap = W::of(0);
            for from in (0..rice).step_by(64) {
                gap = gap | W::of(self.word(place + from as usize, (rice - from).min(64))) << from;
            }
            let quotient = W::of(quotient);
            if quotient.zeros() < rice {
                return false;
            }
            gap = gap | quotient << rice;
            match hash.sum(gap).and_then(|before| before.sum(W::of(1))) {
                Some(next) => hash = next,
                None => return false,
            }
            hashes.push(hash);
        }
        at.div_ceil(8) * 8 == end
    }

    /// Up to 64 bits at a bit offset among the remainders.
    #[inline]
    fn word(&self, at: usize, bits: u32) -> u64 {
        let from = at / 8;
        let bytes: [u8; 16] = self.bits[from..from + 16].try_into().expect("16 bytes");
        let word = (u128::from_le_bytes(bytes) >> (at % 8)) as u64;
        if bits == 64 { word } else { word & ((1 << bits) - 1) }
    }

    /// The number of zeros at a bit offset, and the offset after the one that ends them; `None` if there is
    /// no one before `end`.
    #[inline]
    fn unary(&self, mut at: usize, end: usize) -> Option<(u64, usize)> {
        let start = at;
        while at < end {
            let from = at / 8;
            let bytes: [u8; 8] = self.bits[from..from + 8].try_into().expect("8 bytes");
            let word = u64::from_le_bytes(bytes) >> (at % 8);
            if word != 0 {
                let one = at + word.trailing_zeros() as usize;
                return (one < end).then_some(((one - start) as u64, one + 1));
            }
            at = (from + 8) * 8;
        }
        None
    }
}

/// The `rice` with which these gaps take the fewest bits. `apart` is the last hash minus the first.
fn best<W: Number>(gaps: &[W], apart: W) -> u32 {
    if gaps.is_empty() {
        return 0;
    }
    let log = |number: W| W::BITS - 1 - number.zeros();
    // 2^mean is more than half of the mean distance and less than twice the mean distance.
    let mean = log(apart).saturating_sub((gaps.len() as u64).ilog2());
    let size = |rice: u32| {
        let quotients: u128 = gaps.iter().map(|gap| u128::from((*gap >> rice).low())).sum();
        quotients + gaps.len() as u128 * u128::from(rice + 1)
    };
    let (mut rice, mut least) = (mean, size(mean));
    for step in [-1i32, 1] {
        while let Some(next) = rice.checked_add_signed(step).filter(|next| *next < W::BITS - 1) {
            let bits = size(next);
            if bits >= least {
                break;
            }
            (rice, least) = (next, bits);
        }
    }
    rice
}

/// A buffer that bits are written to.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    /// The bits that do not fill a word yet, and their number.
    last: u128,
    count: u32,
}

impl Bits {
    /// Appends the last `bits` bits of a word, at most 64.
    #[inline]
    fn put(&mut self, word: u64, bits: u32) {
        let word = if bits == 64 { word } else { word & ((1 << bits) - 1) };
        self.last |= u128::from(word) << self.count;
        self.count += bits;
        if self.count >= 64 {
            self.bytes.extend_from_slice(&(self.last as u64).to_le_bytes());
            self.last >>= 64;
            self.count -= 64;
        }
    }

    fn put_unary(&mut self, number: u64) {
        let mut zeros = number;
        while zeros >= 63 {
            self.put(0, 63);
            zeros -= 63;
        }
        self.put(1 << zeros, zeros as u32 + 1);
    }

    /// Fills the current byte with zeros.
    fn end_byte(&mut self) {
        let bytes = self.count.div_ceil(8) as usize;
        self.bytes.extend_from_slice(&self.last.to_le_bytes()[..bytes]);
        (self.last, self.count) = (0, 0);
    }
}
