//! The errors of an engine. Each message names the way out where there is one.

use std::io;
use std::path::PathBuf;

use super::marks::MAX_MARKS_OF_DOCUMENT;
use super::{MemoryState, Version};
use lookalike_hamming::snapshot::SnapshotError;
use lookalike_hash::{CollectionName, DocumentId, Hash, Width};
use lookalike_run::call::NoMemory;
use lookalike_run::pool::PoolError;
use lookalike_store::StoreError;
use lookalike_store::backup::BackupError;

/// An error of a running engine.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// There is no collection of this name.
    #[error("there is no collection \"{0}\"; PUT /collections/{0} creates it")]
    NoCollection(CollectionName),
    /// The stored documents would not fit the settings.
    #[error(
        "collection {name:?} has {setting} {stored}, and its documents do not fit {setting} {wanted}. {}, or \
         make another collection",
        remedy(setting),
        name = .name.as_str()
    )]
    SettingsConflict {
        /// The collection.
        name: CollectionName,
        /// The setting.
        setting: &'static str,
        /// Its stored value.
        stored: String,
        /// Its requested value.
        wanted: String,
    },
    /// An invalid setting of a collection, or an invalid parameter of a query.
    #[error("{detail}")]
    Invalid {
        /// The field or parameter.
        field: &'static str,
        /// What is wrong, what the range is, and what to do.
        detail: String,
    },
    /// The condition of the request does not hold for the collection. Nothing was done.
    #[error("{}", condition_message(name, *version))]
    Condition {
        /// The collection.
        name: CollectionName,
        /// The version of its settings; `None` if it does not exist.
        version: Option<Version>,
    },
    /// A collection of this name already exists.
    #[error(
        "there is a collection \"{0}\" already; restore under another name, or delete it first with DELETE \
         /collections/{0}"
    )]
    CollectionExists(CollectionName),
    /// The backup cannot be made or used.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// A document of a backup exceeds the size limit. Nothing was done.
    #[error("{0}")]
    TooLarge(String),
    /// A backup contains something that the limits for added documents do not allow. Nothing was done.
    #[error("{0}")]
    NotAdmitted(String),
    /// An upload was incomplete. Nothing was done.
    #[error("the body ended before its end: {0}")]
    Upload(String),
    /// An upload cannot be stored while it is verified. Nothing was done.
    #[error("the backup cannot be kept under the data directory while it is verified")]
    Spool(#[source] io::Error),
    /// The hash has another width than the hashes of the collection.
    #[error(
        "the hash has {found} bits, the collection {name:?} has hashes of {expected}",
        name = .name.as_str(),
        expected = .expected.bits(),
        found = .found.bits()
    )]
    Width {
        /// The collection.
        name: CollectionName,
        /// The width of its hashes.
        expected: Width,
        /// The width of this hash.
        found: Width,
    },
    /// The signature is missing, or its length is not that of the collection's signatures.
    #[error(
        "the signature has {found} bytes, the collection {name:?} has signatures of {expected}",
        name = .name.as_str()
    )]
    Signature {
        /// The collection.
        name: CollectionName,
        /// The length of its signatures in bytes.
        expected: usize,
        /// The length of this signature in bytes; 0 if it is missing.
        found: usize,
    },
    /// No stored signature has this hash.
    #[error(
        "no stored document has a signature with the hash {0}; give a text, an id or the signature itself"
    )]
    NoSignature(Hash),
    /// A distance greater than the maximum.
    #[error("k is {k}; in this collection it ranges from 0 to {most}")]
    Distance {
        /// The requested distance.
        k: u32,
        /// The maximum: the width of the collection's hashes, or the cells of its signatures.
        most: u32,
    },
    /// A document would get more marks than it may have. Nothing was done.
    #[error(
        "document {id:?} would have more than {MAX_MARKS_OF_DOCUMENT} marks, which is the limit; remove some \
         with DELETE /marks, or mark the document itself with {{\"ids\": [{id:?}]}}, which separates it from \
         all others",
        id = .id.as_str()
    )]
    TooManyMarks {
        /// The document.
        id: DocumentId,
    },
    /// A queue is full. Nothing was done.
    #[error("{0} is full; try again in a moment")]
    Busy(&'static str),
    /// The collection is being given fingerprints of another form, or was since the write was prepared.
    /// Nothing was done.
    #[error(
        "collection \"{0}\" is given its new fingerprints in this moment (POST /collections/{0}/reindex); \
         try again in a moment"
    )]
    Switching(CollectionName),
    /// The new collection of a reindex lacks changes of the old one. Nothing was done. This is a fault of the
    /// caller, who has not frozen the old one or not written what it took.
    #[error("collection \"{0}\" has changes that its reindex has not followed; it was left as it was")]
    ChangesLeft(CollectionName),
    /// Another reindex of the collection is running, on this replica.
    #[error(
        "collection \"{name}\" is being reindexed by the server {server:?}; GET and DELETE of the same path \
         there return its progress and end it"
    )]
    ReindexedBy {
        /// The collection.
        name: CollectionName,
        /// The server.
        server: String,
    },
    /// The other servers have discarded a hidden collection. Nothing of it is left.
    #[error(
        "the replicas have discarded what was restored or reindexed, because this server was \
         not on their list for more than ten seconds; begin again"
    )]
    Discarded,
    /// The memory budget is used up. Nothing was done.
    #[error(
        "{} ({resident} bytes of a budget of {budget} are in use); delete documents, or give the server more \
         memory (memory.budget)",
        match .state {
            MemoryState::Full => "no new documents are accepted",
            _ => "documents are accepted one at a time only",
        }
    )]
    MemoryFull {
        /// Bytes of resident memory.
        resident: u64,
        /// The budget in bytes.
        budget: u64,
        /// Which writes are rejected.
        state: MemoryState,
    },
    /// No writes are accepted. Nothing was done.
    #[error("no writes are accepted: {0}")]
    ReadOnly(String),
    /// The disk has no free space. Nothing was done; the write may be retried when there is space.
    #[error("no writes are accepted: {0}")]
    DiskFull(String),
    /// The write failed while it was being made durable. It is not known whether it is durable.
    #[error("the write may or may not be stored: {0}")]
    Unknown(String),
    /// The shared log accepts no entries. Nothing was done.
    #[error("no writes are accepted: {0}; lookups are answered from this server's data")]
    LogUnavailable(String),
    /// This server has not applied an entry of the log in time.
    #[error(
        "this server has applied the log up to entry {applied}, and not up to {position}; try again, or ask \
         another server"
    )]
    Behind {
        /// The position that was asked for.
        position: u64,
        /// The last entry that is applied.
        applied: u64,
    },
    /// The engine is closing. Nothing was done.
    #[error("the server is shutting down")]
    Closed,
    /// The CPU pool is full, or a task failed.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// There is not enough memory for the request.
    #[error(transparent)]
    NoMemory(#[from] NoMemory),
    /// The store cannot be read.
    #[error("the store cannot be read")]
    Store(#[from] StoreError),
    /// No snapshot was taken. The data is safe without it.
    #[error("no snapshot was taken")]
    Snapshot(#[from] SnapshotError),
}

impl EngineError {
    /// Whether the cause is the query or the document, and not the collection, the load or the server.
    pub fn is_of_question(&self) -> bool {
        use EngineError::{Distance, Invalid, NoSignature, Signature, Width};
        matches!(self, Distance { .. } | Invalid { .. } | NoSignature(_) | Signature { .. } | Width { .. })
    }
}

/// The remedy for a setting that conflicts with the stored documents.
fn remedy(setting: &str) -> &'static str {
    match setting {
        "threshold" => "Leave profile out to change the distance of queries alone and keep the bands",
        "sketch_bytes" => "Leave sketch_bytes out, name the number it has",
        "passages" => "Leave passages out",
        "clusters" => "Leave clusters out; POST /collections/NAME/clusters builds them by another rule",
        _ => "Leave profile out, name the one it has",
    }
}

fn condition_message(name: &CollectionName, version: Option<Version>) -> String {
    match version {
        Some(version) => format!(
            "collection \"{name}\" has the ETag \"{version}\" now, which the condition of the request does \
             not allow; GET /collections/{name} returns its settings: check them, and send the change with \
             their ETag"
        ),
        None => format!(
            "there is no collection \"{name}\", and the condition of the request is that there is one; leave \
             If-Match out to make it"
        ),
    }
}

/// Why an engine cannot start.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The data directory cannot be used.
    #[error("the data directory {} cannot be {action}; choose one that can with --data DIR", path.display())]
    Directory {
        /// The path.
        path: PathBuf,
        /// The action that failed.
        action: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// The directory was written by a newer version.
    #[error(
        "{} has data of format {found}; this version reads format {known}. Use a newer version of lookalike",
        path.display()
    )]
    Newer {
        /// The data directory.
        path: PathBuf,
        /// Its format.
        found: String,
        /// The format of this version.
        known: u32,
    },
    /// The file that records the format of the directory is damaged.
    #[error("{} is damaged at byte 0: {what}. Nothing was changed", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The directory must be new, but it is not empty.
    #[error("{} is not empty; name a directory that does not exist yet", path.display())]
    NotEmpty {
        /// The directory.
        path: PathBuf,
    },
    /// The directory is that of a single server and not of a replica, or the other way round.
    #[error("{} has the data of {what}: {way_out}", path.display())]
    Replica {
        /// The data directory.
        path: PathBuf,
        /// Whose data it has.
        what: &'static str,
        /// What to do.
        way_out: &'static str,
    },
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A system thread could not be started.
    #[error("a thread cannot be started")]
    Thread(#[source] io::Error),
}
