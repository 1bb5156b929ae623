//! Keeping the store: batches go in through the journal, and beside that memtables are written out, trees compacted
//! (`compaction`), and what the trees hold is deleted from the journal.
//!
//! *Invariants*
//! - The order of a batch: journal, sync, mark, trees. A view sees it only after all of that.
//! - The order of a checkpoint: memtables closed at some record, written out, the manifest, and only then the journal's
//!   segments up to that record are deleted. A crash between two steps leaves more to replay, never less.
//! - After a write or a sync that failed, nothing is written any more until the store is opened again. Want of room is no
//!   such failure: then nothing was appended, memtables stay in memory, and the work is tried again.
//! - A batch waits for the threads only as long as they get on: a thread that fails or panics makes the store fail, one
//!   that has no room makes the disk full, and a store that closes refuses.
//!
//! *Locks*: `kept`, for the time of a checkpoint; the journal, for the time of a batch; views and trees below it.

use std::fs::{self, File};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lsm_tree::{AbstractTree, AnyTree};
use parking_lot::{Condvar, Mutex};

use super::compaction::{self, Compactor};
use super::error::StoreError;
use super::journal::Journal;
use super::leftovers::Work;
use super::manifest::Manifest;
use super::room::Room;
use super::trees::{TREES, Trees, Writes};

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
/// Overlapping tables of a tree at which a compaction that nobody waits for gives way to one that will be.
const RUNS_WANTED: usize = 10;
/// The store is quiet while no more than this is written in this time.
const QUIET: Duration = Duration::from_secs(5);
const QUIET_BYTES: u64 = 1 << 20;
/// How long after memory could not be written out it is tried again if no more room has become free: each try writes
/// until the disk is full.
const AFTER_FULL: Duration = Duration::from_secs(2);

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
    pub(super) room: Arc<Room>,
    /// Bytes of the journal after which the memtables are written out, so that it can begin anew: what a start replays.
    journal_limit: u64,
    /// Held as long as the store is open.
    _lock: File,
    /// Why nothing is written any more, once that is so.
    failed: Mutex<Option<String>>,
    /// Whether memtables could not be written out for want of room.
    stuck: AtomicBool,
    /// Whether there was no room for the next segment of the journal.
    journal_full: AtomicBool,
    /// Whether there is no room for a compaction.
    pub(super) crowded: AtomicBool,
    /// What is under way on each tree.
    pub(super) work: [Work; TREES],
    /// Bytes written since the store was opened.
    written: AtomicU64,
    /// Since when hardly anything was written, and what had been by then.
    quiet: Mutex<(Instant, u64)>,
    /// Whether everything is to be written out, so that memory becomes free.
    relieving: AtomicBool,
    /// The last record that all trees have on disk.
    kept: Mutex<u64>,
    flushing: Bell,
    compacting: Bell,
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
        let room = Arc::new(room);
        // A second core of the same trees does not come to be.
        let _ = trees.pace.room.set(Arc::clone(&room));
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
            journal_full: AtomicBool::new(false),
            crowded: AtomicBool::new(false),
            work: std::array::from_fn(|_| Work::default()),
            written: AtomicU64::new(0),
            quiet: Mutex::new((Instant::now(), 0)),
            relieving: AtomicBool::new(false),
            kept: Mutex::new(manifest.replay_from - 1),
            flushing: Bell::default(),
            compacting: Bell::default(),
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
            // What has no room only because it is large keeps nothing else out.
            if journal.is_usual(writes.payload().len()) && !self.journal_full.swap(true, Ordering::Relaxed) {
                tracing::error!("the disk takes no more of the journal: no writes are taken until it does");
            }
            self.flushing.ring();
            return Err(self.room.check().err().unwrap_or(error));
        }
        let synced = appended.and_then(|()| journal.sync());
        synced
            .and_then(|()| {
                seen_next();
                self.trees.apply(seqno, writes.payload())
            })
            .inspect_err(|error| self.fail(error))?;
        self.written.fetch_add(writes.payload().len() as u64, Ordering::Relaxed);
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
        let refused = self.stuck.load(Ordering::Relaxed) || self.journal_full.load(Ordering::Relaxed);
        if refused || (self.crowded.load(Ordering::Relaxed) && self.trees.runs() >= RUNS_LIMIT) {
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
        let behind = |tree: &AnyTree| {
            tree.sealed_memtable_count() >= SEALED_LIMIT || tree.l0_run_count() >= RUNS_LIMIT
        };
        while self.trees.all().iter().any(behind) {
            self.refuse_failed()?;
            self.check_room()?;
            if self.trees.pace.is_stopping() {
                return Err(StoreError::Failed("the store is being closed".to_owned()));
            }
            self.trees.pace.want();
            self.flushing.ring();
            self.compacting.ring();
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Whether hardly anything has been written for a while.
    pub(super) fn is_quiet(&self) -> bool {
        let written = self.written.load(Ordering::Relaxed);
        let mut quiet = self.quiet.lock();
        if written - quiet.1 > QUIET_BYTES {
            *quiet = (Instant::now(), written);
        }
        quiet.0.elapsed() >= QUIET
    }

    #[cfg(test)]
    pub(super) fn be_quiet(&self) {
        let long_ago = Instant::now().checked_sub(2 * QUIET).expect("the machine runs for longer");
        *self.quiet.lock() = (long_ago, self.written.load(Ordering::Relaxed));
    }

    /// Whether what was removed, and stands in the journal and beneath memory, is worth a checkpoint.
    fn is_worth_clearing(&self) -> bool {
        let removed = self.trees.removed();
        let journal = || self.journal.lock().bytes();
        removed > 0 && self.is_quiet() && compaction::is_worth_it(&self.trees, removed, journal())
    }

    /// Writes closed memtables out.
    fn flush(&self) -> Result<(), StoreError> {
        for (tree, work) in self.trees.all().iter().zip(&self.work) {
            if tree.sealed_memtable_count() > 0 {
                work.run(tree, |tree| {
                    let lock = tree.get_flush_lock();
                    let flushed = tree.flush(&lock, self.trees.views.horizon());
                    flushed.map_err(|error| unless_ahead(tree, error))
                })?;
                if tree.l0_run_count() >= RUNS_WANTED {
                    self.trees.pace.want();
                }
                self.compacting.ring();
            }
        }
        Ok(())
    }

    /// Writes everything out, and deletes what the journal says of it.
    pub(super) fn checkpoint(&self) -> Result<(), StoreError> {
        // One at a time: the manifest of an older one, written last, would ask for segments that are deleted.
        let mut kept = self.kept.lock();
        let (through, removed) = {
            let journal = self.journal.lock();
            self.trees.rotate(true);
            (journal.last(), self.trees.removed())
        };
        if *kept == through {
            return Ok(());
        }
        self.flush()?;
        self.trees.forget_removed(removed);
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

    /// One turn of the thread that writes memory out.
    pub(super) fn turn(&self) -> Result<(), StoreError> {
        let is_cleared = self.is_worth_clearing();
        if is_cleared {
            // Else what was removed would stay in the segment that is written to.
            self.journal.lock().end_segment();
        }
        let relieving = self.relieving.swap(false, Ordering::Relaxed);
        let is_over = self.journal.lock().bytes() > self.journal_limit;
        let is_refused = self.journal_full.load(Ordering::Relaxed);
        if relieving || is_over || is_refused || is_cleared {
            self.checkpoint()?;
        } else {
            self.flush()?;
        }
        if is_refused {
            self.journal.lock().renew()?;
            self.journal_full.store(false, Ordering::Relaxed);
            tracing::info!("the disk takes the journal again: writes are taken");
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

    /// Runs a thread's work. A panic makes the store fail: nobody would do the work from then on, and batches wait for it.
    fn guarded(&self, work: impl FnOnce(&Core)) {
        if catch_unwind(AssertUnwindSafe(|| work(self))).is_err() {
            let error = StoreError::Failed(
                "a thread of the store panicked; this is a fault of the server".to_owned(),
            );
            self.settle(Err(error));
        }
    }
}

/// What an error of a tree means. A disk without room is tried again, but not if the tree's pointer names a version by
/// then that the tree itself does not know: the next try would write another one over it, and a kill before it is
/// pointed to would leave a pointer with the checksum of the one before.
pub(super) fn unless_ahead(tree: &AnyTree, error: lsm_tree::Error) -> StoreError {
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
            std::thread::Builder::new().name(name.into()).spawn(move || core.guarded(work))
        };
        let flusher = spawn("lookalike-flush", keep_flushed)?;
        // Not waited for at the end: it gives up when the store closes, and the next start deletes what it leaves.
        spawn("lookalike-compact", keep_compact)?;
        core.compacting.ring();
        Ok(Keeper { core, flusher: Some(flusher) })
    }
}

fn keep_flushed(core: &Core) {
    // When there was no room the last time, and how much there was.
    let mut short: Option<(Instant, u64)> = None;
    while !core.trees.pace.is_stopping() {
        core.flushing.wait();
        let spare = core.room.spare();
        let is_resting = short.is_some_and(|(when, had)| when.elapsed() < AFTER_FULL && spare <= had);
        if core.failure().is_none() && !is_resting {
            let result = core.turn();
            short = result.as_ref().is_err_and(StoreError::is_full).then(|| (Instant::now(), spare));
            core.settle(result);
        }
    }
}

fn keep_compact(core: &Core) {
    let mut compactor = Compactor::default();
    while !core.trees.pace.is_stopping() {
        core.compacting.wait();
        if core.failure().is_none()
            && let Err(error) = compactor.turn(core)
        {
            core.settle(Err(error));
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.core.trees.pace.stop();
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
