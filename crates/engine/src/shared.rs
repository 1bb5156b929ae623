//! State shared by the writer, the snapshot thread and the callers.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::budget::MemoryBudget;
use super::expiry::Clock;
use super::hidden::HiddenCollections;
use super::posting_cache::PostingCache;
use super::registry::{Collection, Registry};
use super::replica::StateDigest;
use crate::EngineError;
use lookalike_hash::Sequence;
use lookalike_store::Store;

/// The parts of a running engine that several threads use.
pub(super) struct Shared {
    pub(super) store: Store,
    pub(super) registry: Registry,
    /// Collections that are not in the registry yet.
    pub(super) hidden: HiddenCollections,
    pub(super) snapshots: PathBuf,
    pub(super) clock: Clock,
    pub(super) budget: MemoryBudget,
    pub(super) postings: PostingCache,
    /// The time of the next expiry, as far as the writer knows; `u64::MAX` if there is none.
    pub(super) next_expiry_ms: AtomicU64,
    /// The last change that is durable and in the index.
    pub(super) applied: AtomicU64,
    /// The last change whose new hashes may be in the index already.
    pub(super) planned: AtomicU64,
    /// Number of batches whose hashes were removed from the index again because the disk had no space for
    /// them.
    pub(super) rolled_back: AtomicU64,
    /// Whether the writer has deferred background work until the disk has free space.
    pub(super) is_deferred: AtomicBool,
    /// The last entry of the shared log that is applied, and its time in milliseconds since 1970-01-01 UTC.
    pub(super) position: watch::Sender<(u64, u64)>,
    /// The number of that entry in the log; 0 if none was applied since the start.
    pub(super) entry_number: AtomicU64,
    /// The digests of a replica, the oldest first.
    pub(super) digests: watch::Sender<VecDeque<StateDigest>>,
    /// The last entry of the shared log whose effect a query may see. It is set before the effect is
    /// visible, and `position` afterwards.
    pub(super) visible: AtomicU64,
    /// Entries that the shared log has and the store still keeps, with the number of their parts; locked for
    /// the time of one copy.
    pub(super) sent: Mutex<VecDeque<(u64, u32)>>,
    /// The deadline of background work, set when the engine closes.
    pub(super) close_deadline: OnceLock<Instant>,
    /// Why no writes are accepted, if that is so. Locked for the time of one copy.
    read_only: Mutex<Option<String>>,
}

impl Shared {
    pub(super) fn new(
        store: Store,
        registry: Registry,
        snapshots: PathBuf,
        clock: Clock,
        budget: MemoryBudget,
        postings: PostingCache,
        last: Sequence,
    ) -> Shared {
        Shared {
            store,
            registry,
            hidden: HiddenCollections::default(),
            snapshots,
            clock,
            budget,
            postings,
            // 0 makes the writer search the store for expired documents.
            next_expiry_ms: AtomicU64::new(0),
            applied: AtomicU64::new(last.0),
            planned: AtomicU64::new(last.0),
            rolled_back: AtomicU64::new(0),
            is_deferred: AtomicBool::new(false),
            position: watch::Sender::new((0, 0)),
            entry_number: AtomicU64::new(0),
            digests: watch::Sender::default(),
            visible: AtomicU64::new(0),
            sent: Mutex::default(),
            close_deadline: OnceLock::new(),
            read_only: Mutex::new(None),
        }
    }

    pub(super) fn applied(&self) -> Sequence {
        Sequence(self.applied.load(Ordering::SeqCst))
    }

    /// Whether a stored document has expired.
    pub(super) fn expiry_is_due(&self) -> bool {
        self.next_expiry_ms.load(Ordering::SeqCst) <= self.clock.now_ms()
    }

    pub(super) fn planned(&self) -> Sequence {
        Sequence(self.planned.load(Ordering::SeqCst))
    }

    /// Whether the engine is closing and the deadline of background work has passed.
    pub(super) fn is_out_of_time(&self) -> bool {
        self.close_deadline.get().is_some_and(|end| Instant::now() >= *end)
    }

    pub(super) fn read_only(&self) -> Option<String> {
        self.read_only.lock().clone().or_else(|| {
            let failure = self.store.failure()?;
            Some(format!("{failure}; no more are accepted until the server is restarted"))
        })
    }

    /// Checks that the disk has space for more writes.
    pub(super) fn check_space(&self) -> Result<(), EngineError> {
        self.store.check_room().map_err(|error| EngineError::DiskFull(error.to_string()))
    }

    /// Refuses a write to a collection that has been deleted or replaced, or is about to be replaced.
    pub(super) fn refuse_gone(&self, collection: &Collection) -> Result<(), EngineError> {
        self.registry.refuse_other(&collection.name, collection.id)?;
        if self.hidden.has_frozen(collection.id) {
            return Err(EngineError::Switching(collection.name.clone()));
        }
        Ok(())
    }

    /// Keeps the first reason: it is the cause, and later ones follow from it.
    pub(super) fn set_read_only(&self, reason: String) {
        self.read_only.lock().get_or_insert(reason);
    }
}
