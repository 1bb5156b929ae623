//! Restoring backups: an upload is spooled to the disk, verified completely, and only then written to a
//! hidden collection.
//!
//! The last step gives the collection its name, which makes the restore atomic. Its index is filled
//! concurrently with the others. If a snapshot does not have this index yet, the next start builds it from
//! the posting lists.
//!
//! *Absent*: hidden collections (`hidden`), and who fills them (`filler`).

use std::cell::OnceCell;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::StreamExt;
use tokio::io::AsyncWriteExt;
use tokio::runtime::Handle;

use super::filler::{Access, Filler};
use super::intake::has_sketch_and_grams;
use super::shared::Shared;
use crate::{
    CollectionSettings, Document, Engine, EngineError, Incoming, Operation, RestoreRules, Restored, permit,
};
use lookalike_hash::{CollectionId, CollectionName, Mark, Width};
use lookalike_run::pool::PoolError;
use lookalike_store::CollectionRecord;
use lookalike_store::backup::{self, BackupError, Item, Manifest, Summary};
use lookalike_text::fingerprint::Profile;

/// Maximum number of documents in a batch.
const BATCH_DOCUMENTS: usize = 2_000;
/// Maximum number of marks in a batch.
const BATCH_MARKS: usize = 1_000;
/// Approximate maximum bytes of documents in a batch.
const BATCH_BYTES: usize = 4 << 20;

/// A spooled upload. Dropping it deletes the file.
struct Spooled(PathBuf);

impl Drop for Spooled {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Engine {
    /// Creates a collection from a backup, atomically: after the whole backup has been verified, or not at
    /// all.
    ///
    /// # Errors
    /// [`EngineError::CollectionExists`] if a collection of this name exists, [`EngineError::Backup`] if the
    /// backup cannot be used, and the errors of `rules`. [`EngineError::MemoryFull`] or
    /// [`EngineError::DiskFull`] if there is not enough memory or disk space; the restore is then undone.
    pub async fn restore(
        &self,
        name: &CollectionName,
        tar: Incoming,
        rules: Arc<dyn RestoreRules>,
    ) -> Result<Restored, EngineError> {
        // Before the upload: a client should not send a backup that would be rejected.
        if self.shared.registry.find(name).is_some() {
            return Err(EngineError::CollectionExists(name.clone()));
        }
        if let Some(reason) = self.shared.read_only() {
            return Err(EngineError::ReadOnly(reason));
        }
        self.admit(true)?;
        let permit = permit(&self.restores, "the capacity for restores")?;
        let spooled = spool(&self.incoming, tar, &self.shared).await?;
        let (name, now_ms, access) = (name.clone(), self.now_ms(), self.access());
        // A detached thread completes the restore even if the client disconnects.
        let task = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            restore(&name, &spooled, &*rules, now_ms, access)
        });
        task.await.map_err(|_| EngineError::Pool(PoolError::Panicked))?
    }
}

/// Writes an upload to a file in `dir`, while the disk has enough space for other writes.
async fn spool(dir: &Path, mut tar: Incoming, shared: &Shared) -> Result<Spooled, EngineError> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let path = dir.join(format!("{}.tar", NUMBER.fetch_add(1, Ordering::Relaxed)));
    let spooled = Spooled(path.clone());
    let mut file = tokio::fs::File::create(&path).await.map_err(EngineError::Spool)?;
    while let Some(piece) = tar.next().await {
        let piece = piece.map_err(|error| EngineError::Upload(error.to_string()))?;
        shared.check_space()?;
        file.write_all(&piece).await.map_err(EngineError::Spool)?;
    }
    file.flush().await.map_err(EngineError::Spool)?;
    Ok(spooled)
}

/// Verifies a spooled backup and creates the collection `name` from it. Blocks.
fn restore(
    name: &CollectionName,
    spooled: &Spooled,
    rules: &dyn RestoreRules,
    now_ms: u64,
    access: Access,
) -> Result<Restored, EngineError> {
    let summary = verify(name, &spooled.0, rules, now_ms)?;
    let documents = summary.documents;
    tracing::info!(collection = %name, documents, "a backup was verified and is being restored");
    let runtime = Handle::current();
    let Manifest { settings, created_ms, .. } = summary.manifest.clone();
    let record = CollectionRecord { id: CollectionId(0), name: name.clone(), settings, created_ms };
    let filler = runtime.block_on(access.begin(record, None))?;
    let (held, marks) = (Vec::new(), Vec::new());
    let mut filling =
        Filling { runtime: &runtime, filler: &filler, now_ms, held, marks, bytes: 0, skipped: 0 };
    let take = |item| filling.take(item);
    backup::read(open(&spooled.0)?, rules.line_bytes(), |_| Ok(()), take)?;
    filling.flush()?;
    let expired = filling.skipped;
    let collection = runtime.block_on(filler.finish(None))?;
    let documents = summary.documents - expired;
    tracing::info!(collection = %name, documents, expired, "a collection was restored");
    Ok(Restored { collection, from: summary.manifest, documents, expired })
}

