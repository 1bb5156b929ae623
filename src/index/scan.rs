//! The linear scan: the definition of a right answer, and the faster way where a plan would probe too much.
//!
//! It is the oracle that the index is held against, so it stays this short on purpose.

use crate::ids::Word;

/// A stored hash and its Hamming distance from the query, in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Neighbour<W> {
    /// The distance, 0 to the width. First, so that neighbours order by distance, then hash.
    pub distance: u32,
    /// The hash.
    pub hash: W,
}

/// Every hash of `hashes` within `k` bits of `query`, appended to `found` in the order of `hashes`.
pub fn scan<W: Word>(hashes: &[W], query: W, k: u32, found: &mut Vec<Neighbour<W>>) {
    for &hash in hashes {
        let distance = (hash ^ query).ones();
        if distance <= k {
            found.push(Neighbour { distance, hash });
        }
    }
}
