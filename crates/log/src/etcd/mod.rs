//! The log in etcd 3.4 or later, over its HTTP gateway.
//!
//! The entries are the revisions of one key. etcd orders all writes, so the revision of an entry is its
//! position; a watch of the key delivers the entries in order; a compaction trims the log. Only entries that
//! are not trimmed take space.
//!
//! The keys of the prefix PREFIX:
//!
//! | key | value |
//! |---|---|
//! | `/PREFIX/log` | the last entry |
//! | `/PREFIX/format` | what all servers must agree on |
//! | `/PREFIX/servers/SERVER` | what a server says about itself, while it is alive |
//! | `/PREFIX/lanes/SERVER/LEASE/NUMBER` | nothing; its revision tells which append was the last |
//!
//! *Requirements*: the etcd cluster is for one shared log alone, because a compaction concerns all
//! keys of etcd; and etcd does not compact by itself (`--auto-compaction-retention` is 0, its default).
//!
//! *Absent*: gRPC, whose code generator a plain Rust toolchain lacks.

mod gateway;
mod lanes;
mod lease;
mod membership;
mod refusal;
mod settings;
mod space;
mod tail;
mod wire;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt, join_all};
use futures::stream::BoxStream;

pub use membership::Membership;
pub use settings::{ClientCertificate, Credentials, EtcdSettings};
pub use space::{Alarm, EndpointStatus, EtcdStatus, MemberStatus, Reclaimed};

use self::gateway::{Gateway, encode};
use self::lanes::Lanes;
use self::refusal::Kind;
use self::space::Space;
use self::wire::{Base64, Compare, Nothing, Op, Put, Range, StatusAnswer, Txn, TxnAnswer};
use super::{Entry, Log, LogError, Position};

/// A log in etcd. Clones share connections and lanes.
#[derive(Clone)]
pub struct EtcdLog {
    inner: Arc<Inner>,
}

struct Inner {
    gateway: Arc<Gateway>,
    lanes: Lanes,
    space: Space,
    settings: EtcdSettings,
    prefix: String,
    log: String,
}

impl fmt::Debug for EtcdLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdLog").field("settings", &self.inner.settings).finish_non_exhaustive()
    }
}

impl EtcdLog {
    /// Connects to etcd, and checks that it answers, that this server has access, and that all endpoints
    /// that answer are of one etcd cluster.
    ///
    /// # Errors
    /// [`LogError::Setting`], [`LogError::File`] and [`LogError::Client`] for the settings;
    /// [`LogError::Unavailable`], [`LogError::Unauthorized`] and [`LogError::OtherEtcd`].
    pub async fn connect(settings: EtcdSettings) -> Result<EtcdLog, LogError> {
        let prefix = format!("/{}/", settings.prefix);
        let gateway = Arc::new(Gateway::new(&settings, &prefix)?);
        let log = format!("{prefix}log");
        let lanes = format!("{prefix}lanes/{}/", settings.server);
        let lanes = Lanes::new(Arc::clone(&gateway), log.clone(), lanes, settings.lanes);
        let space = Space::new(Arc::clone(&gateway), settings.timeout);
        let connected = EtcdLog { inner: Arc::new(Inner { gateway, lanes, space, settings, prefix, log }) };
        connected.check_endpoints().await?;
        connected.inner.end().await?;
        Ok(connected)
    }

    /// Checks that all endpoints that answer are of one etcd cluster.
    async fn check_endpoints(&self) -> Result<(), LogError> {
        let gateway = &self.inner.gateway;
        let ask = |at| {
            let body = encode(&Nothing {});
            gateway.attempt::<StatusAnswer>(at, "/v3/maintenance/status", body, gateway.first_try())
        };
        let failed = join_all((0..gateway.len()).map(ask)).await.into_iter().filter_map(Result::err);
        match failed.into_iter().find(|failure| failure.kind() == Kind::Foreign) {
            Some(failure) => Err(gateway.error(gateway::Lost::of(failure))),
            None => Ok(()),
        }
    }

    /// The identity of the etcd cluster. The caller stores it, and passes it to the next
    /// [`EtcdLog::connect`].
    pub fn etcd_cluster(&self) -> u64 {
        self.inner.gateway.etcd_cluster()
    }

