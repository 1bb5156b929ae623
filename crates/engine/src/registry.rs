//! The registry: the existing collections by name, each with its index.
//!
//! Only the writer changes the registry and the settings of a collection, after the change is durable. Both
//! are read without a lock. `pending_removals` is locked before the gate and the index.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use foldhash::fast::RandomState;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::gate::Gate;
use super::marks::Counts;
use super::posting_cache::Epoch;
use super::traffic::Traffic;
use super::writer::Message;
use crate::{CollectionSettings, Engine, EngineError, Version};
use lookalike_hamming::{HashIndex, index_for};
use lookalike_hash::{CollectionId, CollectionName, Hash, SignatureShape};
use lookalike_store::{CollectionRecord, Row};

/// The maximum time that the writer waits to close the gate. New readers wait for that time too.
const GATE_TIMEOUT: Duration = Duration::from_micros(500);

/// A collection in memory.
pub struct Collection {
    pub(super) id: CollectionId,
    pub(super) name: CollectionName,
    pub(super) index: Arc<dyn HashIndex>,
    /// The shape of its signatures, if its hashes identify signatures.
    pub(super) signatures: Option<SignatureShape>,
    pub(super) created_ms: u64,
    /// Whether a reindex made it. It then replaced a collection of the same name, for which writes may have
    /// been prepared.
    is_remade: bool,
    /// Together with the id, the name and the creation time, this is the collection's record.
    settings: ArcSwap<CollectionSettings>,
    /// Prevents the removal of a hash from the index between a reader's view of the store and its search of
    /// the index. A reader passes the gate before it takes both. The writer closes the gate while it removes
    /// hashes that no document has, if it can do so at once.
    pub(super) gate: Gate,
    /// Hashes that no document has, but that could not be removed from the index yet because readers had
    /// passed the gate. They cost only the time to read an empty posting list.
    pub(super) pending_removals: Mutex<HashSet<Hash>>,
    /// Keeps the posting cache consistent while commits become visible.
    pub(super) epoch: Epoch,
    /// The numbers of its marks.
    pub(super) marks: Counts,
    /// Its queries and writes since it was loaded.
    pub traffic: Traffic,
    /// Set when another collection has taken its place: then its rows are removed after the last query.
    release: OnceLock<Release>,
}

/// Tells the writer that no query holds a collection any more.
struct Release {
    id: CollectionId,
    writer: mpsc::WeakUnboundedSender<Message>,
}

impl Drop for Release {
    fn drop(&mut self) {
        // Without a writer, the next start removes the rows.
        if let Some(writer) = self.writer.upgrade() {
            let _ = writer.send(Message::Release(self.id));
        }
    }
}

impl fmt::Debug for Collection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collection").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Collection {
    /// A collection without documents.
    pub(super) fn empty(record: CollectionRecord) -> Collection {
        let index = index_for(record.settings.width, record.settings.signatures);
        Collection::new(record, index)
    }

    /// If `is_remade`, a collection that will replace the one of its name.
    pub(super) fn remade(self, is_remade: bool) -> Collection {
        Collection { is_remade, ..self }
    }

    /// Tells the writer when the last query of this collection has ended, which another one has replaced.
    pub(super) fn release_to(&self, writer: mpsc::WeakUnboundedSender<Message>) {
        let _ = self.release.set(Release { id: self.id, writer });
    }

    pub(super) fn new(record: CollectionRecord, index: Arc<dyn HashIndex>) -> Collection {
        Collection {
            is_remade: false,
            id: record.id,
            name: record.name.clone(),
            index,
            signatures: record.settings.signatures,
            created_ms: record.created_ms,
            settings: ArcSwap::from_pointee(record.settings),
            gate: Gate::default(),
            pending_removals: Mutex::default(),
            epoch: Epoch::default(),
            marks: Counts::default(),
            traffic: Traffic::default(),
            release: OnceLock::new(),
        }
    }

    /// The error of a write that was prepared for an earlier collection of this name.
    pub(super) fn not_for_this(&self, otherwise: impl FnOnce(CollectionName) -> EngineError) -> EngineError {
        let name = self.name.clone();
        if self.is_remade { EngineError::Switching(name) } else { otherwise(name) }
    }

    /// Removes hashes that no document has from the index. If readers prevent that, it is retried with the
    /// next commit: a long query must not block the writer and, behind it, other readers.
    pub(super) fn remove_hashes(&self, gone: impl IntoIterator<Item = Hash>) {
        let mut pending_removals = self.pending_removals.lock();
        pending_removals.extend(gone);
        if pending_removals.is_empty() {
            return;
        }
        if let Some(_closed) = self.gate.close(GATE_TIMEOUT) {
            for hash in pending_removals.drain() {
                self.index.remove(hash);
            }
        }
    }

    /// Inserts the hash of a document into the index, before the document's commit.
    pub(super) fn insert_hash(&self, hash: Hash) {
        self.pending_removals.lock().remove(&hash);
        self.index.insert(hash);
    }

    /// The signature in a row of this collection; `None` if the collection has no signatures.
    pub(super) fn signature_of<'r>(&self, row: &'r Row) -> Option<&'r [u8]> {
        self.signatures.and(row.sketch.as_deref())
    }

    /// The collection's record.
    pub(super) fn record(&self) -> CollectionRecord {
        self.record_with((*self.settings()).clone())
    }

    /// The collection's record with these settings.
    pub(super) fn record_with(&self, settings: CollectionSettings) -> CollectionRecord {
        CollectionRecord { id: self.id, name: self.name.clone(), settings, created_ms: self.created_ms }
    }

    /// The version of its settings.
    pub(super) fn version(&self) -> Version {
        Version(self.record().checksum())
    }

    /// Changes its settings. The width and the shape of signatures must be unchanged, because documents and
    /// index depend on them.
    pub(super) fn set_settings(&self, settings: CollectionSettings) {
        debug_assert_eq!((settings.width, settings.signatures), (self.index.width(), self.signatures));
        self.settings.store(Arc::new(settings));
    }

    /// Its name.
    pub fn name(&self) -> &CollectionName {
        &self.name
    }

    /// The shape of its signatures, if its hashes identify signatures.
    pub fn signatures(&self) -> Option<SignatureShape> {
        self.signatures
    }

    /// Whether its documents keep the grams of their texts.
    pub fn keeps_grams(&self) -> bool {
        self.settings.load().grams.is_some()
    }

    /// Whether its documents form clusters.
    pub(super) fn has_clusters(&self) -> bool {
        self.settings.load().clusters.is_some()
    }

    /// Its settings.
    pub fn settings(&self) -> Arc<CollectionSettings> {
        self.settings.load_full()
    }

    /// The distance for this `k` or this similarity threshold; its own if both are `None`.
    ///
    /// # Errors
    /// As [`reach`].
    pub fn reach(&self, k: Option<u32>, threshold: Option<f64>) -> Result<u32, EngineError> {
        reach(&self.settings.load(), k, threshold)
    }
}

