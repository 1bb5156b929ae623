//! What the writer, the snapshot task and the callers share.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use super::budget::Budget;
use super::clock::Clock;
use super::posting_cache::PostingCache;
use super::registry::Registry;
use crate::engine::EngineError;
use crate::ids::Sequence;
use crate::store::Store;

/// The parts of a running engine that several threads look at.
pub(super) struct Shared {
    pub(super) store: Store,
    pub(super) registry: Registry,
    pub(super) snapshots: PathBuf,
    pub(super) clock: Clock,
    pub(super) budget: Budget,
    pub(super) postings: PostingCache,
    /// When the next document expires, as far as the writer knows; `u64::MAX` if none does.
    pub(super) next_expiry_ms: AtomicU64,
    /// The last change that is durable and in the index.
    pub(super) applied: AtomicU64,
    /// The last change whose new hashes may be in the index already.
    pub(super) planned: AtomicU64,
    /// How many batches were taken back out of the index because the disk had no room for them.
    pub(super) taken_back: AtomicU64,
    /// Whether the writer has put off work that nobody waits for until there is room on the disk.
    pub(super) is_put_off: AtomicBool,
    /// When work that nobody waits for is to end, once the engine closes.
    pub(super) closes: OnceLock<Instant>,
    /// Why no writes are taken, once that is so. Held for the time of one copy.
    read_only: Mutex<Option<String>>,
}

impl Shared {
    pub(super) fn new(
        store: Store,
        registry: Registry,
        snapshots: PathBuf,
        clock: Clock,
        budget: Budget,
        postings: PostingCache,
        last: Sequence,
    ) -> Shared {
        Shared {
            store,
            registry,
            snapshots,
            clock,
            budget,
            postings,
            // Whatever there is, the writer looks.
            next_expiry_ms: AtomicU64::new(0),
            applied: AtomicU64::new(last.0),
            planned: AtomicU64::new(last.0),
            taken_back: AtomicU64::new(0),
            is_put_off: AtomicBool::new(false),
            closes: OnceLock::new(),
            read_only: Mutex::new(None),
        }
    }

    pub(super) fn applied(&self) -> Sequence {
        Sequence(self.applied.load(Ordering::SeqCst))
    }

    /// Whether a document on the disk has expired.
    pub(super) fn expiry_is_due(&self) -> bool {
        self.next_expiry_ms.load(Ordering::SeqCst) <= self.clock.now_ms()
    }

    pub(super) fn planned(&self) -> Sequence {
        Sequence(self.planned.load(Ordering::SeqCst))
    }

    /// Whether the engine closes and what nobody waits for has had its time.
    pub(super) fn is_out_of_time(&self) -> bool {
        self.closes.get().is_some_and(|end| Instant::now() >= *end)
    }

    pub(super) fn read_only(&self) -> Option<String> {
        self.read_only.lock().clone().or_else(|| {
            let failure = self.store.failure()?;
            Some(format!("{failure}; no more are taken until the server is restarted"))
        })
    }

    /// Whether the disk has room for more writes.
    pub(super) fn check_room(&self) -> Result<(), EngineError> {
        self.store.check_room().map_err(|error| EngineError::DiskFull(error.to_string()))
    }

    /// The first reason stays: it is the cause, and later ones follow from it.
    pub(super) fn set_read_only(&self, reason: String) {
        self.read_only.lock().get_or_insert(reason);
    }
}
