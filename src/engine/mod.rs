//! The engine contract: an engine stores documents and answers which of them are near-duplicates.
//!
//! Calls are few, coarse-grained and async, and assume nothing about where the data is stored. An engine may
//! be a part of this process (`embedded`) or a cluster of other processes.
//!
//! *Invariants*
//! - 4: an operation is acknowledged (its [`Receipt`] resolves) after it is durable, and no query shows it
//!   before. A query that begins after an acknowledgement shows the acknowledged operations.
//! - The operations of one [`Engine::write`] are applied in order. Writes are applied in the order in which
//!   the calls returned their receipts.
//! - `unless_within` is decided in that order too: of any number of near-duplicates submitted at the same
//!   time, the first is stored and the others are reported as duplicates of it, for every k.
//! - An expired document ([`Row::expires_ms`]) is in no answer and does not prevent another document from
//!   being stored, whether it is still on the disk or not.
//!
//! *Absent*: the conversion of texts into hashes, HTTP, status codes, and any wall clock other than the one
//! that is passed in.

mod change;
pub mod embedded;
mod error;
mod filter;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;

pub use change::{Changed, CollectionChange, Condition, ProfileFacts, SettingsVersion};
pub use error::{EngineError, OpenError};
pub use filter::Filter;

pub use crate::backup::{BackupError, Manifest};
use crate::call::NoMemory;
use crate::ids::{CollectionName, DocumentId, Hash, Sequence, SignatureShape, Width};
pub use crate::index::{Plan, Progress};
pub use crate::store::Row;

/// The settings of a collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectionSettings {
    /// The profile of its fingerprints, `name@version`. Never changes: hashes of two profiles are not
    /// comparable.
    pub profile: String,
    /// The width of its hashes. The profile determines it.
    pub width: Width,
    /// The shape of its signatures if its hashes identify signatures. The profile and the threshold at
    /// creation determine it. Never changes.
    pub signatures: Option<SignatureShape>,
    /// The distance that queries use by default, 0 to [`CollectionSettings::most`]: in bits, or for
    /// signatures in cells that differ.
    pub k: u32,
    /// The size in bytes of the sketch that rows keep for a second check, if they keep one. Never changes.
    pub sketch_bytes: Option<u16>,
    /// Whether documents keep their original text.
    pub keep_text: bool,
    /// The default lifetime of documents in seconds; `None` means that they do not expire. The caller that
    /// writes a document applies it, so a change affects only documents written later.
    pub expires_in: Option<u64>,
}

impl CollectionSettings {
    /// The maximum distance between two documents.
    pub fn most(&self) -> u32 {
        self.signatures.map_or(self.width.bits(), |shape| u32::from(shape.cells))
    }
}

/// The current state of a collection.
#[derive(Clone, Debug)]
pub struct CollectionInfo {
    /// Its name.
    pub name: CollectionName,
    /// Its settings.
    pub settings: CollectionSettings,
    /// The version of these settings.
    pub version: SettingsVersion,
    /// When it was created, in milliseconds since 1970-01-01 UTC.
    pub created_ms: u64,
    /// The number of documents.
    pub documents: u64,
    /// The number of distinct hashes of these documents.
    pub distinct_hashes: u64,
    /// The memory of the index in bytes.
    pub index_bytes: u64,
}

/// A stored document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Its id.
    pub id: DocumentId,
    /// The stored data.
    pub row: Row,
}

/// Consecutive documents in id order.
#[derive(Clone, Debug)]
pub struct Page {
    /// The documents.
    pub documents: Vec<Document>,
    /// Whether this is the last page.
    pub is_last: bool,
}

/// An operation on a collection.
#[derive(Clone, Debug)]
pub enum Operation {
    /// Store a document. It replaces the document with the same id, if there is one.
    Put {
        /// The document.
        document: Document,
        /// Store nothing if a stored document is within this distance.
        unless_within: Option<u32>,
    },
    /// Delete the document with this id.
    Delete(DocumentId),
}

/// The result of an operation. An expired document counts as absent when it is replaced or deleted.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// A document with a new id was stored.
    Created,
    /// A document replaced the one with its id.
    Updated,
    /// Nothing was stored because of these near-duplicates: nearest first, at least one.
    Duplicate(Vec<Match>),
    /// The document was deleted.
    Deleted,
    /// There was no document to delete.
    Absent,
}

