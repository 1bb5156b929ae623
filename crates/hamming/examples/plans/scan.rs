//! The linear scan, which is the definition of a correct answer.
//!
//! Costs: a lookup compares every hash; 8 or 16 bytes per hash; nothing has to be built. It uses the
//! instruction that counts bits, and no wider vectors: `own` has a scan with them.

use lookalike_hamming::scan;

use super::bits::Bits;
use super::{Built, Neighbour, Touched};

pub(super) struct Scan<W> {
    hashes: Vec<W>,
    k: u32,
}

impl<W: Bits> Scan<W> {
    pub(super) fn new(hashes: &[W], k: u32) -> Scan<W> {
        Scan { hashes: hashes.to_vec(), k }
    }
}

impl<W: Bits> Built<W> for Scan<W> {
    fn within(&self, query: W, found: &mut Vec<Neighbour<W>>) -> Touched {
        scan(&self.hashes, query, self.k, found);
        Touched { probes: 1, candidates: self.hashes.len() as u64 }
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.hashes)
    }
}
