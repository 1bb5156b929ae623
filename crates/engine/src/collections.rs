//! Creating, changing and deleting collections, on the writer thread.
//!
//! *Invariants*
//! - A change is merged with the settings that the previous change left, and its condition is checked
//!   against them. There is no race, because only the writer changes settings.
//! - A collection's record and its index agree: the shape of signatures is chosen once, when both are
//!   created.

use std::sync::Arc;

use super::command::Done;
use super::registry::Collection;
use super::shared::Shared;
use super::writer::Writer;
use crate::{Changed, CollectionChange, CollectionInfo, CollectionSettings, Condition, EngineError, Version};
use lookalike_hash::CollectionName;
use lookalike_store::{Change, CollectionRecord};

impl Shared {
    /// The current state of a collection.
    pub(super) fn info(&self, collection: &Collection) -> Result<CollectionInfo, EngineError> {
        Ok(info(collection, self.store.documents(collection.id)?))
    }
}

/// The current state of a collection with this number of documents.
pub(super) fn info(collection: &Collection, documents: u64) -> CollectionInfo {
    let record = collection.record();
    CollectionInfo {
        id: record.id,
        name: record.name.clone(),
        version: Version(record.checksum()),
        created_ms: record.created_ms,
        settings: record.settings,
        documents,
        distinct_hashes: collection.index.len() as u64,
        index_bytes: collection.index.bytes() as u64,
        marks: collection.marks.get().all(),
        queries: collection.traffic.queries(),
        written: collection.traffic.written(),
    }
}

impl Writer {
    pub(super) fn put_collection(
        &mut self,
        name: &CollectionName,
        change: &CollectionChange,
        condition: &Condition,
        now_ms: u64,
    ) -> Result<Done, EngineError> {
        let existing = self.shared.registry.find(name);
        condition.check(name, existing.as_ref().map(|collection| collection.version()))?;
        let current = existing.as_ref().map(|collection| collection.settings());
        let settings = change.merge(name, current.as_deref())?;
        let Some(collection) = existing else {
            let made = self.make_collection(name, settings, now_ms)?;
            return Ok(Done::Collection(Box::new(Changed { is_new: true, info: info(&made, 0) })));
        };
        // Read before the change: an error afterwards would report a change that succeeded as failed.
        let documents = self.shared.store.documents(collection.id)?;
        self.change_settings(&collection, settings)?;
        Ok(Done::Collection(Box::new(Changed { is_new: false, info: info(&collection, documents) })))
    }

    fn make_collection(
        &mut self,
        name: &CollectionName,
        settings: CollectionSettings,
        now_ms: u64,
    ) -> Result<Arc<Collection>, EngineError> {
        let shared = Arc::clone(&self.shared);
        let id = shared.store.next_collection_id()?;
        let record = CollectionRecord { id, name: name.clone(), settings, created_ms: now_ms };
        let mut batch = shared.store.batch()?;
        batch.create_collection(&record);
        self.commit_change(batch, Change::CollectionCreated(record.id))?;
        let collection = Arc::new(Collection::empty(record));
        shared.registry.add(&collection);
        Ok(collection)
    }

    fn change_settings(
        &mut self,
        collection: &Collection,
        settings: CollectionSettings,
    ) -> Result<(), EngineError> {
        if settings == *collection.settings() {
            return Ok(());
        }
        let shared = Arc::clone(&self.shared);
        let mut batch = shared.store.batch()?;
        batch.change_collection(&collection.record_with(settings.clone()));
        self.commit_change(batch, Change::CollectionChanged(collection.id))?;
        collection.set_settings(settings);
        Ok(())
    }

    pub(super) fn delete_collection(
        &mut self,
        name: &CollectionName,
        condition: &Condition,
    ) -> Result<Done, EngineError> {
        let shared = Arc::clone(&self.shared);
        let Some(collection) = shared.registry.find(name) else {
            return Ok(Done::Count(0));
        };
        condition.check(name, Some(collection.version()))?;
        let mut batch = shared.store.batch()?;
        batch.delete_collection(collection.id, collection.index.width());
        self.commit_change(batch, Change::CollectionDeleted(collection.id))?;
        shared.registry.remove(name);
        self.clusters.forget(collection.id);
        self.followed.remove(&collection.id);
        self.garbage.push_back(collection.id);
        Ok(Done::Count(1))
    }
}
