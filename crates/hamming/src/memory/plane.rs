//! Planes: cells of 16 bits in blocks of sixteen, so that one instruction compares a word of sixteen entries.
//!
//! *Absent*: what the cells of a plane mean (`bin`).

use std::sync::atomic::{AtomicU64, Ordering};

use super::{Cells, step};

/// The number of cells of a plane, and of entries that are compared at once.
pub(crate) const LANES: usize = 16;
/// The words of the longest hash.
pub(crate) const MAX_PLANES: usize = 16;
/// The cells in a word of a plane.
const PER_WORD: usize = 4;
/// The bits of a cell.
const CELL: usize = 16;

/// Sixteen cells of 16 bits. One thread writes them while others read.
#[repr(C, align(32))]
#[derive(Default)]
pub(crate) struct Plane(pub(super) [AtomicU64; LANES / PER_WORD]);

// SAFETY: an array of atomic integers.
unsafe impl Cells for Plane {}

impl Plane {
    /// Reads a cell (relaxed): what published it was read before.
    #[inline(always)]
    pub(crate) fn read(&self, at: usize) -> u16 {
        (self.word(at / PER_WORD) >> (at % PER_WORD * CELL)) as u16
    }

    /// Writes a cell (relaxed) that something else will publish. Only one thread may write.
    #[inline(always)]
    pub(crate) fn write(&self, at: usize, value: u16) {
        self.set_word(at / PER_WORD, self.with_cell(at, value));
    }

    /// The word of a cell, with this value in the cell.
    #[inline(always)]
    fn with_cell(&self, at: usize, value: u16) -> u64 {
        let shift = at % PER_WORD * CELL;
        let others = self.word(at / PER_WORD) & !(u64::from(u16::MAX) << shift);
        others | u64::from(value) << shift
    }

    /// Reads a cell (acquire): what its writer wrote before is visible.
    #[inline(always)]
    pub(crate) fn read_published(&self, at: usize) -> u16 {
        step();
        (self.0[at / PER_WORD].load(Ordering::Acquire) >> (at % PER_WORD * CELL)) as u16
    }

    /// Writes a cell (release): a reader of the cell sees everything that was written before. Only one thread
    /// may write.
    #[inline(always)]
    pub(crate) fn publish(&self, at: usize, value: u16) {
        let word = self.with_cell(at, value);
        step();
        self.0[at / PER_WORD].store(word, Ordering::Release);
    }

    /// Writes all cells (relaxed), each with the value for its number. Only one thread may write.
    #[inline(always)]
    pub(crate) fn write_all(&self, value: impl Fn(usize) -> u16) {
        for word in 0..self.0.len() {
            let cells = (0..PER_WORD).map(|cell| u64::from(value(word * PER_WORD + cell)) << (cell * CELL));
            self.set_word(word, cells.fold(0, |word, cell| word | cell));
        }
    }

    /// Copies all cells of other planes to as many. Only one thread may write.
    pub(crate) fn copy_all(to: &[Plane], from: &[Plane]) {
        for (to, from) in to.iter().zip(from) {
            (0..to.0.len()).for_each(|at| to.set_word(at, from.word(at)));
        }
    }

    #[inline(always)]
    fn word(&self, at: usize) -> u64 {
        step();
        self.0[at].load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn set_word(&self, at: usize, value: u64) {
        step();
        self.0[at].store(value, Ordering::Relaxed);
    }

    /// Adds the number of bits in which each byte of the cells differs from a word.
    #[inline(always)]
    fn add(&self, word: u16, mut sums: [u8; 2 * LANES]) -> [u8; 2 * LANES] {
        let mut bytes = [0; 2 * LANES];
        for (at, chunk) in bytes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            *chunk = self.word(at).to_le_bytes();
        }
        let query = [word.to_le_bytes(); LANES];
        for ((sum, byte), of_query) in sums.iter_mut().zip(bytes).zip(query.as_flattened()) {
            *sum += (byte ^ of_query).count_ones() as u8;
        }
        sums
    }

    /// As [`Plane::add`], of several planes, each with its word.
    #[inline(always)]
    pub(super) fn add_all(planes: &[Plane], words: &[u16], sums: [u8; 2 * LANES]) -> [u8; 2 * LANES] {
        planes.iter().zip(words).fold(sums, |sums, (plane, word)| plane.add(*word, sums))
    }
}
