//! The engine: what holds the documents and answers which of them are near. This file is the contract.
//!
//! Calls are few, coarse and async, and assume nothing about where the data is, so that an engine may be a
//! part of this process (`embedded`) or a cluster of others.
//!
//! *Invariants*
//! - 4: an operation is acknowledged (its [`Receipt`] resolves) after it is durable, and no query shows it
//!   before. A query that begins after an acknowledgement shows what was acknowledged.
//! - Operations of one [`Engine::write`] are done in order, and writes in the order in which the calls
//!   returned their receipts.
//! - `unless_within` is decided in that order too: of any number of near-duplicates offered at once, the
//!   first is stored and the others are told of it, for every k.
//! - A document whose time has come ([`Row::expires_ms`]) is in no answer any more and keeps no other from
//!   being stored, whether it has been removed from the disk or not.
//!
//! *Absent*: texts turned into hashes, HTTP, statuses, any wall clock but the one that it is handed.

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
    /// The profile of its fingerprints, `name@version`. Never changes: hashes of two are not comparable.
    pub profile: String,
    /// The width of its hashes; follows from the profile.
    pub width: Width,
    /// The shape of the signatures that its hashes are the names of, if they are such; follows from the profile and
    /// from what was wanted when the collection was made. Never changes.
    pub signatures: Option<SignatureShape>,
    /// The distance that queries use unless they name another, 0 to the width; of signatures the number of cells that
    /// may differ.
    pub k: u32,
    /// The bytes of the sketch of features that rows keep for a second check, if they do. Never changes.
    pub sketch_bytes: Option<u16>,
    /// Whether documents keep the text that they were made from.
    pub keep_text: bool,
    /// After how many seconds documents expire that say nothing of it themselves; `None` is never. Whoever writes
    /// a document applies it: a change is for those written later.
    pub expires_in: Option<u64>,
}

impl CollectionSettings {
    /// The greatest distance between two documents.
    pub fn most(&self) -> u32 {
        self.signatures.map_or(self.width.bits(), |shape| u32::from(shape.cells))
    }
}

/// A collection as it stands.
#[derive(Clone, Debug)]
pub struct CollectionInfo {
    /// Its name.
    pub name: CollectionName,
    /// Its settings.
    pub settings: CollectionSettings,
    /// Which settings these are, in a number.
    pub version: SettingsVersion,
    /// When it was made, in milliseconds since 1970-01-01 UTC.
    pub created_ms: u64,
    /// How many documents it has.
    pub documents: u64,
    /// How many distinct hashes they bear.
    pub distinct_hashes: u64,
    /// The bytes that the index of these hashes occupies in memory.
    pub index_bytes: u64,
}

/// A stored document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Its id.
    pub id: DocumentId,
    /// What is kept of it.
    pub row: Row,
}

/// Documents that follow each other.
#[derive(Clone, Debug)]
pub struct Page {
    /// The documents.
    pub documents: Vec<Document>,
    /// Whether there are no more.
    pub is_last: bool,
}

/// One thing to be done to a collection.
#[derive(Clone, Debug)]
pub enum Operation {
    /// Store a document, in place of the one with this id if there is one.
    Put {
        /// The document.
        document: Document,
        /// Store nothing if a stored document lies within this distance.
        unless_within: Option<u32>,
    },
    /// Delete the document with this id.
    Delete(DocumentId),
}

/// What became of an operation. One that replaces or deletes a document that has expired found none.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// A document with a new id was stored.
    Created,
    /// A document took the place of the one with its id.
    Updated,
    /// Nothing was stored, because of these: the nearest first, at least one.
    Duplicate(Vec<Match>),
    /// The document was deleted.
    Deleted,
    /// There was none to delete.
    Absent,
}

/// Resolves when the operations of a write are durable, with an outcome for each.
pub type Receipt = BoxFuture<'static, Result<Vec<Outcome>, EngineError>>;

/// Whether a writer waits for room in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Fail with [`EngineError::Busy`] if the queue is full.
    Shed,
    /// Wait for room.
    Wait,
}

/// A place in an answer: after the document with this id at this distance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The distance in bits.
    pub distance: u32,
    /// The document.
    pub id: DocumentId,
}

/// A question: which documents lie within k of this hash.
#[derive(Clone, Debug)]
pub struct Query {
    /// The hash; it must have the collection's width.
    pub hash: Hash,
    /// The signature of which the hash is the name, if that is what the collection has; without it the stored one of
    /// that name is looked around, if there is one.
    pub signature: Option<Arc<[u8]>>,
    /// The distance, 0 to the greatest of the collection; the collection's own if there is none.
    pub k: Option<u32>,
    /// How many matches to answer with, at most.
    pub limit: usize,
    /// Answer with what comes after this.
    pub after: Option<Position>,
    /// Which documents count; all, if there is none.
    pub filter: Option<Box<Filter>>,
    /// Compare every stored hash in place of probing the index.
    pub scan: bool,
}

