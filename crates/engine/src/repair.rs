//! `repair`: creates a new data directory from the readable rows of a damaged one.
//!
//! The damaged directory is not changed. The readable rows ([`Salvage`]) are written through the store like
//! other documents, and everything derived from rows (posting lists, expiry entries, counts, the history)
//! is rebuilt. At the end the rows of the new store are counted and compared with the number of read rows,
//! and with the number that the damaged store recorded.
//!
//! *Absent*: repair in place.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use super::directory::Directory;
use super::intake::has_signature;
use super::planning::{Plan, place};
use super::recent::Recent;
use super::registry::Collection;
use super::{BOILERPLATE, EngineSettings, recovery};
use crate::{Document, OpenError, Operation, Row};
use lookalike_hash::{CollectionId, CollectionName, DocumentId, GramRule, Hash, Mark, Width};
use lookalike_store::{
    Change, ClusterChanges, CollectionRecord, CollectionSettings, Loss, MarkCounts, Posting, Salvage,
    SalvagedRow, Store, StoreError,
};
use lookalike_text::fingerprint::Profile;

/// Number of documents in a batch of a repair.
const BATCH: usize = 1_000;

/// The result of a repair.
#[derive(Debug, Default)]
pub struct RepairReport {
    /// Damage that lost no rows, as far as can be determined.
    pub doubts: Vec<String>,
    /// Whether the lists of files are intact, so that only `losses` are lost.
    is_proven: bool,
    /// The lost parts.
    pub losses: Vec<Loss>,
    /// The collections by their ids.
    pub collections: BTreeMap<CollectionId, RepairedCollection>,
}

/// The result for a collection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairedCollection {
    /// Its name; `None` if its settings are lost and no profile was given for it. Then none of its documents
    /// is in the new store.
    pub name: Option<CollectionName>,
    /// Whether the name was generated because the settings are lost.
    pub is_renamed: bool,
    /// The number of documents that the damaged store recorded, if it is readable.
    pub recorded: Option<u64>,
    /// The number of rows read.
    pub read: u64,
    /// The number of these rows that a lost write may have changed or deleted later.
    pub uncertain: u64,
    /// The number of rows that are unreadable except for their key, or that do not fit the collection.
    pub unreadable: u64,
    /// The number of lost rows whose documents are in the new store with their hash only.
    pub reduced: u64,
    /// The number of rows in the new store, counted there.
    pub written: u64,
    /// The number of marks in the new store.
    pub marks: u64,
}

impl RepairReport {
    /// Whether the new store has every document of the damaged one, unchanged.
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

/// Creates a new data directory `to` from what is readable in `from`. A collection whose settings are lost
/// gets the name `recovered-<id>` if `profiles` has the profile of its fingerprints.
///
/// # Errors
/// [`OpenError`] if `from` is in use, is too new or cannot be read, or if `to` is not empty or cannot be
/// written.
pub fn repair(
    from: &Path,
    to: &Path,
    settings: &EngineSettings,
    profiles: &BTreeMap<CollectionId, &'static Profile>,
) -> Result<RepairReport, OpenError> {
    // A damaged format file is tolerated, but this version cannot read a newer format.
    if let Err(error @ (OpenError::Newer { .. } | OpenError::Directory { .. })) =
        Directory::open_existing(from)
    {
        return Err(error);
    }
    let old = Salvage::read(&from.join("store"))?;
    let target = Directory::open(to)?;
    if !target.is_new || target.store.exists() {
        return Err(OpenError::NotEmpty { path: to.to_path_buf() });
    }
    let store = Store::open(&target.store, settings.store, Some(settings.new_store))?;
    let mut repair = Repair::begin(&old, &store, profiles)?;
    repair.marks()?;
    repair.rows()?;
    repair.reduced()?;
    let report = repair.finish()?;
    store.close();
    target.seal()?;
    Ok(report)
}

/// A repair in progress.
struct Repair<'a> {
    old: &'a Salvage,
    store: &'a Store,
    copies: BTreeMap<CollectionId, CollectionCopy<'a>>,
    report: BTreeMap<CollectionId, RepairedCollection>,
    /// Documents whose rows are unreadable except for their key.
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
        // In the order of ids: the last one created determines the next free id.
        for (id, (record, is_renamed)) in records {
            let of = RepairedCollection {
                name: Some(record.name.clone()),
                is_renamed,
                recorded: old.recorded_documents(id),
                ..RepairedCollection::default()
            };
            repair.report.insert(id, of);
            repair.copies.insert(id, CollectionCopy::begin(store, record, old.recorded_time())?);
        }
        Ok(repair)
    }

    /// Copies the readable marks. The mark of a pair is readable if one of its two entries is.
    fn marks(&mut self) -> Result<(), StoreError> {
        for mark in self.old.marks() {
            let (collection, mark, marked_ms) = mark?;
            if let Some(copy) = self.copies.get_mut(&collection) {
                copy.mark(mark, marked_ms)?;
            }
        }
        self.copies.values_mut().try_for_each(CollectionCopy::write_marks)
    }

    /// Copies the readable rows.
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
        self.copies.values_mut().try_for_each(CollectionCopy::write)
    }

    /// Recovers documents whose rows are lost but whose hashes are known from posting lists.
    fn reduced(&mut self) -> Result<(), StoreError> {
        if self.old.losses().is_empty() && self.unreadable.is_empty() {
            return Ok(());
        }
        let widths: BTreeMap<CollectionId, Width> =
            self.copies.iter().map(|(id, copy)| (*id, copy.collection.index.width())).collect();
        for posting in self.old.postings(|id| widths.get(&id).copied())? {
            let (id, hash, posting) = posting?;
            let Some(copy) = self.copies.get_mut(&id) else { continue };
            let was_lost = self.old.may_have_lost(id, &posting.id)
                || self.unreadable.contains(&(id, posting.id.clone()));
            // The hash of a signature is useless without the signature.
            let is_enough = copy.collection.signatures.is_none();
            if was_lost && is_enough && self.store.view().row_head(id, &posting.id)?.is_none() {
                copy.put(reduced(posting, hash))?;
            }
        }
        self.copies.values_mut().try_for_each(CollectionCopy::write)
    }

    /// Counts the rows of the new store.
    fn finish(mut self) -> Result<RepairReport, StoreError> {
        for (id, of) in &mut self.report {
            for row in self.store.view().rows_after(*id, None) {
                row?;
                of.written += 1;
            }
            of.marks = self.store.mark_counts(*id)?.all();
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

/// Derives the settings of a collection from its rows, if its record is lost.
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
            settings: CollectionSettings {
                signatures: profile.signatures(),
                k: profile.default_k(),
                ..CollectionSettings::of(profile.id().to_string(), profile.width())
            },
            created_ms: row.written_ms,
        });
        record.created_ms = record.created_ms.min(row.written_ms);
        let settings = &mut record.settings;
        settings.keep_text |= row.text.is_some() || row.thumbnail.is_some();
        if !row.grams.is_empty() {
            settings.grams = Some(GramRule { is_exact: false, boilerplate: BOILERPLATE });
        }
        if settings.signatures.is_none() {
            let bytes = row.sketch.and_then(|sketch| u16::try_from(sketch.len()).ok());
            settings.sketch_bytes = settings.sketch_bytes.max(bytes);
        }
    }
    Ok(record)
}

