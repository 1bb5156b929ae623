//! A data directory looked at and mended by hand, without a server: `verify` names what is damaged and changes nothing,
//! `repair` makes a new directory of what can still be read.
//!
//! *Absent*: mending in place. What is damaged stays as it is, for whoever can do better.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use super::directory::Directory;
use super::intake::has_signature;
use super::planning::Plan;
use super::recent::Recent;
use super::registry::Collection;
use super::{EmbeddedSettings, recovery};
use crate::engine::{Document, OpenError, Operation, Row};
use crate::ids::{DocumentId, Hash, Sequence};
use crate::index::Progress;
use crate::snapshot::{self, SnapshotError};
use crate::store::{Bearer, Change, CollectionRecord, Store, StoreError, Verified};

/// Documents in a batch of a repair.
const BATCH: usize = 1_000;

/// A flaw of a data directory.
#[derive(Debug, thiserror::Error)]
pub enum Flaw {
    /// The store is damaged: the server does not start on it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A snapshot is damaged: the next start passes it over and takes longer.
    #[error("{0} (a snapshot: no document depends on it)")]
    Snapshot(SnapshotError),
    /// The directory is damaged or too new.
    #[error(transparent)]
    Directory(#[from] OpenError),
}

impl Flaw {
    /// Whether a file may not be read, so that nothing is known of it.
    pub fn is_refused(&self) -> bool {
        matches!(self, Flaw::Store(error) | Flaw::Directory(OpenError::Store(error)) if error.is_refused())
    }

    /// Whether documents may be missing, so that the server does not start.
    pub fn is_grave(&self) -> bool {
        !matches!(self, Flaw::Snapshot(_))
    }
}

/// Verifies the data directory `path` without changing it, handing every flaw to `found`.
///
/// # Errors
/// [`OpenError`] if it cannot be looked at: there is none, or a server uses it.
pub fn verify(path: &Path, found: &mut dyn FnMut(Flaw)) -> Result<Verified, OpenError> {
    let (store, snapshots) = match Directory::look(path) {
        Ok(directory) => (directory.store, directory.snapshots),
        Err(error @ OpenError::Directory { .. }) => return Err(error),
        Err(error) => {
            found(error.into());
            (path.join("store"), path.join("snapshots"))
        }
    };
    let verified = Store::verify(&store, &mut |flaw| found(flaw.into()))?;
    // That there is no directory of them is no flaw: the server makes one.
    if snapshots.exists() {
        match snapshot::list(&snapshots) {
            Ok(files) => {
                let loaded = files.iter().map(|file| snapshot::load(&file.path, &Progress::default()));
                loaded.filter_map(Result::err).for_each(|error| found(Flaw::Snapshot(error)));
            }
            Err(error) => found(Flaw::Snapshot(error)),
        }
    }
    Ok(verified)
}

/// What a repair came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Documents kept whole.
    pub documents: u64,
    /// Documents of which the hash was left, and neither metadata nor text.
    pub bare: u64,
    /// Documents whose rows did not read back and whose hashes are not known either.
    pub lost: u64,
}

/// Makes a new data directory `to` of what can be read in `from`, which stays as it is; every flaw and every loss is said.
///
/// # Errors
/// [`OpenError`] if `from` is in use, or if `to` is not empty or cannot be written.
pub fn repair(
    from: &Path,
    to: &Path,
    settings: &EmbeddedSettings,
    say: &mut dyn FnMut(String),
) -> Result<Repaired, OpenError> {
    let target = Directory::open(to)?;
    let work = to.join("salvage");
    let empty = target.is_new && !target.store.exists();
    if !empty {
        return Err(OpenError::NotEmpty { path: to.to_path_buf() });
    }
    let damaged = from.join("store");
    let mut rows_are_whole = true;
    let old = Store::salvage(&damaged, &work, &mut |flaw| {
        rows_are_whole &= flaw.spares_rows(&damaged);
        say(format!("damaged: {flaw}"));
    })?;
    let store = Store::open(&target.store, settings.store, Some(settings.new_store))?;
    let mut repaired = Repaired::default();
    // Documents must not come back because the wall clock was set back meanwhile.
    let clock_ms = old.recorded_time().unwrap_or(0);
    for record in old.salvaged_collections() {
        let mut copy = Copy::begin(&store, &record, clock_ms)?;
        let all_read = copy.rows(&old, &mut repaired, say)?;
        // Who is borne without a row was deleted, and the note of that was lost with a table.
        if !(rows_are_whole && all_read) {
            copy.bearers(&old, &mut repaired, say)?;
        }
        copy.write()?;
    }
    store.close();
    drop(old);
    target.seal()?;
    fs::remove_dir_all(&work).map_err(|source| OpenError::Directory {
        path: work,
        action: "deleted",
        source,
    })?;
    Ok(repaired)
}