/// Resolves when the operations of a write are durable, with one outcome per operation.
pub type Receipt = BoxFuture<'static, Result<Vec<Outcome>, EngineError>>;

/// Whether a write waits for capacity in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Fail with [`EngineError::Busy`] if the queue is full.
    Shed,
    /// Wait for capacity.
    Wait,
}

/// A position in an answer: after the document with this id at this distance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The distance in bits, or for signatures in cells.
    pub distance: u32,
    /// The id of the document.
    pub id: DocumentId,
}

/// A query: which documents are within k of this hash.
#[derive(Clone, Debug)]
pub struct Query {
    /// The hash; it must have the collection's width.
    pub hash: Hash,
    /// The signature that the hash identifies, in a collection of signatures. If it is `None`, the stored
    /// signature with this hash is used, if there is one.
    pub signature: Option<Arc<[u8]>>,
    /// The distance, 0 to the collection's maximum; `None` for the collection's default.
    pub k: Option<u32>,
    /// The maximum number of matches in the answer.
    pub limit: usize,
    /// Continue after this position.
    pub after: Option<Position>,
    /// Which documents may match; `None` for all.
    pub filter: Option<Box<Filter>>,
    /// Compare every stored hash instead of probing the index.
    pub scan: bool,
}

impl Query {
    /// Whether the document is excluded by its id alone.
    fn excludes(&self, id: &DocumentId) -> bool {
        self.filter.as_ref().is_some_and(|filter| filter.excludes(id))
    }

    /// Whether rows must be read to apply the filter.
    fn needs_row(&self) -> bool {
        self.filter.as_ref().is_some_and(|filter| filter.needs_row())
    }
}

/// A document within k of the query.
#[derive(Clone, Debug, PartialEq)]
pub struct Match {
    /// Its id.
    pub id: DocumentId,
    /// Its hash.
    pub hash: Hash,
    /// The Hamming distance to the query in bits; for signatures, the number of cells that differ.
    pub distance: u32,
    /// The similarity of the texts, 0 to 1, if it is known.
    pub similarity: Option<f64>,
    /// When it expires, in milliseconds since 1970-01-01 UTC, if it does.
    pub expires_ms: Option<u64>,
    /// The document's metadata, a JSON object.
    pub metadata: Option<String>,
}

/// An answer: matches in the order of distance, then id.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The requested distance, or the collection's default.
    pub k: u32,
    /// The shape of the compared signatures; `None` for hashes.
    pub signatures: Option<SignatureShape>,
    /// The matches.
    pub matches: Vec<Match>,
    /// Where the next page begins, if there are more matches.
    pub next: Option<Position>,
    /// The cost of the answer.
    pub work: Work,
}

/// The cost of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Whether every stored hash was compared.
    pub scanned: bool,
    /// The radii of the probes around the blocks of the hash, if runs were probed.
    pub plan: Option<Plan>,
    /// The number of runs of hashes that were read.
    pub probes: u64,
    /// The number of candidates compared in these runs.
    pub candidates: u64,
    /// The number of hashes found within the distance.
    pub verified: u64,
    /// The processing time, without waiting.
    pub elapsed: Duration,
}

/// A snapshot of the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Its name.
    pub name: String,
    /// The last change before the snapshot was begun.
    pub sequence: Sequence,
    /// Its size in bytes.
    pub bytes: u64,
    /// The XXH3 checksum of the file, if known.
    pub checksum: Option<u64>,
    /// When it was written, in milliseconds since 1970-01-01 UTC, according to the file system.
    pub written_ms: Option<u64>,
}

/// Whether the engine is operational.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// It answers queries and accepts writes.
    Ready,
    /// It answers queries and accepts no writes, for this reason.
    ReadOnly(String),
    /// It accepts no writes until the disk has free space again.
    DiskFull(String),
}

/// Which writes the memory budget admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryState {
    /// All writes.
    Open,
    /// Documents one at a time, but not in bulk.
    NoBulk,
    /// No documents. Deletions and queries are still processed.
    Full,
}

/// The memory of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Bytes of resident memory at the last measurement; 0 if it cannot be measured.
    pub resident_bytes: u64,
    /// The budget in bytes, if there is one.
    pub budget_bytes: Option<u64>,
    /// Which writes are admitted.
    pub state: MemoryState,
}

