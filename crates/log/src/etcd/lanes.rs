//! Appends: each has its effect once, however often it is retried.
//!
//! A lane is a key of this process. An append is one transaction: if the lane was last written at the
//! revision that this process knows, write the log's key and the lane. All tries of an append are this same
//! transaction, and a lane has one append at a time.
//!
//! *Why an entry is in the log at most once*
//! - The first try that etcd applies changes the revision of the lane, so no other try of the append can.
//! - A lane is written by its creation and by its appends only. So if the revision has changed, an earlier
//!   try did it, and the new revision is the position of the entry.
//! - A lane whose append had an unknown outcome has no other append, so a late try cannot be taken for
//!   another append.
//! - The lane has a lease. Once that ends, the lane is gone, and etcd refuses every transaction that names
//!   the lease: late tries have no effect, and no later lane has the same key.
//! - So a lane that is gone means that no try had an effect after the lease ended. If all tries came after
//!   it, nothing was appended; otherwise the outcome is unknown.
//!
//! *Why an unknown outcome does not come later than the next append*: a try can be on its way for minutes, in
//! a network that is cut. Before its next append, the process writes such a lane by a transaction without an
//! entry. After that, no try of the old append can have an effect.
//!
//! The transaction does not check that this server is still a member. A server that is thought to be gone
//! may append: every server applies the entry or none does, so the entry is as valid as any other.
//!
//! *Absent*: an order between concurrent appends. etcd gives them one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use super::gateway::{Gateway, Lost};
use super::refusal::Kind;
use super::wire::{Base64, Compare, Op, Put, Range, RangeAnswer, Txn, TxnAnswer};
use crate::{LogError, MAX_PAYLOAD, Position};

/// Lanes outlive failures of etcd of this length. Renewed by appends, after a quarter of it.
const LEASE: Duration = Duration::from_mins(10);
const TXN: &str = "/v3/kv/txn";

/// The lease of the lanes of this process, until it is lost.
struct Session {
    lease: u64,
    renewed: Mutex<Instant>,
    lanes: AtomicU64,
}

/// A lane that no append uses.
struct Lane {
    session: Arc<Session>,
    key: String,
    /// When the key was last written.
    revision: u64,
}

/// How an append in a lane ended, if it did not fail.
enum Outcome {
    Appended(Position),
    /// The lane was gone before the first try, so nothing was appended.
    LaneGone,
}

/// The lanes of this process.
pub(super) struct Lanes {
    gateway: Arc<Gateway>,
    log: String,
    /// The prefix of the keys of lanes.
    prefix: String,
    limit: usize,
    permits: Semaphore,
    idle: Mutex<Vec<Lane>>,
    /// Lanes whose append may yet have its effect.
    open: Mutex<Vec<Lane>>,
    /// Locked while a lease is requested, so that there is one.
    session: tokio::sync::Mutex<Option<Arc<Session>>>,
}

impl Session {
    fn is_due(&self) -> bool {
        self.renewed.lock().elapsed() > LEASE / 4
    }
}

impl Lanes {
    pub(super) fn new(gateway: Arc<Gateway>, log: String, prefix: String, limit: usize) -> Lanes {
        let limit = limit.max(1);
        Lanes {
            gateway,
            log,
            prefix,
            limit,
            permits: Semaphore::new(limit),
            idle: Mutex::default(),
            open: Mutex::default(),
            session: tokio::sync::Mutex::default(),
        }
    }

    /// Appends an entry. If the future is dropped, its lane is not used again.
    pub(super) async fn append(&self, payload: Bytes, within: Duration) -> Result<Position, LogError> {
        if payload.len() > MAX_PAYLOAD {
            return Err(LogError::TooLarge { bytes: payload.len() });
        }
        let deadline = Instant::now() + within;
        let busy = |_| LogError::Busy { lanes: self.limit };
        let _permit = timeout_at(deadline, self.permits.acquire()).await.map_err(busy)?;
        self.close_open_lanes(deadline).await?;
        loop {
            let lane = self.lane(deadline).await?;
            match self.append_in(&lane, &payload, deadline).await {
                Ok(Outcome::Appended(position)) => {
                    self.idle.lock().push(Lane { revision: position.0, ..lane });
                    return Ok(position);
                }
                Ok(Outcome::LaneGone) => self.lose(&lane.session).await,
                Err(error) => {
                    if matches!(error, LogError::Unknown(_)) {
                        self.open.lock().push(lane);
                    }
                    return Err(error);
                }
            }
        }
    }

    /// Makes sure that no earlier append with an unknown outcome has an effect from now on. The lanes are
    /// not used again.
    async fn close_open_lanes(&self, deadline: Instant) -> Result<(), LogError> {
        loop {
            let Some(lane) = self.open.lock().pop() else { return Ok(()) };
            let unchanged = Compare::Revision { key: lane.key.as_str().into(), mod_revision: lane.revision };
            let txn = write(&lane.session, &lane.key, unchanged, None);
            match self.gateway.call::<TxnAnswer>(TXN, &txn, left(deadline)).await {
                Ok(_) | Err(Lost { kind: Kind::LeaseEnded, .. }) => {}
                Err(lost) => {
                    self.open.lock().push(lane);
                    return Err(self.gateway.error(lost));
                }
            }
        }
    }

