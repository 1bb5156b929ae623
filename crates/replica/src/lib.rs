//! A server's place among its replicas: the shared log, the list of servers, and the position of this
//! server.
//!
//! All servers have the same data and answer lookups from it; the log has the writes (`order`). What a
//! write means is decided by the engine of each server (`engine/replica`).
//!
//! *Guarantees*
//! - A data directory follows one log only: the one that it has first followed.
//! - A server whose data differ from those of the majority answers no requests (`standing`).
//! - [`Replicas::behind`] is the time since this server certainly had every acknowledged write.
//!
//! *Absent*: consensus, which is that of the store of the log.

#![deny(unreachable_pub)]

mod agreement;
mod alone;
mod clock;
mod hints;
mod identity;
mod join;
mod moment;
mod order;
mod snapshots;
mod standing;
mod status;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

pub use identity::IdentityError;
pub use moment::{MomentError, Reached, go_back};
pub use order::{Behind, EntryError, Unsent};
pub use snapshots::SnapshotPolicy;
pub use status::{ReplicasStatus, ServerState};

use agreement::{Agreement, Standing};
use identity::Identity;
use lookalike_engine::{Engine, EngineError, Membership};
use lookalike_log::objects::ObjectLog;
use lookalike_log::{Log, LogError, Position};
use order::{LogOrder, Trouble, of_log};

/// How often this server asks for the end of the log.
const CHECK: Duration = Duration::from_millis(500);
/// How long this server may take to apply the entries up to that end, before it asks again.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often this server tells the others how far it is.
const REPORT: Duration = Duration::from_secs(2);
/// How often a start that waits for the log tries again.
const RETRY: Duration = Duration::from_secs(1);

/// The format that all replicas must agree on: the layout of entries, and their effects.
const FORMAT: &str = "lookalike replicas 3";

/// The settings of a replica.
#[derive(Clone, Debug)]
pub struct ReplicaSettings {
    /// The URL of the log.
    pub url: String,
    /// A random number, which identifies this process.
    pub process: u128,
    /// The name of this server.
    pub server: String,
    /// The URL at which other servers reach this one.
    pub address: String,
    /// The key that this server shows to the others.
    pub peer_key: Option<String>,
    /// The file of the certificates that are trusted to sign those of the other servers.
    pub peer_ca_file: Option<PathBuf>,
    /// The time after which a server that cannot follow the log is not ready.
    pub max_lag: Duration,
    /// The snapshots in the log.
    pub snapshots: SnapshotPolicy,
    /// If this server alone writes: how far the log may be behind it. Otherwise each write waits for the log.
    pub behind: Option<Behind>,
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
    /// Only one server may use the log, and another one does.
    #[error(
        "server {0:?} uses the log, and with shared_log.acknowledge = \"local\" on either only one may: stop \
         it and wait ten seconds, or give both \"stored\""
    )]
    NotAlone(String),
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
    /// Whether it acknowledges writes that the log does not have.
    #[serde(default)]
    is_ahead: bool,
}

/// The end of the log, as far as this server knows it.
struct Seen {
    /// The number of the last entry.
    end: u64,
    /// When the log last answered where it ends; `None` if it has not since the start.
    answered: Option<Instant>,
    /// A time up to which this server has every acknowledged write, and how much longer ago that was.
    complete: (Instant, Duration),
}

/// A replica.
pub struct Replicas {
    settings: ReplicaSettings,
    /// The data directory.
    dir: PathBuf,
    log: ObjectLog,
    /// Whether the data directory followed no log before.
    is_new: bool,
    written: snapshots::Written,
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
    /// The addresses of the other servers.
    peers: watch::Sender<Vec<String>>,
}

impl Replicas {
    /// Connects to the log. A directory that has followed none before waits until it can be reached.
    ///
    /// # Errors
    /// [`ReplicaError`] if waiting does not help: the settings are wrong, or the data directory `dir` belongs
    /// to another shared log.
    pub async fn connect(settings: ReplicaSettings, dir: &Path) -> Result<Replicas, ReplicaError> {
        let log = ObjectLog::new(&settings.url, &settings.server, settings.process)?;
        let known = Identity::read(dir, &settings.url)?;
        let is_new = known.is_none();
        if let Some(known) = known {
            log.expect(&known.log, FORMAT).await?;
        } else {
            let identity = loop {
                match log.begin(FORMAT).await {
                    Err(error) if error.is_transient() => wait(&error).await,
                    begun => break begun?,
                }
            };
            Identity { url: settings.url.clone(), log: identity }.write(dir)?;
        }
        alone::check(&log, &settings).await?;
        Ok(Replicas {
            settings,
            dir: dir.to_path_buf(),
            log,
            is_new,
            written: snapshots::Written::default(),
            seen: Mutex::new(Seen { end: 0, answered: None, complete: (Instant::now(), Duration::ZERO) }),
            start: Mutex::default(),
            agreement: Mutex::default(),
            standing: Mutex::new(Standing::Unknown),
            serves: AtomicBool::new(true),
            order: Mutex::default(),
            engine: OnceLock::new(),
            peers: watch::Sender::default(),
        })
    }

    /// The membership with which an engine follows the log. `origin` identifies the engine among all of the
    /// replicas.
    pub fn membership(&self, origin: u128) -> Membership {
        *self.start.lock() = format!("{origin:032x}");
        let order = Arc::new(LogOrder::of_objects(&self.log, origin, self.settings.behind));
        *self.order.lock() = Some(Arc::clone(&order));
        Membership { order, origin, server: self.settings.server.clone() }
    }

    /// Why the engine follows the log no further, if that is so.
    fn log_trouble(&self) -> Option<Trouble> {
        self.order.lock().as_ref()?.trouble()
    }

