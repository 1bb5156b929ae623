//! The progress of a long operation: how many hashes of how many are done.
//!
//! Any number of threads may count and read at the same time.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the hashes that are done.
#[derive(Debug, Default)]
pub struct Progress {
    /// In units; a hash has [`UNITS`].
    done: AtomicU64,
    hashes: AtomicU64,
}

/// Divisible by 4, 8 and 16, the possible numbers of tables: each table is an equal share of the work.
const UNITS: u64 = 16;

impl Progress {
    /// Sets the expected number of hashes.
    pub fn expect(&self, hashes: u64) {
        self.hashes.store(hashes, Ordering::Relaxed);
    }

    /// Counts hashes that are done.
    pub fn add(&self, hashes: u64) {
        self.done.fetch_add(hashes * UNITS, Ordering::Relaxed);
    }

    /// Counts hashes that were inserted into one of `tables` tables.
    pub(super) fn add_filed(&self, hashes: u64, tables: usize) {
        self.done.fetch_add(hashes * UNITS / tables as u64, Ordering::Relaxed);
    }

    /// Sets both numbers to 0, because the work must be repeated.
    pub fn reset(&self) {
        self.done.store(0, Ordering::Relaxed);
        self.hashes.store(0, Ordering::Relaxed);
    }

    /// The number of hashes that are done, and the expected number; both are 0 if it is not known.
    pub fn hashes(&self) -> (u64, u64) {
        (self.done.load(Ordering::Relaxed) / UNITS, self.hashes.load(Ordering::Relaxed))
    }

    /// The share that is done, in percent, 0 to 100; `None` if the expected number is not known.
    pub fn percent(&self) -> Option<u64> {
        let (done, of) = self.hashes();
        (of > 0).then(|| (done * 100 / of).min(100))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_shares_add_up_to_whole_hashes() {
        let progress = Progress::default();
        assert_eq!(progress.percent(), None);
        progress.expect(200);
        for tables in [4, 4, 8, 16] {
            (0..tables).for_each(|_| progress.add_filed(20, tables));
        }
        assert_eq!((progress.hashes(), progress.percent()), ((80, 200), Some(40)));
        progress.add(120);
        assert_eq!(progress.percent(), Some(100));
        progress.reset();
        assert_eq!((progress.hashes(), progress.percent()), ((0, 0), None));
    }
}
