//! A replicated, totally ordered log of opaque entries: what replicas agree on.
//!
//! *Guarantees*
//! - Every server reads the same entries in the same order, without a gap and without a duplicate.
//! - An entry whose append succeeded survives the loss of a minority of the log's own servers.
//! - An append that is retried inside [`Log::append`] is in the log at most once.
//!
//! *Absent*: what the entries mean and when they are applied (the engine), and which of them are no longer
//! needed (the caller of [`Log::trim`]).

#![deny(unreachable_pub)]

pub mod etcd;

#[cfg(test)]
mod contract;
mod error;
#[cfg(any(test, feature = "memory"))]
pub mod memory;

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;

pub use error::{Failure, LogError};

/// The largest payload of an entry, in bytes. etcd refuses requests above 1.5 MiB by default, and needs some
/// of that for itself.
pub const MAX_PAYLOAD: usize = 1 << 20;

/// The place of an entry in the log. Positions grow, but not by one: other writes of the same store use the
/// numbers between them. 0 is before the first entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An entry as every server reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its place.
    pub position: Position,
    /// Its number: 1 for the first entry of the log, without gaps.
    pub number: u64,
    /// The bytes that were appended.
    pub payload: Bytes,
}

/// A replicated log. All methods can be called concurrently.
///
/// The methods return boxed futures, so that a replica holds a `dyn Log`: one allocation for each call of a
/// network service.
pub trait Log: Send + Sync {
    /// Appends an entry, and returns when the log has made it durable. It retries until `within` has
    /// passed. Concurrent appends are in no particular order. Dropping the future leaves the outcome
    /// unknown.
    ///
    /// # Errors
    /// [`LogError::TooLarge`] above [`MAX_PAYLOAD`]. After [`LogError::Unknown`] the entry may be in the
    /// log, or appear there later; after every other error it is not and never will be.
    fn append(&self, payload: Bytes, within: Duration) -> BoxFuture<'_, Result<Position, LogError>>;

    /// All entries after a position, and then every new one as it is appended. The position is 0 or that of
    /// an entry. The stream survives failures of the log's servers: it waits, and goes on. It ends only
    /// after an error.
    ///
    /// # Errors
    /// [`LogError::Trimmed`] if entries after the position were removed, [`LogError::Rewound`] if the log
    /// ends before it, and [`LogError::Damaged`], [`LogError::OtherEtcd`] and [`LogError::Unauthorized`].
    fn tail(&self, after: Position) -> BoxStream<'static, Result<Entry, LogError>>;

    /// The position of the last entry, or 0. An append that finished before this call is included.
    ///
    /// # Errors
    /// [`LogError::Unavailable`] and others.
    fn end(&self) -> BoxFuture<'_, Result<Position, LogError>>;

    /// Removes the entries through a position, which must be that of an entry. Afterwards a tail can start
    /// after this position or a later one.
    ///
    /// # Errors
    /// [`LogError::Rewound`] if the log ends before the position.
    fn trim(&self, through: Position) -> BoxFuture<'_, Result<(), LogError>>;
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
