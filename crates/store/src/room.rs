//! Free disk space: writes are refused while less than a reserve is free, and accepted again when there is
//! more.
//!
//! The journal and the memtables may still need the reserve for acknowledged data, so compaction must not
//! use it. The reserve is at most a tenth of the disk.
//!
//! *Absent*: what happens to a write that is refused (`keeper`).

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use super::error::StoreError;

/// The disk of a store.
pub(super) struct Room {
    dir: PathBuf,
    reserve: u64,
    was_full: AtomicBool,
}

/// The free space that the file system reports, and the reserve, in bytes.
struct Disk {
    free: u64,
    reserve: u64,
}

impl Room {
    pub(super) fn new(dir: PathBuf, reserve: u64) -> Room {
        Room { dir, reserve, was_full: AtomicBool::new(false) }
    }

    /// `None` if the file system does not report its sizes.
    fn disk(&self) -> Option<Disk> {
        let disk = rustix::fs::statvfs(&self.dir).ok()?;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        let reserve = self.reserve.min(disk.f_blocks.saturating_mul(disk.f_frsize) / 10);
        Some(Disk { free, reserve })
    }

    /// The size of the reserve in bytes.
    pub(super) fn reserve(&self) -> u64 {
        self.disk().map_or(self.reserve, |disk| disk.reserve)
    }

    /// Free bytes above the reserve. If the file system does not report them, the result is `u64::MAX`; a
    /// full disk then shows when a write fails.
    pub(super) fn spare(&self) -> u64 {
        self.disk().map_or(u64::MAX, |disk| disk.free.saturating_sub(disk.reserve))
    }

    /// Checks that the disk has space for more writes.
    ///
    /// # Errors
    /// [`StoreError::Full`] if less than the reserve is free. Once it was, an eighth more than the reserve
    /// must be free again; without this hysteresis the state would alternate.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        let Some(Disk { free, reserve }) = self.disk() else {
            return Ok(());
        };
        let was_full = self.was_full.load(Ordering::Relaxed);
        let wanted = if was_full { reserve + reserve / 8 } else { reserve };
        let is_full = free < wanted;
        if is_full != was_full {
            self.was_full.store(is_full, Ordering::Relaxed);
            if is_full {
                tracing::error!(
                    free,
                    wanted,
                    "the disk is full: writes are refused until there is space; queries continue"
                );
            } else {
                tracing::info!(free, "there is space on the disk again: writes are accepted");
            }
        }
        if is_full { Err(StoreError::Full { free, wanted }) } else { Ok(()) }
    }
}
