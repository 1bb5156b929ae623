//! The tables of an index: one for each block of a hash, each of which holds every hash.

use super::bins::Bins;
use super::block::Filed;
use super::memory::Pin;

/// One table for each block.
pub(super) struct Tables<W>(pub(super) Box<[Bins<W>]>);

/// How many hashes ahead of the inserted one its bins are prefetched, and their entries.
const AHEAD: [usize; 2] = [16, 8];

impl<W: Filed> Tables<W> {
    /// Empty tables. A value of a block has at most `limit` hashes before another bit is distinguished, on
    /// average.
    pub(super) fn new(limit: usize) -> Tables<W> {
        Tables(W::BLOCKS.iter().map(|block| Bins::new(*block, limit)).collect())
    }

    /// Whether a hash is in the tables. All hold the same hashes, so that one is read in which few have to be
    /// compared.
    pub(super) fn contains(&self, hash: W, pin: &Pin) -> bool {
        const FEW: usize = 1 << 10;
        let quick = self.0.iter().find(|table| table.compared(hash, pin) <= FEW);
        let quick = quick.or_else(|| self.0.iter().min_by_key(|table| table.compared(hash, pin)));
        quick.is_some_and(|table| table.contains(hash, pin))
    }

    /// Removes a hash from every table, in ascending order.
    pub(super) fn remove(&self, hash: W, pin: &Pin) {
        self.0.iter().for_each(|table| _ = table.remove(hash, pin));
    }

    /// Inserts a hash into every table, in ascending order. Returns whether it is new. Only one writer may
    /// call this at a time.
    pub(super) fn insert(&self, hash: W, pin: &Pin) -> bool {
        self.0.iter().for_each(|table| table.prefetch_bin(hash, pin));
        let is_new = !self.contains(hash, pin);
        if is_new {
            self.0.iter().for_each(|table| table.prefetch(hash, pin));
            self.0.iter().for_each(|table| table.insert(hash, pin));
        }
        is_new
    }

    /// As [`Tables::insert`] for each hash of the list, in which only the new ones are left. Memory is
    /// prefetched ahead of its use, and the pin is renewed repeatedly, so that the memory that growth
    /// replaces is freed.
    pub(super) fn insert_new(&self, hashes: &mut Vec<W>, pin: &mut Pin) {
        const BETWEEN_RENEWALS: usize = 1 << 6;
        let mut kept = 0;
        for at in 0..hashes.len() {
            if at % BETWEEN_RENEWALS == 0 {
                pin.renew();
            }
            if let Some(next) = hashes.get(at + AHEAD[0]) {
                self.0.iter().for_each(|table| table.prefetch_bin(*next, pin));
            }
            if let Some(next) = hashes.get(at + AHEAD[1]) {
                self.0[0].prefetch_search(*next, pin);
                self.0.iter().for_each(|table| table.prefetch(*next, pin));
            }
            let hash = hashes[at];
            if !self.contains(hash, pin) {
                self.0.iter().for_each(|table| table.insert(hash, pin));
                hashes[kept] = hash;
                kept += 1;
            }
        }
        hashes.truncate(kept);
    }

    /// Calls `each` with the hashes that begin with these bits: a value and their number.
    pub(super) fn hashes_beginning(&self, (first, bits): (u32, u32), pin: &Pin, each: impl FnMut(W)) {
        debug_assert!(W::BLOCKS[self.0.len() - 1].is_top(W::WIDTH.bits()));
        self.0[self.0.len() - 1].hashes_with(first, bits, pin, each);
    }

    /// The bytes that they occupy, including free entries.
    pub(super) fn bytes(&self, pin: &Pin) -> usize {
        self.0.iter().map(|table| table.bytes(pin)).sum()
    }
}
