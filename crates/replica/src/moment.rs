//! Going back: the data as they were at a moment, made of a snapshot of the log and the entries after it.
//!
//! *Absent*: any change of the log.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use futures::StreamExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::order::{Entry, EntryError, turn_of};
use super::snapshots;
use lookalike_engine::{
    Callers, Engine, EngineError, EngineSettings, Membership, OpenError, Order, Progress, Submission,
    Submitted, Turns,
};
use lookalike_log::objects::ObjectLog;
use lookalike_log::{Log, LogError, Position};
use lookalike_run::pool::CpuPool;

/// How often it is looked whether all entries are applied.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why the data of a moment cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum MomentError {
    /// The log cannot be read.
    #[error(transparent)]
    Log(LogError),
    /// There is no entry.
    #[error("there is no shared log at {0}, or it has no entry yet")]
    Empty(String),
    /// Entries before the moment were removed, and no older snapshot is left.
    #[error("the log does not reach back to this time: choose a later one (shared_log.keep_days)")]
    TooEarly,
    /// An entry cannot be read.
    #[error("entry {0} of the log cannot be read: {1}")]
    Entry(u64, #[source] EntryError),
    /// The data cannot be written.
    #[error("the data of the snapshot cannot be written: {0}")]
    Snapshot(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The data cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// An entry was not applied.
    #[error("the data were not made up to the entry {0}: is the disk full?")]
    Stuck(u64),
}

/// The last entry of a moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reached {
    /// Its position; 0 is before the first one.
    pub position: u64,
    /// Its time, in milliseconds since 1970-01-01 UTC; `None` if it is in the snapshot.
    pub time_ms: Option<u64>,
}

/// Makes the data in `dir`, which has none, that the servers with the log at `url` had at the time
/// `until_ms`.
///
/// # Errors
/// [`MomentError`].
pub async fn go_back(
    (url, until_ms): (&str, u64),
    dir: &Path,
    settings: EngineSettings,
    pool: CpuPool,
    origin: u128,
) -> Result<(Engine, Reached), MomentError> {
    let log = ObjectLog::new(url, "restore", origin).map_err(MomentError::Log)?;
    let end = log.end().await.map_err(MomentError::Log)?;
    if end.0 == 0 {
        return Err(MomentError::Empty(url.to_owned()));
    }
    let until = UNIX_EPOCH + Duration::from_millis(until_ms);
    if let Some(snapshot) = log.newest_snapshot(Some(until)).await.map_err(MomentError::Log)? {
        let loaded = snapshots::load(&log, &snapshot, dir, settings).await;
        loaded.map_err(|error| MomentError::Snapshot(Box::new(error)))?;
    }
    let (done, replayed) = oneshot::channel();
    let order = Arc::new(Replay { log, until_ms, end: end.0, done: Mutex::new(Some(done)) });
    let membership = Membership { order, origin, server: "restore".to_owned() };
    let engine = Engine::open(dir, settings, pool, &Progress::default(), Some(membership))?;
    // The sender lives as long as the engine.
    let reached = replayed.await.unwrap_or(Err(MomentError::Stuck(end.0)))?;
    let mut before = 0;
    while engine.reach(reached.position, PATIENCE).await.is_err() {
        let (applied, _) = engine.applied();
        if applied == before {
            return Err(MomentError::Stuck(reached.position));
        }
        before = applied;
    }
    Ok((engine, reached))
}

/// The entries of a log up to a time, and no commands of callers.
struct Replay {
    log: ObjectLog,
    until_ms: u64,
    end: u64,
    done: Mutex<Option<oneshot::Sender<Result<Reached, MomentError>>>>,
}

impl Replay {
    async fn replay(&self, turns: &Turns) -> Result<Reached, MomentError> {
        let mut reached = Reached { position: turns.position(), time_ms: None };
        let mut tail = self.log.tail(Position(reached.position));
        while reached.position < self.end
            && let Some(next) = tail.next().await
        {
            let next = next.map_err(|error| match error {
                LogError::Trimmed { .. } => MomentError::TooEarly,
                error => MomentError::Log(error),
            })?;
            let position = next.position.0;
            let entry =
                Entry::from_bytes(&next.payload).map_err(|error| MomentError::Entry(position, error))?;
            if entry.time_ms > self.until_ms {
                break;
            }
            let time_ms = reached.time_ms.max(Some(entry.time_ms));
            let place = (reached.position, position, next.number);
            if !turns.take(turn_of(entry, place, next.payload, Callers::default())).await {
                break;
            }
            reached = Reached { position, time_ms };
        }
        Ok(reached)
    }
}

impl Order for Replay {
    fn run(self: Arc<Self>, mut submitted: Submitted, turns: Turns) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let replayed = self.replay(&turns).await;
            if let Some(done) = self.done.lock().take() {
                let _ = done.send(replayed);
            }
            while let Some(Submission { callers, .. }) = submitted.next().await {
                callers.fail(|| EngineError::ReadOnly("these are the data of a moment".to_owned()));
            }
            submitted.close();
        })
    }

    fn command_bytes(&self) -> usize {
        self.log.max_payload()
    }

    fn admit_expiry(&self) -> Result<(), EngineError> {
        Ok(())
    }
}
