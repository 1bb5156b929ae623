//! Hidden collections: they are filled while no query sees them, by a restore or by a reindex, and then get
//! their name at once.
//!
//! The store lists their numbers as those of deleted collections, so the next start of a single server
//! removes them. Among replicas the work is in the shared log, and every replica has the collection. It
//! survives restarts there, and an entry of the log discards it when the server that fills it is gone.
//!
//! *Invariants*
//! - Each kind of work is one commit, whose effect depends on the store and the work alone.
//! - A hidden collection is never in the registry. The digests of a replica cover it.
//! - A hidden collection that nobody fills any more is discarded when its `Filler` is dropped. Replicas retry
//!   that until the log has the entry.
//!
//! *Absent*: who fills it (`filler`), and with what (`restore`, `reindex`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::command::{Done, HiddenWork, Operations};
use super::marks::MarkChange;
use super::planning::{Plan, place};
use super::registry::Collection;
use super::writer::Writer;
use super::{CollectionChange, EngineError, Operation};
use lookalike_hash::{CollectionId, CollectionName};
use lookalike_store::{Change, ClusterChanges, HiddenRecord};

/// How long the owner of a hidden collection must be absent from the list of servers. One that has lost its
/// lease is on the list again when it next reports, after two seconds.
const CERTAIN: Duration = Duration::from_secs(5);

/// A hidden collection in memory.
pub(super) struct Hidden {
    pub(super) record: HiddenRecord,
    /// Shared only with a `Filler`, or with an answer on its way to one.
    pub(super) collection: Arc<Collection>,
    /// When its owner was first absent from the list of servers, or when it was last to be discarded.
    absent: Option<Instant>,
}

impl Hidden {
    pub(super) fn of(record: HiddenRecord, collection: Arc<Collection>) -> Hidden {
        Hidden { record, collection, absent: None }
    }
}

/// The hidden collections. The writer adds and removes them; the lock is held for the time of a search.
#[derive(Default)]
pub(super) struct HiddenCollections(Mutex<BTreeMap<CollectionId, Hidden>>);

impl HiddenCollections {
    pub(super) fn add(&self, hidden: Hidden) {
        self.0.lock().insert(hidden.record.record.id, hidden);
    }

    fn remove(&self, id: CollectionId) {
        self.0.lock().remove(&id);
    }

    pub(super) fn has(&self, id: CollectionId) -> bool {
        self.0.lock().contains_key(&id)
    }

    fn get(&self, id: CollectionId) -> Option<(HiddenRecord, Arc<Collection>)> {
        self.0.lock().get(&id).map(|hidden| (hidden.record.clone(), Arc::clone(&hidden.collection)))
    }

    /// The collection with this number.
    ///
    /// # Errors
    /// [`EngineError::Discarded`] if it was discarded.
    pub(super) fn find(&self, id: CollectionId) -> Result<(HiddenRecord, Arc<Collection>), EngineError> {
        self.get(id).ok_or(EngineError::Discarded)
    }

    /// Whether a collection accepts no writes because it is about to be replaced.
    pub(super) fn has_frozen(&self, source: CollectionId) -> bool {
        self.0.lock().values().any(|hidden| hidden.record.source == Some(source) && hidden.record.is_frozen)
    }

    /// The owner of the collection that will replace this one, and the name of its server.
    pub(super) fn owner_for(&self, source: CollectionId) -> Option<(u128, String)> {
        let hidden = self.0.lock();
        let found = hidden.values().find(|hidden| hidden.record.source == Some(source));
        found.map(|hidden| (hidden.record.owner, hidden.record.server.clone()))
    }

    /// The collections of this owner that nobody fills any more.
    pub(super) fn unwanted(&self, owner: u128) -> Vec<CollectionId> {
        let hidden = self.0.lock();
        let unwanted = hidden
            .iter()
            .filter(|(_, hidden)| hidden.record.owner == owner && Arc::strong_count(&hidden.collection) == 1);
        unwanted.map(|(id, _)| *id).collect()
    }

