//! `repair`: a new data directory of the rows that can be read in a damaged one.
//!
//! The damaged directory stays as it is. What can be read of its rows ([`Salvage`]) is written through the
//! store like any other documents, and everything that follows from rows (postings, expiries, counts, the
//! change log) is made anew. At the end the rows of the new store are counted and compared with those that
//! were read, and with the number that the damaged store recorded.
//!
//! *Absent*: mending in place.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use super::directory::Directory;
use super::intake::has_signature;
use super::planning::Plan;
use super::recent::Recent;
use super::registry::Collection;
use super::{EmbeddedSettings, recovery};
use crate::engine::{Document, OpenError, Operation, Row};
use crate::fingerprint::Profile;
use crate::ids::{CollectionId, CollectionName, DocumentId, Hash, Width};
use crate::store::{Change, CollectionRecord, Loss, Posting, Salvage, SalvagedRow, Store, StoreError};

/// Documents in a batch of a repair.
const BATCH: usize = 1_000;

/// What a repair came to.
#[derive(Debug, Default)]
pub struct RepairReport {
    /// What is damaged and cost no row, as far as that can be told.
    pub doubts: Vec<String>,
    /// Whether the lists of files are sound, so that nothing is lost but `losses`.
    pub is_proven: bool,
    /// What is lost.
    pub losses: Vec<Loss>,
    /// The collections by their numbers.
    pub collections: BTreeMap<CollectionId, RepairedCollection>,
}

/// What became of a collection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairedCollection {
    /// Its name; `None` if its settings are lost and no profile was named for it: then no document of it is
    /// in the new store.
    pub name: Option<CollectionName>,
    /// Whether the name was made up because the settings are lost.
    pub is_renamed: bool,
    /// How many documents the damaged store recorded, if that can be read.
    pub recorded: Option<u64>,
    /// Rows that were read.
    pub read: u64,
    /// Of those, how many may have been changed or deleted later by a write that is lost.
    pub uncertain: u64,
    /// Rows of which only the key reads back, or that do not fit the collection.
    pub unreadable: u64,
    /// Of the rows that are lost, documents that are in the new store with their hash alone.
    pub reduced: u64,
    /// Rows in the new store, counted there.
    pub written: u64,
}

impl RepairReport {
    /// Whether every document of the damaged store is in the new one, as it was.
    pub fn is_complete(&self) -> bool {
        let whole = |of: &RepairedCollection| {
            of.name.is_some()
                && !of.is_renamed
                && of.unreadable == 0
                && of.read == of.written
                && of.is_as_recorded()
        };
        let is_counted =
            !self.collections.is_empty() && self.collections.values().all(|of| of.recorded.is_some());
        self.losses.is_empty() && self.collections.values().all(whole) && (self.is_proven || is_counted)
    }
}

impl RepairedCollection {
    fn is_as_recorded(&self) -> bool {
        self.recorded.is_none_or(|recorded| recorded == self.read)
    }
}

/// Makes a new data directory `to` of what can be read in `from`. Collections whose settings are lost are
/// made anew under the name `recovered-<number>` if `profiles` says which profile their fingerprints are of.
///
/// # Errors
/// [`OpenError`] if `from` is in use, is too new or cannot be read, or if `to` is not empty or cannot be
/// written.
pub fn repair(
    from: &Path,
    to: &Path,
    settings: &EmbeddedSettings,
    profiles: &BTreeMap<CollectionId, &'static Profile>,
) -> Result<RepairReport, OpenError> {
    // The mark of the format may be damaged like everything else, but a newer one is not understood here.
    if let Err(error @ (OpenError::Newer { .. } | OpenError::Directory { .. })) = Directory::look(from) {
        return Err(error);
    }
    let old = Salvage::read(&from.join("store"))?;
    let target = Directory::open(to)?;
    if !target.is_new || target.store.exists() {
        return Err(OpenError::NotEmpty { path: to.to_path_buf() });
    }
    let store = Store::open(&target.store, settings.store, Some(settings.new_store))?;
    let mut repair = Repair::begin(&old, &store, profiles)?;
    repair.rows()?;
    repair.reduced()?;
    let report = repair.finish()?;
    store.close();
    target.seal()?;
    Ok(report)
}

