//! The types of the engine: collections, documents, operations, queries and answers.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use serde::{Deserialize, Serialize};

use super::boilerplate::{Boilerplate, Sources};
use super::cluster_queries::Placement;
use super::condition::{Condition, Version};
use super::error::EngineError;
use super::filter::Filter;
use lookalike_hamming::Plan;
use lookalike_hash::{CollectionId, CollectionName, DocumentId, Gram, Hash, Mark, Sequence, SketchCheck};
use lookalike_run::pool::Cancel;
use lookalike_store::backup::Manifest;
use lookalike_store::{CollectionSettings, Row};
use lookalike_text::fingerprint::{Containment, TextRelation};

/// The current state of a collection.
#[derive(Clone, Debug)]
pub struct CollectionInfo {
    /// Its number. Of two collections, the one with the greater number was created later.
    pub id: CollectionId,
    /// Its name.
    pub name: CollectionName,
    /// Its settings.
    pub settings: CollectionSettings,
    /// The version of these settings.
    pub version: Version,
    /// When it was created, in milliseconds since 1970-01-01 UTC.
    pub created_ms: u64,
    /// The number of documents.
    pub documents: u64,
    /// The number of distinct hashes of these documents.
    pub distinct_hashes: u64,
    /// The memory of the index in bytes.
    pub index_bytes: u64,
    /// The number of marks.
    pub marks: u64,
    /// The number of queries since it was loaded.
    pub queries: u64,
    /// The number of documents that clients of this server stored or deleted since it was loaded.
    pub written: u64,
}

/// A stored document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    /// Its id.
    pub id: DocumentId,
    /// The stored data.
    pub row: Row,
}

/// Which documents a page has, in the order of their ids.
#[derive(Clone, Debug)]
pub struct Listing {
    /// The id after which the page begins.
    pub after: Option<DocumentId>,
    /// Only documents that this filter admits.
    pub filter: Option<Box<Filter>>,
    /// Only documents that represent clusters.
    pub representatives: bool,
    /// Whether documents have their texts.
    pub has_texts: bool,
    /// The maximum number of documents.
    pub limit: usize,
    /// The bytes of documents at which the page ends. The document that reaches them is included.
    pub bytes: usize,
    /// The time after which the page ends, so that a filter that admits few does not take long.
    pub time: Duration,
}

impl Default for Listing {
    fn default() -> Listing {
        Listing {
            after: None,
            filter: None,
            representatives: false,
            has_texts: true,
            limit: usize::MAX,
            bytes: usize::MAX,
            time: Duration::MAX,
        }
    }
}

/// Consecutive documents in id order.
#[derive(Clone, Debug)]
pub struct Page {
    /// The documents.
    pub documents: Vec<Document>,
    /// The number of documents that were read, also those that the filter does not admit.
    pub examined: u64,
    /// The last document that was read, if more may follow.
    pub next: Option<DocumentId>,
}

/// Which stored documents are near-duplicates of a new one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DuplicateRule {
    /// Documents within this distance are near-duplicates.
    pub k: u32,
    /// In place of the distance, this check decides about documents with sketches.
    pub check: Option<SketchCheck>,
    /// If there are none, documents that contain at least this share of the new one are, 0 to 1.
    pub containment: Option<f64>,
    /// Whether the new one replaces its near-duplicates if it ranks before all of them by the rule of the
    /// clusters.
    pub replaces: bool,
}

/// An operation on a collection.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(clippy::large_enum_variant, reason = "nearly all operations put documents")]
pub enum Operation {
    /// Store a document. It replaces the document with the same id, if there is one.
    Put {
        /// The document.
        document: Document,
        /// Store nothing if a stored document is a near-duplicate by this measure.
        unless: Option<DuplicateRule>,
        /// Store nothing unless this holds for the stored document with its id.
        condition: Condition,
    },
    /// Delete the document with this id.
    Delete {
        /// The id.
        id: DocumentId,
        /// Delete nothing unless this holds for the document.
        condition: Condition,
    },
}

impl Operation {
    /// Stores a document, whatever is stored.
    pub(super) fn put(document: Document) -> Operation {
        Operation::Put { document, unless: None, condition: Condition::None }
    }

    /// Whether it stores a document that expires.
    pub(super) fn expires(&self) -> bool {
        matches!(self, Operation::Put { document, .. } if document.row.lifetime.end_ms().is_some())
    }
}

/// The result of an operation. An expired document counts as absent when it is replaced or deleted.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// A document with a new id was stored, in this version.
    Created(Version),
    /// A document replaced the one with its id, in this version.
    Updated(Version),
    /// A document was stored in this version in place of these near-duplicates: nearest first, without
    /// metadata.
    Replaced(Version, Vec<Match>),
    /// The document was sent before and is stored in this version; it was not written again. It expires at
    /// this time, in milliseconds since 1970-01-01 UTC, if it does.
    Repeated(Version, Option<u64>),
    /// Nothing was stored, because more documents are near than one may replace.
    TooManyNear,
    /// Nothing was stored because of these near-duplicates: nearest first, at least one, without metadata.
    Duplicate(Vec<Match>),
    /// The document was deleted.
    Deleted,
    /// There was no document to delete.
    Absent,
    /// The condition does not hold for the stored document, which has this version; `None` if there is none.
    Refused(Option<Version>),
}

