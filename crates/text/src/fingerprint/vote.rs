//! The vote of `SimHash`: every feature votes with its weight, for each bit that is one in its digest and
//! against each bit that is zero.
//!
//! After Charikar, "Similarity estimation techniques from rounding algorithms" (STOC 2002), and Manku, Jain
//! and Das Sarma, "Detecting near-duplicates for web crawling" (WWW 2007). A bit of the fingerprint is one
//! if its sum is above zero, and zero if the sum is below zero. The papers do not define the bit for a sum
//! of exactly zero. By default it is the bit of the smallest digest, because a constant zero would make all
//! short texts similar. Other programs choose otherwise ([`Tie`]).
//!
//! Guarantees: sums are exact integers, so neither the order of the features nor the machine matters, except
//! where another program is reproduced that adds in floating point ([`round_like_others`]). Not here: the
//! features and their weights (`features`).

use crate::features::{Bag, Class, Digest, Limbs};

/// The sums of a vote in fixed point. Limbs are in the order of [`Limbs`]; index `j` of a limb is its bit
/// `j`.
pub(super) type Sums<const L: usize> = [[i64; 64]; L];

/// The sums of the votes of a bag. The sum of all weights must be less than 2⁶².
pub(super) fn vote<const L: usize>(bag: &Bag<Limbs<L>>) -> Sums<L>
where
    Limbs<L>: Digest,
{
    let mut sums = [[0; 64]; L];
    let mut total = 0;
    for class in bag.classes() {
        let weight = class.weight.cast_signed();
        total += weight * class.digests.len().cast_signed() as i64;
        for (limb, sums) in sums.iter_mut().enumerate() {
            let ones = count_ones(class, limb);
            sums.iter_mut().zip(ones).for_each(|(sum, ones)| *sum += weight * i64::from(ones));
        }
    }
    // So far the sums count only votes for a bit; the other votes are against it.
    sums.iter_mut().flatten().for_each(|sum| *sum = 2 * *sum - total);
    sums
}

/// Gives each sum the sign that it has if the weights are added in this order in floating point, as other
/// programs add them. Rounding then decides bits whose exact sum is zero, which are common if many features
/// have one weight. A sum whose sign changes becomes one unit of fixed point.
pub(super) fn round_like_others<const L: usize>(sums: &mut Sums<L>, features: &[(Limbs<L>, f64)]) {
    for (limb, sums) in sums.iter_mut().enumerate() {
        for (j, sum) in sums.iter_mut().enumerate() {
            let vote = |(digest, weight): &(Limbs<L>, f64)| {
                if digest[limb] >> j & 1 == 1 { *weight } else { -weight }
            };
            let rounded = features.iter().map(vote).fold(0.0, |sum, vote| sum + vote);
            let sign = i64::from(rounded > 0.0) - i64::from(rounded < 0.0);
            if sum.signum() != sign {
                *sum = sign;
            }
        }
    }
}

/// The rule for a bit whose sum is exactly zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Tie {
    /// It is the bit of the smallest digest.
    #[default]
    Smallest,
    /// It is zero.
    Zero,
    /// It is one.
    One,
}

