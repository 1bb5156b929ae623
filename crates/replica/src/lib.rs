//! A server's place among its replicas: the shared log in etcd, the list of servers, and the position of this
//! server.
//!
//! All servers have the same data and answer lookups from it; etcd has the log of writes (`order`). What a
//! write means is decided by the engine of each server (`engine/replica`).
//!
//! *Guarantees*
//! - A data directory follows one log only: that of the prefix and of the etcd that it has first followed.
//! - A server whose data differ from those of the majority answers no requests (`standing`).
//! - [`Replicas::behind`] is the time since this server certainly had every acknowledged write.
//!
//! *Absent*: consensus, leader election and failover, which are etcd's.

#![deny(unreachable_pub)]

mod agreement;
mod identity;
mod join;
mod order;
mod standing;
mod status;
mod trim;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

pub use identity::IdentityError;
pub use status::{EndpointState, LogState, ReplicasStatus, ServerState};

use agreement::{Agreement, Standing};
use identity::Identity;
use lookalike_engine::{Engine, EngineError, Membership, Pieces};
use lookalike_log::etcd::{self, ClientCertificate, Credentials, EtcdLog, EtcdSettings};
use lookalike_log::{Log, LogError, Position};
use order::{LogOrder, Trouble, of_log};

/// The time after which a server that has died is not on the list of servers any more.
const LEASE: Duration = Duration::from_secs(10);
/// How often this server asks for the end of the log.
const CHECK: Duration = Duration::from_millis(500);
/// How long this server may take to apply the entries up to that end, before it asks again.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often this server tells the others how far it is.
const REPORT: Duration = Duration::from_secs(2);
/// How often a start that waits for etcd tries again.
const RETRY: Duration = Duration::from_secs(1);

/// The format that all replicas must agree on: the layout of entries, and their effects.
const FORMAT: &str = "lookalike replicas 1";

/// The settings of a replica.
#[derive(Clone, Debug)]
pub struct ReplicaSettings {
    /// The URLs of etcd's servers.
    pub endpoints: Vec<String>,
    /// The prefix of the keys of the shared log.
    pub prefix: String,
    /// The name of this server.
    pub server: String,
    /// The user of etcd.
    pub credentials: Option<Credentials>,
    /// The file of the certificates that are trusted to sign those of etcd.
    pub ca_file: Option<PathBuf>,
    /// The certificate that this server shows to etcd.
    pub certificate: Option<ClientCertificate>,
    /// The URL at which other servers reach this one.
    pub address: String,
    /// The key that this server shows to the others.
    pub peer_key: Option<String>,
    /// The file of the certificates that are trusted to sign those of the other servers.
    pub peer_ca_file: Option<PathBuf>,
    /// The time after which a server that cannot follow the log is not ready.
    pub max_lag: Duration,
    /// The number of live servers that must have an entry before it is removed from the log.
    pub min_copies: usize,
    /// Bytes that the log may take before it is trimmed; `None` is an eighth of etcd's quota.
    pub trim_bytes: Option<u64>,
}

/// Why a server cannot be a replica.
#[derive(Debug, thiserror::Error)]
pub enum ReplicaError {
    /// The data directory belongs to another shared log, or cannot be used.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The log cannot be used.
    #[error(transparent)]
    Log(#[from] LogError),
    /// Servers of another version have begun the shared log.
    #[error(
        "the replicas have agreed on {found:?}, and this version uses {FORMAT:?}: use their \
         version of lookalike"
    )]
    Format {
        /// What they have agreed on.
        found: String,
    },
}

/// What a server says about itself on the list of servers.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Report {
    address: String,
    version: String,
    position: u64,
    /// The last entry whose effect is on its disk.
    durable: u64,
    /// Milliseconds since it certainly had every acknowledged write.
    behind_ms: u64,
    /// The number of the entry at `position`.
    #[serde(default)]
    number: u64,
    /// Identifies this start of the server.
    #[serde(default)]
    start: String,
    /// Its last digest, with the position.
    #[serde(default)]
    digest: Option<(u64, String)>,
    /// The last position at which it agreed with others.
    #[serde(default)]
    agreed: Option<u64>,
    /// Whether it answers nothing because its data differ.
    #[serde(default)]
    is_diverged: bool,
    /// Whether a majority has other data.
    #[serde(default)]
    is_outvoted: bool,
}

