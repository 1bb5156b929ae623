//! Snapshots in the log: one server writes them, and one that has no data, or data that the log does
//! not reach any more, begins with the newest.
//!
//! A snapshot is a copy of everything that a server has. It has the digests of its
//! collections, with which the start of a server compares its rows. The log stores only pieces of the copy
//! that the snapshot before does not have, but all data are read for it: so the next one is due when the log
//! has grown by as much as the last one took, and by a share of the data.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::stream;
use futures::{StreamExt, TryStreamExt};

use super::{ReplicaError, Replicas, join, wait};
use lookalike_engine::{Engine, EngineError, EngineSettings, Pieces};
use lookalike_log::objects::{ObjectLog, Snapshot};
use lookalike_log::{LogError, Position};

/// How often it is checked whether a snapshot is due.
const CHECK: Duration = Duration::from_secs(10);
/// One is due at this age, if anything was written.
const DAILY: Duration = Duration::from_hours(24);
/// How long a copy waits until the log has its last entry.
const SENT: Duration = Duration::from_mins(1);
/// One is due when the log has grown by this share of the data, which it reads.
const SHARE: u64 = 16;

/// When snapshots are written, and how long the log is kept.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotPolicy {
    /// Bytes of entries after which the next one is due, at least.
    pub bytes: u64,
    /// How far back the log goes.
    pub keep: Duration,
}

/// What this server has written.
#[derive(Default)]
pub(super) struct Written {
    /// Bytes of entries that were followed when the last snapshot was written.
    followed: AtomicU64,
    /// By how much they must grow until the next one, at least.
    growth: AtomicU64,
}

/// Why no snapshot was written.
#[derive(Debug, thiserror::Error)]
enum SnapshotError {
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl Replicas {
    /// Writes snapshots, and removes what they make unnecessary. Only the first of the servers does.
    pub(super) async fn keep_snapshots(&self, engine: &Arc<Engine>) {
        loop {
            tokio::time::sleep(CHECK).await;
            if let Err(error) = self.snapshot_if_due(engine).await {
                tracing::warn!(%error, "no snapshot was written to the shared log");
            }
        }
    }

    async fn snapshot_if_due(&self, engine: &Engine) -> Result<(), SnapshotError> {
        let (log, reports) = (&self.log, self.reports().await?);
        let first = reports.iter().find(|(_, report)| !report.is_diverged).map(|(name, _)| name);
        // Others begin with these data, so they must be those of others.
        let is_compared = self.agreed().is_some() || self.agreement.lock().is_alone();
        if first != Some(&self.settings.server) || self.divergence().is_some() || !is_compared {
            return Ok(());
        }
        let position = engine.durable_position()?;
        let newest = log.newest_snapshot(None).await?.map_or(0, |newest| newest.position.0);
        let followed = self.order.lock().as_ref().map_or(0, |order| order.followed());
        let grown = followed - self.written.followed.load(Ordering::Relaxed).min(followed);
        let enough = self.settings.snapshots.bytes.max(self.written.growth.load(Ordering::Relaxed));
        let is_old = log.age_of_snapshot().await?.is_some_and(|age| age >= DAILY);
        if position > newest && (grown >= enough || is_old) {
            let Some((position, pieces)) = self.copy_between_entries(position, engine).await? else {
                return Ok(());
            };
            let pieces = pieces.map_err(|error| LogError::Copy(Box::new(error))).boxed();
            let Some(written) = log.write_snapshot(Position(position), pieces).await? else {
                return Ok(());
            };
            let growth = written.new_bytes.max(written.bytes / SHARE);
            self.written.followed.store(followed, Ordering::Relaxed);
            self.written.growth.store(growth, Ordering::Relaxed);
            tracing::info!(
                position,
                parts = written.parts,
                bytes = written.bytes,
                new_parts = written.new_parts,
                new_bytes = written.new_bytes,
                "wrote a snapshot to the shared log"
            );
        }
        let removed = log.remove_old(self.settings.snapshots.keep).await?;
        if removed > 0 {
            tracing::info!(removed, "old entries of the shared log were removed");
        }
        Ok(())
    }

    /// A copy of the data and the position of a whole entry whose effect it has. If this server acknowledges
    /// writes before the log has them, waits until it has that entry; `None` if it takes too long.
    async fn copy_between_entries(
        &self,
        durable: u64,
        engine: &Engine,
    ) -> Result<Option<(u64, Pieces)>, SnapshotError> {
        let order = self.order.lock().clone();
        let Some(order) = order.filter(|_| self.is_ahead()) else {
            return Ok(Some((durable, engine.copy()?)));
        };
        let Some((held, position)) = order.hold().await else { return Ok(None) };
        let mut pieces = engine.copy()?;
        // With the first piece, what is copied is settled.
        let first = pieces.next().await;
        drop(held);
        let pieces = stream::iter(first).chain(pieces).boxed();
        Ok(order.has_sent(position, SENT).await.then_some((position, pieces)))
    }

    /// Whether this server has no data yet, and the log has a snapshot to begin with.
    ///
    /// # Errors
    /// [`ReplicaError::Log`] if the log cannot be read, for a reason that does not pass.
    pub async fn begins_with_snapshot(&self) -> Result<bool, ReplicaError> {
        if !self.is_new {
            return Ok(false);
        }
        loop {
            match self.log.newest_snapshot(None).await {
                Err(error) if error.is_transient() => wait(&error).await,
                newest => return Ok(newest?.is_some()),
            }
        }
    }
}

/// Replaces the data in `dir` by those of a snapshot.
pub(super) async fn load(
    log: &ObjectLog,
    snapshot: &Snapshot,
    dir: &Path,
    settings: EngineSettings,
) -> Result<(), join::CopyFailure> {
    tracing::info!(position = %snapshot.position, "reading a snapshot of the shared log");
    join::write(log.read_snapshot(snapshot).map_err(io::Error::other), dir, settings).await
}