impl Tie {
    /// All rules, with their names in profile definitions.
    pub(crate) const NAMES: [(&'static str, Tie); 3] =
        [("smallest", Tie::Smallest), ("zero", Tie::Zero), ("one", Tie::One)];
}

/// The bits that result from the sums. `smallest` computes the smallest digest; it is called only for a tie.
pub(super) fn decide<const L: usize>(
    sums: &Sums<L>,
    smallest: impl FnOnce() -> Limbs<L>,
    tie: Tie,
) -> Limbs<L> {
    let even = match tie {
        _ if !sums.as_flattened().contains(&0) => [0; L],
        Tie::Smallest => smallest(),
        Tie::Zero => [0; L],
        Tie::One => [u64::MAX; L],
    };
    std::array::from_fn(|limb| {
        (0..64).fold(0, |bits, j| {
            let bit = match sums[limb][j] {
                0 => even[limb] >> j & 1,
                sum => u64::from(sum > 0),
            };
            bits | bit << j
        })
    })
}

/// For each bit of one limb: the number of digests of a class in which it is one.
///
/// The counts are 64 bit-sliced binary numbers, one word per binary place. Carry-save adders add sixteen
/// limbs at a time (Harley and Seal; Warren, "Hacker's Delight", second edition, section 5-1), and their
/// carries are added to the higher places in the same way. Only the carry out of the seventh place is added
/// to the counters, so a limb takes about five operations and not 64. The last block is padded with zeros.
fn count_ones<const L: usize>(class: &Class<Limbs<L>>, limb: usize) -> [u32; 64] {
    let mut counts = [0; 64];
    let mut places = [0; 4];
    // The places of value 16, 32 and 64, and for each a carry that waits for a second one, since an adder
    // takes two.
    let mut upper = [0; 3];
    let mut waiting = [0; 3];
    let mut blocks = 0_u32;
    for chunk in class.digests.chunks(16) {
        let mut block = [0; 16];
        block.iter_mut().zip(chunk).for_each(|(place, digest)| *place = digest[limb]);
        let mut carry = add_sixteen(&mut places, &block);
        blocks += 1;
        let twos = (blocks.trailing_zeros() as usize).min(3);
        for place in 0..twos {
            carry = add(&mut upper[place], waiting[place], carry);
        }
        match waiting.get_mut(twos) {
            Some(place) => *place = carry,
            None => spread(carry, 128, &mut counts),
        }
    }
    for (place, word) in places.into_iter().enumerate() {
        spread(word, 1 << place, &mut counts);
    }
    for place in 0..3 {
        // A carry is waiting if their number is odd.
        let is_waiting = blocks >> place & 1 == 1;
        spread(upper[place], 16 << place, &mut counts);
        spread(if is_waiting { waiting[place] } else { 0 }, 16 << place, &mut counts);
    }
    counts
}

/// Adds sixteen limbs to the bit-sliced numbers and returns their carries, each of value 16.
#[inline]
fn add_sixteen(places: &mut [u64; 4], block: &[u64; 16]) -> u64 {
    let [ones, twos, fours, eights] = places;
    let two = |ones: &mut u64, at: usize| add(ones, block[at], block[at + 1]);
    let mut four = |ones: &mut u64, at| {
        let (a, b) = (two(ones, at), two(ones, at + 2));
        add(twos, a, b)
    };
    let mut eight = |ones: &mut u64, at| {
        let (a, b) = (four(ones, at), four(ones, at + 4));
        add(fours, a, b)
    };
    let (a, b) = (eight(ones, 0), eight(ones, 8));
    add(eights, a, b)
}

/// A carry-save adder: adds two words to a place and returns the carry into the next place.
#[inline]
fn add(place: &mut u64, a: u64, b: u64) -> u64 {
    let half = *place ^ a;
    let carry = (*place & a) | (half & b);
    *place = half ^ b;
    carry
}

/// Adds `value` to the counter of each bit that is one.
#[inline]
fn spread(word: u64, value: u32, counts: &mut [u32; 64]) {
    if word == 0 {
        return;
    }
    for (counts, byte) in counts.chunks_exact_mut(8).zip(word.to_le_bytes()) {
        for (count, mask) in counts.iter_mut().zip(&MASKS[usize::from(byte)]) {
            *count += value & mask;
        }
    }
}

/// For each byte eight masks, the least significant bit first: all ones where its bit is one, otherwise zero.
static MASKS: [[u32; 8]; 256] = {
    let mut masks = [[0; 8]; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut bit = 0;
        while bit < 8 {
            masks[byte][bit] = if byte >> bit & 1 == 1 { u32::MAX } else { 0 };
            bit += 1;
        }
        byte += 1;
    }
    masks
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn bag<const L: usize>(features: &[(Limbs<L>, u64)]) -> Bag<Limbs<L>>
    where
        Limbs<L>: Digest,
    {
        let mut bag = Bag::default();
        features.iter().for_each(|&(digest, weight)| bag.add(digest, weight));
        bag
    }

    /// The definition, bit by bit.
    fn reference<const L: usize>(features: &[(Limbs<L>, u64)]) -> Sums<L> {
        let mut sums = [[0; 64]; L];
        for (digest, weight) in features {
            for (limb, sums) in digest.iter().zip(&mut sums) {
                for (j, sum) in sums.iter_mut().enumerate() {
                    let sign = if limb >> j & 1 == 1 { 1 } else { -1 };
                    *sum += sign * weight.cast_signed();
                }
            }
        }
        sums
    }

    #[test]
    fn the_classic_example_has_its_result() {
        let words = [(0b10_0101, 5), (0b10_1011, 2), (0b10_0111, 3), (0b10_1111, 1), (0b11_1011, 4)]
            .map(|(d, w)| ([d], w));
        let sums = vote::<1>(&bag(&words));
        let mut first: Vec<i64> = sums[0][..6].to_vec();
        first.reverse();
        assert_eq!(first, [15, -7, -1, 3, 5, 15]);
        assert_eq!(decide(&sums, || [0], Tie::Smallest)[0], 0b10_0111);
    }

    #[test]
    fn a_tie_follows_its_rule() {
        let bag = bag(&[([1, 0b1100], 7), ([2, 0b1010], 7)]);
        let sums = vote(&bag);
        let cases =
            [(Tie::Smallest, [1, 0b1100]), (Tie::Zero, [0, 0b1000]), (Tie::One, [u64::MAX >> 62, 0b1110])];
        for (tie, bits) in cases {
            assert_eq!(decide(&sums, || bag.smallest().unwrap(), tie), bits, "{tie:?}");
        }
    }

    /// Three times 11.7392… rounds up, so three votes for a bit and three votes against it leave a rest
    /// that depends on their order.
    #[test]
    fn rounding_decides_as_in_other_programs() {
        let weight = 11.739_204_307_083_542;
        let features = |digests: &[u64]| digests.iter().map(|&digest| ([digest], weight)).collect::<Vec<_>>();
        let signs = |digests: &[u64]| {
            let mut sums = [[0; 64]];
            round_like_others(&mut sums, &features(digests));
            sums[0][0]
        };
        let sum = |votes: &[f64]| votes.iter().fold(0.0, |sum, vote| sum + vote * weight);
        assert_eq!(signs(&[1, 0, 1, 0]), 0);
        for digests in [[1, 1, 1, 1, 1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 1, 1, 1, 1]] {
            let votes = digests.map(|digest| if digest == 1 { 1.0 } else { -1.0 });
            let sum = sum(&votes);
            assert_eq!(signs(&digests), i64::from(sum > 0.0) - i64::from(sum < 0.0));
        }
    }

    #[test]
    fn an_empty_bag_gives_zero_bits() {
        assert_eq!(decide(&vote::<2>(&Bag::default()), || [0, 0], Tie::Smallest), [0, 0]);
    }

    proptest! {
        #[test]
        fn the_vote_equals_its_definition_in_every_order(
            mut features in vec(([any::<u64>(), any::<u64>()], 1u64..4), 0..900),
            seed in any::<u64>(),
        ) {
            let sums = vote(&bag(&features));
            prop_assert_eq!(sums, reference(&features));
            features.sort_by_key(|(digest, _)| digest[0] ^ seed);
            prop_assert_eq!(vote(&bag(&features)), sums);
            let halves: Vec<_> = features.iter().map(|&([_, low], weight)| ([low], weight)).collect();
            prop_assert_eq!(vote(&bag(&halves))[0], sums[1]);
        }
    }
}
