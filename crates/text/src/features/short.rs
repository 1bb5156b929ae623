//! `XXH3` of short texts, inlined into the loops that hash them. Words, pairs and grams are rarely longer
//! than sixteen bytes, and a call for each takes longer than the hash.
//!
//! The results equal those of `xxhash-rust`, as the tests check. Written after the specification (xxHash
//! 0.8, "XXH3 Algorithm Overview", sections on inputs of up to 16 bytes). Not here: longer texts, which go
//! to `xxhash-rust`.

use xxhash_rust::xxh3::{xxh3_64_with_seed, xxh3_128_with_seed};

const PRIME32_2: u64 = 0x85eb_ca77;
const PRIME64_1: u64 = 0x9e37_79b1_85eb_ca87;
const PRIME64_2: u64 = 0xc2b2_ae3d_27d4_eb4f;
const PRIME64_3: u64 = 0x1656_67b1_9e37_79f9;
const PRIME_MX1: u64 = 0x1656_6791_9e37_79f9;
const PRIME_MX2: u64 = 0x9fb2_1c65_1e98_df25;

/// The first eight 64-bit words of the default secret, little-endian; others are not needed.
const SECRET: [u64; 8] = [
    0xbe4b_a423_396c_feb8,
    0x1cad_21f7_2c81_017c,
    0xdb97_9083_e96d_d4de,
    0x1f67_b3b7_a4a4_4072,
    0x78e5_c0cc_4ee6_79cb,
    0x2172_ffcc_7dd0_5a82,
    0x8e24_43f7_7446_08b8,
    0x4c26_3a81_e690_35e0,
];

/// The 64-bit `XXH3` with a seed.
#[expect(clippy::inline_always, reason = "inlining is the purpose of this function")]
#[inline(always)]
pub(super) fn xxh3_64(bytes: &[u8], seed: u64) -> u64 {
    match bytes.len() {
        4..=8 => {
            let (first, last) = ends_4(bytes);
            let mut hash = (last + (first << 32)) ^ (SECRET[1] ^ SECRET[2]).wrapping_sub(spread(seed));
            hash ^= hash.rotate_left(49) ^ hash.rotate_left(24);
            hash = hash.wrapping_mul(PRIME_MX2);
            hash ^= (hash >> 35) + bytes.len() as u64;
            hash = hash.wrapping_mul(PRIME_MX2);
            hash ^ (hash >> 28)
        }
        9..=16 => {
            let (first, last) = ends_8(bytes);
            let low = first ^ (SECRET[3] ^ SECRET[4]).wrapping_add(seed);
            let high = last ^ (SECRET[5] ^ SECRET[6]).wrapping_sub(seed);
            let product = u128::from(low) * u128::from(high);
            let folded = product as u64 ^ (product >> 64) as u64;
            let sum = (bytes.len() as u64).wrapping_add(low.swap_bytes()).wrapping_add(high);
            avalanche(sum.wrapping_add(folded))
        }
        1..=3 => {
            let word = all_of_3(bytes);
            avalanche_64(word ^ ((SECRET[0] & 0xffff_ffff) ^ (SECRET[0] >> 32)).wrapping_add(seed))
        }
        _ => xxh3_64_with_seed(bytes, seed),
    }
}

/// The 128-bit `XXH3` with a seed: the upper and the lower half.
#[expect(clippy::inline_always, reason = "inlining is the purpose of this function")]
#[inline(always)]
pub(super) fn xxh3_128(bytes: &[u8], seed: u64) -> [u64; 2] {
    match bytes.len() {
        4..=8 => {
            let (first, last) = ends_4(bytes);
            let keyed = (first + (last << 32)) ^ (SECRET[2] ^ SECRET[3]).wrapping_add(spread(seed));
            let product = u128::from(keyed) * u128::from(PRIME64_1 + ((bytes.len() as u64) << 2));
            let (mut low, mut high) = (product as u64, (product >> 64) as u64);
            high = high.wrapping_add(low << 1);
            low ^= high >> 3;
            low = (low ^ (low >> 35)).wrapping_mul(PRIME_MX2);
            [avalanche(high), low ^ (low >> 28)]
        }
        9..=16 => {
            let (first, last) = ends_8(bytes);
            let flip_low = (SECRET[4] ^ SECRET[5]).wrapping_sub(seed);
            let flip_high = (SECRET[6] ^ SECRET[7]).wrapping_add(seed);
            let product = u128::from(first ^ last ^ flip_low) * u128::from(PRIME64_1);
            let low = (product as u64).wrapping_add((bytes.len() as u64 - 1) << 54);
            let last = last ^ flip_high;
            let high = ((product >> 64) as u64)
                .wrapping_add(last.wrapping_add((last & 0xffff_ffff) * (PRIME32_2 - 1)));
            let product = u128::from(low ^ high.swap_bytes()) * u128::from(PRIME64_2);
            let upper = ((product >> 64) as u64).wrapping_add(high.wrapping_mul(PRIME64_2));
            [avalanche(upper), avalanche(product as u64)]
        }
        1..=3 => {
            let low = all_of_3(bytes);
            let high = u64::from((low as u32).swap_bytes().rotate_left(13));
            let flip = |word: u64| (word & 0xffff_ffff) ^ (word >> 32);
            [
                avalanche_64(high ^ flip(SECRET[1]).wrapping_sub(seed)),
                avalanche_64(low ^ flip(SECRET[0]).wrapping_add(seed)),
            ]
        }
        _ => {
            let hash = xxh3_128_with_seed(bytes, seed);
            [(hash >> 64) as u64, hash as u64]
        }
    }
}

/// The first and the last four bytes of at least four.
#[inline]
fn ends_4(bytes: &[u8]) -> (u64, u64) {
    let number = |bytes: Option<&[u8; 4]>| bytes.map_or(0, |bytes| u64::from(u32::from_le_bytes(*bytes)));
    (number(bytes.first_chunk()), number(bytes.last_chunk()))
}

/// The first and the last eight bytes of at least eight.
#[inline]
fn ends_8(bytes: &[u8]) -> (u64, u64) {
    let number = |bytes: Option<&[u8; 8]>| bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes));
    (number(bytes.first_chunk()), number(bytes.last_chunk()))
}

/// One to three bytes and their number in one word.
#[inline]
fn all_of_3(bytes: &[u8]) -> u64 {
    let length = bytes.len();
    let [first, middle, last] = [bytes[0], bytes[length / 2], bytes[length - 1]].map(u64::from);
    first << 16 | middle << 24 | last | (length as u64) << 8
}

#[inline]
fn spread(seed: u64) -> u64 {
    seed ^ u64::from((seed as u32).swap_bytes()) << 32
}

#[inline]
fn avalanche(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 37)).wrapping_mul(PRIME_MX1);
    hash ^ (hash >> 32)
}

/// The avalanche of the older `XXH64`.
#[inline]
fn avalanche_64(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 33)).wrapping_mul(PRIME64_2);
    hash = (hash ^ (hash >> 29)).wrapping_mul(PRIME64_3);
    hash ^ (hash >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]
        #[test]
        fn every_hash_equals_that_of_the_crate(
            bytes in vec(any::<u8>(), 0..40),
            seed in prop_oneof![0u64..9, any::<u64>()],
        ) {
            prop_assert_eq!(xxh3_64(&bytes, seed), xxh3_64_with_seed(&bytes, seed));
            let [upper, lower] = xxh3_128(&bytes, seed);
            prop_assert_eq!(u128::from(upper) << 64 | u128::from(lower), xxh3_128_with_seed(&bytes, seed));
        }
    }
}
