//! Ascending hashes as gaps: what a chunk of a snapshot holds, and what it takes to read it.
//!
//! Hashes in order are told by the gaps between them. Of evenly spread hashes the gaps are geometric, and a
//! geometric number is told best by Golomb's code; Rice's is the one whose divisor is a power of two (R. F. Rice,
//! "Some Practical Universal Noiseless Coding Techniques", 1979). A gap is cut into its last `rice` bits, stored as they
//! are, and the rest, its quotient, stored in unary. That comes to 0.03 to 0.1 bits a hash above the information.
//!
//! *Bounded for every input*: where 2^rice is the mean gap of the chunk or the power of two below it, all
//! quotients together are at most twice as large as the gaps are many. So no chunk takes more than that `rice` + 3 bits a
//! hash, however its hashes lie, and the encoder takes another `rice` only where that is shorter.
//!
//! ```text
//! remainders   the gaps' last `rice` bits, one after the other
//! quotients    for each gap as many zeros as its quotient, then a one
//! ```
//! Both begin with a byte of their own; bits fill bytes from the least significant on.
//!
//! *Absent*: checksums and files (`format`).

use std::ops::{Add, BitOr, Shl, Shr, Sub};

use crate::ids::{Hash, Width};
use crate::index::Filed;

/// Hashes in a chunk, at most: as many as fit into the cache of a processor, few enough to follow the density
/// of hashes.
pub(super) const CHUNK: usize = 16_384;

/// Bytes of zeros after the packed bits in memory, so that they can be read some words at a time.
pub(super) const PAD: usize = 16;

/// A word that can be counted with.
pub(super) trait Number:
    Filed
    + Add<Output = Self>
    + Sub<Output = Self>
    + BitOr<Output = Self>
    + Shl<u32, Output = Self>
    + Shr<u32, Output = Self>
{
    /// The bits of a word.
    const BITS: u32;

    /// A small number.
    fn of(number: u64) -> Self;
    /// The last 64 bits.
    fn low(self) -> u64;
    /// The sum, if there is one.
    fn sum(self, other: Self) -> Option<Self>;
    /// How many zeros it begins with.
    fn zeros(self) -> u32;
}

macro_rules! number {
    ($word:ty) => {
        impl Number for $word {
            const BITS: u32 = <$word>::BITS;

            #[inline]
            fn of(number: u64) -> $word {
                number.into()
            }

            #[inline]
            fn low(self) -> u64 {
                self as u64
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

number!(u64);
number!(u128);

/// A chunk of ascending hashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Packed {
    /// How many: 1 to [`CHUNK`].
    pub(super) count: u32,
    /// How many last bits of a gap are stored as they are: fewer than a hash has.
    pub(super) rice: u8,
    pub(super) first: Hash,
    /// The gaps, then [`PAD`] zeros.
    pub(super) bits: Vec<u8>,
}

/// The most bytes that the gaps of so many hashes take.
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
        // What is counted is what lies between: hashes in a row have gaps of 0.
        let gaps: Vec<W> = hashes.windows(2).map(|pair| pair[1] - pair[0] - W::of(1)).collect();
        let rice = best(&gaps, last - first);
        let mut bits = Bits::default();
        for gap in &gaps {
            bits.put(gap.low(), rice.min(64));
            if rice > 64 {
                bits.put((*gap >> 64).low(), rice - 64);
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

    /// The gaps as they are stored.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bits[..self.bits.len() - PAD]
    }

    /// Puts the hashes, which ascend, in place of what is in `hashes`; `false` if these are no gaps of hashes of this
    /// width.
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
            let mut gap = W::of(self.word(place, rice.min(64)));
            if rice > 64 {
                gap = gap | W::of(self.word(place + 64, rice - 64)) << 64;
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

    /// Up to 64 bits from a place among the remainders.
    #[inline]
    fn word(&self, at: usize, bits: u32) -> u64 {
        let from = at / 8;
        let bytes: [u8; 16] = self.bits[from..from + 16].try_into().expect("16 bytes");
        let word = (u128::from_le_bytes(bytes) >> (at % 8)) as u64;
        if bits == 64 { word } else { word & ((1 << bits) - 1) }
    }

    /// The number of zeros from a place on, and the place after the one that ends them; `None` if none does before
    /// `end`.
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

/// The number of last bits with which these gaps take the least room, for hashes that lie so far apart in all.
fn best<W: Number>(gaps: &[W], apart: W) -> u32 {
    if gaps.is_empty() {
        return 0;
    }
    let log = |number: W| W::BITS - 1 - number.zeros();
    // 2^mean is more than half the mean distance and less than twice.
    let mean = log(apart).saturating_sub((gaps.len() as u64).ilog2());
    let room = |rice: u32| {
        let quotients: u128 = gaps.iter().map(|gap| u128::from((*gap >> rice).low())).sum();
        quotients + gaps.len() as u128 * u128::from(rice + 1)
    };
    let (mut rice, mut least) = (mean, room(mean));
    for step in [-1i32, 1] {
        while let Some(next) = rice.checked_add_signed(step).filter(|next| *next < W::BITS - 1) {
            let taken = room(next);
            if taken >= least {
                break;
            }
            (rice, least) = (next, taken);
        }
    }
    rice
}

/// Bits being written.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    /// The bits that do not fill a byte yet, and how many.
    last: u128,
    count: u32,
}

impl Bits {
    /// Appends the last bits of a word, at most 64.
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

    /// Goes on to the next byte.
    fn end_byte(&mut self) {
        let bytes = self.count.div_ceil(8) as usize;
        self.bytes.extend_from_slice(&self.last.to_le_bytes()[..bytes]);
        (self.last, self.count) = (0, 0);
    }
}
