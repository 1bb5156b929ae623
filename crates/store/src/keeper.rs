//! Commits and background work: batches pass through the journal; two threads flush memtables, compact
//! trees (`compaction`), and delete journal files that the trees no longer need.
//!
//! *Invariants*
//! - The order of a commit: journal, sync, high-water mark, trees. A view sees a batch only after all of
//!   these.
//! - The order of a checkpoint: seal the memtables at some record, flush them, write the manifest, and only
//!   then delete the journal files up to that record. A crash between two steps leaves more to replay,
//!   never less.
//! - After a write or a sync that failed, nothing is written until the store is opened again. A full disk
//!   is no such failure: nothing was appended, memtables stay in memory, and the work is retried.
//! - A batch waits for the threads only while they make progress. A thread that fails or panics makes the
//!   store fail, a thread that runs out of disk space makes the disk full, and a store that is closing
//!   refuses the batch.
//!
//! *Locks*, in this order: `checkpointed`, for the time of a checkpoint; the journal, for the time of a
//! batch; then the locks of views and trees.
//!
//! *Absent*: the choice of what to compact (`compaction`), and the bytes of the journal (`journal`).

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

/// Sealed memtables of a tree at which the writer waits for a flush.
const SEALED_LIMIT: usize = 4;
/// Overlapping tables of a tree at which the writer waits for compaction.
const RUNS_LIMIT: usize = 30;
/// Interval at which the threads look for work without a signal.
const TICK: Duration = Duration::from_millis(250);
/// Interval at which a waiting writer checks again.
const PAUSE: Duration = Duration::from_millis(2);
/// Overlapping tables of a tree at which an optional compaction stops for one that writers will wait for.
const RUNS_WANTED: usize = 10;
/// The store is quiet after this time with no more than `QUIET_BYTES` written.
const QUIET: Duration = Duration::from_secs(5);
const QUIET_BYTES: u64 = 1 << 20;
/// Delay before a flush that ran out of disk space is retried, unless more space becomes free. Each try
/// writes until the disk is full.
const AFTER_FULL: Duration = Duration::from_secs(2);