/// Statistics of the engine.
#[derive(Clone, Debug)]
pub struct EngineStats {
    /// The last durable change.
    pub sequence: Sequence,
    /// Number of changes in the log since the oldest retained snapshot.
    pub log_entries: u64,
    /// Bytes on disk.
    pub disk_bytes: u64,
    /// Operations waiting to be written.
    pub queued_operations: u64,
    /// The newest snapshot.
    pub snapshot: Option<Snapshot>,
}

/// The sizes of the buckets of a collection's index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketSizes {
    /// Element `i` counts the buckets with fewer than `2^i` and at least `2^(i-1)` hashes. Element 0 counts
    /// empty buckets.
    pub histogram: Vec<u64>,
    /// The number of hashes in the largest bucket.
    pub largest: u64,
}

/// A backup as a stream of byte chunks. If an item is an error, it is the last, and the backup is
/// incomplete.
pub type Pieces = BoxStream<'static, Result<Bytes, EngineError>>;

/// An uploaded backup as a stream of byte chunks.
pub type Incoming = BoxStream<'static, io::Result<Bytes>>;

/// Computes the similarity of a stored row, 0 to 1; `None` if the row is not a match.
pub type Judge = Box<dyn FnMut(Row) -> Result<Option<f64>, NoMemory> + Send>;

/// The limits that a restored backup must satisfy, in addition to being intact: those that apply when
/// documents are added. They are checked before anything is written.
pub trait RestoreRules: Send + Sync {
    /// The maximum number of bytes of one document in the backup. This much memory is used before the
    /// document is checked.
    fn line_bytes(&self) -> usize;

    /// Checks the settings of a collection.
    ///
    /// # Errors
    /// [`EngineError::NotAdmitted`] or [`EngineError::TooLarge`].
    fn settings(&self, settings: &CollectionSettings) -> Result<(), EngineError>;

    /// Checks whether this document may be restored at this time, in milliseconds since 1970-01-01 UTC.
    ///
    /// # Errors
    /// [`EngineError::NotAdmitted`] or [`EngineError::TooLarge`].
    fn document(&self, document: &Document, now_ms: u64) -> Result<(), EngineError>;
}

/// The result of a restore.
#[derive(Clone, Debug)]
pub struct Restored {
    /// The collection immediately after the restore.
    pub collection: CollectionInfo,
    /// The manifest of the backup.
    pub from: Manifest,
    /// The number of restored documents.
    pub documents: u64,
    /// The number of documents that were skipped because they have expired.
    pub expired: u64,
}

/// The operations of an engine.
#[async_trait]
pub trait Engine: Send + Sync {
    /// Creates a collection, or changes the settings of the existing one. Changes are applied one at a time,
    /// each to the result of the previous one; the condition is checked in the same step.
    ///
    /// # Errors
    /// [`EngineError::Condition`] if the condition does not hold, and the errors of
    /// [`CollectionChange::merge`].
    async fn put_collection(
        &self,
        name: &CollectionName,
        change: CollectionChange,
        condition: Condition,
        now_ms: u64,
    ) -> Result<Changed, EngineError>;

    /// Deletes a collection with all its documents. Returns whether it existed.
    ///
    /// # Errors
    /// [`EngineError::Condition`] if the collection exists and the condition does not hold.
    async fn delete_collection(
        &self,
        name: &CollectionName,
        condition: Condition,
    ) -> Result<bool, EngineError>;

    /// Returns a collection.
    async fn collection(&self, name: &CollectionName) -> Result<CollectionInfo, EngineError>;

    /// Returns all collections in the order of their names.
    async fn collections(&self) -> Result<Vec<CollectionInfo>, EngineError>;

    /// Returns the settings of a collection. It is cheaper than [`Engine::collection`], because every
    /// request calls it.
    async fn settings(&self, name: &CollectionName) -> Result<Arc<CollectionSettings>, EngineError>;

    /// Queues operations, at most [`MAX_OPERATIONS`]. `profile` is the profile of the fingerprints among
    /// them; `None` if there are none.
    ///
    /// # Errors
    /// [`EngineError::SettingsConflict`] if the collection has another profile.
    async fn write(
        &self,
        collection: &CollectionName,
        profile: Option<&str>,
        operations: Vec<Operation>,
        admission: Admission,
    ) -> Result<Receipt, EngineError>;