/// A collection that is being written to the new store.
struct CollectionCopy<'a> {
    store: &'a Store,
    collection: Arc<Collection>,
    recent: Recent,
    pending: Vec<Document>,
    pending_marks: BTreeMap<Mark, u64>,
    marks: MarkCounts,
    /// The latest known time. Expired documents must not reappear if the wall clock was set back.
    clock_ms: u64,
    /// The place of the next document whose row is lost.
    next_place: u64,
}

impl<'a> CollectionCopy<'a> {
    fn begin(
        store: &'a Store,
        record: CollectionRecord,
        clock_ms: u64,
    ) -> Result<CollectionCopy<'a>, StoreError> {
        let mut batch = store.batch()?;
        batch.record_time(clock_ms);
        batch.create_collection(&record);
        if record.settings.clusters.is_some() {
            // The next start builds them from the rows.
            batch.change_clusters(&ClusterChanges::rebuild(record.id, 0));
        }
        batch.record(Change::CollectionCreated(record.id));
        let last = batch.commit()?;
        let collection = Arc::new(Collection::empty(record));
        let (recent, pending, next_place) = (Recent::new(last), Vec::new(), place(clock_ms + 1));
        let (pending_marks, marks) = (BTreeMap::new(), MarkCounts::default());
        Ok(CollectionCopy { store, collection, recent, pending, pending_marks, marks, clock_ms, next_place })
    }

    fn fits(&self, row: &Row) -> bool {
        row.hash.width() == self.collection.index.width()
            && has_signature(&self.collection, row.sketch.as_deref()).is_ok()
    }

    fn mark(&mut self, mark: Mark, marked_ms: u64) -> Result<(), StoreError> {
        self.pending_marks.insert(mark, marked_ms);
        if self.pending_marks.len() < BATCH { Ok(()) } else { self.write_marks() }
    }

    fn write_marks(&mut self) -> Result<(), StoreError> {
        let of = self.collection.id;
        if self.pending_marks.is_empty() {
            return Ok(());
        }
        let (view, mut batch) = (self.store.view(), self.store.batch()?);
        for (mark, marked_ms) in std::mem::take(&mut self.pending_marks) {
            if view.marked_ms(of, &mark)?.is_none() {
                batch.add_mark(of, &mark, marked_ms);
                self.marks.count(&mark);
            }
        }
        batch.set_mark_counts(of, self.marks);
        batch.record(Change::CollectionChanged(of));
        batch.commit().map(drop)
    }

    fn put(&mut self, document: Document) -> Result<(), StoreError> {
        self.clock_ms = self.clock_ms.max(document.row.written_ms);
        self.pending.push(document);
        if self.pending.len() < BATCH { Ok(()) } else { self.write() }
    }

    fn write(&mut self) -> Result<(), StoreError> {
        let mut plan = Plan::new(self.store, self.store.high_water()?, 0)?;
        plan.next_place = self.next_place;
        for document in self.pending.drain(..) {
            plan.decide(&self.collection, Operation::put(document), None, &mut self.recent)?;
        }
        self.next_place = plan.next_place;
        let (mut batch, _) = plan.into_batch();
        if batch.is_empty() {
            return Ok(());
        }
        batch.record_time(self.clock_ms.max(self.store.recorded_time()?));
        recovery::apply(&*self.collection.index, batch.changes());
        batch.commit().map(drop)
    }
}

/// The document of a posting whose row is lost: only its hash is known.
fn reduced(Posting { id, expires_ms, .. }: Posting, hash: Hash) -> Document {
    let row = Row {
        hash,
        features: None,
        short: false,
        characters: None,
        place: 0,
        written_ms: 0,
        lifetime: expires_ms.into(),
        sketch: None,
        thumbnail: None,
        metadata: None,
        grams: Vec::new(),
        text: None,
    };
    Document { id, row }
}
