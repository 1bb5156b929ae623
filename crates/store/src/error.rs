//! Errors of the store, and what the caller can do about them.

use std::io;
use std::path::{Path, PathBuf};

use lookalike_hash::{CollectionName, Sequence};

/// An error of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process has the directory open.
    #[error("{} is in use by another process; stop it first, or choose another directory", .0.display())]
    Locked(PathBuf),
    /// A file or directory could not be accessed.
    #[error("{} cannot be {action}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The operation that failed: read, written, synced.
        action: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// The bytes of a file are not those that were written. Nothing was changed.
    #[error(
        "{} is damaged at byte {offset}: {what}. Nothing was changed. \
         Restore a backup, or see `lookalike repair --help`",
        path.display()
    )]
    Damage {
        /// The file, or the directory that a file is missing from.
        path: PathBuf,
        /// Where the damaged part begins.
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// A change is missing: it was lost after it was acknowledged.
    #[error(
        "the history of changes has a gap: {found} follows {after}; nothing was changed. Restore a backup"
    )]
    HistoryGap {
        /// The last number before the gap.
        after: Sequence,
        /// The first number after it.
        found: Sequence,
    },
    /// The history does not end at the high-water mark.
    #[error(
        "the history of changes ends at {last}, but {high_water} changes were acknowledged; \
         nothing was changed. Restore a backup"
    )]
    HistoryEnd {
        /// The last number in the history.
        last: Sequence,
        /// The high-water mark.
        high_water: Sequence,
    },
    /// The content of a collection is not what its digest says.
    #[error(
        "the collection {collection} is damaged: {what}. Nothing was changed. Start a replica \
         with an empty data directory; on a single server restore a backup, or see `lookalike repair --help`"
    )]
    Differs {
        /// The collection.
        collection: CollectionName,
        /// What is wrong.
        what: &'static str,
    },
    /// A record cannot be decoded.
    #[error("a {0} in the store cannot be read: it is damaged or was written by a newer version")]
    Damaged(&'static str),
    /// The directory is of a version before 0.1.0.
    #[error(
        "the data is of a development version, which this version does not read; nothing was changed. Export \
         the collections with the version that wrote it, and import them into an empty directory"
    )]
    Earlier,
    /// The disk has no space. Nothing was written, and a retry may succeed.
    #[error("{}", full(*free, *wanted))]
    Full {
        /// Bytes free.
        free: u64,
        /// Bytes that must be free; 0 if the disk refused the write although it reports free space.
        wanted: u64,
    },
    /// An earlier write failed; nothing is written until the store is opened again.
    #[error("an earlier write failed: {0}")]
    Failed(String),
    /// A tree failed.
    #[error("the store failed")]
    Tree(#[from] lsm_tree::Error),
}

impl StoreError {
    pub(super) fn io(path: &Path, action: &'static str, source: io::Error) -> StoreError {
        StoreError::Io { path: path.to_path_buf(), action, source }
    }

    /// The error of a failed write: a full disk, which is temporary, or another cause.
    pub(super) fn write(path: &Path, source: io::Error) -> StoreError {
        if is_full(&source) {
            StoreError::Full { free: 0, wanted: 0 }
        } else {
            StoreError::io(path, "written", source)
        }
    }

    /// Whether free disk space would help.
    pub fn is_full(&self) -> bool {
        matches!(self, StoreError::Full { .. }) || self.io_error().is_some_and(is_full)
    }

    /// Whether work stopped because it was cancelled.
    pub(super) fn is_interrupted(&self) -> bool {
        self.io_error().is_some_and(|source| source.kind() == io::ErrorKind::Interrupted)
    }

    /// Whether the process has no permission to read or write a file. The file may be whole or damaged.
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
        return "the disk refuses writes: it is full, a quota is exhausted, or less space is free than the \
                memtables need that wait to be written"
            .to_owned();
    }
    format!("the disk is full: {free} bytes are free, {wanted} are reserved (store.reserve_bytes)")
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
