//! Keeping the store: batches go in through the journal, and beside that memtables are written out, trees compacted, and
//! what the trees hold is deleted from the journal.
//!
//! *Invariants*
//! - The order of a batch: journal, sync, mark, trees. A view sees it only after all of that.
//! - The order of a checkpoint: memtables closed at some record, written out, the manifest, and only then the journal's
//!   segments up to that record are deleted. A crash between two steps leaves more to replay, never less.
//! - After a write or a sync that failed, nothing is written any more until the store is opened again. Want of room is no
//!   such failure: then nothing was appended, memtables stay in memory, and the work is tried again.
//!
//! *Locks*: `kept`, for the time of a checkpoint; the journal, for the time of a batch; views and trees below it.

use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use lsm_tree::compaction::Leveled;
use lsm_tree::{AbstractTree, AnyTree};
use parking_lot::{Condvar, Mutex};

use super::error::StoreError;
use super::journal::Journal;
use super::manifest::Manifest;
use super::room::Room;
use super::trees::{Trees, Writes};

/// The file of a tree that names its version, whose number is its first eight bytes.
const POINTER: &str = "current";
/// Closed memtables of a tree at which the writer waits for them to be written out.
const SEALED_LIMIT: usize = 4;
/// Overlapping tables of a tree at which the writer waits for compaction.
const RUNS_LIMIT: usize = 30;
/// How often it is looked whether there is work, if nobody says so.
const TICK: Duration = Duration::from_millis(250);
/// How long the writer sleeps between two looks whether it may go on.
const PAUSE: Duration = Duration::from_millis(2);
/// Compactions of a tree in a row, before others get their turn.
const STEPS: usize = 64;

/// A thread's bell.
#[derive(Default)]
struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Bell {
    fn ring(&self) {
        *self.rung.lock() = true;
        self.changed.notify_all();
    }

    fn wait(&self) {
        let mut rung = self.rung.lock();
        if !*rung {
            self.changed.wait_for(&mut rung, TICK);
        }
        *rung = false;
    }
}

/// The parts of an open store.
pub(super) struct Core {
    pub(super) dir: PathBuf,
    pub(super) store: u64,
    pub(super) trees: Trees,
    pub(super) journal: Mutex<Journal>,
    pub(super) room: Room,
    /// Bytes of the journal after which the memtables are written out, so that it can begin anew: what a start replays.
    journal_limit: u64,
    /// Held as long as the store is open.
    _lock: File,
    /// Why nothing is written any more, once that is so.
    failed: Mutex<Option<String>>,
    /// Whether memtables could not be written out for want of room.
    stuck: AtomicBool,
    /// Whether everything is to be written out, so that memory becomes free.
    relieving: AtomicBool,
    /// The last record that all trees have on disk.
    kept: Mutex<u64>,
    flushing: Bell,
    compacting: Bell,
    stopping: AtomicBool,
}

impl Core {
    pub(super) fn new(
        dir: PathBuf,
        manifest: &Manifest,
        trees: Trees,
        journal: Journal,
        room: Room,
        journal_limit: u64,
        lock: File,
    ) -> Core {
        Core {
            dir,
            store: manifest.store,
            trees,
            journal: Mutex::new(journal),
            room,
            journal_limit,
            _lock: lock,
            failed: Mutex::default(),
            stuck: AtomicBool::new(false),
            relieving: AtomicBool::new(false),
            kept: Mutex::new(manifest.replay_from - 1),
            flushing: Bell::default(),
            compacting: Bell::default(),
            stopping: AtomicBool::new(false),
        }
    }

    /// Writes a batch, and waits until it is on the disk.
    ///
    /// # Errors
    /// [`StoreError::Full`] if there is no room: then nothing was written. After any other error nobody knows, and nothing
    /// is written any more.
    pub(super) fn commit(&self, writes: &Writes, seen_next: impl FnOnce()) -> Result<(), StoreError> {
        if writes.is_empty() {
            return Ok(());
        }
        self.wait_for_turn()?;
        let mut journal = self.journal.lock();
        self.refuse_failed()?;
        let seqno = self.trees.next_seqno();
        let appended = journal.append(seqno, writes.payload());
        if let Err(error @ StoreError::Full { .. }) = appended {
            if !self.stuck.swap(true, Ordering::Relaxed) {
                tracing::error!("the disk takes no more of the journal: no writes are taken until it does");
            }
            return Err(self.room.check().err().unwrap_or(error));
        }
        let synced = appended.and_then(|()| journal.sync());
        synced
            .and_then(|()| {
                seen_next();
                self.trees.apply(seqno, writes.payload())
            })
            .inspect_err(|error| self.fail(error))?;
        if self.trees.rotate(false) || journal.bytes() > self.journal_limit {
            self.flushing.ring();
        }
        Ok(())
    }