/// The end of the log, as far as this server knows it.
struct Seen {
    /// The number of the last entry.
    end: u64,
    /// When etcd last answered where the log ends.
    answered: Instant,
    /// A time up to which this server has every acknowledged write.
    complete: Instant,
}

/// The space of etcd in bytes, the most of all its servers.
#[derive(Clone, Copy, Debug)]
pub struct Space {
    /// Bytes that etcd occupies.
    pub bytes: u64,
    /// Bytes of it that are in use.
    pub bytes_in_use: u64,
    /// At this size etcd refuses writes.
    pub quota_bytes: u64,
}

/// A replica.
pub struct Replicas {
    settings: ReplicaSettings,
    /// The data directory.
    dir: PathBuf,
    log: EtcdLog,
    seen: Mutex<Seen>,
    /// Identifies the engine among all starts of all servers.
    start: Mutex<String>,
    /// The digests of the others; locked for the time of a comparison, and never with `standing`.
    agreement: Mutex<Agreement>,
    standing: Mutex<Standing>,
    /// Whether requests for data are answered.
    serves: AtomicBool,
    /// The order of the commands of the last engine that was opened.
    order: Mutex<Option<Arc<LogOrder>>>,
    /// The engine, once it is open.
    engine: OnceLock<Arc<Engine>>,
    /// The space of etcd at the last check; `None` if etcd did not answer.
    space: Mutex<Option<Space>>,
    /// The place on the list of servers. Locked while it is taken or changed.
    place: tokio::sync::Mutex<Option<etcd::Membership>>,
}

impl Replicas {
    /// Connects to the log, and waits until it can be reached.
    ///
    /// # Errors
    /// [`ReplicaError`] if waiting does not help: the settings are wrong, or the data directory `dir` belongs
    /// to another shared log.
    pub async fn connect(settings: ReplicaSettings, dir: &Path) -> Result<Replicas, ReplicaError> {
        let known = Identity::read(dir, &settings.prefix)?;
        let etcd = EtcdSettings {
            credentials: settings.credentials.clone(),
            ca_file: settings.ca_file.clone(),
            certificate: settings.certificate.clone(),
            etcd_cluster: known.as_ref().and_then(Identity::etcd_cluster),
            // One append at a time keeps the order in which this server took its writes.
            lanes: 1,
            ..EtcdSettings::new(settings.endpoints.clone(), &settings.prefix, &settings.server)
        };
        let log = connected(etcd).await?;
        let agreed = log.agree(FORMAT.into()).await?;
        if agreed != FORMAT {
            return Err(ReplicaError::Format { found: String::from_utf8_lossy(&agreed).into_owned() });
        }
        if known.is_none() {
            let etcd = format!("{:x}", log.etcd_cluster());
            Identity { prefix: settings.prefix.clone(), etcd }.write(dir)?;
        }
        Ok(Replicas {
            settings,
            dir: dir.to_path_buf(),
            log,
            seen: Mutex::new(Seen { end: 0, answered: Instant::now(), complete: Instant::now() }),
            start: Mutex::default(),
            agreement: Mutex::default(),
            standing: Mutex::new(Standing::Unknown),
            serves: AtomicBool::new(true),
            order: Mutex::default(),
            engine: OnceLock::new(),
            space: Mutex::default(),
            place: tokio::sync::Mutex::default(),
        })
    }

    /// The membership with which an engine follows the log. `origin` identifies the engine among all of the
    /// replicas.
    pub fn membership(&self, origin: u128) -> Membership {
        *self.start.lock() = format!("{origin:032x}");
        let order = Arc::new(LogOrder::new(Arc::new(self.log.clone()), origin));
        *self.order.lock() = Some(Arc::clone(&order));
        Membership { order, origin, server: self.settings.server.clone() }
    }

