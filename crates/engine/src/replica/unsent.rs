//! Entries that are applied before the log has them: if one server alone gives places, it need not wait for
//! the log.
//!
//! *Guarantees*: an entry is in the store from the commit of its effect until a commit after it was sent. One
//! without an effect has a commit of its own, which no caller waits for.
//!
//! *Absent*: sending (`replica/order/sender`).

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::watch;

use super::order::Turns;
use crate::command::Command;
use crate::shared::Shared;
use crate::writer::Writer;
use crate::{EngineError, Operation};
use lookalike_hash::CollectionId;
use lookalike_store::{Batch, StoreError};

/// Sent entries that a commit removes, at most.
const REMOVED: usize = 256;

/// A part of an entry.
pub struct Part {
    /// The position of the entry.
    pub entry: u64,
    /// The number of the part, from 0.
    pub part: u32,
    /// What is kept.
    pub bytes: Bytes,
}

impl Writer {
    /// Records the position in a batch, and the entries that the log does not have yet. Returns how many the
    /// batch removes because the log has them.
    pub(crate) fn record_entries(&self, batch: &mut Batch<'_>) -> usize {
        let Some(replica) = &self.replica else { return 0 };
        batch.record_position(replica.recorded(self.next_place));
        for Part { entry, part, bytes } in &replica.unsent {
            batch.keep_unsent((*entry, *part), bytes);
        }
        let sent = self.shared.sent.lock();
        sent.iter().take(REMOVED).for_each(|(entry, parts)| batch.remove_unsent(*entry, *parts));
        sent.len().min(REMOVED)
    }

    /// Notes that the batch with [`Writer::record_entries`] is durable.
    pub(crate) fn entries_recorded(&mut self, removed: usize) {
        if let Some(replica) = &mut self.replica {
            replica.unsent.clear();
        }
        self.shared.sent.lock().drain(..removed);
    }
}

impl Shared {
    /// Whether several such commands have the same effect as one with their operations, at the same time:
    /// writes whose results do not depend on which documents of a group are in the index.
    pub(super) fn joins(&self, command: &Command) -> bool {
        let Command::Write(parts) = command else { return false };
        let asks = |operation: &Operation| matches!(operation, Operation::Put { unless: Some(_), .. });
        !parts.iter().any(|part| self.has_sets(part.collection) && part.operations.iter().any(asks))
    }

    /// Whether the signatures of a collection are those of sets.
    pub(super) fn has_sets(&self, id: CollectionId) -> bool {
        let collection = self.registry.with_id(id);
        collection.is_some_and(|known| known.signatures.is_some_and(|shape| shape.is_set))
    }
}

impl Turns {
    /// The position of the last command that was applied, and its time, as they change.
    pub fn applied(&self) -> watch::Receiver<(u64, u64)> {
        self.shared.position.subscribe()
    }

    /// The parts of an entry that the log may not have.
    ///
    /// # Errors
    /// [`EngineError::Store`] if the store cannot be read, here and below.
    pub async fn unsent(&self, entry: u64) -> Result<Vec<Vec<u8>>, EngineError> {
        self.read(move |shared| shared.store.unsent(entry)).await
    }

    /// All such entries in their order, each with the number of its parts and of their bytes.
    pub async fn unsent_entries(&self) -> Result<Vec<(u64, u32, u64)>, EngineError> {
        self.read(|shared| shared.store.unsent_entries()).await
    }

    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Shared) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, EngineError> {
        let shared = Arc::clone(&self.shared);
        let done = tokio::task::spawn_blocking(move || read(&shared)).await;
        Ok(done.map_err(|_| EngineError::Closed)??)
    }

    /// Notes that the log has an entry: one of the next commits removes its parts.
    pub fn sent(&self, entry: u64, parts: u32) {
        self.shared.sent.lock().push_back((entry, parts));
    }
}
