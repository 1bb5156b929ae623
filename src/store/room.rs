//! Room on the disk: writes are refused while less than a reserve is free, and taken again when there is more.
//!
//! The reserve is what the journal and the memtables may still need for what was already acknowledged; compaction must
//! leave it alone. On a small disk it is a tenth of the disk at most.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use super::error::StoreError;

/// The disk of a store.
pub(super) struct Room {
    dir: PathBuf,
    reserve: u64,
    was_full: AtomicBool,
}

/// What the file system says.
struct Disk {
    free: u64,
    reserve: u64,
}

impl Room {
    pub(super) fn new(dir: PathBuf, reserve: u64) -> Room {
        Room { dir, reserve, was_full: AtomicBool::new(false) }
    }

    /// `None` for a file system that does not tell.
    fn disk(&self) -> Option<Disk> {
        let disk = rustix::fs::statvfs(&self.dir).ok()?;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        let reserve = self.reserve.min(disk.f_blocks.saturating_mul(disk.f_frsize) / 10);
        Some(Disk { free, reserve })
    }

    /// Bytes of the reserve.
    pub(super) fn reserve(&self) -> u64 {
        self.disk().map_or(self.reserve, |disk| disk.reserve)
    }

    /// Free bytes beside the reserve. What the file system does not tell counts as plenty: a full disk is then met at
    /// the write.
    pub(super) fn spare(&self) -> u64 {
        self.disk().map_or(u64::MAX, |disk| disk.free.saturating_sub(disk.reserve))
    }

    /// Whether there is room for more.
    ///
    /// # Errors
    /// [`StoreError::Full`] if less than the reserve is free, or, once that was so, less than an eighth more than it.
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
                    "the disk is full: no writes are taken until there is room; queries go on"
                );
            } else {
                tracing::info!(free, "there is room on the disk again: writes are taken");
            }
        }
        if is_full { Err(StoreError::Full { free, wanted }) } else { Ok(()) }
    }
}