/// Reads the whole backup and checks that it is intact and that all of it may be restored.
fn verify(
    name: &CollectionName,
    path: &Path,
    rules: &dyn RestoreRules,
    now_ms: u64,
) -> Result<Summary, EngineError> {
    let settings = OnceCell::new();
    let begin = |manifest: &Manifest| {
        check_profile(&manifest.settings)?;
        check_settings(&manifest.settings)?;
        rules.settings(&manifest.settings)?;
        let _ = settings.set(manifest.settings.clone());
        Ok(())
    };
    let take = |item: Item| {
        let Item::Document(id, row) = item else { return Ok(()) };
        if row.has_lapsed(now_ms) {
            return Ok(());
        }
        let settings = settings.get().expect("the manifest comes before the documents");
        has_sketch_and_grams(name, settings, &row).map_err(|error| {
            EngineError::NotAdmitted(format!("document {:?} of the backup: {error}", id.as_str()))
        })?;
        rules.document(&Document { id, row }, now_ms)
    };
    let read = backup::read(open(path)?, rules.line_bytes(), begin, take);
    read.map_err(|error| match error {
        EngineError::Backup(BackupError::Line { .. }) => EngineError::TooLarge(format!(
            "{error}, more than text and metadata may have; raise limits.document_bytes or \
             limits.metadata_bytes to restore it"
        )),
        error => error,
    })
}

fn check_profile(settings: &CollectionSettings) -> Result<(), BackupError> {
    // The id of a user-defined profile ends in the digest of its definition. A server with that definition
    // can use it.
    if settings.profile.contains('+') {
        return Ok(());
    }
    let known = Profile::named(&settings.profile)
        .filter(|known| known.width() == settings.width && known.id().to_string() == settings.profile);
    match known {
        Some(_) => Ok(()),
        None => Err(BackupError::Profile { profile: settings.profile.clone(), bits: settings.width.bits() }),
    }
}

fn open(path: &Path) -> Result<File, EngineError> {
    File::open(path).map_err(EngineError::Spool)
}

/// Rejects settings that no collection has.
fn check_settings(settings: &CollectionSettings) -> Result<(), BackupError> {
    let invalid = |what: String| BackupError::Damaged { member: "manifest.json".into(), offset: 0, what };
    let CollectionSettings { width, signatures, k, threshold, .. } = settings;
    if *k > settings.most() {
        return Err(invalid(format!("k is {k}")));
    }
    let means_k = |threshold: &f64| signatures.is_some_and(|shape| shape.distance_for(*threshold) == *k);
    if let Some(threshold) = threshold.filter(|threshold| !means_k(threshold)) {
        return Err(invalid(format!("threshold is {threshold} with k={k}")));
    }
    if signatures.is_some() && *width != Width::Bits128 {
        return Err(invalid("hashes of signatures that do not have 128 bits".into()));
    }
    Ok(())
}

/// Fills the collection in batches. Each batch is sent after the previous one is written.
struct Filling<'a> {
    runtime: &'a Handle,
    filler: &'a Filler,
    now_ms: u64,
    held: Vec<Document>,
    marks: Vec<(Mark, u64)>,
    bytes: usize,
    /// Number of expired documents that were skipped.
    skipped: u64,
}

impl Filling<'_> {
    fn take(&mut self, item: Item) -> Result<(), EngineError> {
        let document = match item {
            Item::Document(id, row) => Document { id, row },
            Item::Mark(mark, marked_ms) => {
                self.marks.push((mark, marked_ms));
                return if self.marks.len() >= BATCH_MARKS { self.flush() } else { Ok(()) };
            }
        };
        if document.row.has_lapsed(self.now_ms) {
            self.skipped += 1;
            return Ok(());
        }
        self.bytes += document.row.held_bytes();
        self.held.push(document);
        if self.held.len() >= BATCH_DOCUMENTS || self.bytes >= BATCH_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), EngineError> {
        self.bytes = 0;
        let (documents, marks) = (std::mem::take(&mut self.held), std::mem::take(&mut self.marks));
        self.runtime.block_on(async {
            self.filler.fill(documents.into_iter().map(Operation::put).collect()).await?;
            self.filler.mark(marks).await
        })
    }
}

/// Creates the directory for uploads, and deletes files that crashes left there.
pub(super) fn clear(dir: &Path) -> io::Result<()> {
    std::fs::create_dir_all(dir)?;
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_file() {
            std::fs::remove_file(path)?;
        }
    }
    Ok(())
}
