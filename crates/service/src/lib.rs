//! The service, independent of HTTP: fingerprints texts, adds documents, answers queries, manages
//! collections.
//!
//! It converts texts into hashes on the CPU pool and passes them to the engine. It has no clock and no
//! source of randomness of its own: both are passed in. So is the engine, possibly after the first request.
//!
//! *Absent*: status codes, routes and wire types (see `http`), and how documents are stored.

#![deny(unreachable_pub)]

mod ask;
mod backups;
mod buckets;
mod calibrate;
mod calibrated;
mod calibration_set;
mod checks;
mod clusters;
mod collections;
mod compare;
mod counts;
mod cursor;
mod deed;
mod deletions;
mod documents;
mod duplicates;
mod error;
mod exported;
mod fingerprints;
mod given;
mod images;
mod jobs;
mod learning;
mod limits;
mod listing;
mod lookup;
mod marks;
mod neighbours;
mod pairs;
mod parquet;
mod passages;
mod patch;
mod preview;
mod reindex;
mod runs;
mod second_check;
mod strict_json;
mod thumbnails;

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use thread_local::ThreadLocal;
use tokio::sync::Semaphore;

pub use ask::{Ask, By};
pub use calibrate::{
    CALIBRATION_DOCUMENTS, CALIBRATION_SEED, CALIBRATION_TEXTS, Calibration, DUPLICATE_SHARE,
    WantedCalibration,
};
pub use calibrated::Calibrated;
pub use clusters::{ClusterFound, ClusterList, WantedClusters};
pub use collections::WantedCollection;
pub use compare::{AskedSide, Compared, ComparedPassages, Comparison, Side};
pub use deed::Deed;
pub use deletions::Deletion;
pub use documents::{Added, Adding, EXPIRES_IN, Expires, Offered, Prepared, StoreRule, status};
pub use error::ServiceError;
pub use exported::Exported;
pub use fingerprints::{Content, Explained, Fingerprinted, working_bytes};
pub use given::{Counted, Given};
pub use learning::{WEIGHTS_BYTES, WantedWeights};
pub use limits::Limits;
pub use listing::{Exporting, Listed, WantedList};
pub use lookup::{Found, Lookup, Pending};
pub use marks::{MarkList, WantedMarks};
pub use neighbours::Neighbours;
pub use parquet::{ParquetFile, ParquetRows};
pub use passages::Passages;
pub use patch::Patch;
pub use preview::{Fate, Foreseen};
pub use reindex::{Reindexed, WantedReindex};
pub use runs::Run;
pub use second_check::{DEFAULT_SKETCH, Measure, SKETCH_BYTES};
pub use strict_json::Strict;
pub use thumbnails::{THUMBNAIL_BYTES, keeps_texts, keeps_thumbnails};

// Types in answers, so that callers do not depend on the lower layers.
pub use lookalike_engine::{
    Admission, BackupError, Bound, BucketSizes, Changed, ClusterOrder, CollectionInfo, CollectionSettings,
    Condition, Document, DocumentPair, DuplicateRule, EngineError, EngineStats, FieldCondition, Filter,
    FoundCluster, Health, Listing, Marked, Match, Member, Memory, MemoryState, Outcome, Page, Placement,
    Relation, Restored, SettingsChange, Snapshot, Version, Weights, Work, WorkBudget,
};
pub use lookalike_eval::{Choice, Estimate, Expected, Measured, MeasuredBy, MeasuredSigned, PROMISED};
pub use lookalike_run::pool::{Cancel, Patience, PoolError};
pub use lookalike_text::fingerprint::{
    Containment, DifferingFeature, FeatureComparison, GivenFeature, Profile, Profiles, SharedPassage, Status,
    TextRelation,
};
pub use lookalike_text::{Change, CharsetOf, Decoded, PageText, decode};

use buckets::Buckets;
use calibrate::Calibrations;
use counts::{Costs, Counters};
use deletions::Deletions;
use lookalike_engine::{Engine, Progress};
use lookalike_hash::{CollectionName, DocumentId, Hash};
use lookalike_run::call::{self, Client};
use lookalike_run::pool::CpuPool;
use reindex::Reindexes;
use runs::Runs;