impl Query {
    /// Whether the id alone rules a document out.
    fn excludes(&self, id: &DocumentId) -> bool {
        self.filter.as_ref().is_some_and(|filter| filter.excludes(id))
    }

    /// Whether rows have to be read to know which documents count.
    fn needs_row(&self) -> bool {
        self.filter.as_ref().is_some_and(|filter| filter.needs_row())
    }
}

/// A document within k.
#[derive(Clone, Debug, PartialEq)]
pub struct Match {
    /// Its id.
    pub id: DocumentId,
    /// Its hash.
    pub hash: Hash,
    /// The Hamming distance between that and the query, in bits; of signatures, in cells.
    pub distance: u32,
    /// How similar the texts are, 0 to 1, where that is known.
    pub similarity: Option<f64>,
    /// When it expires, in milliseconds since 1970-01-01 UTC, if it does.
    pub expires_ms: Option<u64>,
    /// The JSON object that came with the document.
    pub metadata: Option<String>,
}

/// An answer: matches by distance, then id.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The distance that was asked for, or the collection's.
    pub k: u32,
    /// The shape of the signatures that were compared, if they were.
    pub signatures: Option<SignatureShape>,
    /// The matches.
    pub matches: Vec<Match>,
    /// Where the next page begins, if there is more.
    pub next: Option<Position>,
    /// How the answer was found.
    pub work: Work,
}

/// What an answer cost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Whether every stored hash was compared.
    pub scanned: bool,
    /// The radii around the blocks of the hash, if runs were probed.
    pub plan: Option<Plan>,
    /// Runs of hashes read.
    pub probes: u64,
    /// Places for hashes compared in them.
    pub candidates: u64,
    /// Hashes found within the distance.
    pub verified: u64,
    /// The time it took, without waiting.
    pub elapsed: Duration,
}

/// A snapshot of the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Its name.
    pub name: String,
    /// The change at which it was begun.
    pub sequence: Sequence,
    /// Its size in bytes.
    pub bytes: u64,
    /// The XXH3 checksum of the file, if known.
    pub checksum: Option<u64>,
    /// When it was written, in milliseconds since 1970-01-01 UTC, by the file system.
    pub written_ms: Option<u64>,
}

/// Whether the engine can do its work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// It can.
    Ready,
    /// It answers queries and takes no writes, for this reason.
    ReadOnly(String),
    /// The same until there is room on the disk again.
    DiskFull(String),
}

/// What the memory budget admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryState {
    /// All.
    Open,
    /// Documents one at a time.
    NoBulk,
    /// No documents. Deletions and queries go on.
    Full,
}

/// The memory of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Bytes of resident memory, as measured a moment ago; 0 if that cannot be done.
    pub resident_bytes: u64,
    /// The budget in bytes, if there is one.
    pub budget_bytes: Option<u64>,
    /// What that admits.
    pub state: MemoryState,
}

/// The state of the engine in numbers.
#[derive(Clone, Debug)]
pub struct EngineStats {
    /// The last durable change.
    pub sequence: Sequence,
    /// Changes in the log since the oldest snapshot kept.
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
    /// For each power of two `2^i`, how many buckets hold fewer hashes than that and at least half as many.
    /// The first counts empty ones.
    pub histogram: Vec<u64>,
    /// The largest.
    pub largest: u64,
}

/// A backup on its way out, in pieces. An error is its last item: what came before is not whole then.
pub type Pieces = BoxStream<'static, Result<Bytes, EngineError>>;

/// A backup on its way in, in pieces.
pub type Incoming = BoxStream<'static, io::Result<Bytes>>;

/// How similar a stored row is, 0 to 1; `None` for one that does not count.
pub type Judge = Box<dyn FnMut(Row) -> Result<Option<f64>, NoMemory> + Send>;

/// What a caller asks of a backup beyond its being whole: the limits that documents are held to when they are added.
/// They are asked before anything is written.
pub trait RestoreRules: Send + Sync {
    /// Bytes of a document as the backup has it, at most: so much of it is held in memory before it is known.
    fn line_bytes(&self) -> usize;

    /// Whether a collection may have these settings.
    ///
    /// # Errors
    /// [`EngineError::NotAdmitted`] or [`EngineError::TooLarge`].
    fn settings(&self, settings: &CollectionSettings) -> Result<(), EngineError>;

    /// Whether this document may be restored at this time, in milliseconds since 1970-01-01 UTC.
    ///
    /// # Errors
    /// [`EngineError::NotAdmitted`] or [`EngineError::TooLarge`].
    fn document(&self, document: &Document, now_ms: u64) -> Result<(), EngineError>;
}

/// What was restored.
#[derive(Clone, Debug)]
pub struct Restored {
    /// The collection as it was right after.
    pub collection: CollectionInfo,
    /// What the backup says of itself.
    pub from: Manifest,
    /// How many documents there are.
    pub documents: u64,
    /// How many were left out because they have expired since.
    pub expired: u64,
}

