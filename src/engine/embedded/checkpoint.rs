//! The snapshot task: writes the index to disk every so often, keeps the last few, lets the log be trimmed.
//!
//! It reads the index beside the writer and holds no lock of its own. See `snapshot` for why a snapshot
//! taken while hashes come and go is nevertheless exact.

use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, UNIX_EPOCH};

use tokio::sync::{mpsc, oneshot};

use super::CheckpointPolicy;
use super::shared::Shared;
use super::writer::Command;
use crate::engine::{EngineError, Snapshot};
use crate::ids::Sequence;
use crate::snapshot::{self, Content, Section, SnapshotError, SnapshotFile};

/// How often the policy is looked at.
const TICK: Duration = Duration::from_millis(200);

/// So many hashes of the index weigh as much as one change that a start would have to replay.
const HASHES_A_CHANGE: u64 = 16;

/// How long after a failure the next snapshot is tried: each try may write the whole index.
const AFTER_FAILURE: Duration = Duration::from_secs(10);

/// What the task is asked for.
pub(super) enum Request {
    /// A snapshot now.
    Take(oneshot::Sender<Result<Snapshot, EngineError>>),
    /// A last one, if anything changed, and then no more.
    Close,
}

pub(super) struct Checkpointer {
    shared: Arc<Shared>,
    requests: Receiver<Request>,
    writer: mpsc::UnboundedSender<Command>,
    policy: CheckpointPolicy,
    /// At which change the newest snapshot was begun.
    newest: Option<Sequence>,
    taken: Instant,
    /// Whether that attempt failed.
    failed: bool,
    /// Whether the last request has come.
    closing: bool,
}

impl Checkpointer {
    pub(super) fn new(
        shared: Arc<Shared>,
        requests: Receiver<Request>,
        writer: mpsc::UnboundedSender<Command>,
        policy: CheckpointPolicy,
        newest: Option<Sequence>,
    ) -> Checkpointer {
        Checkpointer {
            shared,
            requests,
            writer,
            policy,
            newest,
            taken: Instant::now(),
            failed: false,
            closing: false,
        }
    }

    /// Works until [`Request::Close`] or until nobody is left to send one. A panic costs the snapshot that it met: this
    /// thread also tells the writer what expires, which has to go on.
    pub(super) fn run(mut self) {
        while catch_unwind(AssertUnwindSafe(|| self.serve())).is_err() && !self.closing {
            tracing::error!("the snapshot thread panicked and goes on; this is a fault of the server");
            (self.taken, self.failed) = (Instant::now(), true);
        }
    }

    fn serve(&mut self) {
        loop {
            match self.requests.recv_timeout(TICK) {
                Ok(Request::Take(reply)) => {
                    // What is in the index then may never have become durable.
                    let answer = match self.shared.read_only() {
                        Some(reason) => Err(EngineError::ReadOnly(reason)),
                        None => self.take().map_err(EngineError::from),
                    };
                    let _ = reply.send(answer);
                }
                Err(RecvTimeoutError::Timeout) => {
                    // The writer waits for commands and looks at no clock.
                    if self.shared.expiry_is_due() || self.may_resume() {
                        let _ = self.writer.send(Command::Expire);
                    }
                    if self.shared.budget.wants_relief() {
                        self.shared.store.relieve();
                    }
                    if self.is_due() {
                        let _ = self.take();
                    }
                }
                Ok(Request::Close) | Err(RecvTimeoutError::Disconnected) => {
                    self.closing = true;
                    if self.changes() > 0 && self.shared.read_only().is_none() {
                        let _ = self.take();
                    }
                    return;
                }
            }
        }
    }

    /// Whether the writer waits for room on the disk, and there is some.
    fn may_resume(&self) -> bool {
        self.shared.is_put_off.load(Ordering::SeqCst) && self.shared.check_room().is_ok()
    }

    fn changes(&self) -> u64 {
        self.shared.applied().0 - self.newest.unwrap_or_default().0
    }