    /// Waits until the engine has applied every entry that the log has at the time of the call. A server with
    /// data waits for a log that cannot be reached only for [`ReplicaSettings::max_lag`]. Returns whether it
    /// may answer: if the log was trimmed beyond its position, it needs [`Replicas::copy_data`].
    ///
    /// # Errors
    /// [`ReplicaError::Log`] if the end of the log cannot be read, for a reason that does not pass.
    pub async fn catch_up(&self, engine: &Arc<Engine>) -> Result<bool, ReplicaError> {
        if self.is_ahead() {
            return Ok(self.begin_ahead(engine).await);
        }
        let begun = Instant::now();
        let (asked, (Position(end), number)) = loop {
            let asked = Instant::now();
            match self.log.last().await {
                Ok(last) => break (asked, last),
                Err(error) if !error.is_transient() => return Err(error.into()),
                Err(error) if engine.position() > 0 && begun.elapsed() > self.settings.max_lag => {
                    tracing::warn!(%error, "lookups are answered with the data of this server");
                    // It has what was acknowledged before the last entry that it has applied.
                    self.seen.lock().complete = (Instant::now(), engine.since_applied());
                    let _ = self.engine.set(Arc::clone(engine));
                    return Ok(true);
                }
                Err(error) => wait(&error).await,
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
        let complete = (asked, Duration::ZERO);
        *self.seen.lock() = Seen { end: number, answered: Some(Instant::now()), complete };
        let _ = self.engine.set(Arc::clone(engine));
        Ok(true)
    }

    /// Watches the end of the log, tells the other servers how far this one is and what it appends, and
    /// writes snapshots. Runs until the log has been trimmed beyond the position of this server: then it must
    /// start again.
    pub async fn run(&self) {
        if let Some(engine) = self.engine.get() {
            tokio::select! {
                () = self.watch(engine) => {}
                () = self.keep_telling(engine) => {}
                () = self.keep_hinting() => {}
                () = self.keep_snapshots(engine) => {}
            }
        }
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
        if self.is_ahead() && position.is_none() {
            // It has every acknowledged write, unless another server writes.
            let trouble = self.log_trouble();
            return trouble.map_or(Ok(()), |trouble| Err(EngineError::LogUnavailable(trouble.reason)));
        }
        let begun = Instant::now();
        let is_end = position.is_none();
        let position = if let Some(position) = position {
            self.log.hint(position);
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
            seen.complete = (seen.complete.0.max(begun), Duration::ZERO);
        }
        Ok(())
    }

    /// Asks for the end of the log again and again. Returns when the log has been trimmed too far.
    async fn watch(&self, engine: &Engine) {
        while !self.log_trouble().is_some_and(|trouble| trouble.is_trimmed) {
            if self.is_ahead() {
                tokio::time::sleep(CHECK).await;
                continue;
            }
            let asked = Instant::now();
            match self.log.last().await {
                Ok((Position(end), number)) => {
                    {
                        let mut seen = self.seen.lock();
                        (seen.end, seen.answered) = (number, Some(Instant::now()));
                    }
                    if engine.reach(end, PATIENCE).await.is_ok() {
                        self.seen.lock().complete = (asked, Duration::ZERO);
                    }
                }
                Err(error) => tracing::warn!(%error, "the end of the log is not known"),
            }
            tokio::time::sleep(CHECK).await;
        }
    }

    /// Tells the other servers that this one ends.
    pub async fn leave(&self) {
        if let Err(error) = self.log.leave().await {
            tracing::debug!(%error, "what this server said about itself ends some seconds later");
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
            is_ahead: self.is_ahead(),
        };
        let value = serde_json::to_vec(&report).unwrap_or_default();
        self.log.tell(&value).await
    }

    /// The time since this server certainly had every acknowledged write. It is below a second while the
    /// server follows the log.
    pub fn behind(&self) -> Duration {
        if self.is_ahead() && self.log_trouble().is_none() {
            return Duration::ZERO;
        }
        let (complete, before) = self.seen.lock().complete;
        complete.elapsed() + before
    }

    /// The number of entries of the log that this server has not applied, as far as it knows; `None` before
    /// it has applied one since its start.
    pub fn lag(&self) -> Option<u64> {
        let (_, number) = self.engine.get()?.applied();
        (number > 0).then(|| self.seen.lock().end.saturating_sub(number))
    }

    /// Whether answers may miss writes that other servers acknowledged before [`ReplicaSettings::max_lag`].
    pub fn is_stale(&self) -> bool {
        self.behind() > self.settings.max_lag
    }

    /// Whether this server follows the log, and is not too far behind.
    pub fn is_following(&self) -> bool {
        self.engine.get().is_some() && self.trouble().is_none() && self.log_trouble().is_none()
    }

    /// Why this server is not ready: it is behind although it reaches the log, or its clock is wrong.
    pub fn trouble(&self) -> Option<String> {
        let is_recent = |answered: Instant| answered.elapsed() <= self.settings.max_lag;
        let is_reached = self.seen.lock().answered.is_some_and(is_recent);
        let behind = self.behind();
        let is_behind = is_reached && behind > self.settings.max_lag;
        let late = is_behind.then(|| {
            format!(
                "this server is {} ms behind the shared log, and replicas.max_lag_ms is {}",
                behind.as_millis(),
                self.settings.max_lag.as_millis()
            )
        });
        late.or_else(|| self.refusal()).or_else(|| clock::trouble(&self.log))
    }
}

async fn wait(error: &LogError) {
    tracing::warn!(%error, "waiting for the shared log");
    tokio::time::sleep(RETRY).await;
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
