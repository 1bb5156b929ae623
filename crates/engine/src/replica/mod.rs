//! A replica: its writes go through a log that all servers share, and each server applies it.
//!
//! The state of a server is a function of the entries up to its position (state-machine replication). An
//! entry has everything that its effect depends on besides the state before it: times, ids, defaults. So all
//! servers decide each operation equally, also `unless`, and no server asks another.
//!
//! ```text
//! callers ─▶ appender ─▶ log ─▶ follower ─▶ writer ─▶ callers
//!           one entry          all entries,  the effect and the position
//!           at a time          in order      of an entry in one commit
//! ```
//!
//! *Invariants*
//! - A write is acknowledged when the log has its entry, and the effect is durable on this server.
//! - The writer applies every entry once, in the order of the log. After an error it applies none.
//! - Documents that have expired at the time of an entry are removed before it. That time never decreases.
//! - After an entry without work ([`Engine::pass_time`]) the digests of all servers are equal.
//!
//! *Absent*: where the log is kept (`log`) and which servers exist (`replicas`).

mod appender;
mod apply;
mod digests;
mod entry;
mod follower;
mod hidden;
#[cfg(test)]
mod hidden_tests;
#[cfg(test)]
mod in_tests;
mod join;
mod replies;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

use super::shared::Shared;
use super::writer::Command;
use super::{Engine, EngineError, OpenError};
use appender::Appender;
pub(super) use appender::ENTRY_BYTES;
pub(super) use apply::Apply;
pub use digests::StateDigest;
use follower::Follower;
pub use join::{JoinError, replace_data};
use lookalike_log::{Log, LogError, MAX_PAYLOAD};
use lookalike_store::{Digest, LogPosition, Store, StoreError};
use replies::Pending;

/// What makes an engine a replica.
#[derive(Clone)]
pub struct Membership {
    /// The shared log.
    pub log: Arc<dyn Log>,
    /// Identifies this start of the server among all starts of all servers.
    pub origin: u128,
    /// The name of the server.
    pub server: String,
}

/// How far a replica is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaState {
    /// The position of the last entry that it has applied.
    pub position: u64,
    /// The number of that entry in the log; 0 if none was applied since the start.
    pub number: u64,
    /// Why it follows the log no further, if that is so.
    pub trouble: Option<Trouble>,
}

/// Why a server follows the log no further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The reason.
    pub reason: String,
    /// Whether the log has been trimmed beyond its position, so that a copy of another server's data helps.
    pub is_trimmed: bool,
}

/// What the parts of a replica share.
pub(super) struct Following {
    log: Arc<dyn Log>,
    /// The writes of this server that are not answered.
    pending: Pending,
    /// This start of the server, and its name.
    origin: u128,
    server: String,
    /// Why it follows the log no further, if that is so.
    trouble: Mutex<Option<Trouble>>,
    /// Whether the log has little space left.
    is_full: AtomicBool,
    /// Ends the follower.
    closing: Notify,
    /// The appender and the follower; `None` after they are joined.
    tasks: Mutex<Option<[JoinHandle<()>; 2]>>,
}

/// The writer's state of a replica.
pub(super) struct Replica {
    /// This start of the server.
    origin: u128,
    /// The time of the last entry, in milliseconds since 1970-01-01 UTC.
    pub(super) time_ms: u64,
    /// The last entry that was applied.
    position: u64,
    next_place: u64,
    /// The digest of all collections.
    digest: Digest,
    /// The entry that is being applied.
    applying: Option<u64>,
    /// The last entries, which had no effect.
    idle: Idle,
    /// Whether an entry could not be applied, so that no later one may be.
    has_stopped: bool,
}

/// Entries without an effect: their number and their bytes.
#[derive(Default)]
struct Idle {
    entries: usize,
    bytes: usize,
}

impl Replica {
    /// The state that a store has.
    pub(super) fn of(store: &Store, origin: u128) -> Result<Replica, StoreError> {
        let LogPosition { entry, next_place } = store.log_position()?.unwrap_or_default();
        let (time_ms, digest) = (store.recorded_time()?, digests::of_all(store)?);
        Ok(Replica {
            origin,
            time_ms,
            position: entry,
            next_place,
            digest,
            applying: None,
            idle: Idle::default(),
            has_stopped: false,
        })
    }

    /// Whether this is the start of a server with this origin.
    pub(super) fn is_of(&self, origin: u128) -> bool {
        self.origin == origin
    }

    /// The last entry that was applied, and its time.
    pub(super) fn position(&self) -> (u64, u64) {
        (self.position, self.time_ms)
    }

    /// The least place of the next new document after the start.
    pub(super) fn next_place(&self) -> u64 {
        self.next_place
    }

    /// The position that a commit records: that of the entry whose effect it is, or of the last one, if it
    /// only removes what has expired. So no entry is applied again after documents have expired at a later
    /// time.
    pub(super) fn recorded(&self, next_place: u64) -> LogPosition {
        LogPosition { entry: self.applying.unwrap_or(self.position), next_place }
    }
}

/// Checks that a store may be that of a replica, or of a single one. On a replica, compares the
/// collections with their digests if `checks_digests`. Returns the state of a replica.
///
/// # Errors
/// [`OpenError::Replica`] if it is the other kind, [`OpenError::Store`] if it is damaged.
pub(super) fn check(
    path: &Path,
    store: &Store,
    membership: Option<&Membership>,
    checks_digests: bool,
) -> Result<Option<Replica>, OpenError> {
    let has_position = store.log_position()?.is_some();
    let is_new = store.high_water()?.0 == 0;
    let refuse = |what, way_out| Err(OpenError::Replica { path: path.to_path_buf(), what, way_out });
    match membership {
        Some(membership) if has_position || is_new => {
            if checks_digests {
                digests::check(store)?;
            }
            Ok(Some(Replica::of(store, membership.origin)?))
        }
        Some(_) => refuse(
            "a single server, whose documents are not in the log",
            "start with an empty directory, and import an export of the collections",
        ),
        None if has_position => refuse(
            "a replica, which would miss the writes of the others",
            "start it with --shared-log, or restore a backup into an empty directory",
        ),
        None => Ok(None),
    }
}

