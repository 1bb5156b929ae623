//! Errors of the log, and what the caller can do about them.

use super::Position;
use super::objects::StoreError;

/// An error of the log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// Another append of this server has been in progress until the deadline. The entry was not appended.
    #[error("another append is in progress, and did not end in time. Nothing was written; retry later")]
    Busy,
    /// The connection to the store failed while an append was in progress.
    #[error(
        "the outcome of an append is unknown: {0}. The entry is in the log or will be, or it is not: read \
         the log before you append it again"
    )]
    Unknown(#[source] StoreError),
    /// The payload is larger than an entry can be.
    #[error("an entry of {bytes} bytes is too large: the limit is {limit}; split it")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The largest size.
        limit: usize,
    },
    /// The URL of the log cannot be used, or the environment lacks what its store needs.
    #[error("shared_log.url cannot be used")]
    Place(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A snapshot cannot be made, because the data cannot be read.
    #[error("no copy of the data can be made: {0}")]
    Copy(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The store of the log did not answer in time. The entry, if there was one, was not appended and never
    /// will be.
    #[error("{place} does not answer: {source}. Nothing was written; retry")]
    Unavailable {
        /// The URL of the log.
        place: String,
        /// The last failure.
        source: StoreError,
    },
    /// The store of the log refuses access.
    #[error(
        "{place} refuses access: {source}. Check the credentials in the environment, or the rights of the \
         folder: reading, writing, listing and deleting must be allowed"
    )]
    Refused {
        /// The URL of the log.
        place: String,
        /// The answer.
        source: StoreError,
    },
    /// Entries that a reader needs were removed.
    #[error("the log was trimmed: the entry after {after} is no longer there. Begin with a snapshot")]
    Trimmed {
        /// The position from which the reader wanted to go on.
        after: Position,
    },
    /// A snapshot was removed while it was read.
    #[error("the snapshot at {position} was removed while it was read. Begin again with the newest")]
    SnapshotRemoved {
        /// Its position.
        position: Position,
    },
    /// The log ends before a position that this server has reached: the store lost data, or was replaced.
    #[error(
        "the log does not have the entry at {position} that this server has applied, and ends at {end}: it \
         was restored from an older backup or replaced. Writes are refused. Export the collections of the \
         server with the greatest position, and start the replicas anew (docs/replicas.md, Backup)"
    )]
    Rewound {
        /// The position that must be in the log.
        position: Position,
        /// The end of the log.
        end: Position,
    },
    /// The log is another one than this server has followed.
    #[error(
        "the data directory has followed another log than the one that is at {place} now: correct \
         shared_log.url, mount the folder, or if the log was replaced, start the replicas anew \
         (docs/replicas.md, Backup)"
    )]
    Replaced {
        /// The URL of the log.
        place: String,
    },
    /// Servers of another version have begun the log.
    #[error(
        "the replicas have agreed on {found:?}, and this version uses {wanted:?}: use their version of \
         lookalike"
    )]
    Format {
        /// What they have agreed on.
        found: String,
        /// What this version uses.
        wanted: &'static str,
    },
    /// Another program changed the objects of the log.
    #[error("the log is damaged: {0}. Only lookalike may write below shared_log.url")]
    Damaged(String),
    /// Another process registered under the name of this server.
    #[error("another process runs as server {server:?}: give every server its own replicas.server name")]
    NameTaken {
        /// The name.
        server: String,
    },
}

impl LogError {
    /// Whether it passes when the log can be reached again.
    pub fn is_transient(&self) -> bool {
        matches!(self, LogError::Unavailable { .. })
    }
}
