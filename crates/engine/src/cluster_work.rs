//! Clusters on the writer thread: the changes of a group, and the tasks that are left, done between groups.
//!
//! *Absent*: the rule (`clustering`).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;

use super::clustering::{Clustering, ClusteringResult, STEP};
use super::command::Done;
use super::planning::{Plan, Touched};
use super::registry::Collection;
use super::writer::Writer;
use crate::{CollectionSettings, EngineError, reach};
use lookalike_hamming::{HashIndex, index_for};
use lookalike_hash::{ClusterRule, CollectionId, CollectionName, Hash, KeepRule, SketchCheck};
use lookalike_store::{Change, ClusterChanges, Clusters, StoreError};

/// The clusters of all collections, as the writer holds them.
#[derive(Default)]
pub(super) struct ClusterWork {
    /// The hashes of the representatives of each collection with clusters.
    representatives: HashMap<CollectionId, Arc<dyn HashIndex>>,
    /// Collections with tasks.
    unfinished: BTreeMap<CollectionId, Arc<Collection>>,
    /// The collection whose tasks were done last.
    turn: Option<CollectionId>,
    /// Collections that a batch changes, and the hashes whose representatives it changes.
    changed: Vec<(Arc<Collection>, HashSet<Hash>)>,
    /// Whether tasks wait for free space on the disk.
    is_paused: bool,
}

impl ClusterWork {
    /// Begins the clusters of a collection, which has no representatives.
    pub(super) fn begin(&mut self, collection: &Arc<Collection>) {
        self.representatives.remove(&collection.id);
        self.unfinished.insert(collection.id, Arc::clone(collection));
    }

    /// Whether tasks can be done.
    pub(super) fn is_ready(&self) -> bool {
        !self.unfinished.is_empty() && !self.is_paused
    }

    /// Whether tasks wait for free space on the disk.
    pub(super) fn is_deferred(&self, writable: bool) -> bool {
        !self.unfinished.is_empty() && (self.is_paused || !writable)
    }

    /// Lets tasks run again, because there is free space.
    pub(super) fn resume(&mut self) {
        self.is_paused = false;
    }

    pub(super) fn representatives(&mut self, collection: &Collection) -> Arc<dyn HashIndex> {
        let new = || index_for(collection.index.width(), collection.signatures);
        Arc::clone(self.representatives.entry(collection.id).or_insert_with(new))
    }

    /// Takes note of changes that the next batch commits.
    pub(super) fn note(&mut self, collection: &Arc<Collection>, done: ClusteringResult) -> ClusterChanges {
        let written = done.changes.count() as u64;
        metrics::counter!("lookalike_cluster_entries_total", "kind" => "read").increment(done.read);
        metrics::counter!("lookalike_cluster_entries_total", "kind" => "written").increment(written);
        self.changed.push((Arc::clone(collection), done.hashes));
        done.changes
    }

    /// The next collection with tasks; they take turns.
    fn next(&mut self) -> Option<Arc<Collection>> {
        let later = self.turn.map_or(Bound::Unbounded, Bound::Excluded);
        let next = self.unfinished.range((later, Bound::Unbounded)).next();
        let (id, collection) = next.or_else(|| self.unfinished.first_key_value())?;
        self.turn = Some(*id);
        Some(Arc::clone(collection))
    }

    /// Forgets a collection that was deleted.
    pub(super) fn forget(&mut self, collection: CollectionId) {
        self.representatives.remove(&collection);
        self.unfinished.remove(&collection);
    }
}

impl Writer {
    /// Loads the representatives of all collections, and finds the tasks that are left.
    pub(super) fn load_clusters(&mut self) {
        for collection in self.shared.registry.all() {
            if let Err(error) = self.load(&collection) {
                self.fail(&error);
                return;
            }
        }
    }

    fn load(&mut self, collection: &Arc<Collection>) -> Result<(), StoreError> {
        let shared = Arc::clone(&self.shared);
        let view = shared.store.view();
        let clusters = Clusters::of(&view, collection.id);
        let state = clusters.state()?;
        if state.tasks > 0 {
            self.clusters.unfinished.insert(collection.id, Arc::clone(collection));
        }
        if !collection.has_clusters() || state.is_beginning() {
            return Ok(());
        }
        let index = self.clusters.representatives(collection);
        for entry in clusters.all_representatives() {
            let (hash, id) = entry?;
            if collection.signatures.is_some() {
                let row = view.row(collection.id, &id)?;
                let signature = row.and_then(|row| row.sketch).ok_or(StoreError::Damaged("signature"))?;
                index.announce(hash, &signature);
            }
            index.insert(hash);
        }
        Ok(())
    }

