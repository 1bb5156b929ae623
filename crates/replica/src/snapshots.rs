//! Snapshots in the log: one server writes them, and one that has no data, or data that the log does
//! not reach any more, begins with the newest.
//!
//! A snapshot is a copy of everything that a server has, in parts of LZ4. It has the digests of its
//! collections, with which the start of a server compares its rows.
//!
//! *Absent*: parts that several snapshots share. Each has all data, so one is written only when the log has
//! grown as much as the last one.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use futures::stream::{self, Stream};
use lz4_flex::block::{compress_prepend_size, decompress, uncompressed_size};

use super::{ReplicaError, Replicas, join, wait};
use lookalike_engine::{Engine, EngineError, EngineSettings, Pieces};
use lookalike_log::objects::ObjectLog;
use lookalike_log::{LogError, Position};

/// How often it is checked whether a snapshot is due.
const CHECK: Duration = Duration::from_secs(10);
/// One is due at this age, if anything was written.
const DAILY: Duration = Duration::from_hours(24);
/// How long a copy waits until the log has its last entry.
const SENT: Duration = Duration::from_mins(1);
/// Bytes of a part before compression, and at most.
const PART: usize = 8 << 20;
const MAX_PART: usize = 1 << 30;

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
    /// The size of the last snapshot.
    bytes: AtomicU64,
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
        let newest = log.newest_snapshot(None).await?.map_or(0, |Position(newest)| newest);
        let followed = self.order.lock().as_ref().map_or(0, |order| order.followed());
        let grown = followed - self.written.followed.load(Ordering::Relaxed).min(followed);
        let enough = self.settings.snapshots.bytes.max(self.written.bytes.load(Ordering::Relaxed));
        let is_old = log.age_of_snapshot().await?.is_some_and(|age| age >= DAILY);
        if position > newest && (grown >= enough || is_old) {
            let bytes = Arc::new(AtomicU64::new(0));
            let Some((position, pieces)) = self.copy_between_entries(position, engine).await? else {
                return Ok(());
            };
            log.write_snapshot(Position(position), parts(pieces, Arc::clone(&bytes))).await?;
            self.written.followed.store(followed, Ordering::Relaxed);
            self.written.bytes.store(bytes.load(Ordering::Relaxed), Ordering::Relaxed);
            tracing::info!(
                position,
                bytes = bytes.load(Ordering::Relaxed),
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
    position: Position,
    dir: &Path,
    settings: EngineSettings,
) -> Result<(), join::CopyFailure> {
    tracing::info!(%position, "reading a snapshot of the shared log");
    let pieces = log.read_snapshot(position).map(|part| unpacked(&part.map_err(io::Error::other)?));
    join::write(pieces, dir, settings).await
}

/// The parts of a copy, whose bytes are counted.
fn parts(
    pieces: Pieces,
    bytes: Arc<AtomicU64>,
) -> impl Stream<Item = Result<Bytes, LogError>> + Unpin + Send {
    let next = move |mut pieces: Pieces| {
        let bytes = Arc::clone(&bytes);
        async move {
            let mut part = BytesMut::new();
            while part.len() < PART {
                match pieces.next().await {
                    Some(Ok(piece)) => part.extend_from_slice(&piece),
                    Some(Err(error)) => return Some((Err(LogError::Copy(Box::new(error))), pieces)),
                    None => break,
                }
            }
            if part.is_empty() {
                return None;
            }
            let packed = tokio::task::spawn_blocking(move || compress_prepend_size(&part)).await;
            let packed = packed.map(Bytes::from).map_err(|error| LogError::Copy(Box::new(error)));
            bytes.fetch_add(packed.as_ref().map_or(0, Bytes::len) as u64, Ordering::Relaxed);
            Some((packed, pieces))
        }
    };
    // The last part ends with the pieces, and the next call finds none.
    stream::unfold(pieces.fuse().boxed(), next).boxed()
}

fn unpacked(part: &[u8]) -> io::Result<Bytes> {
    let unpacked = uncompressed_size(part).ok().filter(|(length, _)| *length <= MAX_PART);
    let unpacked = unpacked.and_then(|(length, packed)| decompress(packed, length).ok());
    unpacked.map(Bytes::from).ok_or_else(|| io::Error::other("a part of the snapshot is damaged"))
}