impl Outcome {
    /// Whether nothing was stored because a stored document, which is no copy, contains the document.
    pub fn is_contained(&self) -> bool {
        let Outcome::Duplicate(of) = self else { return false };
        of.first().is_some_and(|near| near.shared.is_some() && near.relation != Some(TextRelation::Duplicate))
    }
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
    /// The distance, 0 to the collection's maximum.
    pub k: u32,
    /// The maximum number of matches in the answer.
    pub limit: usize,
    /// Continue after this position.
    pub after: Option<Position>,
    /// Which documents may match; `None` for all.
    pub filter: Option<Box<Filter>>,
    /// Compare every stored hash instead of probing the index.
    pub scan: bool,
    /// The document that the query is about. Documents that are marked with it are left out.
    pub document: Option<DocumentId>,
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
    /// The passages that the query (a) and the document (b) share, if they were compared.
    pub shared: Option<Box<Containment>>,
    /// What the text of the query is to that of the document, if it is known.
    pub relation: Option<TextRelation>,
    /// When it expires, in milliseconds since 1970-01-01 UTC, if it does.
    pub expires_ms: Option<u64>,
    /// The document's metadata, a JSON object.
    pub metadata: Option<String>,
    /// Its cluster, in the answer to a query on a collection with clusters.
    pub cluster: Option<Box<Placement>>,
}

impl Match {
    /// A match of which nothing else is known.
    pub(super) fn of(id: DocumentId, hash: Hash, distance: u32) -> Match {
        let (similarity, shared, relation, expires_ms) = (None, None, None, None);
        let (metadata, cluster) = (None, None);
        Match { id, hash, distance, similarity, shared, relation, expires_ms, metadata, cluster }
    }
}

/// A query: which documents share passages with this text.
#[derive(Clone, Debug)]
pub struct PassageQuery {
    /// The hash of the text.
    pub hash: Hash,
    /// Its signature, in a collection of signatures.
    pub signature: Option<Arc<[u8]>>,
    /// Its grams.
    pub grams: Vec<Gram>,
    /// The number of its characters, if it is known.
    pub characters: Option<u32>,
    /// Its source, and how documents name theirs.
    pub sources: Sources,
    /// The minimum share of the text that is in the document, or of the document that is in the text, 0 to 1.
    pub containment: f64,
    /// Whether only documents that contain this share of the text match, those that contain most first.
    pub is_part: bool,
    /// The maximum number of matches.
    pub limit: usize,
    /// Which documents may match; `None` for all.
    pub filter: Option<Box<Filter>>,
    /// The document that the query is about. Documents that are marked with it are left out.
    pub document: Option<DocumentId>,
}

impl PassageQuery {
    /// The share by which a document matches.
    pub fn share(&self, of: &Containment) -> f64 {
        if self.is_part { of.a_in_b } else { of.a_in_b.max(of.b_in_a) }
    }
}

/// The answer to a [`PassageQuery`].
#[derive(Clone, Debug, Default)]
pub struct PassageAnswer {
    /// The matches in the order of [`super::rank`].
    pub matches: Vec<Match>,
    /// The grams of the text that are boilerplate: documents of a source that are otherwise unlike have them.
    pub boilerplate: Boilerplate,
    /// Documents that would be matches without marks.
    pub marked: Vec<Match>,
}

/// An answer: matches in the order of distance, then id.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The matches.
    pub matches: Vec<Match>,
    /// Where the next page begins, if there are more matches.
    pub next: Option<Position>,
    /// The number of matches that were left out because of marks. If the document of the query is marked
    /// itself, these are all matches of one page.
    pub marked: u64,
    /// The cost of the answer.
    pub work: Work,
}

/// The result of adding marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marked {
    /// The number of new marks.
    pub added: usize,
    /// The number of those that existed.
    pub present: usize,
}

/// Marks in the order of their ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MarkPage {
    /// The marks, each with the time at which it was made, in milliseconds since 1970-01-01 UTC.
    pub marks: Vec<(Mark, u64)>,
    /// Whether more follow.
    pub has_more: bool,
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
    /// Number of changes in the history since the oldest retained snapshot.
    pub history_changes: u64,
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

/// Completes a match by its stored row. Returns whether it remains a match.
pub type Judge = Box<dyn FnMut(&mut Match, Row, &Cancel) -> Result<bool, EngineError> + Send>;

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

/// The maximum number of operations in one [`super::Engine::write`].
pub const MAX_OPERATIONS: usize = 1_024;
