//! The lock of a store: one process has it open.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::{Duration, Instant};

use super::error::StoreError;

/// How long the threads of a store that is closed may take to end, and how often they are checked.
const CLOSES_WITHIN: Duration = Duration::from_mins(1);
const PAUSE: Duration = Duration::from_millis(10);

/// Locks the store against other processes until the returned file is dropped.
pub(super) fn lock(dir: &Path) -> Result<File, StoreError> {
    let path = dir.join("LOCK");
    let file = File::options().create(true).truncate(false).write(true).open(&path);
    let file = file.map_err(|source| StoreError::io(&path, "opened", source))?;
    locked(file, dir, &path)
}

/// [`lock`] without writing, for a file system that is mounted read-only. The lock file must exist.
pub(super) fn lock_to_read(dir: &Path) -> Result<File, StoreError> {
    let path = dir.join("LOCK");
    let file = File::open(&path).map_err(|source| StoreError::io(&path, "opened", source))?;
    locked(file, dir, &path)
}

fn locked(file: File, dir: &Path, path: &Path) -> Result<File, StoreError> {
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::Locked(dir.to_path_buf())),
        Err(TryLockError::Error(source)) => Err(StoreError::io(path, "locked", source)),
    }
}

/// Waits until no store is open in `dir`, for a store that this process has closed: its threads may end a
/// moment later.
///
/// # Errors
/// [`StoreError::Locked`] if one is still open after a minute.
pub fn wait_until_closed(dir: &Path) -> Result<(), StoreError> {
    let end = Instant::now() + CLOSES_WITHIN;
    loop {
        match lock_to_read(dir) {
            Err(StoreError::Locked(_)) if Instant::now() < end => std::thread::sleep(PAUSE),
            Err(error @ StoreError::Locked(_)) => return Err(error),
            // There may be no store at all.
            Ok(_) | Err(_) => return Ok(()),
        }
    }
}
