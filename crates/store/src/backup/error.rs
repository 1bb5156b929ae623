//! Errors of a backup.

use std::io;

use super::format::VERSION;

/// An error of a backup. The caller must not use any of its content.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The file is not a backup of this program.
    #[error("this is no backup made by lookalike: {what}")]
    Foreign {
        /// The reason.
        what: String,
    },
    /// A newer version made the backup.
    #[error(
        "the backup has format {found}; this version reads up to {VERSION}. Use a newer version of lookalike"
    )]
    Newer {
        /// Its format.
        found: u64,
    },
    /// The backup is damaged.
    #[error("the backup is damaged: {member} at byte {offset}: {what}; use another copy")]
    Damaged {
        /// The member of the tar.
        member: String,
        /// The byte of the file at which reading stopped.
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// This version does not have the profile of the backup.
    #[error("the backup was made with profile {profile:?} of {bits} bits, which this version does not have")]
    Profile {
        /// The profile.
        profile: String,
        /// The width of its hashes.
        bits: u32,
    },
    /// A document is too large for a backup.
    #[error("document {id:?} takes {bytes} bytes in a backup; at most {most} are allowed")]
    TooLarge {
        /// The document.
        id: String,
        /// Its size.
        bytes: usize,
        /// The limit.
        most: usize,
    },
    /// A document of the backup is longer than the reader accepts.
    #[error(
        "{} in {part} of the backup takes more than {most} bytes there",
        match after {
            Some(id) => format!("the document after {id:?}"),
            None => "the first document".to_owned(),
        }
    )]
    Line {
        /// The member of the tar.
        part: String,
        /// The document before it, if there is one.
        after: Option<String>,
        /// The limit.
        most: usize,
    },
    /// A read or a write failed.
    #[error("the backup cannot be read or written")]
    Io(#[from] io::Error),
}