    /// Why the engine follows the log no further, if that is so.
    fn log_trouble(&self) -> Option<Trouble> {
        self.order.lock().as_ref()?.trouble()
    }

    /// Waits until the engine has applied every entry that the log has at the time of the call. Returns
    /// whether it has: if the log was trimmed beyond its position, it needs [`Replicas::copy_data`].
    ///
    /// # Errors
    /// [`ReplicaError::Log`] if the end of the log cannot be read, for a reason that does not pass.
    pub async fn catch_up(&self, engine: &Arc<Engine>) -> Result<bool, ReplicaError> {
        let (asked, (Position(end), number)) = loop {
            let asked = Instant::now();
            match self.log.last().await {
                Ok(last) => break (asked, last),
                Err(error @ LogError::Unavailable { .. }) => wait(&error).await,
                Err(error) => return Err(error.into()),
            }
        };
        while let Err(error) = engine.reach(end, PATIENCE).await {
            match self.log_trouble() {
                Some(trouble) if trouble.is_trimmed => return Ok(false),
                // `/readyz` says why.
                Some(_) => break,
                None => tracing::info!("catching up with the shared log: {error}"),
            }
        }
        *self.seen.lock() = Seen { end: number, answered: Instant::now(), complete: asked };
        let _ = self.engine.set(Arc::clone(engine));
        Ok(true)
    }

    /// Watches the end of the log, tells the other servers how far this one is, and trims the log. Runs until
    /// the log has been trimmed beyond the position of this server: then it must start again.
    pub async fn run(&self) {
        if let Some(engine) = self.engine.get() {
            tokio::select! {
                () = self.watch(engine) => {}
                () = self.keep_telling(engine) => {}
                () = self.keep_trimming() => {}
            }
        }
    }

    async fn keep_trimming(&self) {
        loop {
            tokio::time::sleep(trim::INTERVAL).await;
            if let Err(error) = self.trim().await {
                tracing::warn!(%error, "the shared log was not trimmed");
            }
        }
    }

    /// A copy of everything that this server has, for another server.
    ///
    /// # Errors
    /// [`EngineError::Busy`] if other copies or backups are in progress.
    pub fn copy(&self) -> Result<Pieces, EngineError> {
        self.engine.get().ok_or(EngineError::Busy("the start of the server"))?.copy()
    }

    /// The last entry of the log whose effect an answer of this server may have.
    pub fn position(&self) -> u64 {
        self.engine.get().map_or(0, |engine| engine.position())
    }

    /// Waits until this server has applied the log up to a position, or up to its present end if that is
    /// `None`.
    ///
    /// # Errors
    /// [`EngineError::Behind`] after the time `within`, [`EngineError::LogUnavailable`] if the log cannot be
    /// reached.
    pub async fn reach(&self, position: Option<u64>, within: Duration) -> Result<(), EngineError> {
        let Some(engine) = self.engine.get() else { return Ok(()) };
        let begun = Instant::now();
        let is_end = position.is_none();
        let position = if let Some(position) = position {
            position
        } else {
            let end = tokio::time::timeout(within, self.log.end()).await;
            let late = |_| EngineError::LogUnavailable("the shared log did not answer in time".into());
            let Position(end) = end.map_err(late)?.map_err(|error| of_log(&error))?;
            end
        };
        engine.reach(position, within.saturating_sub(begun.elapsed())).await?;
        if is_end {
            let mut seen = self.seen.lock();
            seen.complete = seen.complete.max(begun);
        }
        Ok(())
    }

    /// Asks for the end of the log again and again. Returns when the log has been trimmed too far.
    async fn watch(&self, engine: &Engine) {
        while !self.log_trouble().is_some_and(|trouble| trouble.is_trimmed) {
            let asked = Instant::now();
            match self.log.last().await {
                Ok((Position(end), number)) => {
                    {
                        let mut seen = self.seen.lock();
                        (seen.end, seen.answered) = (number, Instant::now());
                    }
                    if engine.reach(end, PATIENCE).await.is_ok() {
                        self.seen.lock().complete = asked;
                    }
                }
                Err(error) => tracing::warn!(%error, "the end of the log is not known"),
            }
            tokio::time::sleep(CHECK).await;
        }
    }

