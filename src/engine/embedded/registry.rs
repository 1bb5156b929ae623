//! The collections that exist, by name, each with its index.
//!
//! Only the writer changes the registry, after the change is durable. Locks: that of a collection's settings for the time
//! of one copy; no other is taken meanwhile.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use foldhash::fast::RandomState;
use parking_lot::{Mutex, RwLock};

use super::gate::Gate;
use super::posting_cache::Epoch;
use crate::engine::{CollectionSettings, EngineError, SettingsVersion};
use crate::ids::{CollectionId, CollectionName, Hash, SignatureShape};
use crate::index::{HashIndex, index_for};
use crate::store::{CollectionRecord, Row};

/// How long the writer waits for the readers' gate: new readers wait with it.
const GATE_PATIENCE: Duration = Duration::from_micros(500);

/// A collection in memory.
pub(super) struct Collection {
    pub(super) id: CollectionId,
    pub(super) name: CollectionName,
    pub(super) index: Arc<dyn HashIndex>,
    /// The shape of the signatures that its hashes are the names of, if they are such.
    pub(super) signatures: Option<SignatureShape>,
    created_ms: u64,
    /// With the name and the number all that is recorded of it.
    settings: RwLock<Arc<CollectionSettings>>,
    /// Keeps a hash from leaving the index between a reader's view of the store and its look at the index.
    /// A reader holds it shared while it takes both; the writer holds it alone while it removes hashes
    /// whose last document is gone, if it gets it at once.
    pub(super) gate: Gate,
    /// Hashes whose last document is gone and that could not leave the index yet, because readers had the gate.
    /// They do no harm there but for the time it takes to find that nobody bears them.
    pub(super) leaving: Mutex<HashSet<Hash>>,
    /// How the postings at hand stay true while commits come in sight.
    pub(super) epoch: Epoch,
}

impl Collection {
    /// One without documents.
    pub(super) fn empty(record: CollectionRecord) -> Collection {
        let index = index_for(record.width, record.signatures);
        Collection::new(record, index)
    }

    pub(super) fn new(record: CollectionRecord, index: Arc<dyn HashIndex>) -> Collection {
        Collection {
            id: record.id,
            name: record.name.clone(),
            index,
            signatures: record.signatures,
            created_ms: record.created_ms,
            settings: RwLock::new(Arc::new(settings_of(record))),
            gate: Gate::default(),
            leaving: Mutex::default(),
            epoch: Epoch::default(),
        }
    }

    /// Takes hashes that no document bears any more out of the index, if the readers let it; else later, with
    /// those of the next commit. A long query must keep neither the writer nor, behind it, other readers.
    pub(super) fn let_go(&self, gone: impl IntoIterator<Item = Hash>) {
        let mut leaving = self.leaving.lock();
        leaving.extend(gone);
        if leaving.is_empty() {
            return;
        }
        if let Some(_alone) = self.gate.close(GATE_PATIENCE) {
            for hash in leaving.drain() {
                self.index.remove(hash);
            }
        }
    }

    /// Puts a hash into the index that a document is about to bear.
    pub(super) fn take_in(&self, hash: Hash) {
        self.leaving.lock().remove(&hash);
        self.index.insert(hash);
    }

    /// The signature that a row of this collection has.
    pub(super) fn signature_of<'r>(&self, row: &'r Row) -> Option<&'r [u8]> {
        self.signatures.and(row.sketch.as_deref())
    }

    /// What is recorded of it.
    pub(super) fn record(&self) -> CollectionRecord {
        self.record_with(&self.settings())
    }

    /// What is recorded of it with these settings.
    pub(super) fn record_with(&self, settings: &CollectionSettings) -> CollectionRecord {
        record_of(self.id, &self.name, settings, self.created_ms)
    }

    /// Which settings it has.
    pub(super) fn version(&self) -> SettingsVersion {
        SettingsVersion(self.record().checksum())
    }

    /// Changes its settings, but for those that its documents and its index stand on.
    pub(super) fn set_settings(&self, settings: CollectionSettings) {
        debug_assert_eq!((settings.width, settings.signatures), (self.index.width(), self.signatures));
        *self.settings.write() = Arc::new(settings);
    }

    pub(super) fn settings(&self) -> Arc<CollectionSettings> {
        Arc::clone(&self.settings.read())
    }
}

pub(super) fn settings_of(record: CollectionRecord) -> CollectionSettings {
    CollectionSettings {
        profile: record.profile,
        width: record.width,
        signatures: record.signatures,
        k: record.k,
        keep_text: record.keep_text,
        sketch_bytes: record.sketch_bytes,
        expires_in: record.expires_in,
    }
}

/// What is recorded of a collection.
pub(super) fn record_of(
    id: CollectionId,
    name: &CollectionName,
    settings: &CollectionSettings,
    created_ms: u64,
) -> CollectionRecord {
    CollectionRecord {
        id,
        name: name.clone(),
        profile: settings.profile.clone(),
        width: settings.width,
        signatures: settings.signatures,
        k: settings.k,
        sketch_bytes: settings.sketch_bytes,
        keep_text: settings.keep_text,
        expires_in: settings.expires_in,
        created_ms,
    }
}

/// The collections by name: a map that is replaced when one comes or goes, so that who looks one up, which is every
/// request, writes to nothing that others read.
#[derive(Default)]
pub(super) struct Registry(ArcSwap<Collections>);

type Collections = HashMap<CollectionName, Arc<Collection>, RandomState>;

impl Registry {
    /// These collections.
    pub(super) fn of(collections: impl IntoIterator<Item = Collection>) -> Registry {
        let named = collections.into_iter().map(|collection| (collection.name.clone(), Arc::new(collection)));
        Registry(ArcSwap::from_pointee(named.collect()))
    }

    pub(super) fn get(&self, name: &CollectionName) -> Result<Arc<Collection>, EngineError> {
        self.find(name).ok_or_else(|| EngineError::NoCollection(name.clone()))
    }

    pub(super) fn find(&self, name: &CollectionName) -> Option<Arc<Collection>> {
        self.0.load().get(name).map(Arc::clone)
    }

    /// Has a look at a collection, which takes less than [`Registry::get`].
    pub(super) fn look<R>(
        &self,
        name: &CollectionName,
        look: impl FnOnce(&Collection) -> Result<R, EngineError>,
    ) -> Result<R, EngineError> {
        let collections = self.0.load();
        look(collections.get(name).ok_or_else(|| EngineError::NoCollection(name.clone()))?)
    }

    pub(super) fn add(&self, collection: &Arc<Collection>) {
        self.change(|collections| drop(collections.insert(collection.name.clone(), Arc::clone(collection))));
    }

    pub(super) fn remove(&self, name: &CollectionName) {
        self.change(|collections| drop(collections.remove(name)));
    }

    /// Replaces the map by a changed one.
    fn change(&self, change: impl Fn(&mut Collections)) {
        self.0.rcu(|collections| {
            let mut collections = Collections::clone(collections);
            change(&mut collections);
            collections
        });
    }

    /// All collections, by name.
    pub(super) fn all(&self) -> Vec<Arc<Collection>> {
        let mut all: Vec<_> = self.0.load().values().map(Arc::clone).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }
}