    /// Returns a document; `None` if it does not exist.
    async fn get(
        &self,
        collection: &CollectionName,
        id: &DocumentId,
    ) -> Result<Option<Document>, EngineError>;

    /// Answers a query.
    async fn similar(&self, collection: &CollectionName, query: Query) -> Result<Answer, EngineError>;

    /// Answers a query with the matches for which `judge` returns a similarity.
    async fn similar_judged(
        &self,
        collection: &CollectionName,
        query: Query,
        judge: Judge,
    ) -> Result<Answer, EngineError>;

    /// Answers a query on the caller's thread if that is cheaper than handing it to another thread;
    /// otherwise `None`.
    fn similar_at_once(
        &self,
        collection: &CollectionName,
        query: &Query,
    ) -> Result<Option<Answer>, EngineError>;

    /// Answers queries, in order.
    async fn similar_batch(
        &self,
        collection: &CollectionName,
        queries: Vec<Query>,
    ) -> Result<Vec<Answer>, EngineError>;

    /// Answers queries in order on the caller's thread if their estimated cost is at most about `most`
    /// nanoseconds. Returns the estimate, or `None` without answering any query if the estimate is higher.
    /// After an error, the answers that were passed to `each` must be discarded.
    fn similar_here(
        &self,
        collection: &CollectionName,
        queries: &[Query],
        most: u64,
        each: &mut dyn FnMut(Answer),
    ) -> Result<Option<u64>, EngineError>;

    /// Returns documents in the order of their ids, from the one after `after`. The page ends when it holds
    /// `bytes` bytes, with at least one document.
    async fn export(
        &self,
        collection: &CollectionName,
        after: Option<DocumentId>,
        bytes: usize,
    ) -> Result<Page, EngineError>;

    /// Streams a backup: a snapshot of the collection that concurrent writes do not affect. `now_ms` is
    /// recorded in the backup as its time.
    async fn backup(&self, collection: &CollectionName, now_ms: u64) -> Result<Pieces, EngineError>;

    /// Creates a collection from a backup, atomically: after the whole backup has been verified, or not at
    /// all.
    ///
    /// # Errors
    /// [`EngineError::CollectionExists`] if a collection of this name exists, [`EngineError::Backup`] if the
    /// backup cannot be used, and the errors of `rules`. [`EngineError::MemoryFull`] or
    /// [`EngineError::DiskFull`] if there is not enough memory or disk space; the restore is then undone.
    async fn restore(
        &self,
        name: &CollectionName,
        tar: Incoming,
        rules: Arc<dyn RestoreRules>,
    ) -> Result<Restored, EngineError>;

    /// Returns the sizes of a collection's buckets.
    async fn bucket_sizes(&self, collection: &CollectionName) -> Result<BucketSizes, EngineError>;

    /// Takes a snapshot now.
    async fn snapshot(&self) -> Result<Snapshot, EngineError>;

    /// Returns the retained snapshots, newest first.
    async fn snapshots(&self) -> Result<Vec<Snapshot>, EngineError>;

    /// Returns the statistics.
    async fn stats(&self) -> Result<EngineStats, EngineError>;

    /// The time by which documents expire, in milliseconds since 1970-01-01 UTC. It never goes backwards.
    fn now_ms(&self) -> u64;

    /// Returns the memory in use, and which writes it admits.
    fn memory(&self) -> Memory;

    /// Checks whether the memory budget admits documents now: many at once if `is_bulk`, otherwise one.
    /// [`Engine::write`] makes the same check.
    ///
    /// # Errors
    /// [`EngineError::MemoryFull`].
    fn admit(&self, is_bulk: bool) -> Result<(), EngineError>;

    /// Whether the engine is operational.
    fn health(&self) -> Health;

    /// Finishes the queued writes, takes a last snapshot and closes. Later writes are rejected. Optional
    /// work is cancelled so that `close` ends within this time; the queued writes, or a disk that does not
    /// respond, may take longer.
    async fn close(&self, within: Duration);
}

/// The maximum number of operations in one [`Engine::write`].
pub const MAX_OPERATIONS: usize = 1_024;
