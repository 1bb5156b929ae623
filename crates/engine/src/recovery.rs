//! Recovery: loads the newest intact snapshot and replays the history after it, or rebuilds the index from
//! the store.
//!
//! A damaged snapshot is reported in the log and skipped; that costs time, but no data. If the store is
//! damaged, recovery fails and leaves it unchanged. The progress is reported by `/readyz` and, every second,
//! in the log.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use super::hidden::Hidden;
use super::registry::{Collection, Registry};
use lookalike_hamming::snapshot::{self, Ascending, Loaded, SnapshotFile};
use lookalike_hamming::{Bands, HashIndex, Progress};
use lookalike_hash::{CollectionId, Sequence, SignatureShape};
use lookalike_store::{Change, CollectionRecord, Store, StoreError};

/// The interval of the progress messages in the log.
const LOG_INTERVAL: Duration = Duration::from_secs(1);
/// Number of hashes read from the store between two updates of the progress.
const COUNT_STEP: u64 = 10_000;

type Indexes = HashMap<CollectionId, Arc<dyn HashIndex>>;

/// The result of recovery.
pub(super) struct Recovered {
    pub(super) registry: Registry,
    /// Collections of a replica that are being filled.
    pub(super) hidden: Vec<Hidden>,
    pub(super) last: Sequence,
    /// The snapshot that was loaded.
    pub(super) snapshot: Option<SnapshotFile>,
}

/// Brings the index to the state of the store, and counts the progress.
pub(super) fn recover(store: &Store, snapshots: &Path, progress: &Progress) -> Result<Recovered, StoreError> {
    let last = store.high_water()?;
    let (visible, hidden) = (store.collections()?, store.hidden()?);
    let filled = hidden.iter().map(|hidden| hidden.record.clone());
    let records: Vec<CollectionRecord> = visible.iter().cloned().chain(filled).collect();
    let (snapshot, indexes) = log_progress(progress, || match newest(store, snapshots, last, progress)? {
        Some((file, loaded)) => Ok((Some(file), replay(store, &records, loaded, progress)?)),
        None => Ok((None, rebuild(store, &records, progress)?)),
    })?;
    let collection = |record: CollectionRecord| {
        let marks = store.mark_counts(record.id)?;
        let collection = match indexes.get(&record.id) {
            Some(index) => Collection::new(record, Arc::clone(index)),
            None => Collection::empty(record),
        };
        collection.marks.set(marks);
        Ok::<_, StoreError>(collection)
    };
    let collections: Vec<Collection> = visible.into_iter().map(collection).collect::<Result<_, _>>()?;
    let hidden = hidden.into_iter().map(|hidden| {
        let collection = collection(hidden.record.clone())?.remade(hidden.source.is_some());
        Ok::<_, StoreError>(Hidden::of(hidden, Arc::new(collection)))
    });
    let hidden = hidden.collect::<Result<_, _>>()?;
    Ok(Recovered { registry: Registry::of(collections), hidden, last, snapshot })
}

/// Runs `work` and logs its progress periodically.
fn log_progress<T>(
    progress: &Progress,
    work: impl FnOnce() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    std::thread::scope(|scope| {
        let (working, done) = channel::<()>();
        scope.spawn(move || {
            while done.recv_timeout(LOG_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                let ((hashes, of), percent) = (progress.hashes(), progress.percent());
                tracing::info!(hashes, of, percent, "recovering");
            }
        });
        let result = work();
        drop(working);
        result
    })
}

/// The newest snapshot that is intact and that the history can be applied to.
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
                    snapshot = %file.path.display(),
                    from = %loaded.from,
                    through = %loaded.through,
                    %trimmed,
                    %last,
                    "a snapshot does not fit the history and is set aside"
                );
                // It must not be used later, when the history has grown past it with other changes. It was
                // made with another history, for example of a store that was later replaced by a copy of an
                // earlier one.
                snapshot::set_aside(&file.path).unwrap_or_else(|error| warn(&error));
            }
            Err(error) => warn(&error),
        }
    }
    Ok(None)
}

fn warn(error: &snapshot::SnapshotError) {
    let cause = std::error::Error::source(error).map(ToString::to_string);
    tracing::warn!(%error, cause, "a snapshot cannot be used; an older one or the store is used instead");
}

/// Applies the history to the hashes of the snapshot.
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
            known(section.collection).is_some_and(|record| {
                let settings = &record.settings;
                settings.width == index.width() && settings.signatures.is_none()
            })
        })
        .map(|(section, index)| (section.collection, index))
        .collect();
    // These were created after the snapshot. If one was restored from a backup, the history may not have all
    // its documents.
    let missing: Vec<CollectionRecord> =
        records.iter().filter(|record| !indexes.contains_key(&record.id)).cloned().collect();
    if !missing.is_empty() {
        indexes.extend(rebuild(store, &missing, progress)?);
    }
    let mut replayed = 0u64;
    for change in store.changes_after(loaded.from) {
        let (_, change) = change?;
        replayed += 1;
        let Change::Document { collection, .. } = change else {
            continue;
        };
        // Signatures were read from the rows, which are newer. The history has only their hashes.
        let index = known(collection).filter(|record| record.settings.signatures.is_none());
        let Some(index) = index.and_then(|record| indexes.get(&record.id)) else {
            continue;
        };
        apply(&**index, std::slice::from_ref(&change));
    }
    tracing::info!(from = %loaded.from, replayed, "the index was loaded from a snapshot");
    Ok(indexes)
}

/// Applies these changes of a collection to its index.
pub(super) fn apply(index: &dyn HashIndex, changes: &[Change]) {
    for change in changes {
        if let Change::Document { added, removed, .. } = change {
            removed.map(|hash| index.remove(hash));
            added.map(|hash| index.insert(hash));
        }
    }
}

/// Builds indexes from the store: from the posting lists, which it stores in ascending order of hashes, or
/// from the rows for signatures.
fn rebuild(store: &Store, records: &[CollectionRecord], progress: &Progress) -> Result<Indexes, StoreError> {
    progress.reset();
    // There are as many hashes as documents, or fewer if documents share a hash.
    let documents = records.iter().map(|record| store.documents(record.id)).sum::<Result<u64, _>>()?;
    progress.expect(documents);
    let mut indexes = Indexes::new();
    for record in records {
        if let Some(shape) = record.settings.signatures {
            indexes.insert(record.id, signatures(store, record, shape, progress)?);
            continue;
        }
        let mut hashes = Ascending::new(record.settings.width);
        for (hash, number) in store.hashes(record).zip(1u64..) {
            hashes.push(hash?);
            if number.is_multiple_of(COUNT_STEP) {
                progress.add(COUNT_STEP);
            }
        }
        let index = hashes.into_index();
        if !index.is_empty() {
            let hashes = index.len();
            tracing::info!(collection = %record.name, hashes, "the index was built from the store");
        }
        indexes.insert(record.id, index);
    }
    Ok(indexes)
}

/// Builds the index of a collection's signatures from its rows.
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
        if number.is_multiple_of(COUNT_STEP) {
            progress.add(COUNT_STEP);
        }
    }
    if !bands.is_empty() {
        let signatures = bands.len();
        tracing::info!(collection = %record.name, signatures, "the index was built from the store");
    }
    Ok(Arc::new(bands))
}
