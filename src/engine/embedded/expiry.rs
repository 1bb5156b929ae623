//! The writer's other work: documents whose time has come leave the disk and the index, some at a time.
//!
//! Nobody waits for it. From its time on a document is in no answer (readers and the writer compare), so what
//! is removed here is room, not visibility; and a crash in between leaves what the next start removes.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::planning::Plan;
use super::registry::Collection;
use super::writer::Writer;
use crate::ids::CollectionId;
use crate::store::{Expiry, StoreError};

/// Documents removed at a time, at most: a group of writes that came meanwhile waits as long as this takes.
const REMOVED: usize = 1_000;
/// Places of deleted collections dropped at a time, at most.
const DROPPED: usize = 10_000;
/// When the documents of a collection that is being restored are looked at again.
const LATER_MS: u64 = 1_000;

type Collections = HashMap<CollectionId, Arc<Collection>>;

/// What is due.
#[derive(Default)]
struct Due {
    documents: Vec<Expiry>,
    /// Places of documents that are not there: their collections were deleted.
    dead: Vec<Expiry>,
    /// When the first document expires that is not among these; `u64::MAX` if none does.
    next_ms: u64,
}

impl Writer {
    /// Removes some of the documents that have expired.
    pub(super) fn expire(&mut self) {
        self.expiring = false;
        if self.refuse_read_only().is_err() {
            return;
        }
        match self.expire_some() {
            // Tried again when there is room: nobody waits for it.
            Ok(()) | Err(StoreError::Full { .. }) => {}
            Err(error) => drop(self.fail(&error)),
        }
    }

    fn expire_some(&mut self) -> Result<(), StoreError> {
        let now_ms = self.shared.clock.now_ms();
        let all = self.shared.registry.all();
        let collections: Collections = all.into_iter().map(|known| (known.id, known)).collect();
        let mut due = self.due(&collections, now_ms)?;
        if !due.documents.is_empty() {
            self.remove(&collections, &mut due, now_ms)?;
        }
        if !due.dead.is_empty() {
            self.shared.store.drop_expiries(&due.dead)?;
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
            let is_full = due.documents.len() >= REMOVED || due.dead.len() >= DROPPED;
            if expiry.at_ms > now_ms || is_full {
                due.next_ms = due.next_ms.min(expiry.at_ms);
                break;
            }
            if collections.contains_key(&expiry.collection) {
                due.documents.push(expiry);
            } else if self.restoring.contains(&expiry.collection) {
                // Nobody sees it yet, and its documents are not for the writer to touch.
                due.next_ms = due.next_ms.min(now_ms + LATER_MS);
            } else {
                due.dead.push(expiry);
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
            if plan.lapse(collection, expiry)? {
                removed += 1;
                touched.entry(collection.id).or_insert_with(|| Arc::clone(collection));
            } else {
                // Its document says another time; there should be none such.
                due.dead.push(expiry.clone());
            }
        }
        let (batch, hashes) = plan.into_batch();
        self.commit(batch, &touched, &hashes)?;
        metrics::counter!("lookalike_expired_documents_total").increment(removed);
        tracing::debug!(removed, "documents expired");
        Ok(())
    }
}