    /// The collections of other owners that have been absent from the list of servers for [`CERTAIN`]. Each
    /// is returned once in that time.
    pub(super) fn orphaned(&self, own: u128, live: &[u128], now: Instant) -> Vec<CollectionId> {
        let mut orphaned = Vec::new();
        for (id, hidden) in self.0.lock().iter_mut() {
            if hidden.record.owner == own || live.contains(&hidden.record.owner) {
                hidden.absent = None;
                continue;
            }
            let since = *hidden.absent.get_or_insert(now);
            if now.duration_since(since) >= CERTAIN {
                hidden.absent = Some(now);
                orphaned.push(*id);
            }
        }
        orphaned
    }
}

impl Writer {
    /// Changes a hidden collection.
    pub(super) fn change_hidden(&mut self, work: HiddenWork) -> Result<Done, EngineError> {
        match work {
            HiddenWork::Begin(wanted) => return self.begin_hidden(*wanted).map(Done::Begun),
            HiddenWork::Fill(Operations { collection, operations }) => {
                self.fill_hidden(collection, operations)
            }
            HiddenWork::Mark { target, marks } => self.mark_hidden(target, MarkChange::Add(marks)),
            HiddenWork::Unmark { target, marks } => self.mark_hidden(target, MarkChange::Remove(marks)),
            HiddenWork::Freeze { target, is_frozen } => self.freeze_source(target, is_frozen),
            HiddenWork::Finish { target, change } => self.finish_hidden(target, change.as_deref()),
            HiddenWork::Abandon { target } => self.abandon_hidden(target),
        }?;
        Ok(Done::Nothing)
    }

    /// Whether this server fills a hidden collection.
    fn is_own(&self, record: &HiddenRecord) -> bool {
        self.replica.as_ref().is_none_or(|replica| replica.is_of(record.owner))
    }

    fn begin_hidden(&mut self, mut hidden: HiddenRecord) -> Result<Arc<Collection>, EngineError> {
        let (shared, name) = (Arc::clone(&self.shared), &hidden.record.name);
        if let Some(source) = hidden.source {
            self.shared.registry.refuse_other(name, source)?;
            if let Some((_, server)) = shared.hidden.owner_for(source) {
                return Err(EngineError::ReindexedBy { name: name.clone(), server });
            }
        } else {
            self.refuse_existing(name)?;
        }
        let id = shared.store.next_collection_id()?;
        hidden.record.id = id;
        let mut batch = shared.store.batch()?;
        batch.begin_restore(id, hidden.record.settings.width);
        if self.replica.is_some() {
            batch.set_hidden(&hidden);
        }
        self.commit_change(batch, Change::CollectionChanged(id))?;
        if let Some(source) = hidden.source.filter(|_| self.is_own(&hidden)) {
            self.followed.insert(source, super::Followed::default());
        }
        let collection = Collection::empty(hidden.record.clone()).remade(hidden.source.is_some());
        let collection = Arc::new(collection);
        shared.hidden.add(Hidden::of(hidden, Arc::clone(&collection)));
        Ok(collection)
    }

    fn fill_hidden(&mut self, target: CollectionId, operations: Vec<Operation>) -> Result<(), EngineError> {
        let shared = Arc::clone(&self.shared);
        let (_, collection) = shared.hidden.find(target)?;
        let mut plan = Plan::new(&shared.store, self.last, 0)?;
        // On all replicas the same, also if one has not noted the time of a write that changed nothing.
        plan.next_place = self.next_place.max(place(self.now_ms()));
        for operation in operations {
            plan.decide(&collection, operation, None, &mut self.recent)?;
        }
        self.next_place = plan.next_place;
        let (batch, hashes) = plan.into_batch();
        self.commit_or_fail(batch, &[(target, collection)].into(), &hashes)
    }

