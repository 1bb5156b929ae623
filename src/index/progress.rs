//! How far something that takes long has come, told while it goes on.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts hashes that are filed, of how many. One thread or several count, any number look.
#[derive(Debug, Default)]
pub struct Progress {
    /// In units of which [`UNITS`] are a hash.
    done: AtomicU64,
    hashes: AtomicU64,
}

/// A hash is filed in three, four or six tables, each of which is as much of the work as the others.
const UNITS: u64 = 12;

impl Progress {
    /// How many hashes there will be.
    pub fn expect(&self, hashes: u64) {
        self.hashes.store(hashes, Ordering::Relaxed);
    }

    /// Counts hashes that are done.
    pub fn add(&self, hashes: u64) {
        self.done.fetch_add(hashes * UNITS, Ordering::Relaxed);
    }

    /// Counts hashes that were filed in one of so many tables.
    pub(super) fn add_filed(&self, hashes: u64, tables: usize) {
        self.done.fetch_add(hashes * UNITS / tables as u64, Ordering::Relaxed);
    }

    /// Begins anew: what was counted came to nothing.
    pub fn reset(&self) {
        self.done.store(0, Ordering::Relaxed);
        self.hashes.store(0, Ordering::Relaxed);
    }

    /// How many hashes are done, and of how many; 0 of 0 if that is not known.
    pub fn hashes(&self) -> (u64, u64) {
        (self.done.load(Ordering::Relaxed) / UNITS, self.hashes.load(Ordering::Relaxed))
    }

    /// What share is done, in percent, 0 to 100; `None` if it is not known of how much.
    pub fn percent(&self) -> Option<u64> {
        let (done, of) = self.hashes();
        (of > 0).then(|| (done * 100 / of).min(100))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_a_hash_come_to_a_hash() {
        let progress = Progress::default();
        assert_eq!(progress.percent(), None);
        progress.expect(200);
        for tables in [3, 4, 6] {
            (0..tables).for_each(|_| progress.add_filed(20, tables));
        }
        assert_eq!((progress.hashes(), progress.percent()), ((60, 200), Some(30)));
        progress.add(140);
        assert_eq!(progress.percent(), Some(100));
        progress.reset();
        assert_eq!((progress.hashes(), progress.percent()), ((0, 0), None));
    }
}