impl Following {
    /// Starts to follow a log. Returns the channel for the commands of callers.
    pub(super) fn start(
        membership: Membership,
        shared: &Arc<Shared>,
        writer: mpsc::UnboundedSender<Command>,
    ) -> (Arc<Following>, mpsc::UnboundedSender<Command>) {
        let Membership { log, origin, server } = membership;
        let following = Arc::new(Following {
            log,
            pending: Pending::default(),
            origin,
            server,
            trouble: Mutex::default(),
            is_full: AtomicBool::new(false),
            closing: Notify::new(),
            tasks: Mutex::default(),
        });
        let (submit, submitted) = mpsc::unbounded_channel();
        let follower = Follower::new(Arc::clone(&following), Arc::clone(shared), writer.clone());
        let appender = Appender::new(Arc::clone(&following), Arc::clone(shared), submitted, writer);
        let runtime = Handle::current();
        *following.tasks.lock() = Some([runtime.spawn(follower.run()), runtime.spawn(appender.run())]);
        (following, submit)
    }

    /// This start of the server, and its name.
    pub(super) fn identity(&self) -> (u128, String) {
        (self.origin, self.server.clone())
    }

    /// Refuses bulk writes if the log has little space left.
    pub(super) fn admit_bulk(&self) -> Result<(), EngineError> {
        if self.is_full.load(Ordering::Relaxed) {
            let reason = "etcd has used more than 80 % of its space, so documents are accepted one at a time \
                          only; the servers trim the log, or raise --quota-backend-bytes of etcd";
            return Err(EngineError::LogUnavailable(reason.to_owned()));
        }
        Ok(())
    }

    /// Records why this server follows the log no further.
    fn stop(&self, shared: &Shared, reason: String, is_trimmed: bool) {
        tracing::error!(%reason, "this server follows the shared log no further");
        *self.trouble.lock() = Some(Trouble { reason: reason.clone(), is_trimmed });
        shared.set_read_only(reason);
    }

    /// Waits for the end of both tasks, which follows [`Command::Close`].
    pub(super) async fn join(&self) {
        let tasks = self.tasks.lock().take();
        for task in tasks.into_iter().flatten() {
            let _ = task.await;
        }
    }
}

impl Engine {
    /// How far this replica is; `None` for a single server.
    pub fn replica(&self) -> Option<ReplicaState> {
        let following = self.following.as_ref()?;
        let (position, _) = *self.shared.position.borrow();
        let number = self.shared.entry_number.load(Ordering::SeqCst);
        Some(ReplicaState { position, number, trouble: following.trouble.lock().clone() })
    }

    /// Follows the log no further, and accepts no writes. A single server does nothing.
    pub fn stop_following(&self, reason: &str) {
        if let Some(following) = &self.following {
            following.stop(&self.shared, reason.to_owned(), false);
            following.closing.notify_one();
        }
    }

    /// The last entry of the log whose effect an answer of this server may have; 0 for a single server. An
    /// answer that was made before has no later one.
    pub fn position(&self) -> u64 {
        self.shared.visible.load(Ordering::SeqCst)
    }

    /// Notes whether the log has little space left. Then documents are accepted one at a time only.
    pub fn set_log_full(&self, is_full: bool) {
        if let Some(following) = &self.following {
            following.is_full.store(is_full, Ordering::Relaxed);
        }
    }

    /// Refuses bulk writes if the log has little space left.
    pub(super) fn admit_to_log(&self, is_bulk: bool) -> Result<(), EngineError> {
        self.following.as_ref().filter(|_| is_bulk).map_or(Ok(()), |following| following.admit_bulk())
    }

    /// The last entry of the log whose effect is on the disk of this server. It may be before the position:
    /// entries without an effect do not count.
    ///
    /// # Errors
    /// [`EngineError::Store`] if the store cannot be read.
    pub fn durable_position(&self) -> Result<u64, EngineError> {
        Ok(self.shared.store.log_position()?.map_or(0, |position| position.entry))
    }

    /// Waits until this server has applied the entries of the log up to a position. A single server has no
    /// log, and does not wait.
    ///
    /// # Errors
    /// [`EngineError::Behind`] after the time `within`.
    pub async fn reach(&self, position: u64, within: Duration) -> Result<(), EngineError> {
        if self.following.is_none() {
            return Ok(());
        }
        let mut applied = self.shared.position.subscribe();
        let reached = applied.wait_for(|(applied, _)| *applied >= position);
        let in_time = tokio::time::timeout(within, reached).await.is_ok();
        let (applied, _) = *self.shared.position.borrow();
        if in_time { Ok(()) } else { Err(EngineError::Behind { position, applied }) }
    }
}

impl From<LogError> for EngineError {
    fn from(error: LogError) -> EngineError {
        match error {
            LogError::Unknown(_) => EngineError::Unknown(error.to_string()),
            LogError::TooLarge { bytes } => EngineError::TooLarge(format!(
                "the write takes {bytes} bytes in the shared log, and an entry has at most \
                 {MAX_PAYLOAD}: shorten the text, or create the collection with \"keep_text\": false"
            )),
            other => EngineError::LogUnavailable(other.to_string()),
        }
    }
}