    /// Adds the changes of clusters to a plan whose documents are all decided.
    pub(super) fn change_clusters(
        &mut self,
        plan: &mut Plan<'_>,
        collections: &HashMap<CollectionId, Arc<Collection>>,
    ) -> Result<(), StoreError> {
        let mut touched: BTreeMap<CollectionId, Vec<Touched>> = BTreeMap::new();
        for one in std::mem::take(&mut plan.touched) {
            touched.entry(one.collection).or_default().push(one);
        }
        for (id, touched) in touched {
            let Some(collection) = collections.get(&id) else { continue };
            let representatives = self.clusters.representatives(collection);
            // A document that is put is decided with its group. What follows for others can wait.
            let budget = STEP + 2 * touched.iter().filter(|one| one.put.is_some()).count();
            let mut clustering = Clustering::new(plan, collection, representatives)?;
            for one in touched {
                clustering.touch(one)?;
            }
            let done = clustering.finish(budget)?;
            plan.clusters.push(self.clusters.note(collection, done));
        }
        Ok(())
    }

    /// Reads the stored state of the clusters that a batch changes, after its commit succeeded or failed:
    /// whether tasks are left, and which hashes have no representative.
    pub(super) fn clusters_after_commit(&mut self) {
        let shared = Arc::clone(&self.shared);
        let view = shared.store.view();
        for (collection, hashes) in std::mem::take(&mut self.clusters.changed) {
            let clusters = Clusters::of(&view, collection.id);
            match clusters.state() {
                Ok(state) if state.tasks == 0 => drop(self.clusters.unfinished.remove(&collection.id)),
                Ok(_) => drop(self.clusters.unfinished.insert(collection.id, Arc::clone(&collection))),
                Err(error) => drop(self.fail(&error)),
            }
            let Some(index) = self.clusters.representatives.get(&collection.id) else { continue };
            for hash in hashes {
                // A hash that stays is harmless: a lookup reads that it has no representative.
                if clusters.representatives(hash).is_ok_and(|found| found.is_empty()) {
                    index.remove(hash);
                }
            }
        }
    }

    /// Does some of the tasks of a collection.
    pub(super) fn settle_some(&mut self) {
        if !self.clusters.is_ready() || self.refuse_read_only().is_err() {
            return;
        }
        let Some(collection) = self.clusters.next() else { return };
        match self.settle(&collection) {
            Ok(()) => {}
            Err(StoreError::Full { .. }) => self.clusters.is_paused = true,
            Err(error) => drop(self.fail(&error)),
        }
        self.clusters_after_commit();
    }

    fn settle(&mut self, collection: &Arc<Collection>) -> Result<(), StoreError> {
        let shared = Arc::clone(&self.shared);
        let plan = Plan::new(&shared.store, self.last, self.now_ms())?;
        let representatives = self.clusters.representatives(collection);
        let clustering = Clustering::new(&plan, collection, representatives)?;
        let done = clustering.finish(STEP)?;
        shared.store.change_clusters(&self.clusters.note(collection, done))
    }

    /// Builds the clusters of a collection by this rule, or removes them.
    pub(super) fn put_clusters(
        &mut self,
        name: &CollectionName,
        rule: Option<(KeepRule, Option<u32>, Option<SketchCheck>)>,
    ) -> Result<Done, EngineError> {
        let shared = Arc::clone(&self.shared);
        let collection = shared.registry.get(name)?;
        let current = collection.settings();
        let rule = match rule {
            Some((keep, k, check)) => Some(ClusterRule { keep, k: reach(&current, k, None)?, check }),
            None => None,
        };
        let settings = CollectionSettings { clusters: rule, ..CollectionSettings::clone(&current) };
        let mut batch = shared.store.batch()?;
        batch.change_collection(&collection.record_with(settings.clone()));
        let last = Clusters::of(&shared.store.view(), collection.id).state()?.last;
        batch.change_clusters(&ClusterChanges::rebuild(collection.id, last));
        self.commit_change(batch, Change::CollectionChanged(collection.id))?;
        collection.set_settings(settings);
        self.clusters.begin(&collection);
        Ok(Done::Nothing)
    }
}
