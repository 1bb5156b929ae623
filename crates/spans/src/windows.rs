//! Windows of a fixed number of tokens, and the gram by which each is found again: of the grams of half the
//! length in a window, the one with the smallest hash, and of several with it the first (winnowing:
//! Schleimer, Wilkerson and Aiken, "Winnowing: local algorithms for document fingerprinting", SIGMOD 2003).
//!
//! The choice depends on the window alone, so equal windows choose equal grams at equal places in them. A
//! text with random words has a chosen gram for each 13.5 tokens if windows have 50.

use std::collections::VecDeque;

/// The base of a rolling hash (Karp and Rabin, "Efficient randomized pattern-matching algorithms", 1987),
/// modulo 2^64.
const BASE: u64 = 0x9e37_79b9_7f4a_7c15;

/// The hashes of all grams of `length` tokens, by their first tokens. Equal grams have equal hashes.
pub(crate) fn grams(digests: &[u64], length: usize) -> impl Iterator<Item = u64> {
    let power = (0..length).fold(1_u64, |power, _| power.wrapping_mul(BASE));
    let mut hash = 0_u64;
    let mut add = move |at: usize, digest: u64| {
        hash = hash.wrapping_mul(BASE).wrapping_add(digest);
        if let Some(before) = at.checked_sub(length) {
            hash = hash.wrapping_sub(digests[before].wrapping_mul(power));
        }
        mixed(hash)
    };
    let all = digests.iter().enumerate().map(move |(at, digest)| add(at, *digest));
    all.skip(length - 1)
}

/// Spreads the bits of a rolling hash, by the steps of the 64-bit finalizer of `MurmurHash3`.
fn mixed(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

/// The hash and the first token of the gram that each window of `length` tokens chooses, by the first tokens
/// of the windows.
pub(crate) fn chosen(digests: &[u64], length: usize) -> impl Iterator<Item = (u64, u32)> {
    let gram = length / 2;
    // The grams of a window.
    let count = length - gram + 1;
    let mut least: VecDeque<(u64, u32)> = VecDeque::new();
    let all = grams(digests, gram).enumerate().map(move |(at, hash)| {
        while least.back().is_some_and(|(other, _)| *other > hash) {
            least.pop_back();
        }
        least.push_back((hash, at as u32));
        if least.front().is_some_and(|(_, first)| *first as usize + count <= at) {
            least.pop_front();
        }
        least[0]
    });
    all.skip(count - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_window_chooses_its_first_least_gram() {
        let mut random = fastrand::Rng::with_seed(21);
        for length in [2, 3, 20, 21, 50] {
            for count in [0, 1, length - 1, length, length + 1, 300] {
                // Few different tokens, so that grams are repeated.
                let digests: Vec<u64> = (0..count).map(|_| random.u64(..3).pow(40)).collect();
                let hashes: Vec<u64> = grams(&digests, length / 2).collect();
                let grams: Vec<&[u64]> = digests.windows(length / 2).collect();
                assert_eq!(hashes.len(), grams.len());
                for (a, b) in (0..grams.len()).flat_map(|a| (0..a).map(move |b| (a, b))).take(9_000) {
                    assert_eq!(grams[a] == grams[b], hashes[a] == hashes[b]);
                }
                let inside = length - length / 2 + 1;
                let naive = hashes.windows(inside).zip(0_u32..).map(|(of_window, first)| {
                    let least = *of_window.iter().min().unwrap();
                    let at = of_window.iter().position(|hash| *hash == least).unwrap();
                    (least, first + at as u32)
                });
                assert!(chosen(&digests, length).eq(naive), "{length} {count}");
            }
        }
    }
}
