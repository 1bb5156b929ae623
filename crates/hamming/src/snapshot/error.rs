//! Errors of a snapshot, with the place in the file.

use std::io;
use std::path::PathBuf;

/// An error of a snapshot. A damaged snapshot costs start-up time and no data: the caller loads an older
/// one, or reads the store.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The file system failed.
    #[error("{} cannot be {action}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The operation that failed: written, read, renamed.
        action: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// The bytes of the file are not those that were written.
    #[error("{} is damaged at byte {offset}: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where the damaged part begins.
        offset: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// This version does not know the layout.
    #[error("{} has format {found}; this version reads up to {known}. Use a newer version", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The newest format that this version reads.
        known: u32,
    },
}
