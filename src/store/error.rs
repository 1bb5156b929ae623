//! What can go wrong in the store, and what the caller may do about it.

use std::path::{Path, PathBuf};

use crate::ids::Sequence;

/// An error of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process has the directory open.
    #[error("{} is in use by another process; stop that one first, or choose another directory", .0.display())]
    Locked(PathBuf),
    /// The directory cannot be opened.
    #[error("the store in {} cannot be opened", dir.display())]
    Open {
        /// The directory.
        dir: PathBuf,
        /// Why.
        source: fjall::Error,
    },
    /// A log entry is missing: something was lost after it was acknowledged.
    #[error("the change log has a gap: {found} follows {after}; nothing was changed. Restore a backup")]
    LogGap {
        /// The last number before the gap.
        after: Sequence,
        /// The first number after it.
        found: Sequence,
    },
    /// The end of the log is not where the high-water mark says.
    #[error(
        "the change log ends at {last}, but {mark} changes were acknowledged; nothing was changed. Restore a backup"
    )]
    LogEnd {
        /// The last number in the log.
        last: Sequence,
        /// The high-water mark.
        mark: Sequence,
    },
    /// A record that does not read back.
    #[error("a {0} in the store cannot be read: it is damaged or was written by a newer version")]
    Damaged(&'static str),
    /// The storage engine refused or failed.
    #[error("the store failed")]
    Engine(#[from] fjall::Error),
}

impl StoreError {
    pub(super) fn open(dir: &Path, source: fjall::Error) -> StoreError {
        match source {
            fjall::Error::Locked => StoreError::Locked(dir.to_path_buf()),
            source => StoreError::Open { dir: dir.to_path_buf(), source },
        }
    }
}
