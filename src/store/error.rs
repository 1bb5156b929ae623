//! What can go wrong in the store, and what the caller may do about it.

use std::io;
use std::path::{Path, PathBuf};

use crate::ids::Sequence;

/// An error of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process has the directory open.
    #[error("{} is in use by another process; stop that one first, or choose another directory", .0.display())]
    Locked(PathBuf),
    /// A file or directory refuses.
    #[error("{} cannot be {action}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// What was tried: read, written, synced.
        action: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// The bytes of a file are not those that were written. Nothing was changed.
    #[error(
        "{} is damaged at byte {offset}: {what}. Nothing was changed. Restore a backup, or see `lookalike repair --help`",
        path.display()
    )]
    Damage {
        /// The file, or the directory that a file is missing from.
        path: PathBuf,
        /// Where the damaged part begins.
        offset: u64,
        /// What does not fit.
        what: String,
    },
    /// A change is missing: something was lost after it was acknowledged.
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
    /// There is no room on the disk. Nothing was written, and a later try may succeed.
    #[error("{}", full(*free, *wanted))]
    Full {
        /// Bytes free.
        free: u64,
        /// Bytes that must be free; 0 if the disk refused although it tells of room.
        wanted: u64,
    },
    /// A write failed before; nothing is written any more until the store is opened again.
    #[error("a write failed before: {0}")]
    Failed(String),
    /// The trees refused or failed.
    #[error("the store failed")]
    Tree(#[from] lsm_tree::Error),
}

impl StoreError {
    pub(super) fn io(path: &Path, action: &'static str, source: io::Error) -> StoreError {
        StoreError::Io { path: path.to_path_buf(), action, source }
    }

    /// A write that failed: for want of room, which may pass, or for another reason.
    pub(super) fn write(path: &Path, source: io::Error) -> StoreError {
        if is_full(&source) {
            StoreError::Full { free: 0, wanted: 0 }
        } else {
            StoreError::io(path, "written", source)
        }
    }

    /// Whether room on the disk would help.
    pub fn is_full(&self) -> bool {
        matches!(self, StoreError::Full { .. }) || self.io_error().is_some_and(is_full)
    }

    /// Whether work was given up because it was asked to be.
    pub(super) fn is_interrupted(&self) -> bool {
        self.io_error().is_some_and(|source| source.kind() == io::ErrorKind::Interrupted)
    }

    /// Whether the process may not read or write what is there, be it whole or damaged.
    pub fn is_refused(&self) -> bool {
        let refused = [io::ErrorKind::PermissionDenied, io::ErrorKind::ReadOnlyFilesystem];
        self.io_error().is_some_and(|source| refused.contains(&source.kind()))
    }

    fn io_error(&self) -> Option<&io::Error> {
        match self {
            StoreError::Io { source, .. } | StoreError::Tree(lsm_tree::Error::Io(source)) => Some(source),
            _ => None,
        }
    }
}

fn full(free: u64, wanted: u64) -> String {
    if wanted == 0 {
        return "the disk takes no more: it is full, or a quota is used up".to_owned();
    }
    format!("the disk is full: {free} bytes are free, {wanted} are kept in reserve (store.reserve_bytes)")
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
