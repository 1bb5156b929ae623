//! Objects of S3, Google Cloud Storage, Azure, web servers and Hugging Face, as blocking readers.
//!
//! [`Cloud`] has the connections, and the only runtime of the commands that read files. An [`Object`] is the
//! version that was found: every read asks for that one, and a change is [`Error::Changed`]. A request that
//! fails for a reason that passes is repeated for some 30 seconds. *Absent*: a cache on the disk, and writes
//! of parts of an object.

#![deny(unreachable_pub)]

mod address;
mod blocks;
mod cloud;
#[cfg(feature = "clouds")]
mod clouds;
mod folder;
mod hugging_face;
mod object;
#[cfg(test)]
mod tests;

pub use address::is_address;
pub use blocks::Blocks;
pub use cloud::{Cloud, Found, open};
pub use folder::Folder;
pub use object::{Object, Reader};

/// Why an object cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is not one.
    #[error("{url}: {why}")]
    Address {
        /// The address.
        url: String,
        /// What is wrong.
        why: String,
    },
    /// There is nothing.
    #[error("{url}: there is no such object, and nothing below this name")]
    Missing {
        /// The address.
        url: String,
    },
    /// It is another version now.
    #[error("{url}: the object changed after it was found; start again when no program writes to it")]
    Changed {
        /// The address.
        url: String,
    },
    /// The server sends whole files only.
    #[error("{url}: the server does not send parts of a file, which Parquet and Arrow need: download it")]
    Whole {
        /// The address.
        url: String,
    },
    /// Credentials are missing or not sufficient.
    #[error("{url}: access is refused; {help} ({source})")]
    Refused {
        /// The address.
        url: String,
        /// The settings to check.
        help: &'static str,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Anything else, such as a server that does not answer.
    #[error("{url}: {source}")]
    Failed {
        /// The address.
        url: String,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> std::io::Error {
        std::io::Error::other(error)
    }
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
