//! What dry runs have seen: an index of the documents of a request, or of a file that comes in several. Of
//! documents with one id it has the last one.
//!
//! A run of several requests is held between them, for a while and within the account of memory; the number
//! of documents that the client counts shows whether it is the same one. *Absent*: texts; runs of a server
//! that stopped, and of other servers.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::error::ServiceError;
use lookalike_engine::{CollectionSettings, DuplicateRule, Row, fewest_grams};
use lookalike_hamming::{HashIndex, Neighbour, Subject, index_for};
use lookalike_hash::{CollectionName, DocumentId, Gram, GramRule, Hash, SignatureShape};
use lookalike_run::call::Reserved;
use lookalike_text::fingerprint::Containment;

/// Runs that are held; for a further one, the one that waits longest is forgotten.
const RUNS: usize = 8;
/// Documents of a run.
const DOCUMENTS: u64 = 2_000_000;
/// The time that a run waits for its next request.
const IDLE: Duration = Duration::from_mins(5);
/// Bytes of memory for a hash in the index, for a document of it, and for an id besides its characters.
const MEMORY_PER_HASH: usize = 480;
const MEMORY_PER_DOCUMENT: usize = 64;
const MEMORY_PER_ID: usize = 160;
/// The same for a gram of a document, of which another one may have none.
const MEMORY_PER_GRAM: usize = 112;
/// The documents that are known of a gram.
const POSTINGS: usize = 100;
/// The documents that a check compares, of all and of one hash, as the writer does.
pub(super) const COMPARED: usize = 32;

/// The run that a request goes on with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    /// The name that the client chose.
    pub name: String,
    /// The documents of its earlier requests; with 0 it begins.
    pub from: u64,
}

/// The sketch of a document, if hashes are compared by distance.
type Sketch = Option<Arc<[u8]>>;

/// What must not change during a run: what makes signatures and sketches, the size of sketches, and which
/// grams are kept.
type Kind = (String, Option<SignatureShape>, Option<u16>, Option<GramRule>);

fn kind(settings: &CollectionSettings) -> Kind {
    (settings.made_by(), settings.signatures, settings.sketch_bytes, settings.grams)
}

/// The documents that a run has seen.
pub(super) struct Seen {
    kind: Kind,
    shape: Option<SignatureShape>,
    index: Arc<dyn HashIndex>,
    /// The documents of each hash by their places.
    of_hash: HashMap<Hash, BTreeMap<u64, Sketch>>,
    /// The places of the first documents that have a gram.
    of_gram: HashMap<u64, Vec<u64>>,
    /// The grams of the document at a place, if the run looks at them.
    grams: HashMap<u64, Vec<Gram>>,
    rule: Option<GramRule>,
    /// The documents with an id that the client gave; `None` if they are not compared.
    of_id: HashMap<DocumentId, Option<(Hash, u64)>>,
    /// The same ids: stored documents that have them would be replaced.
    pub(super) ids: Arc<BTreeSet<DocumentId>>,
    /// The place of the next document.
    pub(super) next: u64,
    memory: Reserved,
}

impl Seen {
    /// Nothing, for the documents of a collection.
    pub(super) fn new(settings: &CollectionSettings) -> Seen {
        let (width, shape) = (settings.width, settings.signatures);
        Seen {
            kind: kind(settings),
            shape,
            index: index_for(width, shape),
            of_hash: HashMap::new(),
            of_gram: HashMap::new(),
            grams: HashMap::new(),
            rule: settings.grams,
            of_id: HashMap::new(),
            ids: Arc::default(),
            next: 0,
            memory: Reserved::default(),
        }
    }

