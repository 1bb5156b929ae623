//! From the disk to a running engine: the newest good snapshot and the log after it, or the store alone.
//!
//! A damaged snapshot is named in the log and passed over; it costs time, never data. A damaged store
//! stops the start and is left as it is. How far it has come is told to who asks (`/readyz`) and, every second, in the log.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use super::registry::{Collection, Registry};
use crate::ids::{CollectionId, Sequence, SignatureShape};
use crate::index::{Bands, HashIndex, Progress};
use crate::snapshot::{self, Ascending, Loaded, SnapshotFile};
use crate::store::{Change, CollectionRecord, Store, StoreError};

/// How often the log is told how far it has come.
const TOLD_EVERY: Duration = Duration::from_secs(1);
/// Hashes read from the store between two counts.
const COUNTED: u64 = 10_000;

type Indexes = HashMap<CollectionId, Arc<dyn HashIndex>>;

/// What recovery made of the disk.
pub(super) struct Recovered {
    pub(super) registry: Registry,
    pub(super) last: Sequence,
    /// The snapshot that was loaded.
    pub(super) snapshot: Option<SnapshotFile>,
}

/// Brings the index to the state of the store, and counts on the way.
pub(super) fn recover(store: &Store, snapshots: &Path, progress: &Progress) -> Result<Recovered, StoreError> {
    let last = store.high_water()?;
    let records = store.collections()?;
    let (snapshot, indexes) = telling(progress, || match newest(store, snapshots, last, progress)? {
        Some((file, loaded)) => Ok((Some(file), replay(store, &records, loaded, progress)?)),
        None => Ok((None, rebuild(store, &records, progress)?)),
    })?;
    let collections = records.into_iter().map(|record| match indexes.get(&record.id) {
        Some(index) => Collection::new(record, Arc::clone(index)),
        None => Collection::empty(record),
    });
    let registry = Registry::of(collections);
    Ok(Recovered { registry, last, snapshot })
}

/// Works, and tells the log every so often how far it has come.
fn telling<T>(progress: &Progress, work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    std::thread::scope(|scope| {
        let (working, done) = channel::<()>();
        scope.spawn(move || {
            while done.recv_timeout(TOLD_EVERY) == Err(RecvTimeoutError::Timeout) {
                let ((hashes, of), percent) = (progress.hashes(), progress.percent());
                tracing::info!(hashes, of, percent, "recovering");
            }
        });
        let result = work();
        drop(working);
        result
    })
}

/// The newest snapshot that is whole and whose log is there.
fn newest(
    store: &Store,
    dir: &Path,
    last: Sequence,
    progress: &Progress,
) -> Result<Option<(SnapshotFile, Loaded)>, StoreError> {
    let trimmed = store.trimmed()?;
    let files = snapshot::list(dir).unwrap_or_else(|error| {
        warn(&error);
        Vec::new()
    });
    for file in files {
        progress.reset();
        match snapshot::load(&file.path, progress) {
            Ok(loaded) if loaded.from >= trimmed && loaded.through <= last => {
                return Ok(Some((file, loaded)));
            }
            Ok(loaded) => {
                tracing::warn!(
                    snapshot = %file.path.display(), from = %loaded.from, through = %loaded.through, %trimmed, %last,
                    "a snapshot does not fit the log and is set aside"
                );
                // It must not be taken later, when the log has grown past it with other changes: it was made
                // beside another log, such as that of a store that was since replaced by a copy of an earlier one.
                snapshot::set_aside(&file.path).unwrap_or_else(|error| warn(&error));
            }
            Err(error) => warn(&error),
        }
    }
    Ok(None)
}

fn warn(error: &snapshot::SnapshotError) {
    let cause = std::error::Error::source(error).map(ToString::to_string);
    tracing::warn!(%error, cause, "a snapshot cannot be used; an older one or the store takes its place");
}

/// The snapshot's hashes, changed by the log after it.
fn replay(
    store: &Store,
    records: &[CollectionRecord],
    loaded: Loaded,
    progress: &Progress,
) -> Result<Indexes, StoreError> {
    let known = |id| records.iter().find(|record| record.id == id);
    let mut indexes: Indexes = loaded
        .sections
        .into_iter()
        .filter(|(section, index)| {
            known(section.collection).is_some_and(|r| r.width == index.width() && r.signatures.is_none())
        })
        .map(|(section, index)| (section.collection, index))
        .collect();
    // Made after the snapshot; if it came from a backup, the log may not tell of all its documents.
    let missing: Vec<CollectionRecord> =
        records.iter().filter(|record| !indexes.contains_key(&record.id)).cloned().collect();
    if !missing.is_empty() {
        indexes.extend(rebuild(store, &missing, progress)?);
    }
    let mut replayed = 0u64;
    for change in store.changes_after(loaded.from) {
        let (_, change) = change?;
        replayed += 1;
        let Change::Document { collection, added, removed } = change else {
            continue;
        };
        // Signatures were read from the rows as they are now; the log has only their names.
        let index = known(collection).filter(|record| record.signatures.is_none());
        let Some(index) = index.and_then(|record| indexes.get(&record.id)) else {
            continue;
        };
        removed.map(|hash| index.remove(hash));
        added.map(|hash| index.insert(hash));
    }
    tracing::info!(from = %loaded.from, replayed, "the index was loaded from a snapshot");
    Ok(indexes)
}

/// Brings an index to the state after these changes of its collection.
pub(super) fn follow(index: &dyn HashIndex, changes: &[Change]) {
    for change in changes {
        if let Change::Document { added, removed, .. } = change {
            removed.map(|hash| index.remove(hash));
            added.map(|hash| index.insert(hash));
        }
    }
}

/// The distinct hashes of the postings, which the store has in ascending order; signatures stand in the rows.
fn rebuild(store: &Store, records: &[CollectionRecord], progress: &Progress) -> Result<Indexes, StoreError> {
    progress.reset();
    // As many hashes as documents, or fewer where some share one.
    let documents = records.iter().map(|record| store.documents(record.id)).sum::<Result<u64, _>>()?;
    progress.expect(documents);
    let mut indexes = Indexes::new();
    for record in records {
        if let Some(shape) = record.signatures {
            indexes.insert(record.id, signatures(store, record, shape, progress)?);
            continue;
        }
        let mut hashes = Ascending::new(record.width);
        for (hash, number) in store.hashes(record).zip(1u64..) {
            hashes.push(hash?);
            if number.is_multiple_of(COUNTED) {
                progress.add(COUNTED);
            }
        }
        let index = hashes.into_index();
        if !index.is_empty() {
            tracing::info!(collection = %record.name, hashes = index.len(), "the index was built from the store");
        }
        indexes.insert(record.id, index);
    }
    Ok(indexes)
}

/// The signatures of a collection's rows.
fn signatures(
    store: &Store,
    record: &CollectionRecord,
    shape: SignatureShape,
    progress: &Progress,
) -> Result<Arc<dyn HashIndex>, StoreError> {
    let bands = Bands::new(shape);
    for (row, number) in store.view().rows_after(record.id, None).zip(1u64..) {
        let (_, row) = row?;
        let signature = row.sketch.filter(|signature| signature.len() == shape.bytes());
        bands.insert(row.hash, &signature.ok_or(StoreError::Damaged("signature"))?);
        if number.is_multiple_of(COUNTED) {
            progress.add(COUNTED);
        }
    }
    if !bands.is_empty() {
        let signatures = bands.len();
        tracing::info!(collection = %record.name, signatures, "the index was built from the store");
    }
    Ok(Arc::new(bands))
}