    /// Tells the other servers that this one ends, and removes its lanes from etcd.
    pub async fn leave(&self) {
        let place = self.place.lock().await.take();
        let left = async {
            if let Some(place) = place {
                place.leave().await?;
            }
            self.log.close().await
        };
        if let Err(error) = left.await {
            tracing::debug!(%error, "what this server has in etcd ends with its leases");
        }
    }

    async fn keep_telling(&self, engine: &Engine) {
        let mut digests = engine.digests();
        loop {
            self.tell(engine).await;
            // A new digest is published at once: a server that starts waits for it.
            let _ = tokio::time::timeout(REPORT, digests.changed()).await;
        }
    }

    /// Writes the report of this server.
    async fn report(&self, engine: &Engine) -> Result<(), LogError> {
        let (position, number) = engine.applied();
        let digest = engine.digests().borrow().back().map(|last| (last.position, last.digest.to_string()));
        let report = Report {
            address: self.settings.address.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            position,
            durable: engine.durable_position().unwrap_or(0),
            behind_ms: self.behind().as_millis() as u64,
            number,
            start: self.start.lock().clone(),
            digest,
            agreed: self.agreed(),
            is_diverged: self.divergence().is_some(),
            is_outvoted: matches!(*self.standing.lock(), Standing::Outvoted(_)),
        };
        let value = serde_json::to_vec(&report).unwrap_or_default();
        let mut place = self.place.lock().await;
        match &*place {
            None => self.log.register(LEASE, value.into()).await.map(|taken| *place = Some(taken)),
            Some(place) => place.update(value.into()).await,
        }
    }

    /// The time since this server certainly had every acknowledged write. It is below a second while the
    /// server follows the log.
    pub fn behind(&self) -> Duration {
        self.seen.lock().complete.elapsed()
    }

    /// The number of entries of the log that this server has not applied, as far as it knows; `None` before
    /// it has applied one since its start.
    pub fn lag(&self) -> Option<u64> {
        let (_, number) = self.engine.get()?.applied();
        (number > 0).then(|| self.seen.lock().end.saturating_sub(number))
    }

    /// The space of etcd, as it was checked in the last seconds; `None` if etcd does not answer.
    pub fn space(&self) -> Option<Space> {
        *self.space.lock()
    }

    /// Whether answers may miss writes that other servers acknowledged before [`ReplicaSettings::max_lag`].
    pub fn is_stale(&self) -> bool {
        self.behind() > self.settings.max_lag
    }

    /// Whether this server follows the log, and is not too far behind.
    pub fn is_following(&self) -> bool {
        self.engine.get().is_some() && self.trouble().is_none() && self.log_trouble().is_none()
    }

    /// Why this server is not ready: it is behind, although it reaches the log.
    pub fn trouble(&self) -> Option<String> {
        let is_reached = self.seen.lock().answered.elapsed() <= self.settings.max_lag;
        let behind = self.behind();
        (is_reached && behind > self.settings.max_lag).then(|| {
            format!(
                "this server is {} ms behind the shared log, and replicas.max_lag_ms is {}",
                behind.as_millis(),
                self.settings.max_lag.as_millis()
            )
        })
    }
}

/// Connects to the log, and tries again while no server of etcd answers.
async fn connected(settings: EtcdSettings) -> Result<EtcdLog, LogError> {
    loop {
        match EtcdLog::connect(settings.clone()).await {
            Err(error @ LogError::Unavailable { .. }) => wait(&error).await,
            other => return other,
        }
    }
}

async fn wait(error: &LogError) {
    tracing::warn!(%error, "waiting for the shared log");
    tokio::time::sleep(RETRY).await;
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