    fn subject<'r>(&self, row: &'r Row) -> Subject<'r> {
        Subject { hash: row.hash, signature: self.shape.and(row.sketch.as_deref()) }
    }

    /// The distance and the place of the nearest document with another id of which it is a duplicate, the
    /// first of equally near ones.
    pub(super) fn nearest(&self, id: &DocumentId, row: &Row, rule: DuplicateRule) -> Option<(u32, u64)> {
        let itself = self.of_id.get(id).copied().flatten().map(|(_, place)| place);
        let mut found = Vec::new();
        self.index.within(self.subject(row), rule.reach(row), &mut found);
        let documents = |near: &Neighbour<Hash>| {
            let distance = near.distance;
            let others = self.of_hash[&near.hash].iter().filter(move |(place, _)| Some(**place) != itself);
            others.take(COMPARED).map(move |(place, sketch)| (distance, *place, sketch))
        };
        let mut near: Vec<_> = found.iter().flat_map(documents).collect();
        near.sort_unstable_by_key(|(distance, place, _)| (*distance, *place));
        let is_duplicate = |(distance, _, sketch): &&(u32, u64, &Sketch)| {
            rule.similarity(row, *distance, sketch.as_deref()).is_some()
        };
        near.iter().take(COMPARED).find(is_duplicate).map(|(distance, place, _)| (*distance, *place))
    }

    /// The largest share of a document that another one contains, if it is at least `least`, and the place of
    /// that one, the first of equals. It is estimated by their grams.
    pub(super) fn containing(&self, id: &DocumentId, row: &Row, least: f64) -> Option<(f64, u64)> {
        let rule = self.rule?;
        let itself = self.of_id.get(id).copied().flatten().map(|(_, place)| place);
        let mut counts: HashMap<u64, usize> = HashMap::new();
        for place in row.grams.iter().filter_map(|gram| self.of_gram.get(&gram.hash)).flatten() {
            *counts.entry(*place).or_default() += 1;
        }
        counts.retain(|place, count| *count >= fewest_grams(rule) && Some(*place) != itself);
        let mut most: Vec<(usize, u64)> = counts.into_iter().map(|(place, count)| (count, place)).collect();
        most.sort_unstable_by_key(|(count, place)| (Reverse(*count), *place));
        let share = |(count, place): (usize, u64)| {
            let other = self.grams.get(&place)?;
            let is_enough = rule.is_exact || Containment::shares_passage(count, row.grams.len(), other.len());
            let share = Containment::of_grams(&row.grams, other, |_| false).a_in_b;
            (is_enough && share >= least).then_some((share, place))
        };
        let shares = most.into_iter().take(COMPARED).filter_map(share);
        shares.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)))
    }

    /// Puts the next document in the place of an earlier one with its id, if the client gave it one. A
    /// document without a row is compared with no other.
    pub(super) fn put(&mut self, id: Option<&DocumentId>, row: Option<&Row>) -> Result<(), ServiceError> {
        if let Some(id) = id {
            if !self.ids.contains(id) {
                self.reserve(MEMORY_PER_ID + id.as_str().len())?;
                Arc::make_mut(&mut self.ids).insert(id.clone());
            }
            let before = self.of_id.insert(id.clone(), row.map(|row| (row.hash, self.next)));
            if let Some((hash, place)) = before.flatten() {
                self.remove(hash, place);
            }
        }
        row.map_or(Ok(()), |row| self.add(row))
    }

    fn add(&mut self, row: &Row) -> Result<(), ServiceError> {
        let signature = self.shape.and(row.sketch.as_deref());
        let own = row.sketch.as_deref().filter(|_| self.shape.is_none());
        let is_new = !self.of_hash.contains_key(&row.hash);
        let of_hash = if is_new { MEMORY_PER_HASH + 2 * signature.map_or(0, <[u8]>::len) } else { 0 };
        let of_grams = row.grams.len() * MEMORY_PER_GRAM;
        self.reserve(of_hash + MEMORY_PER_DOCUMENT + own.map_or(0, <[u8]>::len) + of_grams)?;
        if let Some(signature) = signature.filter(|_| is_new) {
            self.index.announce(row.hash, signature);
        }
        self.index.insert(row.hash);
        self.of_hash.entry(row.hash).or_default().insert(self.next, own.map(Arc::from));
        if row.grams.is_empty() {
            return Ok(());
        }
        for gram in &row.grams {
            let places = self.of_gram.entry(gram.hash).or_default();
            if places.len() < POSTINGS {
                places.push(self.next);
            }
        }
        self.grams.insert(self.next, row.grams.clone());
        Ok(())
    }

    fn reserve(&mut self, bytes: usize) -> Result<(), ServiceError> {
        Ok(self.memory.grow_to(self.memory.bytes() + bytes)?)
    }

    fn remove(&mut self, hash: Hash, place: u64) {
        if let Some(grams) = self.grams.remove(&place) {
            for gram in grams {
                self.of_gram.entry(gram.hash).or_default().retain(|other| *other != place);
            }
        }
        let documents = self.of_hash.get_mut(&hash).expect("it was added");
        documents.remove(&place);
        if documents.is_empty() {
            self.of_hash.remove(&hash);
            self.index.remove(hash);
        }
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
        let kind = kind(settings);
        let seen = seen.filter(|seen| seen.next == run.from && seen.kind == kind);
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