/// A repair under way.
struct Repair<'a> {
    old: &'a Salvage,
    store: &'a Store,
    copies: BTreeMap<CollectionId, Copy<'a>>,
    report: BTreeMap<CollectionId, RepairedCollection>,
    /// Documents of which only the key reads back.
    unreadable: HashSet<(CollectionId, DocumentId)>,
}

impl<'a> Repair<'a> {
    fn begin(
        old: &'a Salvage,
        store: &'a Store,
        profiles: &BTreeMap<CollectionId, &'static Profile>,
    ) -> Result<Repair<'a>, StoreError> {
        let mut records: BTreeMap<_, _> =
            old.collections().into_iter().map(|of| (of.id, (of, false))).collect();
        for (id, profile) in profiles {
            if !records.contains_key(id) && !old.is_garbage(*id) {
                records.extend(derived(old, *id, profile)?.map(|record| (*id, (record, true))));
            }
        }
        let mut repair = Repair {
            old,
            store,
            copies: BTreeMap::new(),
            report: BTreeMap::new(),
            unreadable: HashSet::new(),
        };
        // By their numbers: the last one that is made counts as the last that was given.
        for (id, (record, is_renamed)) in records {
            let of = RepairedCollection {
                name: Some(record.name.clone()),
                is_renamed,
                recorded: old.recorded_documents(id),
                ..RepairedCollection::default()
            };
            repair.report.insert(id, of);
            repair.copies.insert(id, Copy::begin(store, record, old.recorded_time())?);
        }
        Ok(repair)
    }

    /// The rows that read back.
    fn rows(&mut self) -> Result<(), StoreError> {
        for row in self.old.rows() {
            let SalvagedRow { collection, id, row, is_uncertain } = row?;
            if self.old.is_garbage(collection) {
                continue;
            }
            let of = self.report.entry(collection).or_insert_with(|| RepairedCollection {
                recorded: self.old.recorded_documents(collection),
                ..RepairedCollection::default()
            });
            let copy = self.copies.get_mut(&collection);
            match (id, row) {
                (Some(id), Ok(row)) if copy.as_ref().is_none_or(|copy| copy.fits(&row)) => {
                    of.read += 1;
                    of.uncertain += u64::from(is_uncertain);
                    copy.map_or(Ok(()), |copy| copy.put(Document { id, row }))?;
                }
                (id, _) => {
                    of.unreadable += 1;
                    self.unreadable.extend(id.map(|id| (collection, id)));
                }
            }
        }
        self.copies.values_mut().try_for_each(Copy::write)
    }

    /// Documents whose rows are lost and whose hashes are known from elsewhere.
    fn reduced(&mut self) -> Result<(), StoreError> {
        if self.old.losses().is_empty() && self.unreadable.is_empty() {
            return Ok(());
        }
        let widths: BTreeMap<CollectionId, Width> =
            self.copies.iter().map(|(id, copy)| (*id, copy.collection.record().width)).collect();
        for posting in self.old.postings(|id| widths.get(&id).copied())? {
            let (id, hash, posting) = posting?;
            let Some(copy) = self.copies.get_mut(&id) else { continue };
            let was_lost = self.old.may_have_lost(id, &posting.id)
                || self.unreadable.contains(&(id, posting.id.clone()));
            // Of a signature the name alone is of no use.
            let is_enough = copy.collection.signatures.is_none();
            if was_lost && is_enough && self.store.view().row(id, &posting.id)?.is_none() {
                copy.put(reduced(posting, hash))?;
            }
        }
        self.copies.values_mut().try_for_each(Copy::write)
    }

    /// Counts what is in the new store.
    fn finish(mut self) -> Result<RepairReport, StoreError> {
        for (id, of) in &mut self.report {
            for row in self.store.view().rows_after(*id, None) {
                row?;
                of.written += 1;
            }
            of.reduced = of.written.saturating_sub(of.read);
        }
        Ok(RepairReport {
            doubts: self.old.doubts().to_vec(),
            is_proven: self.old.rows_are_proven(),
            losses: self.old.losses().to_vec(),
            collections: self.report,
        })
    }
}

