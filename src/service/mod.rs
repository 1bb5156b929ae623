//! What the service does, free of HTTP: fingerprint, add, look up, collections.
//!
//! It turns texts into hashes on the CPU pool and hands them to the engine. It has no clock and no source
//! of randomness of its own: both are given to it, as is the engine, which may come later than the first
//! request.
//!
//! *Absent*: statuses, routes and wire types (`http` knows them), and anything about how documents are kept.

mod backups;
mod buckets;
mod calibrate;
mod collections;
mod compare;
mod cursor;
mod documents;
mod error;
mod fingerprints;
mod limits;
mod lookup;
mod second_check;
mod strict_json;

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use thread_local::ThreadLocal;
use tokio::sync::Semaphore;

pub use calibrate::{CALIBRATION_TEXTS, Calibrated, Calibration, WantedCalibration};
pub use collections::WantedCollection;
pub use compare::{Change, Comparison, Side};
pub use documents::{Added, Adding, EXPIRES_IN, Expires, Offered, Prepared, status};
pub use error::ServiceError;
pub use fingerprints::{Content, Explained, Fingerprinted, working_bytes};
pub use limits::Limits;
pub use lookup::{Ask, By, Found};
pub use second_check::{Measure, SKETCH_BYTES};
pub use strict_json::{Strict, told};

// What answers are made of, so that those above need not know the layers below.
pub use crate::engine::{
    Admission, BackupError, BucketSizes, Changed, CollectionInfo, Condition, Document, EngineError,
    EngineStats, Filter, Health, Match, Memory, MemoryState, Outcome, Page, Restored, SettingsVersion,
    Snapshot, Work,
};
pub use crate::eval::{Banded, Judged, Measured, Recommendation};
pub use crate::fingerprint::{FeatureComparison, Profile, Profiles, Status};
pub use crate::pool::{Cancel, Patience, PoolError};
pub use crate::text::decode;

use crate::call::{self, Client};
use crate::engine::{Engine, Progress};
use crate::ids::DocumentId;
use crate::pool::CpuPool;
use buckets::Buckets;
use calibrate::Calibrations;
use lookup::{Counters, Distances, Tally};

/// What the outside world gives to the service.
#[derive(Clone, Copy)]
pub struct Surroundings {
    /// Milliseconds since 1970-01-01 UTC.
    pub now_ms: fn() -> u64,
    /// An id that nobody else has.
    pub new_id: fn() -> DocumentId,
    /// The recipes from text to hash.
    pub profiles: Profiles,
}

/// The service.
pub struct Service {
    engine: OnceLock<Arc<dyn Engine>>,
    starting: Arc<Progress>,
    pool: CpuPool,
    limits: Limits,
    surroundings: Surroundings,
    distances: Distances,
    counters: Counters,
    /// What the threads have counted and not handed on yet.
    tallies: ThreadLocal<Mutex<Tally>>,
    buckets: Buckets,
    calibrations: Calibrations,
    snapshots: Semaphore,
    collection_changes: Semaphore,
}

/// Snapshots that are taken or waited for at a time: one more than is taken, so that whoever asks while an
/// old one is being finished gets one that has what he wrote.
const SNAPSHOTS: usize = 2;
/// Collections that are made, changed or deleted at a time.
const COLLECTION_CHANGES: usize = 16;
/// Bodies up to this size are parsed where they are read: it takes less than handing them over.
const ASIDE_BYTES: usize = 32 << 10;
/// Bytes of what is made of a byte of a body, such as the strings of its JSON.
const MADE: usize = 2;

impl Service {
    /// A service that is not ready: [`Service::start`] makes it so.
    pub fn new(pool: CpuPool, limits: Limits, surroundings: Surroundings) -> Service {
        Service {
            engine: OnceLock::new(),
            starting: Arc::new(Progress::default()),
            pool,
            limits,
            surroundings,
            distances: Distances::default(),
            counters: Counters::default(),
            tallies: ThreadLocal::new(),
            buckets: Buckets::default(),
            calibrations: Calibrations::default(),
            snapshots: Semaphore::new(SNAPSHOTS),
            collection_changes: Semaphore::new(COLLECTION_CHANGES),
        }
    }

    /// Where who brings the engine counts how far it has come.
    pub fn starting(&self) -> &Arc<Progress> {
        &self.starting
    }

    /// Gives it the engine; a second one is ignored.
    pub fn start(&self, engine: Arc<dyn Engine>) {
        let _ = self.engine.set(engine);
    }

    /// The engine.
    ///
    /// # Errors
    /// [`ServiceError::NotReady`] until it was given.
    pub fn engine(&self) -> Result<&Arc<dyn Engine>, ServiceError> {
        self.engine.get().ok_or_else(|| ServiceError::not_ready(&self.starting))
    }

    /// The named limits.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The time, in milliseconds since 1970-01-01 UTC.
    pub fn now_ms(&self) -> u64 {
        (self.surroundings.now_ms)()
    }

    /// The recipes from text to hash.
    pub fn profiles(&self) -> Profiles {
        self.surroundings.profiles
    }

    /// Whether work on so many bytes is done on the CPU pool.
    pub fn goes_aside(bytes: usize) -> bool {
        bytes > ASIDE_BYTES
    }

    /// Does work on so many bytes: at once if they are few, else on the CPU pool.
    ///
    /// # Errors
    /// [`ServiceError::Engine`] if the pool is busy, or if there is no memory for what is made of the bytes.
    pub async fn aside<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ServiceError> {
        if !Service::goes_aside(bytes) {
            return Ok(work());
        }
        // What is made of them is about as large, and lives as long as the request is handled.
        call::reserve(MADE * bytes)?.keep();
        self.on_pool(Patience::Interactive, work).await
    }

    /// Does work on the CPU pool whose memory is reserved.
    ///
    /// # Errors
    /// [`ServiceError::Engine`] if the pool is busy.
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
    /// [`EngineError::Busy`] if one is being taken and another is waited for already.
    pub async fn snapshot(&self) -> Result<Snapshot, ServiceError> {
        let engine = self.engine()?;
        let _turn = self.snapshots.try_acquire().map_err(|_| EngineError::Busy("the queue of snapshots"))?;
        Ok(engine.snapshot().await?)
    }

    /// The sizes of the buckets of a collection, and how many milliseconds ago they were counted: of a large one they are
    /// counted once in ten seconds, whoever asks.
    ///
    /// # Errors
    /// [`EngineError::NoCollection`] if there is none of this name.
    pub async fn bucket_sizes(
        &self,
        collection: &CollectionInfo,
    ) -> Result<(BucketSizes, u64), ServiceError> {
        let engine = self.engine()?;
        Ok(self.buckets.of(&**engine, collection, self.now_ms()).await?)
    }

    /// Whether the CPU pool has as many waiting as it takes: what this client needs of it now is refused in any case.
    pub fn is_busy_for(&self, client: Client) -> bool {
        self.pool.is_full_for(client)
    }

    /// How many tasks the CPU pool does at a time.
    pub fn threads(&self) -> usize {
        self.pool.permits()
    }

    /// How many requests wait for the CPU pool.
    pub fn waiting(&self) -> usize {
        self.pool.waiting()
    }

    /// For each distance from 0 to 128, how many matches at it were answered since the start.
    pub fn answered_distances(&self) -> Vec<u64> {
        self.hand_on_counts();
        self.distances.counts()
    }
}