/// Functions and data that the caller provides to the service.
#[derive(Clone, Copy)]
pub struct Surroundings {
    /// Milliseconds since 1970-01-01 UTC.
    pub now_ms: fn() -> u64,
    /// Returns a unique id.
    pub new_id: fn() -> DocumentId,
    /// The recipes: how each profile makes a hash from a text.
    pub profiles: Profiles,
}

/// The service.
pub struct Service {
    engine: OnceLock<Arc<Engine>>,
    starting: Arc<Progress>,
    pool: CpuPool,
    limits: Limits,
    surroundings: Surroundings,
    counters: Counters,
    /// Counts of each thread that are not flushed yet.
    costs: ThreadLocal<Mutex<Costs>>,
    buckets: Buckets,
    calibrations: Calibrations,
    deletions: Deletions,
    reindexes: Reindexes,
    runs: Arc<Runs>,
    snapshots: Semaphore,
    collection_changes: Semaphore,
}

/// Maximum number of snapshots in progress or waiting. A client that requests a snapshot while one is being
/// finished waits for a second one, which has everything the client wrote.
const SNAPSHOTS: usize = 2;
/// Maximum number of concurrent creations, changes and deletions of collections.
const COLLECTION_CHANGES: usize = 16;
/// Bodies up to this size are parsed on the caller's thread, because handing them to the pool costs more.
const INLINE_BYTES: usize = 32 << 10;
/// Bytes of memory per byte of a parsed body, for example for the strings of its JSON.
const MEMORY_PER_BYTE: usize = 2;

impl Service {
    /// A service without an engine. [`Service::start`] makes it ready.
    pub fn new(pool: CpuPool, limits: Limits, surroundings: Surroundings) -> Service {
        Service {
            engine: OnceLock::new(),
            starting: Arc::new(Progress::default()),
            pool,
            limits,
            surroundings,
            counters: Counters::default(),
            costs: ThreadLocal::new(),
            buckets: Buckets::default(),
            calibrations: Calibrations::default(),
            deletions: Deletions::default(),
            reindexes: Reindexes::default(),
            runs: Arc::default(),
            snapshots: Semaphore::new(SNAPSHOTS),
            collection_changes: Semaphore::new(COLLECTION_CHANGES),
        }
    }

    /// The progress of opening the engine. The caller that opens it updates this.
    pub fn starting(&self) -> &Arc<Progress> {
        &self.starting
    }

    /// Sets the engine. Only the first call has an effect.
    pub fn start(&self, engine: Arc<Engine>) {
        let _ = self.engine.set(engine);
    }

    /// The engine.
    ///
    /// # Errors
    /// [`ServiceError::NotReady`] until [`Service::start`] is called.
    fn engine(&self) -> Result<&Arc<Engine>, ServiceError> {
        self.engine.get().ok_or_else(|| ServiceError::not_ready(&self.starting))
    }

    /// The limits.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The time, in milliseconds since 1970-01-01 UTC.
    pub fn now_ms(&self) -> u64 {
        (self.surroundings.now_ms)()
    }

    /// The time by which documents expire, in milliseconds since 1970-01-01 UTC.
    ///
    /// # Errors
    /// If the server is not ready.
    pub fn expiry_now_ms(&self) -> Result<u64, ServiceError> {
        Ok(self.engine()?.now_ms())
    }

    /// The recipes.
    pub fn profiles(&self) -> Profiles {
        self.surroundings.profiles
    }

    /// Whether work on this number of bytes runs on the CPU pool.
    pub fn goes_aside(bytes: usize) -> bool {
        bytes > INLINE_BYTES
    }

    /// Runs work on this number of bytes: on the caller's thread if they are few, otherwise on the CPU pool.
    ///
    /// # Errors
    /// [`ServiceError::Engine`] if the pool is full, or if there is not enough memory for the result.
    pub async fn aside<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ServiceError> {
        if !Service::goes_aside(bytes) {
            return Ok(work());
        }
        // The result is about as large as the bytes, and exists until the request is answered.
        call::reserve(MEMORY_PER_BYTE * bytes)?.keep();
        self.on_pool(Patience::Interactive, work).await
    }