    fn is_due(&self) -> bool {
        let changes = self.changes();
        let aged = self.taken.elapsed() >= self.policy.every;
        // A large index is not written anew for each handful of changes: that would cost more than replaying them.
        let hashes: usize = self.shared.registry.all().iter().map(|collection| collection.index.len()).sum();
        let many = self.policy.every_changes.max(hashes as u64 / HASHES_A_CHANGE);
        let due = changes >= many || (changes > 0 && aged);
        let rested = !self.failed || self.taken.elapsed() >= AFTER_FAILURE;
        due && rested && self.shared.read_only().is_none() && self.shared.check_room().is_ok()
    }

    fn take(&mut self) -> Result<Snapshot, SnapshotError> {
        self.taken = Instant::now();
        let result = self.write();
        self.failed = result.is_err();
        match &result {
            Ok(snapshot) => {
                let elapsed = self.taken.elapsed();
                metrics::histogram!("lookalike_snapshot_seconds").record(elapsed);
                let elapsed_ms = elapsed.as_secs_f64() * 1e3;
                tracing::info!(name = snapshot.name, bytes = snapshot.bytes, elapsed_ms, "snapshot taken");
            }
            Err(error) => {
                metrics::counter!("lookalike_snapshot_failures_total").increment(1);
                let cause = std::error::Error::source(error).map(ToString::to_string);
                tracing::error!(%error, cause, "no snapshot was taken; no document is lost, but the next start takes longer");
            }
        }
        result
    }

    fn write(&mut self) -> Result<Snapshot, SnapshotError> {
        let from = self.shared.applied();
        let taken_back = self.shared.taken_back.load(Ordering::SeqCst);
        let sections: Vec<Content> = self
            .shared
            .registry
            .all()
            .iter()
            // Signatures are read from their rows at a start: a snapshot of their names would not help.
            .filter(|collection| collection.signatures.is_none())
            .map(|collection| {
                let profile = collection.record().profile;
                let width = collection.index.width();
                let section = Section { collection: collection.id, width, profile };
                // The log after `from` will not say of these that they are gone.
                let without = collection.leaving.lock().clone();
                Content { section, index: Arc::clone(&collection.index), without }
            })
            .collect();
        let go_on = || self.go_on(taken_back);
        let file =
            snapshot::write(&self.shared.snapshots, from, &sections, &go_on, || self.settled(taken_back))?;
        self.newest = Some(from);
        let kept = snapshot::retain(&self.shared.snapshots, self.policy.keep)?;
        if let Some(oldest) = kept.last() {
            let _ = self.writer.send(Command::TrimLog(oldest.from));
        }
        Ok(describe(&file))
    }

    /// Whether a snapshot that was begun after so many batches had been taken back is still worth writing.
    fn go_on(&self, taken_back: u64) -> io::Result<()> {
        if self.shared.taken_back.load(Ordering::SeqCst) != taken_back {
            // It may hold hashes of that batch, which no later change would remove.
            let what = "a write that came meanwhile found no room and was taken back";
            return Err(io::Error::new(io::ErrorKind::StorageFull, what));
        }
        if self.shared.is_out_of_time() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the server stops and cannot wait for it"));
        }
        Ok(())
    }

    /// The last change of which the snapshot may hold anything, once it is durable: what was in the index
    /// before its commit must not outlive a commit that fails.
    ///
    /// It waits for the one commit that may be under way. That ends: it is applied, or taken back, or the store takes no
    /// more writes; and it is not waited for when the engine closes and the time is up.
    fn settled(&self, taken_back: u64) -> io::Result<Sequence> {
        let planned = self.shared.planned();
        loop {
            // In this order: a commit that is taken back counts so before anything can be planned again.
            let is_settled = self.shared.applied() >= planned || self.shared.read_only().is_some();
            self.go_on(taken_back)?;
            if is_settled {
                return Ok(planned);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// A snapshot file as the contract describes it.
pub(super) fn describe(file: &SnapshotFile) -> Snapshot {
    let modified = fs::metadata(&file.path).and_then(|meta| meta.modified()).ok();
    let since = modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    Snapshot {
        name: file.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
        sequence: file.from,
        bytes: file.bytes,
        checksum: file.checksum,
        written_ms: since.and_then(|since| u64::try_from(since.as_millis()).ok()),
    }
}