    async fn append_in(&self, lane: &Lane, payload: &Bytes, deadline: Instant) -> Result<Outcome, LogError> {
        let compare = Compare::Revision { key: lane.key.as_str().into(), mod_revision: lane.revision };
        let entry = Put { key: self.log.as_str().into(), value: Base64(payload.clone()), lease: 0 };
        let txn = write(&lane.session, &lane.key, compare, Some(entry));
        let answered = match self.gateway.call_once::<TxnAnswer>(TXN, &txn, left(deadline)).await {
            Ok(answered) => answered,
            Err(lost) if lost.kind == Kind::Full => return self.full(lane, lost, deadline).await,
            Err(lost) => return self.lost(lost, payload.len()),
        };
        let position = if answered.answer.succeeded {
            answered.answer.header.revision
        } else if let Some(found) = answered.answer.found() {
            found.mod_revision
        } else if let Some(failure) = answered.unclear {
            return Err(LogError::Unknown(failure));
        } else {
            return Ok(Outcome::LaneGone);
        };
        Ok(Outcome::Appended(Position(position)))
    }

    /// The outcome of an append that was refused for lack of space. etcd refuses a write before it has an
    /// effect, except the one that uses up the space. The revision of the lane shows which one it was.
    async fn full(&self, lane: &Lane, lost: Lost, deadline: Instant) -> Result<Outcome, LogError> {
        let range = Range::keys_only(&lane.key, 0);
        let read = self.gateway.call::<RangeAnswer>("/v3/kv/range", &range, left(deadline)).await;
        match read.map(|answer| answer.kvs.first().map(|kv| kv.mod_revision)) {
            Ok(Some(revision)) if revision != lane.revision => Ok(Outcome::Appended(Position(revision))),
            Ok(_) => self.lost(lost, 0),
            Err(unread) => Err(LogError::Unknown(unread.failure)),
        }
    }

    /// The outcome of an append without an answer.
    fn lost(&self, lost: Lost, bytes: usize) -> Result<Outcome, LogError> {
        match lost.kind {
            _ if lost.is_unclear => Err(LogError::Unknown(lost.failure)),
            Kind::LeaseEnded => Ok(Outcome::LaneGone),
            Kind::TooLarge => Err(LogError::RequestLimit { bytes }),
            _ => Err(self.gateway.error(lost)),
        }
    }

    /// An unused lane, whose lease is fresh.
    async fn lane(&self, deadline: Instant) -> Result<Lane, LogError> {
        loop {
            let idle = self.idle.lock().pop();
            let lane = match idle {
                Some(lane) => Some(lane),
                None => self.create(deadline).await?,
            };
            let Some(lane) = lane else { continue };
            if !lane.session.is_due() || self.renew(&lane.session, deadline).await? {
                return Ok(lane);
            }
            self.lose(&lane.session).await;
        }
    }

    /// A new lane; `None` if the lease ended meanwhile.
    async fn create(&self, deadline: Instant) -> Result<Option<Lane>, LogError> {
        let session = self.session(deadline).await?;
        let number = session.lanes.fetch_add(1, Ordering::Relaxed);
        let key = format!("{}{:x}/{number}", self.prefix, session.lease);
        let absent = Compare::Version { key: key.as_str().into(), version: 0 };
        let txn = write(&session, &key, absent, None);
        let answer = match self.gateway.call::<TxnAnswer>(TXN, &txn, left(deadline)).await {
            Ok(answer) => answer,
            Err(Lost { kind: Kind::LeaseEnded, .. }) => {
                self.lose(&session).await;
                return Ok(None);
            }
            Err(lost) => return Err(self.gateway.error(lost)),
        };
        let created = answer.header.revision;
        let revision =
            if answer.succeeded { Some(created) } else { answer.found().map(|kv| kv.mod_revision) };
        Ok(revision.map(|revision| Lane { session, key, revision }))
    }

    async fn session(&self, deadline: Instant) -> Result<Arc<Session>, LogError> {
        let mut current = self.session.lock().await;
        if let Some(session) = &*current {
            return Ok(Arc::clone(session));
        }
        let renewed = Mutex::new(Instant::now());
        let granted = self.gateway.grant(LEASE, left(deadline)).await;
        let lease = granted.map_err(|lost| self.gateway.error(lost))?;
        let session = Arc::new(Session { lease, renewed, lanes: AtomicU64::new(0) });
        *current = Some(Arc::clone(&session));
        Ok(session)
    }

    /// Renews the lease. The result is false if it has ended.
    async fn renew(&self, session: &Session, deadline: Instant) -> Result<bool, LogError> {
        let now = Instant::now();
        let renewed = self.gateway.renew(session.lease, left(deadline)).await;
        let is_alive = renewed.map_err(|lost| self.gateway.error(lost))?;
        if is_alive {
            *session.renewed.lock() = now;
        }
        Ok(is_alive)
    }

    /// Forgets a lease that has ended, and its lanes.
    async fn lose(&self, lost: &Arc<Session>) {
        tracing::info!("the lease of the lanes has ended; new ones are opened");
        let mut current = self.session.lock().await;
        if current.as_ref().is_some_and(|session| Arc::ptr_eq(session, lost)) {
            *current = None;
        }
        self.idle.lock().retain(|lane| !Arc::ptr_eq(&lane.session, lost));
    }

    /// Ends the lease, and with it the lanes. Used when the server stops.
    pub(super) async fn close(&self, within: Duration) -> Result<(), LogError> {
        let session = self.session.lock().await.take();
        self.idle.lock().clear();
        match session {
            Some(session) => {
                let revoked = self.gateway.revoke(session.lease, within).await;
                revoked.map_err(|lost| self.gateway.error(lost))
            }
            None => Ok(()),
        }
    }
}

/// The transaction that writes a lane, and the log with it, on a condition. Otherwise it reads the lane.
fn write(session: &Session, lane: &str, compare: Compare, entry: Option<Put>) -> Txn {
    let touch = Put { key: lane.into(), value: Base64::default(), lease: session.lease };
    let success = entry.into_iter().chain([touch]).map(Op::Put).collect();
    Txn { compare: [compare], success, failure: vec![Op::Range(Range::keys_only(lane, 0))] }
}

fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}