/// Wakes a thread.
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
    /// Bytes of the journal after which a checkpoint is made. A start replays about this much.
    journal_limit: u64,
    /// Held while the store is open.
    _lock: File,
    /// The reason why nothing is written any more, if there is one.
    failed: Mutex<Option<String>>,
    /// Whether memtables could not be flushed because the disk was full.
    stuck: AtomicBool,
    /// Whether the disk had no space for the next journal file.
    journal_full: AtomicBool,
    /// Whether the disk has no space for a compaction.
    pub(super) crowded: AtomicBool,
    /// The work in progress on each tree.
    pub(super) work: [Work; TREES],
    /// Bytes written since the store was opened.
    written: AtomicU64,
    /// The start of the current quiet period, and the value of `written` at that time.
    quiet: Mutex<(Instant, u64)>,
    /// Whether a checkpoint was requested to free memory.
    relieving: AtomicBool,
    /// The last record that all trees have on disk. Locked for the time of a checkpoint.
    checkpointed: Mutex<u64>,
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
        // Each set of trees has one core, so this is set once.
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
            checkpointed: Mutex::new(manifest.replay_from - 1),
            flushing: Bell::default(),
            compacting: Bell::default(),
        }
    }

    /// Writes a batch, and waits until it is on disk. Calls `before_visible` when the batch is durable and
    /// before a view can see it.
    ///
    /// # Errors
    /// [`StoreError::Full`] if the disk has no space: then nothing was written. After any other error it is
    /// unknown whether the batch is durable, and nothing is written any more.
    pub(super) fn commit(&self, writes: &Writes, before_visible: impl FnOnce()) -> Result<(), StoreError> {
        if writes.is_empty() {
            return Ok(());
        }
        self.wait_for_backlog()?;
        let mut journal = self.journal.lock();
        self.refuse_failed()?;
        let seqno = self.trees.next_seqno();
        let appended = journal.append(seqno, writes.payload());
        if let Err(error @ StoreError::Full { .. }) = appended {
            // A batch that does not fit only because it is unusually large does not block other batches.
            if journal.is_usual(writes.payload().len()) && !self.journal_full.swap(true, Ordering::Relaxed) {
                tracing::error!("the disk has no space for the journal: writes are refused until it has");
            }
            self.flushing.ring();
            return Err(self.room.check().err().unwrap_or(error));
        }
        let synced = appended.and_then(|()| journal.sync());
        synced
            .and_then(|()| {
                before_visible();
                self.trees.apply(seqno, writes.payload())
            })
            .inspect_err(|error| self.fail(error))?;
        self.written.fetch_add(writes.payload().len() as u64, Ordering::Relaxed);
        if self.trees.rotate(false) || journal.bytes() > self.journal_limit {
            self.flushing.ring();
        }
        Ok(())
    }

    /// The reason why nothing is written any more, if there is one.
    pub(super) fn failure(&self) -> Option<String> {
        self.failed.lock().clone()
    }

    /// Flushes the memtables in the background, to free memory.
    pub(super) fn relieve(&self) {
        self.relieving.store(true, Ordering::Relaxed);
        self.flushing.ring();
    }

    /// Checks that the disk has space for more writes.
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

    /// Applies back-pressure: waits while flushes or compactions are too far behind.
    fn wait_for_backlog(&self) -> Result<(), StoreError> {
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

    /// Whether hardly anything was written for a while.
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

    /// Whether a checkpoint is worth its cost, because the memtables and the journal still have removed
    /// rows.
    fn should_clear_removed(&self) -> bool {
        let removed = self.trees.removed();
        let journal = || self.journal.lock().bytes();
        removed > 0
            && self.is_quiet()
            && compaction::is_checkpoint_worthwhile(&self.trees, removed, journal())
    }

    /// Flushes the sealed memtables.
    fn flush(&self) -> Result<(), StoreError> {
        for (tree, work) in self.trees.all().iter().zip(&self.work) {
            if tree.sealed_memtable_count() > 0 {
                work.run(tree, |tree| {
                    let lock = tree.get_flush_lock();
                    Ok(tree.flush(&lock, self.trees.views.horizon())?)
                })?;
                if tree.l0_run_count() >= RUNS_WANTED {
                    self.trees.pace.want();
                }
                self.compacting.ring();
            }
        }
        Ok(())
    }

    /// Flushes all memtables, and deletes the journal files that are no longer needed.
    pub(super) fn checkpoint(&self) -> Result<(), StoreError> {
        // One at a time: the manifest of an older checkpoint, written last, would require files that are
        // deleted.
        let mut checkpointed = self.checkpointed.lock();
        let (through, removed) = {
            let journal = self.journal.lock();
            self.trees.rotate(true);
            (journal.last(), self.trees.removed())
        };
        if *checkpointed == through {
            return Ok(());
        }
        self.flush()?;
        self.trees.forget_removed(removed);
        let manifest =
            Manifest { store: self.store, replay_from: through + 1, versions: self.trees.versions() };
        manifest.write(&self.dir)?;
        *checkpointed = through;
        let retired = {
            let mut journal = self.journal.lock();
            journal.sync_mark().map_err(|source| StoreError::io(&self.dir, "synced", source))?;
            journal.retire(through)
        };
        for path in retired {
            // The next start skips a file that could not be deleted.
            if let Err(error) = fs::remove_file(&path) {
                let path = path.display();
                tracing::warn!(%error, %path, "a journal file that is not needed could not be deleted");
            }
        }
        Ok(())
    }

    /// One pass of the flush thread.
    pub(super) fn turn(&self) -> Result<(), StoreError> {
        let clears_removed = self.should_clear_removed();
        if clears_removed {
            // Otherwise the removed rows would stay in the active file, which a checkpoint does not
            // delete.
            self.journal.lock().end_file();
        }
        let relieving = self.relieving.swap(false, Ordering::Relaxed);
        let is_over = self.journal.lock().bytes() > self.journal_limit;
        let is_refused = self.journal_full.load(Ordering::Relaxed);
        if relieving || is_over || is_refused || clears_removed {
            self.checkpoint()?;
        } else {
            self.flush()?;
        }
        if is_refused {
            self.journal.lock().renew()?;
            self.journal_full.store(false, Ordering::Relaxed);
            tracing::info!("the disk has space for the journal again: writes are accepted");
        }
        Ok(())
    }

    /// Records the result of background work.
    fn record_result(&self, result: Result<(), StoreError>) {
        match result {
            Ok(()) => self.stuck.store(false, Ordering::Relaxed),
            Err(error) if error.is_full() => {
                if !self.stuck.swap(true, Ordering::Relaxed) {
                    tracing::error!("the disk has no space to flush the memtables; the flush is retried");
                }
            }
            Err(error) => {
                // Log before failing: a write that is refused then finds the reason in the log.
                tracing::error!(
                    %error,
                    "background work of the store failed; no writes are accepted until a restart"
                );
                self.fail(&error);
            }
        }
    }

    /// Runs a thread's work. A panic makes the store fail: the work would stop, and batches would wait for
    /// it forever.
    fn guarded(&self, work: impl FnOnce(&Core)) {
        if catch_unwind(AssertUnwindSafe(|| work(self))).is_err() {
            let error = StoreError::Failed(
                "a thread of the store panicked; this is a fault of the server".to_owned(),
            );
            self.record_result(Err(error));
        }
    }
}

/// The background threads of a store.
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
        let flusher = spawn("lookalike-flush", run_flusher)?;
        // Nothing joins this thread: it stops when the store closes, and the next start deletes its
        // unfinished files.
        spawn("lookalike-compact", run_compactor)?;
        core.compacting.ring();
        Ok(Keeper { core, flusher: Some(flusher) })
    }
}

fn run_flusher(core: &Core) {
    // When the last flush ran out of space, and how much was free when it began.
    let mut short: Option<(Instant, u64)> = None;
    while !core.trees.pace.is_stopping() {
        core.flushing.wait();
        let spare = core.room.spare();
        let must_wait = short.is_some_and(|(when, had)| when.elapsed() < AFTER_FULL && spare <= had);
        if core.failure().is_none() && !must_wait {
            let result = core.turn();
            short = result.as_ref().is_err_and(StoreError::is_full).then(|| (Instant::now(), spare));
            core.record_result(result);
        }
    }
}

fn run_compactor(core: &Core) {
    let mut compactor = Compactor::default();
    while !core.trees.pace.is_stopping() {
        core.compacting.wait();
        if core.failure().is_none()
            && let Err(error) = compactor.turn(core)
        {
            core.record_result(Err(error));
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