/// What an engine does.
#[async_trait]
pub trait Engine: Send + Sync {
    /// Makes a collection, or changes the settings of the one of this name. Changes are merged one after the other, each
    /// with what the one before made; the condition is checked at the same moment.
    ///
    /// # Errors
    /// [`EngineError::Condition`] if the condition does not hold, and those of [`CollectionChange::merge`].
    async fn put_collection(
        &self,
        name: &CollectionName,
        change: CollectionChange,
        condition: Condition,
        now_ms: u64,
    ) -> Result<Changed, EngineError>;

    /// Deletes a collection with all its documents; whether there was one.
    ///
    /// # Errors
    /// [`EngineError::Condition`] if there is one and the condition does not hold.
    async fn delete_collection(
        &self,
        name: &CollectionName,
        condition: Condition,
    ) -> Result<bool, EngineError>;

    /// A collection.
    async fn collection(&self, name: &CollectionName) -> Result<CollectionInfo, EngineError>;

    /// All collections, by name.
    async fn collections(&self) -> Result<Vec<CollectionInfo>, EngineError>;

    /// The settings of a collection: cheaper than [`Engine::collection`], for every request.
    async fn settings(&self, name: &CollectionName) -> Result<Arc<CollectionSettings>, EngineError>;

    /// Queues operations, at most [`MAX_OPERATIONS`] of them. `profile` is the one by which the documents among
    /// them were fingerprinted, if any was.
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

    /// A document.
    async fn get(
        &self,
        collection: &CollectionName,
        id: &DocumentId,
    ) -> Result<Option<Document>, EngineError>;

    /// Answers a query.
    async fn similar(&self, collection: &CollectionName, query: Query) -> Result<Answer, EngineError>;

    /// Answers a query with those of its matches that `judge` gives a similarity.
    async fn similar_judged(
        &self,
        collection: &CollectionName,
        query: Query,
        judge: Judge,
    ) -> Result<Answer, EngineError>;

    /// Answers a query on the caller's thread, if that takes less than handing it to another: `None` if it takes more.
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

    /// Answers queries in order, on the caller's thread, if they are expected to take no longer than `most` nanoseconds
    /// or so: `None`, and nothing is answered, if they are; else what was expected. After an error what `each` was
    /// given does not count.
    fn similar_here(
        &self,
        collection: &CollectionName,
        queries: &[Query],
        most: u64,
        each: &mut dyn FnMut(Answer),
    ) -> Result<Option<u64>, EngineError>;

    /// Documents in the order of their ids, from the one after `after`: as many as hold `bytes` bytes, and one at least.
    async fn export(
        &self,
        collection: &CollectionName,
        after: Option<DocumentId>,
        bytes: usize,
    ) -> Result<Page, EngineError>;

    /// A backup of a collection as it is at one moment, while others write to it. `now_ms` is what the backup
    /// says that time is.
    async fn backup(&self, collection: &CollectionName, now_ms: u64) -> Result<Pieces, EngineError>;

    /// Makes a collection of a backup: whole, once all of it has been verified, or not at all.
    ///
    /// # Errors
    /// [`EngineError::CollectionExists`] if there is one of this name, [`EngineError::Backup`] if the backup is
    /// not to be used, and what the rules refuse with. [`EngineError::MemoryFull`] or [`EngineError::DiskFull`] if there
    /// is no room for all of it: then it is undone.
    async fn restore(
        &self,
        name: &CollectionName,
        tar: Incoming,
        rules: Arc<dyn RestoreRules>,
    ) -> Result<Restored, EngineError>;

    /// The sizes of a collection's buckets.
    async fn bucket_sizes(&self, collection: &CollectionName) -> Result<BucketSizes, EngineError>;

    /// Takes a snapshot now.
    async fn snapshot(&self) -> Result<Snapshot, EngineError>;

    /// The snapshots kept, the newest first.
    async fn snapshots(&self) -> Result<Vec<Snapshot>, EngineError>;

    /// The state in numbers.
    async fn stats(&self) -> Result<EngineStats, EngineError>;

    /// The time by which documents expire, in milliseconds since 1970-01-01 UTC. It never goes back.
    fn now_ms(&self) -> u64;

    /// How much memory is in use, and what that admits.
    fn memory(&self) -> Memory;

    /// Whether documents are taken now, one or many at once; [`Engine::write`] asks the same.
    ///
    /// # Errors
    /// [`EngineError::MemoryFull`].
    fn admit(&self, is_bulk: bool) -> Result<(), EngineError>;

    /// Whether it can do its work.
    fn health(&self) -> Health;

    /// Finishes what is queued, takes a last snapshot and closes. Later writes are refused. What nobody waits for is given
    /// up so that it ends within this time; what is queued, and a disk that does not answer, may take longer.
    async fn close(&self, within: Duration);
}

/// The most operations that one [`Engine::write`] takes.
pub const MAX_OPERATIONS: usize = 1_024;
