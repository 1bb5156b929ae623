//! The tables of an index: one for each block of a hash, each of which holds every hash, or its number.

use super::bins::Bins;
use super::block::Filed;
use super::memory::Pin;
use super::rows::Rows;

/// See the module.
pub(super) struct Tables<W> {
    /// One for each block.
    pub(super) all: Box<[Bins<W>]>,
    /// The hashes, if entries are numbered.
    pub(super) rows: Rows,
}

/// How many hashes ahead of the inserted one its bins are prefetched, and their entries.
const AHEAD: [usize; 2] = [16, 8];

impl<W: Filed> Tables<W> {
    /// Empty tables. A value of a block has at most `limit` hashes before another bit is distinguished, on
    /// average.
    pub(super) fn new(limit: usize) -> Tables<W> {
        let all = W::BLOCKS.iter().map(|block| Bins::new(*block, limit)).collect();
        Tables { all, rows: Rows::default() }
    }

    /// Whether a hash is in the tables. All hold the same hashes, so that one is read in which few have to be
    /// compared.
    pub(super) fn contains(&self, hash: W, pin: &Pin) -> bool {
        self.find(hash, pin).is_some()
    }

    /// The table in which a hash is compared with few others.
    fn quick(&self, hash: W, pin: &Pin) -> &Bins<W> {
        const FEW: usize = 1 << 10;
        let quick = self.all.iter().find(|table| table.compared(hash, pin) <= FEW);
        let quick = quick.or_else(|| self.all.iter().min_by_key(|table| table.compared(hash, pin)));
        quick.expect("a hash has a block")
    }

    /// The number of the row of a hash, as [`Bins::find`] gives it.
    fn find(&self, hash: W, pin: &Pin) -> Option<u32> {
        self.quick(hash, pin).find(hash, &self.rows, pin)
    }

    /// Removes a hash from every table, in ascending order. Returns whether it was there. Only one writer may
    /// call this at a time.
    pub(super) fn remove(&self, hash: W, pin: &Pin) -> bool {
        self.all.iter().for_each(|table| table.prefetch_bin(hash, pin));
        self.all.iter().for_each(|table| table.prefetch_search(hash, pin));
        let Some(number) = self.find(hash, pin) else { return false };
        self.all.iter().for_each(|table| table.remove(hash, number, pin));
        if W::NUMBERED {
            self.rows.remove(number, pin);
        }
        true
    }

    /// Inserts a hash that is in no table.
    fn add(&self, hash: W, pin: &Pin) {
        let number = if W::NUMBERED { self.rows.insert(hash, pin) } else { 0 };
        self.all.iter().for_each(|table| table.insert(hash, number, pin));
    }

    /// Inserts a hash into every table, in ascending order. Returns whether it is new. Only one writer may
    /// call this at a time.
    pub(super) fn insert(&self, hash: W, pin: &Pin) -> bool {
        self.all.iter().for_each(|table| table.prefetch_bin(hash, pin));
        self.prefetch(hash, pin);
        let is_new = !self.contains(hash, pin);
        if is_new {
            self.add(hash, pin);
        }
        is_new
    }

    /// Prefetches what an insertion reads and writes, from slots that are prefetched: so it waits twice for
    /// memory, however many tables there are.
    fn prefetch(&self, hash: W, pin: &Pin) {
        self.quick(hash, pin).prefetch_search(hash, pin);
        self.all.iter().for_each(|table| table.prefetch(hash, pin));
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
                self.all.iter().for_each(|table| table.prefetch_bin(*next, pin));
            }
            if let Some(next) = hashes.get(at + AHEAD[1]) {
                self.prefetch(*next, pin);
            }
            let hash = hashes[at];
            if !self.contains(hash, pin) {
                self.add(hash, pin);
                hashes[kept] = hash;
                kept += 1;
            }
        }
        hashes.truncate(kept);
    }

    /// Calls `each` with the hashes that begin with these bits: a value and their number.
    pub(super) fn hashes_beginning(&self, (first, bits): (u32, u32), pin: &Pin, each: impl FnMut(W)) {
        debug_assert!(W::BLOCKS[self.all.len() - 1].is_top(W::WIDTH.bits()));
        self.all[self.all.len() - 1].hashes_with((first, bits), &self.rows, pin, each);
    }

    /// The bytes that they occupy, including free entries.
    pub(super) fn bytes(&self, pin: &Pin) -> usize {
        self.all.iter().map(|table| table.bytes(pin)).sum::<usize>() + self.rows.bytes(pin)
    }
}
