//! What dry runs have seen: an index of the documents of a request, or of a file that comes in several.
//!
//! A run of several requests is held between them, for a while and within the account of memory; the number
//! of documents that the client counts shows whether it is the same one. *Absent*: texts; runs of a server
//! that stopped, and of other servers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::error::ServiceError;
use lookalike_engine::{CollectionSettings, DuplicateRule, Row};
use lookalike_hamming::{HashIndex, Neighbour, Subject, index_for};
use lookalike_hash::{CollectionName, Hash, SignatureShape, Width};
use lookalike_run::call::Reserved;

/// Runs that are held; for a further one, the one that waits longest is forgotten.
const RUNS: usize = 8;
/// Documents of a run.
const DOCUMENTS: u64 = 2_000_000;
/// The time that a run waits for its next request.
const IDLE: Duration = Duration::from_mins(5);
/// Bytes of memory for a document: in the index, and its place.
const MEMORY_PER_HASH: usize = 160;

/// The run that a request goes on with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    /// The name that the client chose.
    pub name: String,
    /// The documents of its earlier requests; with 0 it begins.
    pub from: u64,
}

/// The documents that a run has seen.
pub(super) struct Seen {
    width: Width,
    shape: Option<SignatureShape>,
    index: Arc<dyn HashIndex>,
    /// The first document of each hash, and its sketch.
    firsts: HashMap<Hash, (u64, Option<Vec<u8>>)>,
    /// The place of the next document.
    pub(super) next: u64,
    memory: Reserved,
}

impl Seen {
    /// Nothing, for the documents of a collection.
    pub(super) fn new(settings: &CollectionSettings) -> Seen {
        let (width, shape) = (settings.width, settings.signatures);
        let index = index_for(width, shape);
        Seen { width, shape, index, firsts: HashMap::new(), next: 0, memory: Reserved::default() }
    }

    fn subject<'r>(&self, row: &'r Row) -> Subject<'r> {
        Subject { hash: row.hash, signature: self.shape.and(row.sketch.as_deref()) }
    }

    /// The distance and the place of the nearest document of which it is a duplicate, the first of equally
    /// near ones.
    pub(super) fn nearest(&self, row: &Row, rule: DuplicateRule) -> Option<(u32, u64)> {
        let mut found = Vec::new();
        self.index.within(self.subject(row), rule.reach(row), &mut found);
        let near = |near: &Neighbour<Hash>| {
            let (place, sketch) = &self.firsts[&near.hash];
            rule.similarity(row, near.distance, sketch.as_deref()).map(|_| (near.distance, *place))
        };
        found.iter().filter_map(near).min()
    }

    /// Adds the document at this place.
    pub(super) fn add(&mut self, place: u64, row: &Row) -> Result<(), ServiceError> {
        if self.firsts.contains_key(&row.hash) {
            return Ok(());
        }
        let signature = self.shape.and(row.sketch.as_deref());
        let sketch = row.sketch.clone().filter(|_| self.shape.is_none());
        let bytes = MEMORY_PER_HASH
            + 2 * signature.map_or(0, <[u8]>::len)
            + sketch.as_ref().map_or(0, |sketch| size_of::<Vec<u8>>() + sketch.len());
        self.memory.grow_to(self.memory.bytes() + bytes)?;
        if let Some(signature) = signature {
            self.index.announce(row.hash, signature);
        }
        self.index.insert(row.hash);
        self.firsts.insert(row.hash, (place, sketch));
        Ok(())
    }
}

struct Held {
    collection: CollectionName,
    name: String,
    seen: Seen,
}

/// The runs that wait for their next request, the one that waits longest first.
#[derive(Default)]
pub(super) struct Runs(Mutex<Vec<Held>>);

impl Runs {
    /// Takes a run, or begins it.
    ///
    /// # Errors
    /// [`ServiceError::NoRun`] if it is not held with that many documents.
    pub(super) fn take(
        &self,
        collection: &CollectionName,
        settings: &CollectionSettings,
        run: &Run,
    ) -> Result<Seen, ServiceError> {
        let seen = self.remove(collection, &run.name, |_| true);
        if run.from == 0 {
            return Ok(Seen::new(settings));
        }
        if run.from > DOCUMENTS {
            let detail = format!("from is {}; a dry run has at most {DOCUMENTS} documents", run.from);
            return Err(ServiceError::invalid("from", detail));
        }
        let kind = (settings.width, settings.signatures);
        let seen = seen.filter(|seen| seen.next == run.from && (seen.width, seen.shape) == kind);
        seen.ok_or_else(|| ServiceError::NoRun { name: run.name.clone(), from: run.from })
    }

    /// Holds a run until its next request, or until it is idle for too long.
    pub(super) fn hold(self: &Arc<Self>, collection: CollectionName, name: String, seen: Seen) {
        let (runs, next) = (Arc::downgrade(self), seen.next);
        let mut all = self.0.lock();
        if all.len() >= RUNS {
            all.remove(0);
        }
        all.push(Held { collection: collection.clone(), name: name.clone(), seen });
        drop(all);
        tokio::spawn(async move {
            tokio::time::sleep(IDLE).await;
            if let Some(runs) = runs.upgrade() {
                runs.remove(&collection, &name, |seen| seen.next == next);
            }
        });
    }

    fn remove(&self, collection: &CollectionName, name: &str, is: impl Fn(&Seen) -> bool) -> Option<Seen> {
        let mut all = self.0.lock();
        let is_it = |held: &Held| held.collection == *collection && held.name == name && is(&held.seen);
        let at = all.iter().position(is_it)?;
        Some(all.remove(at).seen)
    }
}
