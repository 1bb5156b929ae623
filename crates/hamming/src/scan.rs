//! The linear scan: the definition of a correct answer.
//!
//! It is the oracle of the tests of the index, so it must stay this simple.

use lookalike_hash::Word;

/// A stored hash and its Hamming distance from the query, in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Neighbour<W> {
    /// The distance, 0 to the width. It is the first field so that neighbours sort by distance, then hash.
    pub distance: u32,
    /// The hash.
    pub hash: W,
}

/// Appends every hash of `hashes` within `k` bits of `query` to `found`, in the order of `hashes`.
pub fn scan<W: Word>(hashes: &[W], query: W, k: u32, found: &mut Vec<Neighbour<W>>) {
    for &hash in hashes {
        let distance = (hash ^ query).ones();
        if distance <= k {
            found.push(Neighbour { distance, hash });
        }
    }
}