/// One collection on its way from what was salvaged into a new store.
struct Copy<'a> {
    store: &'a Store,
    record: &'a CollectionRecord,
    collection: Arc<Collection>,
    recent: Recent,
    pending: Vec<Document>,
}

impl<'a> Copy<'a> {
    fn begin(store: &'a Store, record: &'a CollectionRecord, clock_ms: u64) -> Result<Copy<'a>, StoreError> {
        let mut batch = store.batch()?;
        batch.record_time(clock_ms);
        batch.create_collection(record);
        batch.log(Change::CollectionCreated(record.id));
        let last = batch.commit()?;
        let collection = Arc::new(Collection::empty(record.clone()));
        Ok(Copy { store, record, collection, recent: Recent::new(last), pending: Vec::new() })
    }

    /// The documents whose rows read back; whether all did.
    fn rows(
        &mut self,
        old: &Store,
        repaired: &mut Repaired,
        say: &mut dyn FnMut(String),
    ) -> Result<bool, StoreError> {
        let mut all_read = true;
        for row in old.salvaged_rows(self.record.id) {
            all_read &= row.is_ok();
            match row {
                Ok((id, row))
                    if row.hash.width() == self.record.width
                        && has_signature(&self.collection, row.sketch.as_deref()).is_ok() =>
                {
                    repaired.documents += 1;
                    self.put(Document { id, row })?;
                }
                Ok((id, _)) => {
                    repaired.lost += 1;
                    say(format!(
                        "lost: {id} in {}: its fingerprint is not one of this collection",
                        self.record.name
                    ));
                }
                // Its hash may be known from elsewhere.
                Err(lost) if lost.id.is_some() => {}
                Err(lost) => {
                    repaired.lost += 1;
                    say(format!(
                        "lost: a document of {}, whose id does not read back: {}",
                        self.record.name, lost.error
                    ));
                }
            }
        }
        self.write()?;
        Ok(all_read)
    }

    /// Documents that are known by their hashes alone.
    fn bearers(
        &mut self,
        old: &Store,
        repaired: &mut Repaired,
        say: &mut dyn FnMut(String),
    ) -> Result<(), StoreError> {
        for (hash, bearer) in old.salvaged_bearers(self.record) {
            if self.store.view().row(self.record.id, &bearer.id)?.is_none() && !self.is_pending(&bearer.id) {
                if self.record.signatures.is_some() {
                    repaired.lost += 1;
                    say(format!(
                        "lost: {} in {}: only the name of its signature is left",
                        bearer.id, self.record.name
                    ));
                    continue;
                }
                repaired.bare += 1;
                say(format!(
                    "reduced: {} in {}: its hash {hash} is kept, metadata and text are lost",
                    bearer.id, self.record.name
                ));
                self.put(bare(bearer, hash))?;
            }
        }
        self.write()
    }

    fn is_pending(&self, id: &DocumentId) -> bool {
        self.pending.iter().any(|document| document.id == *id)
    }

    fn put(&mut self, document: Document) -> Result<(), StoreError> {
        self.pending.push(document);
        if self.pending.len() < BATCH { Ok(()) } else { self.write() }
    }

    fn write(&mut self) -> Result<(), StoreError> {
        let last: Sequence = self.store.high_water()?;
        let mut plan = Plan::new(self.store, last, 0)?;
        for document in self.pending.drain(..) {
            let put = Operation::Put { document, unless_within: None };
            plan.decide(&self.collection, put, None, &mut self.recent)?;
        }
        let (batch, _) = plan.into_batch();
        if batch.is_empty() {
            return Ok(());
        }
        recovery::follow(&*self.collection.index, batch.changes());
        batch.commit().map(drop)
    }
}

/// A document of which only the hash is known.
fn bare(Bearer { id, expires_ms, .. }: Bearer, hash: Hash) -> Document {
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