/// The distance for this `k` or this similarity threshold; that of the collection if both are `None`.
///
/// # Errors
/// [`EngineError::Invalid`] or [`EngineError::Distance`] if the collection cannot have this distance.
pub fn reach(
    settings: &CollectionSettings,
    k: Option<u32>,
    threshold: Option<f64>,
) -> Result<u32, EngineError> {
    let invalid = |detail: String| Err(EngineError::Invalid { field: "threshold", detail });
    match (k, threshold, settings.signatures) {
        (None, None, _) => Ok(settings.k),
        (Some(_), Some(_), _) => {
            invalid("k and threshold both say how near documents must be; leave one out".to_owned())
        }
        (Some(k), None, _) if k <= settings.most() => Ok(k),
        (Some(k), None, _) => Err(EngineError::Distance { k, most: settings.most() }),
        (None, Some(_), None) => invalid(
            "threshold is for collections of signatures, such as those with profile minhash-copies; in \
             this collection distance is a number of bits, k"
                .to_owned(),
        ),
        (None, Some(threshold), _) if !(0.0..=1.0).contains(&threshold) => {
            invalid(format!("threshold is {threshold}; it ranges from 0 to 1"))
        }
        (None, Some(threshold), Some(shape)) => Ok(shape.distance_for(threshold)),
    }
}

impl Engine {
    /// The collection of this name, for queries.
    ///
    /// # Errors
    /// [`EngineError::NoCollection`] if there is none.
    pub fn find(&self, name: &CollectionName) -> Result<Arc<Collection>, EngineError> {
        self.shared.registry.get(name)
    }

    /// Returns the settings of a collection. It is cheaper than [`Engine::collection`], because every
    /// request calls it.
    pub fn settings(&self, name: &CollectionName) -> Result<Arc<CollectionSettings>, EngineError> {
        Ok(self.shared.registry.get(name)?.settings())
    }
}

/// The collections by name. The map is replaced when a collection is added or removed. So a lookup, which
/// every request makes, does not write to shared memory.
#[derive(Default)]
pub(super) struct Registry(ArcSwap<Collections>);

type Collections = HashMap<CollectionName, Arc<Collection>, RandomState>;

impl Registry {
    /// A registry of these collections.
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

    /// The error of a write to a collection whose number does not exist: it was deleted, or replaced.
    pub(super) fn missing(&self, name: CollectionName) -> EngineError {
        match self.find(&name) {
            Some(now) => now.not_for_this(EngineError::NoCollection),
            None => EngineError::NoCollection(name),
        }
    }

    /// Refuses what was prepared for a collection that does not have this name any more.
    pub(super) fn refuse_other(&self, name: &CollectionName, id: CollectionId) -> Result<(), EngineError> {
        match self.find(name) {
            Some(now) if now.id == id => Ok(()),
            _ => Err(self.missing(name.clone())),
        }
    }

    /// The collection with this number.
    pub(super) fn with_id(&self, id: CollectionId) -> Option<Arc<Collection>> {
        self.0.load().values().find(|collection| collection.id == id).map(Arc::clone)
    }

    pub(super) fn add(&self, collection: &Arc<Collection>) {
        self.change(|collections| drop(collections.insert(collection.name.clone(), Arc::clone(collection))));
    }

    pub(super) fn remove(&self, name: &CollectionName) {
        self.change(|collections| drop(collections.remove(name)));
    }

    /// Replaces the map with a changed copy.
    fn change(&self, change: impl Fn(&mut Collections)) {
        self.0.rcu(|collections| {
            let mut collections = Collections::clone(collections);
            change(&mut collections);
            collections
        });
    }

    /// All collections in the order of their names.
    pub(super) fn all(&self) -> Vec<Arc<Collection>> {
        let mut all: Vec<_> = self.0.load().values().map(Arc::clone).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }
}
