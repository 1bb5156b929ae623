//! Expiry: the clock by which documents expire, and the writer's removal of expired documents from the disk
//! and the index, in steps.
//!
//! Readers and the writer check the expiry time themselves, so an expired document is in no answer. Removing
//! it only frees space. After a crash, the next start removes the rest.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::Engine;
use super::planning::Plan;
use super::registry::Collection;
use super::writer::Writer;
use lookalike_hash::CollectionId;
use lookalike_store::{Expiry, StoreError};

/// Maximum number of documents removed in a step. A group of writes that arrives meanwhile waits for the
/// step.
const MAX_DOCUMENTS: usize = 100;
/// Maximum number of expiry entries of deleted collections removed in a step.
const MAX_ORPHANS: usize = 10_000;
/// Delay before the documents of a collection that is being restored are checked again.
const RETRY_MS: u64 = 1_000;

/// The engine's clock, by which documents expire. It never goes backwards, not even across restarts.
///
/// Within a process it advances with the monotonic clock, so changes of the wall clock have no effect. It
/// starts at the wall clock or at the last time that a commit recorded, whichever is later: an expired
/// document does not reappear if the wall clock of the machine is behind after a restart. If the wall clock
/// is *ahead* by years at a start, documents expire too early; a process cannot distinguish that from a long
/// downtime.
#[derive(Debug)]
pub(super) struct Clock {
    start_ms: u64,
    started: Instant,
}

impl Clock {
    /// Starts at `wall_ms`, or at `recorded_ms` if that is later.
    pub(super) fn start(wall_ms: u64, recorded_ms: u64) -> Clock {
        let behind = Duration::from_millis(recorded_ms.saturating_sub(wall_ms));
        // A restart within one tick of the clock is not reported.
        if behind > Duration::from_secs(1) {
            tracing::warn!(
                ?behind,
                "the wall clock is behind the last recorded time; documents expire by the recorded time"
            );
        }
        Clock { start_ms: wall_ms.max(recorded_ms), started: Instant::now() }
    }

    /// Milliseconds since 1970-01-01 UTC.
    pub(super) fn now_ms(&self) -> u64 {
        let since = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.start_ms.saturating_add(since)
    }
}

type Collections = HashMap<CollectionId, Arc<Collection>>;

impl Engine {
    /// The time by which documents expire, in milliseconds since 1970-01-01 UTC. It never goes backwards.
    pub fn now_ms(&self) -> u64 {
        self.shared.clock.now_ms()
    }
}

/// The expiry entries to process.
#[derive(Default)]
struct Due {
    documents: Vec<Expiry>,
    /// Entries without a document: their collections were deleted.
    orphans: Vec<Expiry>,
    /// The earliest expiry that is not among these; `u64::MAX` if there is none.
    next_ms: u64,
}

impl Writer {
    /// Removes some of the expired documents.
    pub(super) fn expire(&mut self) {
        self.expiring = false;
        if self.refuse_read_only().is_err() {
            return;
        }
        match self.expire_some() {
            // Retried when the disk has free space: no client waits for it.
            Ok(()) | Err(StoreError::Full { .. }) => {}
            Err(error) => drop(self.fail(&error)),
        }
    }

    pub(super) fn expire_some(&mut self) -> Result<(), StoreError> {
        let now_ms = self.now_ms();
        let all = self.shared.registry.all();
        let collections: Collections = all.into_iter().map(|known| (known.id, known)).collect();
        let mut due = self.due(&collections, now_ms)?;
        if !due.documents.is_empty() {
            self.remove(&collections, &mut due, now_ms)?;
        }
        if !due.orphans.is_empty() {
            self.shared.store.drop_expiries(&due.orphans)?;
        }
        self.shared.next_expiry_ms.store(due.next_ms, Ordering::SeqCst);
        self.expiring = due.next_ms <= now_ms;
        Ok(())
    }

    fn due(&self, collections: &Collections, now_ms: u64) -> Result<Due, StoreError> {
        let from_ms = self.shared.next_expiry_ms.load(Ordering::SeqCst);
        let mut due = Due { next_ms: u64::MAX, ..Due::default() };
        for expiry in self.shared.store.expiries(from_ms) {
            let expiry = expiry?;
            let is_full = due.documents.len() >= MAX_DOCUMENTS || due.orphans.len() >= MAX_ORPHANS;
            if expiry.at_ms > now_ms || is_full {
                due.next_ms = due.next_ms.min(expiry.at_ms);
                break;
            }
            if collections.contains_key(&expiry.collection) {
                due.documents.push(expiry);
            } else if self.shared.hidden.has(expiry.collection) {
                // The restore is not complete: the collection is not visible, and its documents must not
                // change.
                due.next_ms = due.next_ms.min(now_ms + RETRY_MS);
            } else {
                due.orphans.push(expiry);
            }
        }
        Ok(due)
    }

    fn remove(&mut self, collections: &Collections, due: &mut Due, now_ms: u64) -> Result<(), StoreError> {
        let shared = Arc::clone(&self.shared);
        let mut plan = Plan::new(&shared.store, self.last, now_ms)?;
        let mut touched = Collections::new();
        let mut removed = 0;
        for expiry in &due.documents {
            let Some(collection) = collections.get(&expiry.collection) else {
                continue;
            };
            if plan.expire(collection, expiry)? {
                removed += 1;
                touched.entry(collection.id).or_insert_with(|| Arc::clone(collection));
            } else {
                // The document has another expiry time. Such an entry should not exist, so it is removed.
                due.orphans.push(expiry.clone());
            }
        }
        self.change_clusters(&mut plan, &touched)?;
        let (batch, hashes) = plan.into_batch();
        let committed = self.commit(batch, &touched, &hashes);
        self.clusters_after_commit();
        committed?;
        metrics::counter!("lookalike_expired_documents_total").increment(removed);
        tracing::debug!(removed, "documents expired");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_begins_at_the_later_of_wall_and_record_and_advances() {
        for (wall, recorded) in [(1_000, 500), (500, 1_000), (0, 10_000), (u64::MAX, 1)] {
            let clock = Clock::start(wall, recorded);
            let first = clock.now_ms();
            assert!(first >= wall.max(recorded) && clock.now_ms() >= first);
        }
    }
}