    /// Proposes a value that all replicas must agree on. Returns the value that the first of them proposed.
    ///
    /// # Errors
    /// [`LogError::Unavailable`] and others.
    pub async fn agree(&self, proposal: Bytes) -> Result<Bytes, LogError> {
        let Inner { gateway, settings, prefix, .. } = &*self.inner;
        let key = format!("{prefix}format");
        let put = Put { key: key.as_str().into(), value: Base64(proposal.clone()), lease: 0 };
        let compare = [Compare::Version { key: key.as_str().into(), version: 0 }];
        let failure = vec![Op::Range(Range::value(&key))];
        let txn = Txn { compare, success: vec![Op::Put(put)], failure };
        let answer = gateway.call::<TxnAnswer>("/v3/kv/txn", &txn, settings.timeout).await;
        let answer = answer.map_err(|lost| gateway.error(lost))?;
        if answer.succeeded {
            return Ok(proposal);
        }
        let stored = answer.found().map(|found| found.value.0);
        stored.ok_or_else(|| LogError::Damaged(format!("the key {key} was neither written nor found")))
    }

    /// Puts this server on the list of servers, with a value that the others can read. It disappears `ttl`
    /// after the process has died.
    ///
    /// # Errors
    /// [`LogError::Unavailable`] and others.
    pub async fn register(&self, ttl: Duration, value: Bytes) -> Result<Membership, LogError> {
        let Inner { gateway, settings, prefix, .. } = &*self.inner;
        let name = (format!("{prefix}servers/"), &settings.server);
        let times = (ttl, settings.timeout);
        Membership::register(Arc::clone(gateway), (&name.0, name.1), times, value).await
    }

    /// The names of the servers that are alive, sorted, and their values.
    ///
    /// # Errors
    /// [`LogError::Unavailable`] and others.
    pub async fn members(&self) -> Result<Vec<(String, Bytes)>, LogError> {
        let Inner { gateway, settings, prefix, .. } = &*self.inner;
        membership::members(gateway, &format!("{prefix}servers/"), settings.timeout).await
    }

    /// The position and the number of the last entry; 0 if there is none.
    ///
    /// # Errors
    /// As [`Log::end`].
    pub async fn last(&self) -> Result<(Position, u64), LogError> {
        self.inner.last().await
    }

    /// The state of etcd.
    ///
    /// # Errors
    /// [`LogError::Unavailable`] if no server of etcd answers.
    pub async fn status(&self) -> Result<EtcdStatus, LogError> {
        self.inner.space.status().await
    }

    /// Returns the space of trimmed entries to etcd's quota, where this is worth its cost: each etcd server
    /// stops for a moment. If etcd has refused writes for lack of space and now has enough, it accepts them
    /// again. One replica calls this, some seconds after a trim. With a password, etcd demands
    /// the role `root` for it.
    ///
    /// # Errors
    /// [`LogError::Unauthorized`] without that role, [`LogError::Unavailable`] and others.
    pub async fn reclaim(&self) -> Result<Reclaimed, LogError> {
        self.inner.space.reclaim().await
    }

    /// Removes the lanes of this process from etcd. Otherwise etcd removes them after ten minutes.
    ///
    /// # Errors
    /// [`LogError::Unavailable`] and others.
    pub async fn close(&self) -> Result<(), LogError> {
        self.inner.lanes.close(self.inner.settings.timeout).await
    }
}

impl Inner {
    async fn end(&self) -> Result<Position, LogError> {
        Ok(self.last().await?.0)
    }

    async fn last(&self) -> Result<(Position, u64), LogError> {
        let last = tail::last(&self.gateway, &self.log, self.settings.timeout).await;
        last.map_err(|lost| self.gateway.error(lost))
    }

    async fn trim(&self, through: Position) -> Result<(), LogError> {
        match self.space.compact(through).await {
            Err(lost) if lost.kind == Kind::Future => {
                Err(LogError::Rewound { position: through, end: self.end().await? })
            }
            other => other.map_err(|lost| self.gateway.error(lost)),
        }
    }
}

impl Log for EtcdLog {
    fn append(&self, payload: Bytes, within: Duration) -> BoxFuture<'_, Result<Position, LogError>> {
        self.inner.lanes.append(payload, within).boxed()
    }

    fn tail(&self, after: Position) -> BoxStream<'static, Result<Entry, LogError>> {
        let Inner { gateway, log, settings, .. } = &*self.inner;
        tail::tail(Arc::clone(gateway), log.clone(), after, settings.quiet, settings.timeout)
    }

    fn end(&self) -> BoxFuture<'_, Result<Position, LogError>> {
        self.inner.end().boxed()
    }

    fn trim(&self, through: Position) -> BoxFuture<'_, Result<(), LogError>> {
        self.inner.trim(through).boxed()
    }
}
