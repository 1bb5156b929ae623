//! The index of this project (`lookalike_hamming`), as one plan among the others.
//!
//! Costs: see `docs/performance.md`. In contrast to the other plans it takes every k from the same tables,
//! and inserts and removals while others read.
//!
//! Its scan reads every bin of one table with the widest vector instructions of the machine.

use lookalike_hamming::Index;

use super::bits::Bits;
use super::{Built, Neighbour, Touched};

pub(super) struct Own<W: Bits> {
    index: Index<W>,
    k: u32,
    scans: bool,
}

impl<W: Bits> Own<W> {
    pub(super) fn new(hashes: &[W], k: u32, scans: bool) -> Own<W> {
        let index = Index::new();
        index.insert_all(hashes.iter().copied());
        Own { index, k, scans }
    }
}

impl<W: Bits> Built<W> for Own<W> {
    fn within(&self, query: W, found: &mut Vec<Neighbour<W>>) -> Touched {
        let report = if self.scans {
            self.index.scan(query, self.k, found)
        } else {
            self.index.within(query, self.k, found)
        };
        report.touched
    }

    fn bytes(&self) -> usize {
        self.index.bytes()
    }
}