    fn mark_hidden(&mut self, target: CollectionId, change: MarkChange) -> Result<(), EngineError> {
        let shared = Arc::clone(&self.shared);
        let (_, collection) = shared.hidden.find(target)?;
        let mut plan = Plan::new(&shared.store, self.last, 0)?;
        let (changed, are_added) = plan.change_marks(target, change)?;
        self.commit_marks(plan, &collection, &changed, are_added)
    }

    /// Makes the collection that a hidden one will replace refuse writes, or accept them again.
    fn freeze_source(&mut self, target: CollectionId, is_frozen: bool) -> Result<(), EngineError> {
        let shared = Arc::clone(&self.shared);
        let (mut record, collection) = shared.hidden.find(target)?;
        record.is_frozen = is_frozen;
        if self.replica.is_some() {
            let mut batch = shared.store.batch()?;
            batch.set_hidden(&record);
            self.commit_change(batch, Change::CollectionChanged(target))?;
        }
        shared.hidden.add(Hidden::of(record, collection));
        Ok(())
    }

    fn finish_hidden(
        &mut self,
        target: CollectionId,
        change: Option<&CollectionChange>,
    ) -> Result<(), EngineError> {
        let shared = Arc::clone(&self.shared);
        let (hidden, collection) = shared.hidden.find(target)?;
        let name = &hidden.record.name;
        let Some(source) = hidden.source else {
            self.refuse_existing(name)?;
            return self.reveal(&collection, None);
        };
        let source = shared.registry.with_id(source);
        let source = source.ok_or_else(|| EngineError::NoCollection(name.clone()))?;
        if !hidden.is_frozen {
            return Err(EngineError::ChangesLeft(name.clone()));
        }
        // The settings of the old collection may have changed meanwhile.
        if let Some(change) = change {
            collection.set_settings(change.reform(&source.settings())?);
        }
        self.reveal(&collection, Some(&source))?;
        self.followed.remove(&source.id);
        self.clusters.forget(source.id);
        source.release_to(self.own.clone());
        Ok(())
    }

    /// Makes a filled collection visible, in place of another one of its name if there is one. The caller has
    /// checked the name.
    fn reveal(
        &mut self,
        collection: &Arc<Collection>,
        replaced: Option<&Collection>,
    ) -> Result<(), EngineError> {
        let shared = Arc::clone(&self.shared);
        let mut batch = shared.store.batch()?;
        if let Some(replaced) = replaced {
            batch.delete_collection(replaced.id, replaced.index.width());
            batch.record(Change::CollectionDeleted(replaced.id));
        }
        batch.finish_restore(&collection.record());
        if self.replica.is_some() {
            batch.remove_hidden(collection.id);
        }
        if collection.has_clusters() {
            batch.change_clusters(&ClusterChanges::rebuild(collection.id, 0));
        }
        self.commit_change(batch, Change::CollectionCreated(collection.id))?;
        shared.hidden.remove(collection.id);
        shared.registry.add(collection);
        self.clusters.begin(collection);
        // The documents of the new collection expire too.
        shared.next_expiry_ms.store(0, Ordering::SeqCst);
        Ok(())
    }

    pub(super) fn abandon_hidden(&mut self, target: CollectionId) -> Result<(), EngineError> {
        let shared = Arc::clone(&self.shared);
        // Otherwise it was finished or discarded meanwhile.
        let Some((hidden, _)) = shared.hidden.get(target) else { return Ok(()) };
        if self.replica.is_some() {
            let mut batch = shared.store.batch()?;
            batch.remove_hidden(target);
            self.commit_change(batch, Change::CollectionDeleted(target))?;
        }
        shared.hidden.remove(target);
        if let Some(source) = hidden.source.filter(|_| self.is_own(&hidden)) {
            self.followed.remove(&source);
        }
        self.garbage.push_back(target);
        Ok(())
    }

    fn refuse_existing(&self, name: &CollectionName) -> Result<(), EngineError> {
        match self.shared.registry.find(name) {
            Some(_) => Err(EngineError::CollectionExists(name.clone())),
            None => Ok(()),
        }
    }
}