    /// Runs work on the CPU pool. The caller has reserved its memory.
    ///
    /// # Errors
    /// [`ServiceError::Engine`] if the pool is full.
    pub async fn on_pool<T: Send + 'static>(
        &self,
        patience: Patience,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ServiceError> {
        Ok(self.pool.run(patience, |_| work()).await?)
    }

    /// Takes a snapshot of the index now.
    ///
    /// # Errors
    /// [`EngineError::Busy`] if one snapshot is in progress and another is waiting.
    pub async fn snapshot(&self) -> Result<Snapshot, ServiceError> {
        let engine = self.engine()?;
        let _permit =
            self.snapshots.try_acquire().map_err(|_| EngineError::Busy("the queue of snapshots"))?;
        Ok(engine.snapshot().await?)
    }

    /// The snapshots on disk, the newest first.
    ///
    /// # Errors
    /// [`ServiceError::Engine`] if they cannot be listed.
    pub async fn snapshots(&self) -> Result<Vec<Snapshot>, ServiceError> {
        Ok(self.engine()?.snapshots().await?)
    }

    /// Whether the server can answer and store.
    ///
    /// # Errors
    /// [`ServiceError::NotReady`] until [`Service::start`] is called.
    pub fn health(&self) -> Result<Health, ServiceError> {
        Ok(self.engine()?.health())
    }

    /// The statistics of the store.
    ///
    /// # Errors
    /// [`ServiceError::Engine`] if they cannot be read.
    pub async fn stats(&self) -> Result<EngineStats, ServiceError> {
        Ok(self.engine()?.stats().await?)
    }

    /// The memory in use, and which writes it admits.
    ///
    /// # Errors
    /// [`ServiceError::NotReady`] until [`Service::start`] is called.
    pub fn memory(&self) -> Result<Memory, ServiceError> {
        Ok(self.engine()?.memory())
    }

    /// The sizes of a collection's buckets, and their age in milliseconds. Those of a large collection are
    /// counted at most once in ten seconds.
    ///
    /// # Errors
    /// [`EngineError::NoCollection`] if no collection has this name.
    pub async fn bucket_sizes(
        &self,
        collection: &CollectionInfo,
    ) -> Result<(BucketSizes, u64), ServiceError> {
        let engine = self.engine()?;
        Ok(self.buckets.sizes(engine, collection, self.now_ms()).await?)
    }

    /// The hashes that most documents of a collection have, with the number of these documents, the largest
    /// number first. Those of a large collection are counted at most once in
    /// five minutes.
    ///
    /// # Errors
    /// [`EngineError::NoCollection`] if no collection has this name.
    pub async fn most_shared(&self, collection: &CollectionName) -> Result<Vec<(Hash, u64)>, ServiceError> {
        let engine = self.engine()?;
        let info = engine.collection(collection)?;
        Ok(self.buckets.most_shared(engine, &info, self.now_ms()).await?.0)
    }

    /// Whether the queue of the CPU pool is full, so that it would reject new work of this client.
    pub fn is_busy_for(&self, client: Client) -> bool {
        self.pool.is_full_for(client)
    }

    /// Number of tasks that the CPU pool runs concurrently.
    pub fn threads(&self) -> usize {
        self.pool.permits()
    }

    /// Number of requests that wait for the CPU pool.
    pub fn waiting(&self) -> usize {
        self.pool.waiting()
    }

    /// The number of matches of a collection at each distance from 0 to the largest one of all widths, in all
    /// answers since the start.
    ///
    /// # Errors
    /// [`EngineError::NoCollection`] if there is none.
    pub fn answered_distances(&self, collection: &CollectionName) -> Result<Vec<u64>, ServiceError> {
        Ok(self.engine()?.find(collection)?.traffic.distances())
    }
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
