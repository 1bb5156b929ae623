//! All near pairs of a list of distinct hashes or signatures: a join of the list with itself.
//!
//! A lookup for each hash would find every pair from both sides, and wait for memory most of the time. The
//! join sorts the list by one block or band after the other and compares neighbouring runs, so it reads
//! memory in order and compares each pair once (`hashes`, `signatures`).
//!
//! A pass may take long, so it is done in steps of some milliseconds. Between two steps the caller may lower
//! k, let other work run, or give up.
//!
//! *Absent*: documents, the order of pairs, threads.

mod hashes;
mod parts;
mod signatures;

use lookalike_hash::{Hash, SignatureShape, U256, Width};

/// Two places of the list that are near each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NearPair {
    /// The smaller place.
    pub first: u32,
    /// The larger place.
    pub second: u32,
    /// The distance, as lookups give it.
    pub distance: u32,
}

/// Something that finds the near pairs of a list. A hash has the place at which it was pushed, from 0.
pub trait NearPairs: Send {
    /// Adds a hash or the name of a signature to the list, which must be empty or end with a smaller one.
    ///
    /// # Panics
    /// If the width of the hash or the length of the signature differs from that of the list.
    fn push(&mut self, hash: Hash, signature: &[u8]);

    /// Begins a pass that finds pairs within `k`.
    fn begin(&mut self, k: u32);

    /// Does a part of the pass, and adds the pairs that it finds within `k` to `found`, in no particular
    /// order. `k` must not be larger than that of [`NearPairs::begin`]. Returns whether the pass goes on.
    ///
    /// The pass finds every pair once that one lookup within k for each hash finds. Of sets without a common
    /// element that counts it finds none, whose distance is the largest.
    fn step(&mut self, k: u32, found: &mut Vec<NearPair>) -> bool;

    /// The approximate bytes of the list and a pass.
    fn bytes(&self) -> usize;
}

/// An empty list of hashes of this width, or of signatures of this shape.
pub fn near_pairs(width: Width, signatures: Option<SignatureShape>) -> Box<dyn NearPairs> {
    match (signatures, width) {
        (Some(shape), _) => Box::new(signatures::SignaturePairs::new(shape)),
        (None, Width::Bits64) => Box::new(hashes::HashPairs::<u64>::new()),
        (None, Width::Bits128) => Box::new(hashes::HashPairs::<u128>::new()),
        (None, Width::Bits256) => Box::new(hashes::HashPairs::<U256>::new()),
    }
}

#[cfg(test)]
mod tests;
