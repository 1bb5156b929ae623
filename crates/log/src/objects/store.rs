//! What the log needs of a store of objects: create if absent, read, and little else.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::future::BoxFuture;

/// The answer to [`Objects::create`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Created {
    /// This request made the object.
    New,
    /// There is one, or another request is about to make it, or an earlier try of this one has made it.
    Taken,
}

/// An object in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    /// Its name without the folder.
    pub(super) name: String,
    /// When it was last written, by the clock of the store.
    pub(super) changed: SystemTime,
}

/// What became of a request that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It had no effect, and a repeated one may have.
    Undone,
    /// It had no effect, and no repetition helps: access is refused.
    Refused,
    /// It had an effect, will have one, or has none.
    Unknown,
}

/// A request to the store failed.
#[derive(Debug, thiserror::Error)]
#[error("{object}: {source}")]
pub struct StoreError {
    /// The object or folder.
    pub object: String,
    /// What became of the request.
    pub fate: Fate,
    /// The cause.
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// The answer of a store.
pub(super) type Answer<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// A store of objects with names such as `log/0000000000000000/0001`.
///
/// *Guarantees*: of all [`Objects::create`] of a name, one makes the object. What `create` has made or `read`
/// has returned survives a crash of the store. A request whose future was dropped may still have its effect.
pub(super) trait Objects: Send + Sync + 'static {
    /// Where it is, for messages.
    fn place(&self) -> &str;
    /// How long to wait before an object that is not there is asked for again: at first, and at most.
    fn polls(&self) -> (Duration, Duration);
    /// Makes an object that does not exist.
    fn create<'a>(&'a self, name: &'a str, bytes: Bytes) -> Answer<'a, Created>;
    /// The bytes of an object; `None` if there is none.
    fn read<'a>(&'a self, name: &'a str) -> Answer<'a, Option<Bytes>>;
    /// Whether there is an object.
    fn exists<'a>(&'a self, name: &'a str) -> Answer<'a, bool>;
    /// Writes an object that may exist. It need not survive a crash of the store.
    fn replace<'a>(&'a self, name: &'a str, bytes: Bytes) -> Answer<'a, ()>;
    /// The objects of a folder, without those of folders in it.
    fn list<'a>(&'a self, folder: &'a str) -> Answer<'a, Vec<Listed>>;
    /// Removes an object that may exist.
    fn remove<'a>(&'a self, name: &'a str) -> Answer<'a, ()>;
}

impl StoreError {
    /// An error whose request may have an effect.
    pub(crate) fn unknown(
        object: &str,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> StoreError {
        StoreError { object: object.to_owned(), fate: Fate::Unknown, source: source.into() }
    }
}
