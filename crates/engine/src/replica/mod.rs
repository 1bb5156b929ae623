//! A replica: its commands have one order that all servers share, and each server applies them in it.
//!
//! The state of a server is a function of the commands up to its position (state-machine replication). A
//! command has everything that its effect depends on besides the state before it: times, ids, defaults. So
//! all servers decide each operation equally, also `unless`, and no server asks another.
//!
//! ```text
//! callers ─▶ Submitted ─▶ Order ─▶ Turns ─▶ writer ─▶ callers
//!            one command    a log   those of   the effect and the position
//!            at a time              all        of a command in one commit
//! ```
//!
//! *Invariants*
//! - A write is acknowledged when it has its place in the order, and the effect is durable on this server. If
//!   this server alone gives places, it keeps the entry in the same commit until the log has it (`unsent`).
//! - The writer applies every command once, in the order. After an error it applies none.
//! - Documents that have expired at the time of a command are removed before it. That time never decreases.
//! - After a command without work ([`Engine::pass_time`]) the digests of all servers are equal.
//!
//! *Absent*: who keeps the order, and which servers exist (`lookalike-replica`).

mod apply;
pub(super) mod digests;
mod join;
mod order;
mod unsent;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::command::{Callers, Command, HiddenWork};
use super::planning::place;
use super::shared::Shared;
use super::writer::Message;
use super::{Engine, EngineError, OpenError};
pub(super) use apply::Apply;
pub use digests::StateDigest;
pub use join::{JoinError, remove_data, replace_data};
use lookalike_store::{Digest, LogPosition, Store, StoreError};
pub use order::{Order, Submission, Submitted, Turn, Turns};
pub use unsent::Part;

/// The order and the identity of a replica.
#[derive(Clone)]
pub struct Membership {
    /// The order of all commands.
    pub order: Arc<dyn Order>,
    /// Identifies this start of the server among all starts of all servers.
    pub origin: u128,
    /// The name of the server.
    pub server: String,
}

/// The writer's state of a replica.
pub(super) struct Replica {
    /// This start of the server.
    origin: u128,
    /// The time of the last command, in milliseconds since 1970-01-01 UTC.
    pub(super) time_ms: u64,
    /// The position of the last command that was applied.
    position: u64,
    next_place: u64,
    /// The digest of all collections.
    digest: Digest,
    /// The position of the command that is being applied.
    applying: Option<u64>,
    /// The commands without an effect since the last one with an effect.
    idle: Idle,
    /// Parts of entries that the next commit keeps until the log has them.
    unsent: Vec<unsent::Part>,
    /// Whether a command could not be applied, so that no later one may be.
    has_stopped: bool,
}

/// Commands without an effect: their number and their bytes.
#[derive(Default)]
struct Idle {
    commands: usize,
    bytes: usize,
}

impl Replica {
    /// The state that a store records.
    pub(super) fn of(store: &Store, origin: u128) -> Result<Replica, StoreError> {
        let LogPosition { entry, next_place } = store.log_position()?.unwrap_or_default();
        let (time_ms, digest) = (store.recorded_time()?, digests::of_all(store)?);
        let (position, applying, idle, has_stopped) = (entry, None, Idle::default(), false);
        let unsent = Vec::new();
        Ok(Replica { origin, time_ms, position, next_place, digest, applying, idle, unsent, has_stopped })
    }

    /// Whether this is the start of a server with this origin.
    pub(super) fn is_of(&self, origin: u128) -> bool {
        self.origin == origin
    }

    /// The position of the last command that was applied, and its time.
    pub(super) fn position(&self) -> (u64, u64) {
        (self.position, self.time_ms)
    }

    /// The least place of the next new document after the start.
    pub(super) fn next_place(&self) -> u64 {
        self.next_place
    }

    /// The position that a commit records: that of the command whose effect it is, or of the last one, if it
    /// only removes what has expired. So no command is applied again after documents have expired at a later
    /// time.
    pub(super) fn recorded(&self, next_place: u64) -> LogPosition {
        let next_place = next_place.max(place(self.time_ms));
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

impl Membership {
    /// Begins to order the commands of callers. Returns the channel for them, and the task.
    pub(super) fn start(
        &self,
        shared: &Arc<Shared>,
        writer: mpsc::UnboundedSender<Message>,
    ) -> (mpsc::UnboundedSender<Message>, JoinHandle<()>) {
        let (submit, messages) = mpsc::unbounded_channel();
        let order = Arc::clone(&self.order);
        let identity = (self.origin, order.command_bytes());
        let turns = Turns::new(Arc::clone(shared), writer.clone());
        let shared = Arc::clone(shared);
        let task = Handle::current()
            .spawn(async move { order.run(Submitted::new(identity, shared, messages, writer), turns).await });
        (submit, task)
    }
}

impl Engine {
    /// The position of the last command that this replica has applied, and its number in the order; the
    /// number is 0 if none was applied since the start.
    pub fn applied(&self) -> (u64, u64) {
        (self.shared.position.borrow().0, self.shared.entry_number.load(Ordering::SeqCst))
    }

    /// Accepts no writes from now on, for this reason.
    pub fn refuse_writes(&self, reason: &str) {
        self.shared.set_read_only(reason.to_owned());
    }

    /// The last command whose effect an answer of this server may have; 0 for a single server. An answer that
    /// was made before this call has the effect of no later command.
    pub fn position(&self) -> u64 {
        self.shared.visible.load(Ordering::SeqCst)
    }

    /// The time since the last command that this replica has applied, by the clocks of the servers.
    pub fn since_applied(&self) -> Duration {
        let (_, time_ms) = *self.shared.position.borrow();
        Duration::from_millis(self.shared.clock.now_ms().saturating_sub(time_ms))
    }

    /// The position of the last command whose effect is on the disk of this server. It may be before the one
    /// that is applied: commands without an effect do not count.
    ///
    /// # Errors
    /// [`EngineError::Store`] if the store cannot be read.
    pub fn durable_position(&self) -> Result<u64, EngineError> {
        Ok(self.shared.store.log_position()?.map_or(0, |position| position.entry))
    }

    /// Waits until this replica has applied the commands up to a position.
    ///
    /// # Errors
    /// [`EngineError::Behind`] after the time `within`.
    pub async fn reach(&self, position: u64, within: Duration) -> Result<(), EngineError> {
        let mut applied = self.shared.position.subscribe();
        let reached = applied.wait_for(|(applied, _)| *applied >= position);
        let in_time = tokio::time::timeout(within, reached).await.is_ok();
        let (applied, _) = self.applied();
        if in_time { Ok(()) } else { Err(EngineError::Behind { position, applied }) }
    }

    /// Discards the hidden collections of servers whose starts are not among these, the list of those that
    /// live now. One that is absent for a moment is not taken for gone. A single server does nothing.
    pub fn discard_of_absent(&self, live: &[u128], now: Instant) {
        let Some(membership) = &self.membership else { return };
        for target in self.shared.hidden.orphaned(membership.origin, live, now) {
            tracing::info!(collection = target.0, "a restore or reindex is discarded: its server is gone");
            let discard = Command::Hidden(HiddenWork::Abandon { target });
            let _ = self.commands.send(Message::Do(discard, Callers::default()));
        }
    }
}
