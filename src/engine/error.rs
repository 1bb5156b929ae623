//! What an engine may answer in place of a result, and what the caller may do about it.

use std::io;
use std::path::PathBuf;

use super::{MemoryState, SettingsVersion};
use crate::backup::BackupError;
use crate::call::NoMemory;
use crate::ids::{CollectionName, Hash, Width};
use crate::pool::PoolError;
use crate::snapshot::SnapshotError;
use crate::store::StoreError;

/// An error of a running engine.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// There is no such collection.
    #[error("there is no collection \"{0}\"; PUT /collections/{0} makes it")]
    NoCollection(CollectionName),
    /// What is stored would not fit the settings.
    #[error("collection {name:?} has {setting} {stored}, and its documents do not fit {setting} {wanted}. {}, or make another collection", way_out(setting), name = .name.as_str())]
    SettingsConflict {
        /// The collection.
        name: CollectionName,
        /// Which setting.
        setting: &'static str,
        /// What it is.
        stored: String,
        /// What it was to be.
        wanted: String,
    },
    /// A collection cannot have such a setting, or a question about it such a parameter.
    #[error("{detail}")]
    Invalid {
        /// The field or parameter.
        field: &'static str,
        /// What is wrong, what the range is, what to do.
        detail: String,
    },
    /// The collection is not as a request says that it must be. Nothing was done.
    #[error("{}", said_of_condition(name, *version))]
    Condition {
        /// The collection.
        name: CollectionName,
        /// Which settings it has, if there is one.
        version: Option<SettingsVersion>,
    },
    /// A collection of that name is in the way.
    #[error(
        "there is a collection \"{0}\" already; restore under another name, or delete it first with DELETE /collections/{0}"
    )]
    CollectionExists(CollectionName),
    /// The backup cannot be taken or used.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// A document of a backup is larger than documents may be. Nothing was done.
    #[error("{0}")]
    TooLarge(String),
    /// A backup has something that the limits of inserts do not allow. Nothing was done.
    #[error("{0}")]
    NotAdmitted(String),
    /// An upload ended before its end. Nothing was done.
    #[error("the body ended before its end: {0}")]
    Upload(String),
    /// An upload cannot be kept while it is verified. Nothing was done.
    #[error("the backup cannot be kept under the data directory while it is verified")]
    Spool(#[source] io::Error),
    /// A hash of another width than the collection's.
    #[error("the hash has {found} bits, the collection {name:?} has hashes of {expected}", name = .name.as_str(), expected = .expected.bits(), found = .found.bits())]
    Width {
        /// The collection.
        name: CollectionName,
        /// Its width.
        expected: Width,
        /// The hash's.
        found: Width,
    },
    /// No signature, or one that is not as long as those of the collection.
    #[error("the signature has {found} bytes, the collection {name:?} has signatures of {expected}", name = .name.as_str())]
    Signature {
        /// The collection.
        name: CollectionName,
        /// The bytes of its signatures.
        expected: usize,
        /// The bytes that it has, 0 if there is none.
        found: usize,
    },
    /// A name that is no stored signature's.
    #[error("no stored document has a signature of the name {0}; give a text, an id or the signature itself")]
    NoSignature(Hash),
    /// A distance past the greatest.
    #[error("k is {k}; in this collection it ranges from 0 to {most}")]
    Distance {
        /// The distance.
        k: u32,
        /// The width of the collection's hashes, or the cells of its signatures.
        most: u32,
    },
    /// One of several queries cannot be answered.
    #[error("{source}")]
    Question {
        /// Its place among them, from 0.
        at: usize,
        /// What is wrong with it.
        source: Box<EngineError>,
    },
    /// Too much is queued already. Nothing was done.
    #[error("{0} is full; try again in a moment")]
    Busy(&'static str),
    /// The memory budget is used up. Nothing was done.
    #[error("{} ({resident} bytes of a budget of {budget} are in use); delete documents, or give the server more memory (memory.budget)", match .state { MemoryState::Full => "no new documents are taken", _ => "documents are taken one at a time only" })]
    MemoryFull {
        /// Bytes of resident memory.
        resident: u64,
        /// The budget in bytes.
        budget: u64,
        /// What is refused.
        state: MemoryState,
    },
    /// No writes are taken. Nothing was done.
    #[error("no writes are taken: {0}")]
    ReadOnly(String),
    /// There is no room on the disk. Nothing was done; it may be tried again when there is.
    #[error("no writes are taken: {0}")]
    DiskFull(String),
    /// The write failed while it was made durable: nobody knows whether it is.
    #[error("the write may or may not be stored: {0}")]
    Unknown(String),
    /// The engine is closing. Nothing was done.
    #[error("the server is shutting down")]
    Closed,
    /// The processors are busy, or a task failed.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// There is no memory for the request.
    #[error(transparent)]
    NoMemory(#[from] NoMemory),
    /// The store cannot be read.
    #[error("the store cannot be read")]
    Store(#[from] StoreError),
    /// A snapshot was not taken. The data is safe without it.
    #[error("no snapshot was taken")]
    Snapshot(#[from] SnapshotError),
}

impl EngineError {
    /// The same of the query at this place among several, if it is the query that is wrong.
    pub(super) fn of_question(self, at: usize) -> EngineError {
        if self.is_of_question() { EngineError::Question { at, source: Box::new(self) } } else { self }
    }

    /// Whether the query or the document is wrong, and not the collection, the time or the server.
    pub fn is_of_question(&self) -> bool {
        use EngineError::{Distance, Invalid, NoSignature, Signature, Width};
        matches!(self, Distance { .. } | Invalid { .. } | NoSignature(_) | Signature { .. } | Width { .. })
    }
}

/// What to do about a setting that conflicts with what is stored.
fn way_out(setting: &str) -> &'static str {
    match setting {
        "threshold" => "Leave profile out to change the distance of queries alone and keep the bands",
        "sketch_bytes" => "Leave sketch_bytes out, name the number it has",
        _ => "Leave profile out, name the one it has",
    }
}

fn said_of_condition(name: &CollectionName, version: Option<SettingsVersion>) -> String {
    match version {
        Some(version) => format!(
            "collection \"{name}\" has the ETag \"{version}\" now, which the condition of the request does not allow; GET \
             /collections/{name} tells its settings: look at them, and send the change with their ETag"
        ),
        None => format!(
            "there is no collection \"{name}\", and the condition of the request is that there is one; leave If-Match \
             out to make it"
        ),
    }
}

/// Why an engine does not start.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The data directory cannot be used.
    #[error("the data directory {} cannot be {action}; choose one that can with --data DIR", path.display())]
    Directory {
        /// The path.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// It was written by a newer version.
    #[error("{} has data of format {found}; this version reads format {known}. Use a newer version of lookalike", path.display())]
    Newer {
        /// The data directory.
        path: PathBuf,
        /// Its format.
        found: String,
        /// The format of this version.
        known: u32,
    },
    /// The file that says what the directory holds is not as it was written.
    #[error("{} is damaged at byte 0: {what}. Nothing was changed", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What does not fit.
        what: String,
    },
    /// A new directory was wanted.
    #[error("{} is not empty; name a directory that is not there yet", path.display())]
    NotEmpty {
        /// The directory.
        path: PathBuf,
    },
    /// The store does not open.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A system thread could not be started.
    #[error("a thread cannot be started")]
    Thread(#[source] io::Error),
}
