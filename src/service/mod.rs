//! What the service does, free of HTTP: fingerprint, add, look up, collections.
//!
//! It turns texts into hashes on the CPU pool and hands them to the engine. It has no clock and no source
//! of randomness of its own: both are given to it, as is the engine, which may come later than the first
//! request.
//!
//! *Absent*: statuses, routes and wire types (`http` knows them), and anything about how documents are kept.

mod backups;
mod collections;
mod compare;
mod cursor;
mod documents;
mod error;
mod fingerprints;
mod limits;
mod lookup;
mod second_check;

use std::sync::{Arc, OnceLock};

pub use collections::WantedCollection;
pub use compare::{Change, Comparison, Side};
pub use documents::{Added, Adding, EXPIRES_IN, Expires, Offered, Prepared, status};
pub use error::ServiceError;
pub use fingerprints::{Content, Explained, Fingerprinted};
pub use limits::Limits;
pub use lookup::{Ask, By, Found};

// What answers are made of, so that those above need not know the layers below.
pub use crate::engine::{
    Admission, BackupError, BucketSizes, CollectionInfo, Document, EngineError, EngineStats, Filter, Health,
    Match, Memory, MemoryState, Outcome, Restored, Snapshot, Work,
};
pub use crate::fingerprint::{FeatureComparison, Profile, Profiles, Status};
pub use crate::pool::{Patience, PoolError};
pub use crate::text::decode;

use crate::engine::{Engine, Progress};
use crate::ids::DocumentId;
use crate::pool::CpuPool;
use lookup::Distances;

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
}

impl Service {
    /// A service that is not ready: [`Service::start`] makes it so.
    pub fn new(pool: CpuPool, limits: Limits, surroundings: Surroundings) -> Service {
        let (engine, starting) = (OnceLock::new(), Arc::new(Progress::default()));
        Service { engine, starting, pool, limits, surroundings, distances: Distances::default() }
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

    /// How many requests wait for the CPU pool.
    pub fn waiting(&self) -> usize {
        self.pool.waiting()
    }

    /// For each distance from 0 to 128, how many matches at it were answered since the start.
    pub fn answered_distances(&self) -> Vec<u64> {
        self.distances.counts()
    }
}
