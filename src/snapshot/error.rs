//! What can be wrong with a snapshot, and where in the file.

use std::io;
use std::path::PathBuf;

/// An error of a snapshot. A damaged one costs start-up time and no data: the caller takes an older one,
/// or reads the store.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The disk refused.
    #[error("{} cannot be {action}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What was tried: written, read, renamed.
        action: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// The bytes are not those that were written.
    #[error("{} is damaged at byte {offset}: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where the damaged part begins.
        offset: u64,
        /// What does not fit.
        what: &'static str,
    },
    /// A layout that this version does not know.
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
