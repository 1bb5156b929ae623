//! The snapshot thread: writes the index to disk periodically, retains the newest snapshots, and lets the
//! history be trimmed.
//!
//! It reads the index concurrently with the writer and takes no lock across a snapshot. `snapshot` explains
//! why a snapshot is exact although hashes are added and removed meanwhile.

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
use super::writer::Message;
use crate::{EngineError, Snapshot};
use lookalike_hamming::snapshot::{self, Content, Section, SnapshotError, SnapshotFile};
use lookalike_hash::Sequence;
use lookalike_wording::milliseconds;

/// The interval at which the policy is checked.
const TICK: Duration = Duration::from_millis(200);

/// Writing this number of hashes costs as much as replaying one change at a start.
const HASHES_PER_CHANGE: u64 = 16;

/// Delay before the next attempt after a failure, because each attempt may write the whole index.
const RETRY_DELAY: Duration = Duration::from_secs(10);

/// A request to the snapshot thread.
pub(super) enum Request {
    /// Take a snapshot now.
    Take(oneshot::Sender<Result<Snapshot, EngineError>>),
    /// Take a last snapshot if there are changes, and stop.
    Close,
}

pub(super) struct Checkpointer {
    shared: Arc<Shared>,
    requests: Receiver<Request>,
    writer: mpsc::UnboundedSender<Message>,
    policy: CheckpointPolicy,
    /// The change at which the newest snapshot was begun.
    newest: Option<Sequence>,
    taken: Instant,
    /// Whether the last attempt failed.
    failed: bool,
    /// Whether the last request has been received.
    closing: bool,
}

impl Checkpointer {
    pub(super) fn new(
        shared: Arc<Shared>,
        requests: Receiver<Request>,
        writer: mpsc::UnboundedSender<Message>,
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

    /// Runs until [`Request::Close`] or until all senders are dropped. A panic costs only the current
    /// snapshot: this thread also reports expired documents to the writer, which must continue.
    pub(super) fn run(mut self) {
        while catch_unwind(AssertUnwindSafe(|| self.serve())).is_err() && !self.closing {
            tracing::error!("the snapshot thread panicked and continues; this is a fault of the server");
            (self.taken, self.failed) = (Instant::now(), true);
        }
    }

    fn serve(&mut self) {
        loop {
            match self.requests.recv_timeout(TICK) {
                Ok(Request::Take(reply)) => {
                    // After a failed commit the index may have hashes that never became durable.
                    let answer = match self.shared.read_only() {
                        Some(reason) => Err(EngineError::ReadOnly(reason)),
                        None => self.take().map_err(EngineError::from),
                    };
                    let _ = reply.send(answer);
                }
                Err(RecvTimeoutError::Timeout) => {
                    // The writer waits for commands and does not read the clock.
                    if self.shared.expiry_is_due() || self.may_resume() {
                        let _ = self.writer.send(Message::Expire);
                    }
                    if self.shared.budget.should_flush() {
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

    /// Whether the writer has deferred work for lack of disk space, and there is space now.
    fn may_resume(&self) -> bool {
        self.shared.is_deferred.load(Ordering::SeqCst) && self.shared.check_space().is_ok()
    }

    fn changes(&self) -> u64 {
        self.shared.applied().0 - self.newest.unwrap_or_default().0
    }

    fn is_due(&self) -> bool {
        let changes = self.changes();
        let is_old = self.taken.elapsed() >= self.policy.every;
        // A large index is not written for a few changes: that would cost more than replaying them.
        let hashes: usize = self.shared.registry.all().iter().map(|collection| collection.index.len()).sum();
        let threshold = self.policy.every_changes.max(hashes as u64 / HASHES_PER_CHANGE);
        let due = changes >= threshold || (changes > 0 && is_old);
        let may_retry = !self.failed || self.taken.elapsed() >= RETRY_DELAY;
        due && may_retry && self.shared.read_only().is_none() && self.shared.check_space().is_ok()
    }

    fn take(&mut self) -> Result<Snapshot, SnapshotError> {
        self.taken = Instant::now();
        let result = self.write();
        self.failed = result.is_err();
        match &result {
            Ok(snapshot) => {
                let elapsed = self.taken.elapsed();
                metrics::histogram!("lookalike_snapshot_seconds").record(elapsed);
                let elapsed_ms = milliseconds(elapsed);
                tracing::info!(name = snapshot.name, bytes = snapshot.bytes, elapsed_ms, "snapshot taken");
            }
            Err(error) => {
                metrics::counter!("lookalike_snapshot_failures_total").increment(1);
                let cause = std::error::Error::source(error).map(ToString::to_string);
                tracing::error!(
                    %error,
                    cause,
                    "no snapshot was taken; no document is lost, but the next start takes longer"
                );
            }
        }
        result
    }

    fn write(&mut self) -> Result<Snapshot, SnapshotError> {
        let from = self.shared.applied();
        let rolled_back = self.shared.rolled_back.load(Ordering::SeqCst);
        let sections: Vec<Content> = self
            .shared
            .registry
            .all()
            .iter()
            // Signatures are read from the rows at a start. A snapshot has only their hashes, which would
            // not help.
            .filter(|collection| collection.signatures.is_none())
            .map(|collection| {
                let profile = collection.settings().profile.clone();
                let width = collection.index.width();
                let section = Section { collection: collection.id, width, profile };
                // The history after `from` does not record the removal of these hashes.
                let without = collection.pending_removals.lock().clone();
                Content { section, index: Arc::clone(&collection.index), without }
            })
            .collect();
        let check_usable = || self.check_usable(rolled_back);
        let file = snapshot::write(&self.shared.snapshots, from, &sections, &check_usable, || {
            self.wait_until_settled(rolled_back)
        })?;
        self.newest = Some(from);
        let kept = snapshot::retain(&self.shared.snapshots, self.policy.keep)?;
        if let Some(oldest) = kept.last() {
            let _ = self.writer.send(Message::TrimHistory(oldest.from));
        }
        Ok(describe(&file))
    }

    /// Fails if the snapshot must be abandoned. `rolled_back` is the number of rolled-back batches when it
    /// was begun.
    fn check_usable(&self, rolled_back: u64) -> io::Result<()> {
        if self.shared.rolled_back.load(Ordering::SeqCst) != rolled_back {
            // The index may have had hashes of that batch, and no later change would remove them.
            let what = "a concurrent write found no free space and was undone";
            return Err(io::Error::new(io::ErrorKind::StorageFull, what));
        }
        if self.shared.check_space().is_err() {
            let what = "the remaining space of the disk is reserved for documents";
            return Err(io::Error::new(io::ErrorKind::StorageFull, what));
        }
        if self.shared.is_out_of_time() {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the server is stopping and cannot wait for it",
            ));
        }
        Ok(())
    }

    /// The last change that the snapshot may contain, once that change is durable: a hash that was inserted
    /// before its commit must not remain in a snapshot if the commit fails.
    ///
    /// It waits for at most one commit. The wait ends when the commit is applied or rolled back, when the
    /// store accepts no more writes, or when the engine closes and the deadline has passed.
    fn wait_until_settled(&self, rolled_back: u64) -> io::Result<Sequence> {
        let planned = self.shared.planned();
        loop {
            // The order matters: a rolled-back commit is counted before another can be planned.
            let is_settled = self.shared.applied() >= planned || self.shared.read_only().is_some();
            self.check_usable(rolled_back)?;
            if is_settled {
                return Ok(planned);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Describes a snapshot file for the engine's clients.
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