/// The settings of a collection whose record is lost, as far as its rows tell.
fn derived(
    old: &Salvage,
    id: CollectionId,
    profile: &'static Profile,
) -> Result<Option<CollectionRecord>, StoreError> {
    let mut record = None;
    for row in old.rows() {
        let SalvagedRow { collection, row: Ok(row), .. } = row? else { continue };
        if collection != id {
            continue;
        }
        let record = record.get_or_insert_with(|| CollectionRecord {
            id,
            name: CollectionName::new(&format!("recovered-{}", id.0)).expect("letters, digits and a dash"),
            profile: profile.id().to_string(),
            width: profile.width(),
            signatures: profile.signatures(),
            k: profile.default_k(),
            sketch_bytes: None,
            keep_text: false,
            expires_in: None,
            created_ms: row.written_ms,
        });
        record.created_ms = record.created_ms.min(row.written_ms);
        record.keep_text |= row.text.is_some();
        if record.signatures.is_none() {
            let bytes = row.sketch.and_then(|sketch| u16::try_from(sketch.len()).ok());
            record.sketch_bytes = record.sketch_bytes.max(bytes);
        }
    }
    Ok(record)
}

/// One collection on its way into the new store.
struct Copy<'a> {
    store: &'a Store,
    collection: Arc<Collection>,
    recent: Recent,
    pending: Vec<Document>,
    /// Documents must not come back because the wall clock was set back meanwhile.
    clock_ms: u64,
}

impl<'a> Copy<'a> {
    fn begin(store: &'a Store, record: CollectionRecord, clock_ms: u64) -> Result<Copy<'a>, StoreError> {
        let mut batch = store.batch()?;
        batch.record_time(clock_ms);
        batch.create_collection(&record);
        batch.log(Change::CollectionCreated(record.id));
        let last = batch.commit()?;
        let collection = Arc::new(Collection::empty(record));
        Ok(Copy { store, collection, recent: Recent::new(last), pending: Vec::new(), clock_ms })
    }

    fn fits(&self, row: &Row) -> bool {
        row.hash.width() == self.collection.record().width
            && has_signature(&self.collection, row.sketch.as_deref()).is_ok()
    }

    fn put(&mut self, document: Document) -> Result<(), StoreError> {
        self.clock_ms = self.clock_ms.max(document.row.written_ms);
        self.pending.push(document);
        if self.pending.len() < BATCH { Ok(()) } else { self.write() }
    }

    fn write(&mut self) -> Result<(), StoreError> {
        let mut plan = Plan::new(self.store, self.store.high_water()?, 0)?;
        for document in self.pending.drain(..) {
            let put = Operation::Put { document, unless_within: None };
            plan.decide(&self.collection, put, None, &mut self.recent)?;
        }
        let (mut batch, _) = plan.into_batch();
        if batch.is_empty() {
            return Ok(());
        }
        batch.record_time(self.clock_ms.max(self.store.recorded_time()?));
        recovery::follow(&*self.collection.index, batch.changes());
        batch.commit().map(drop)
    }
}

/// A document of which only the hash is known.
fn reduced(Posting { id, expires_ms, .. }: Posting, hash: Hash) -> Document {
    let row = Row {
        hash,
        features: None,
        short: false,
        written_ms: 0,
        expires_ms,
        sketch: None,
        metadata: None,
        text: None,
    };
    Document { id, row }
}
