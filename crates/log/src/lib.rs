//! A replicated, totally ordered log of opaque entries: what replicas agree on.
//!
//! *Guarantees*
//! - Every server reads the same entries in the same order, without a gap and without a duplicate.
//! - An entry whose append succeeded survives what the store of the log survives.
//! - An append that is retried inside [`Log::append`] is in the log at most once.
//!
//! *Absent*: what the entries mean and when they are applied (the engine).

#![deny(unreachable_pub)]

pub mod objects;

#[cfg(test)]
mod contract;
mod error;
#[cfg(any(test, feature = "memory"))]
pub mod memory;

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt};
use futures::stream::BoxStream;

pub use error::LogError;

/// The place of an entry in the log. Positions grow. 0 is before the first entry.
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
    /// [`LogError::TooLarge`] above [`Log::max_payload`]. After [`LogError::Unknown`] the entry may be in the
    /// log, or appear there later; after every other error it is not and never will be.
    fn append(&self, payload: Bytes, within: Duration) -> BoxFuture<'_, Result<Position, LogError>>;

    /// All entries after a position, and then every new one as it is appended. The position is 0 or that of
    /// an entry. The stream survives failures of the log's servers: it waits, and goes on. It ends only
    /// after an error.
    ///
    /// # Errors
    /// [`LogError::Trimmed`] if entries after the position were removed, [`LogError::Rewound`] if the log
    /// ends before it, and [`LogError::Damaged`], [`LogError::Replaced`] and [`LogError::Refused`].
    fn tail(&self, after: Position) -> BoxStream<'static, Result<Entry, LogError>>;

    /// The position and the number of the last entry, or 0. An append that finished before this call is
    /// included.
    ///
    /// # Errors
    /// [`LogError::Unavailable`] and others.
    fn last(&self) -> BoxFuture<'_, Result<(Position, u64), LogError>>;

    /// The position of the last entry, as [`Log::last`].
    fn end(&self) -> BoxFuture<'_, Result<Position, LogError>> {
        self.last().map(|last| last.map(|(end, _)| end)).boxed()
    }

    /// The largest payload of an entry, in bytes.
    fn max_payload(&self) -> usize;

    /// How many milliseconds the clock of this machine is ahead of that of the log; `None` if it is not known
    /// yet.
    fn ahead_ms(&self) -> Option<i64> {
        Some(0)
    }
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