    /// Why nothing is written any more.
    pub(super) fn failure(&self) -> Option<String> {
        self.failed.lock().clone()
    }

    /// Has everything written out in the background, so that memory becomes free.
    pub(super) fn relieve(&self) {
        self.relieving.store(true, Ordering::Relaxed);
        self.flushing.ring();
    }

    /// Whether there is room for more.
    pub(super) fn check_room(&self) -> Result<(), StoreError> {
        self.room.check()?;
        if self.stuck.load(Ordering::Relaxed) {
            return Err(StoreError::Full { free: 0, wanted: 0 });
        }
        Ok(())
    }

    fn refuse_failed(&self) -> Result<(), StoreError> {
        self.failure().map_or(Ok(()), |reason| Err(StoreError::Failed(reason)))
    }

    fn fail(&self, error: &StoreError) {
        let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
        self.failed.lock().get_or_insert(format!("{error}{cause}"));
    }

    /// Waits while what was written before has yet to be put in order.
    fn wait_for_turn(&self) -> Result<(), StoreError> {
        let behind = |tree: &lsm_tree::AnyTree| {
            tree.sealed_memtable_count() >= SEALED_LIMIT || tree.l0_run_count() >= RUNS_LIMIT
        };
        while self.trees.all().iter().any(behind) {
            self.refuse_failed()?;
            self.check_room()?;
            self.flushing.ring();
            self.compacting.ring();
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Writes closed memtables out.
    fn flush(&self) -> Result<(), StoreError> {
        for tree in self.trees.all() {
            if tree.sealed_memtable_count() > 0 {
                let lock = tree.get_flush_lock();
                tree.flush(&lock, self.trees.views.horizon()).map_err(|error| unless_ahead(tree, error))?;
                self.compacting.ring();
            }
        }
        Ok(())
    }

    /// Writes everything out, and deletes what the journal says of it.
    pub(super) fn checkpoint(&self) -> Result<(), StoreError> {
        // One at a time: the manifest of an older one, written last, would ask for segments that are deleted.
        let mut kept = self.kept.lock();
        let through = {
            let journal = self.journal.lock();
            self.trees.rotate(true);
            journal.last()
        };
        if *kept == through {
            return Ok(());
        }
        self.flush()?;
        let manifest =
            Manifest { store: self.store, replay_from: through + 1, versions: self.trees.versions() };
        manifest.write(&self.dir)?;
        *kept = through;
        let retired = {
            let mut journal = self.journal.lock();
            journal.sync_mark().map_err(|source| StoreError::io(&self.dir, "synced", source))?;
            journal.retire(through)
        };
        for path in retired {
            // One that stays is passed over by the next start.
            if let Err(error) = fs::remove_file(&path) {
                tracing::warn!(%error, path = %path.display(), "a segment of the journal that is not needed stays");
            }
        }
        Ok(())
    }

    fn compact(&self) -> Result<(), StoreError> {
        for tree in self.trees.all() {
            for _ in 0..STEPS {
                if self.stopping.load(Ordering::Relaxed) {
                    return Ok(());
                }
                let before = tree.current_version().id();
                tree.compact(Arc::new(Leveled::default()), self.trees.views.horizon())
                    .map_err(|error| unless_ahead(tree, error))?;
                if tree.current_version().id() == before {
                    break;
                }
            }
        }
        Ok(())
    }

    /// What came of work in the background.
    fn settle(&self, result: Result<(), StoreError>) {
        match result {
            Ok(()) => self.stuck.store(false, Ordering::Relaxed),
            Err(error) if error.is_full() => {
                if !self.stuck.swap(true, Ordering::Relaxed) {
                    tracing::error!("there is no room on the disk to write memory out; it is tried again");
                }
            }
            Err(error) => {
                // In this order: whoever is refused finds the reason in the log.
                tracing::error!(%error, "the store cannot be kept; no more writes are taken until the server is restarted");
                self.fail(&error);
            }
        }
    }
}

/// What an error of a tree means. A disk without room is tried again, but not if the tree's pointer names a version by
/// then that the tree itself does not know: the next try would write another one over it, and a kill before it is
/// pointed to would leave a pointer with the checksum of the one before.
fn unless_ahead(tree: &AnyTree, error: lsm_tree::Error) -> StoreError {
    let error = StoreError::from(error);
    if !error.is_full() {
        return error;
    }
    let path = tree.tree_config().path.join(POINTER);
    // The other thread may be between the disk and the memory.
    for _ in 0..50 {
        let named =
            fs::read(&path).ok().and_then(|bytes| bytes.first_chunk().copied()).map(u64::from_le_bytes);
        if named == Some(tree.current_version().id()) {
            return error;
        }
        std::thread::sleep(PAUSE);
    }
    let source = std::io::Error::other(format!("{error}, after the version of the tree had been replaced"));
    StoreError::io(&path, "synced", source)
}

/// The threads that keep a store.
pub(super) struct Keeper {
    core: Arc<Core>,
    flusher: Option<JoinHandle<()>>,
}

impl Keeper {
    pub(super) fn start(core: Arc<Core>) -> std::io::Result<Keeper> {
        let spawn = |name: &str, work: fn(&Core)| {
            let core = Arc::clone(&core);
            std::thread::Builder::new().name(name.into()).spawn(move || work(&core))
        };
        let flusher = spawn("lookalike-flush", |core| {
            while !core.stopping.load(Ordering::Relaxed) {
                core.flushing.wait();
                if core.failure().is_none() {
                    let relieving = core.relieving.swap(false, Ordering::Relaxed);
                    let full = relieving || core.journal.lock().bytes() > core.journal_limit;
                    core.settle(if full { core.checkpoint() } else { core.flush() });
                }
            }
        })?;
        // Not waited for at the end: a compaction that is cut off leaves files that nothing refers to.
        spawn("lookalike-compact", |core| {
            while !core.stopping.load(Ordering::Relaxed) {
                core.compacting.wait();
                if core.failure().is_none()
                    && let Err(error) = core.compact()
                    && !error.is_full()
                {
                    core.settle(Err(error));
                }
            }
        })?;
        core.compacting.ring();
        Ok(Keeper { core, flusher: Some(flusher) })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.core.stopping.store(true, Ordering::Relaxed);
        self.core.flushing.ring();
        self.core.compacting.ring();
        if let Some(flusher) = self.flusher.take() {
            let _ = flusher.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;

    fn no_room() -> lsm_tree::Error {
        lsm_tree::Error::Io(ErrorKind::StorageFull.into())
    }

    /// A pointer to the version after the one that the tree knows.
    fn ahead(tree: &AnyTree, pointer: &[u8]) -> Vec<u8> {
        let next = tree.current_version().id() + 1;
        [&next.to_le_bytes(), &pointer[8..]].concat()
    }

    #[test]
    fn want_of_room_is_tried_again_unless_the_pointer_is_ahead_of_the_memory() {
        let dir = tempfile::tempdir().unwrap();
        let trees = Trees::open(dir.path(), 1 << 20).unwrap();
        let tree = &trees.all()[0];
        let path = tree.tree_config().path.join(POINTER);
        let before = fs::read(&path).unwrap();
        assert_eq!(before[..8], tree.current_version().id().to_le_bytes());
        assert!(unless_ahead(tree, no_room()).is_full());

        for unknown in [ahead(tree, &before), before[..7].to_vec()] {
            fs::write(&path, unknown).unwrap();
            let error = unless_ahead(tree, no_room());
            assert!(!error.is_full(), "{error}");
            assert!(error.to_string().contains("current"), "{error}");
        }
        fs::remove_file(&path).unwrap();
        assert!(!unless_ahead(tree, no_room()).is_full());
    }

    #[test]
    fn a_pointer_that_the_other_thread_is_about_to_catch_up_with_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let trees = Trees::open(dir.path(), 1 << 20).unwrap();
        let tree = &trees.all()[0];
        let path = tree.tree_config().path.join(POINTER);
        let own = fs::read(&path).unwrap();
        fs::write(&path, ahead(tree, &own)).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(PAUSE * 3);
                fs::write(&path, own).unwrap();
            });
            assert!(unless_ahead(tree, no_room()).is_full());
        });
    }

    #[test]
    fn other_errors_stay_what_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let trees = Trees::open(dir.path(), 1 << 20).unwrap();
        let error = unless_ahead(&trees.all()[0], lsm_tree::Error::Io(ErrorKind::PermissionDenied.into()));
        assert!(matches!(error, StoreError::Tree(_)) && !error.is_full(), "{error}");
    }
}
