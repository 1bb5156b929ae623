//! The composition root: builds everything from the settings, starts it, and stops it in order.
//!
//! Its listener and its shutdown signal are arguments, so that a test can run it as the binary does. The
//! clock and the source of ids enter here.
//!
//! Start: the port is open from the beginning, and `/readyz` returns 503 until the data has been read.
//!
//! Stop: `/readyz` returns 503 while requests are still accepted, so that clients choose another server.
//! Then it accepts no more connections. Running requests get three quarters of the drain time and are
//! cut after that; queued writes are written; a last snapshot is taken. The caller must end the process
//! when [`longest_stop`] has passed.

mod replicas;

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::available_parallelism;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures::FutureExt;
use tokio::net::TcpListener;
use tokio::sync::Notify;

use crate::config::Settings;
use lookalike_replica::{ReplicaError, Replicas};
use lookalike_run::call::{Accountant, Ceiling};

use crate::telemetry::Metrics;
use lookalike_engine::{
    CheckpointPolicy, CollectionSettings, Engine, EngineError, EngineSettings, Membership, OpenError,
    Progress, SettingsChange, StoreSettings,
};
use lookalike_hash::{CollectionName, DocumentId};
use lookalike_http as http;
use lookalike_keys::{KeyError, KeyFile, Keyring};
use lookalike_run::machine;
use lookalike_run::pool::{CpuPool, PoolLimits};
use lookalike_service::{Limits, Service, ServiceError, Surroundings, WantedCollection};
use lookalike_text::profiles::{self, ProfilesError};

/// The interval at which recorded metrics are folded.
const METRICS_UPKEEP: Duration = Duration::from_secs(2);
/// The interval at which the files of keys and certificates are checked for changes.
const FILE_CHECKS: Duration = Duration::from_secs(1);
/// The minimum time for closing the engine.
const LEAST_CLOSE: Duration = Duration::from_secs(1);
/// The name of the file of keys in the data directory, if no other file is set.
const KEY_FILE: &str = "keys.toml";

/// The way to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Accept requests for a while, until clients know that this server is stopping.
    AfterLameDuck,
    /// Accept no more requests: a user waits at a terminal.
    AtOnce,
}

/// Why the server stopped.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The data directory cannot be used.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The collection `default` cannot be created.
    #[error("the collection \"default\" cannot be created with collection.profile and collection.k")]
    Default(#[source] ServiceError),
    /// The profiles of the user cannot be used.
    #[error("the profiles that profiles.file names cannot be used")]
    Profiles(#[from] ProfilesError),
    /// The file of keys cannot be read.
    #[error(transparent)]
    Keys(#[from] KeyError),
    /// The named file of keys does not exist.
    #[error(
        "keys.file names {}, which is not there: without it everyone would have access. Correct the path, \
         create a key (lookalike keys create --help), or leave keys.file out",
        .0.display()
    )]
    NoKeyFile(std::path::PathBuf),
    /// TLS cannot be used.
    #[error("TLS cannot be used")]
    Tls(#[from] http::TlsError),
    /// One of the two files of TLS is missing.
    #[error("tls.certificate and tls.key go together: name both files, or none")]
    HalfTls,
    /// There is no key, and other machines can reach the server.
    #[error(
        "there are no keys, and other machines can reach {listen}: create a key (lookalike keys create \
         --help), listen on 127.0.0.1, or give access to everyone who can reach it (server.open = true, \
         --open)"
    )]
    Unguarded {
        /// The address.
        listen: std::net::SocketAddr,
    },
    /// The server cannot be a replica.
    #[error("the server cannot be one of the replicas")]
    Replica(#[from] ReplicaError),
    /// The settings of the replicas cannot be used.
    #[error("{0}")]
    ReplicaSettings(String),
    /// The log was trimmed beyond the position of this server while it ran.
    #[error(
        "the shared log has been trimmed beyond the position of this server; start it again: it \
         begins with a snapshot"
    )]
    Outrun,
    /// Metrics cannot be recorded.
    #[error("metrics cannot be recorded")]
    Metrics(#[from] metrics_exporter_prometheus::BuildError),
    /// A task panicked.
    #[error("a task of the server failed; this is a fault of the server")]
    Panicked,
}

/// Serves until `shutdown` resolves, then stops in order.
///
/// # Errors
/// [`ServerError`] if it cannot start, or if accepting connections fails.
pub async fn run(
    settings: Settings,
    listener: TcpListener,
    shutdown: impl Future<Output = Stop> + Send,
) -> Result<(), ServerError> {
    let keys = keys(&settings)?;
    let tls = tls(&settings)?;
    let metrics = Metrics::install()?;
    let pool = CpuPool::new(pool_limits(&settings));
    let profiles = profiles::load(settings.profiles.file.as_deref())?;
    let surroundings = Surroundings { now_ms, new_id, profiles };
    let service = Arc::new(Service::new(pool.clone(), limits(&settings), surroundings));
    let draining = Arc::new(AtomicBool::new(false));
    let stop = Arc::new(Notify::new());

    let mut followers = tokio::task::JoinSet::new();
    followers.spawn(Arc::clone(&keys).follow_file(FILE_CHECKS));
    if let Some(tls) = tls.clone() {
        followers.spawn(tls.follow_files(FILE_CHECKS));
    }
    let limits = edge_limits(&settings);
    let scheme = if tls.is_some() { "https" } else { "http" };
    let address = listener.local_addr().map(|bound| format!("{scheme}://{bound}")).unwrap_or_default();
    let replicas = Arc::<OnceLock<Replicas>>::default();
    let serving = {
        let (draining, stop) = (Arc::clone(&draining), Arc::clone(&stop));
        let render = metrics.clone();
        let shared = http::Shared {
            service: Arc::clone(&service),
            render_metrics: Box::new(move || render.render()),
            series: http::Series::default(),
            is_draining: Box::new(move || draining.load(Ordering::SeqCst)),
            keys,
            accountant: Arc::new(accountant(&settings)),
            sites: http::Sites {
                hosts: settings.server.hosts.clone(),
                origins: settings.server.origins.clone(),
                is_encrypted: tls.is_some(),
            },
            has_console: settings.server.console,
            has_log: settings.shared_log.url.is_some(),
            replicas: Arc::clone(&replicas),
        };
        let stopped = async move { stop.notified().await }.boxed();
        tokio::spawn(http::serve(listener, shared, limits, tls, stopped))
    };
    let upkeep = tokio::spawn(fold_metrics(metrics));
    tokio::pin!(serving, shutdown);
    let engine = tokio::select! {
        engine = start(&settings, address.as_str(), pool, &service, &replicas) => engine?,
        // Nothing has been acknowledged yet, so there is nothing to finish.
        _ = &mut shutdown => return Ok(()),
    };
    let pages = if settings.server.console { "console" } else { "documentation" };
    let path = if settings.server.console { "/" } else { "/docs" };
    tracing::info!("ready, listening on {address} ({pages}: {address}{path})");
    let how = tokio::select! {
        how = &mut shutdown => how,
        () = replicas::run(&replicas) => {
            engine.close(drain(&settings)).await;
            return Err(ServerError::Outrun);
        }
        _ = &mut serving => {
            engine.close(drain(&settings)).await;
            return Err(ServerError::Panicked);
        }
    };
    tracing::info!("shutting down");
    draining.store(true, Ordering::SeqCst);
    if how == Stop::AfterLameDuck {
        tokio::time::sleep(Duration::from_secs(settings.server.lame_duck_seconds)).await;
    }
    let end = Instant::now() + drain(&settings);
    stop.notify_one();
    match serving.await {
        Ok(0) => {}
        Ok(cut) => {
            tracing::warn!(
                drain_seconds = limits.drain.as_secs(),
                cut,
                "some connections were still open and were cut"
            );
        }
        Err(error) => tracing::error!(%error, "the accept loop failed"),
    }
    engine.close(end.saturating_duration_since(Instant::now()).max(LEAST_CLOSE)).await;
    if let Some(replicas) = replicas.get() {
        let _ = tokio::time::timeout(LEAST_CLOSE, replicas.leave()).await;
    }
    upkeep.abort();
    tracing::info!("stopped");
    Ok(())
}

/// The maximum time from the signal to stop to the end of the process: the lame duck time, if it applies,
/// and the drain time. The process does not wait for anything slower, such as a disk that does not respond:
/// acknowledged writes do not depend on it.
pub fn longest_stop(settings: &Settings, how: Stop) -> Duration {
    let lame_duck = if how == Stop::AfterLameDuck { settings.server.lame_duck_seconds } else { 0 };
    Duration::from_secs(lame_duck) + drain(settings).max(2 * LEAST_CLOSE)
}

fn drain(settings: &Settings) -> Duration {
    Duration::from_secs(settings.server.drain_seconds)
}

/// Checks the settings as [`run`] does at a first start, without a listener and without the data. Later
/// starts find the collection `default` and ignore its settings.
///
/// # Errors
/// The first [`ServerError`] that would prevent the start.
pub fn check(settings: &Settings) -> Result<(), ServerError> {
    keys(settings)?;
    tls(settings)?;
    replicas::settings(settings, "")?;
    let profiles = profiles::load(settings.profiles.file.as_deref())?;
    let default = CollectionName::default_collection();
    Service::check_collection(profiles, default, &default_collection(settings)).map_err(ServerError::Default)
}

/// Reads the data and hands the engine to the service.
async fn start(
    settings: &Settings,
    address: &str,
    pool: CpuPool,
    service: &Service,
    replicas: &OnceLock<Replicas>,
) -> Result<Arc<Engine>, ServerError> {
    disable_huge_pages_if_small(settings);
    log_memory_budget(settings);
    if let Some(wanted) = replicas::settings(settings, address)? {
        let connected = Replicas::connect(wanted, &settings.data.dir).await?;
        let _ = replicas.set(connected);
    }
    let engine = match replicas.get() {
        None => open(settings, pool, service.starting(), None).await?,
        Some(replicas) => replicas::open(settings, pool, service.starting(), replicas).await?,
    };
    let default = CollectionName::default_collection().clone();
    // Created before the first request can see the engine, because the unprefixed routes use it.
    match engine.settings(&default) {
        Err(EngineError::NoCollection(_)) => {
            let created = service.make_collection(&engine, &default, default_collection(settings)).await;
            match (created, engine.settings(&default)) {
                // Also if another replica has created it in the same moment.
                (_, Ok(made)) => log_default(&made),
                (Err(error), _) => return Err(ServerError::Default(error)),
                (Ok(()), Err(error)) => return Err(ServerError::Default(error.into())),
            }
        }
        Err(error) => return Err(ServerError::Default(error.into())),
        Ok(_) => {}
    }
    service.start(Arc::clone(&engine));
    Ok(engine)
}

/// Opens the engine.
async fn open(
    settings: &Settings,
    pool: CpuPool,
    progress: &Arc<Progress>,
    membership: Option<Membership>,
) -> Result<Arc<Engine>, ServerError> {
    let (path, progress) = (settings.data.dir.clone(), Arc::clone(progress));
    let settings = engine_settings(settings);
    let open = move || Engine::open(&path, settings, pool, &progress, membership);
    let opening = tokio::task::spawn_blocking(open);
    Ok(Arc::new(opening.await.map_err(|_| ServerError::Panicked)??))
}

/// The settings of the collection `default` at the first start.
fn default_collection(settings: &Settings) -> WantedCollection {
    let own = &settings.collection;
    let settings = SettingsChange {
        k: own.k,
        keep_text: Some(own.keep_text),
        sketch_bytes: own.sketch_bytes,
        ..SettingsChange::default()
    };
    WantedCollection { profile: Some(own.profile.clone()), keep_thumbnail: None, settings }
}

/// Says what the collection `default`, which was just made, keeps of a document.
fn log_default(made: &CollectionSettings) {
    let texts = if made.keep_text { "their texts" } else { "no texts" };
    let sketches = match (made.signatures, made.sketch_bytes) {
        (Some(_), _) => "their signatures".to_owned(),
        (None, Some(bytes)) => format!("sketches of {bytes} bytes for min_similarity"),
        (None, None) => "no sketches".to_owned(),
    };
    tracing::info!(
        profile = made.profile,
        "the collection \"default\" was made: it keeps hashes, metadata, {sketches} and {texts} of its \
         documents; collection.keep_text and collection.sketch_bytes change that at the first start, PUT \
         /collections/default with keep_text for documents written later"
    );
}

/// Folds recorded samples into the histograms, which keep every sample until then. Without it, the memory
/// of a server that is not scraped would grow with every request.
async fn fold_metrics(metrics: Metrics) {
    let mut tick = tokio::time::interval(METRICS_UPKEEP);
    loop {
        tick.tick().await;
        metrics.keep();
    }
}

/// The keys in use.
///
/// # Errors
/// [`ServerError::Unguarded`] if there are none where they are required, [`ServerError::NoKeyFile`] if the
/// named file does not exist.
fn keys(settings: &Settings) -> Result<Arc<Keyring>, ServerError> {
    let keyring = Keyring::open(key_file(settings))?;
    if let (None, Some(named)) = (&*keyring.keys(), &settings.keys.file) {
        return Err(ServerError::NoKeyFile(named.clone()));
    }
    let listen = settings.server.listen;
    let is_exposed = !listen.ip().to_canonical().is_loopback();
    match (&*keyring.keys(), is_exposed) {
        (Some(keys), _) => tracing::info!(keys = keys.len(), "every request needs a key"),
        (None, true) if !settings.server.open => return Err(ServerError::Unguarded { listen }),
        (None, true) => {
            tracing::warn!(
                %listen,
                "there are no keys: everyone who can reach this address may read and change everything"
            );
        }
        (None, false) => {}
    }
    Ok(Arc::new(keyring))
}

/// The file of keys for these settings.
pub fn key_file(settings: &Settings) -> KeyFile {
    KeyFile::at(settings.keys.file.clone().unwrap_or_else(|| settings.data.dir.join(KEY_FILE)))
}

fn tls(settings: &Settings) -> Result<Option<http::Tls>, ServerError> {
    match (&settings.tls.certificate, &settings.tls.key) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => Ok(Some(http::Tls::open(certificate.clone(), key.clone())?)),
        _ => Err(ServerError::HalfTls),
    }
}

fn edge_limits(settings: &Settings) -> http::EdgeLimits {
    let server = &settings.server;
    http::EdgeLimits {
        connections: server.connections,
        connections_per_address: server.connections_per_address,
        header: Duration::from_secs(server.header_seconds),
        idle: Duration::from_secs(server.idle_seconds),
        body: Duration::from_secs(server.body_seconds),
        bytes_per_second: server.bytes_per_second,
        stall: Duration::from_secs(server.stall_seconds),
        // The rest is for the engine.
        drain: drain(settings) * 3 / 4,
    }
}

fn pool_limits(settings: &Settings) -> PoolLimits {
    let cores = available_parallelism().map_or(1, usize::from);
    let permits = if settings.pool.permits == 0 { cores } else { settings.pool.permits };
    PoolLimits { permits, queue: settings.pool.queue, wait: Duration::from_millis(settings.pool.wait_ms) }
}

fn limits(settings: &Settings) -> Limits {
    let limits = &settings.limits;
    Limits {
        document_bytes: limits.document_bytes,
        page_bytes: limits.page_bytes,
        batch_bytes: limits.batch_bytes,
        file_bytes: limits.file_bytes,
        image_pixels: limits.image_pixels,
        metadata_bytes: limits.metadata_bytes,
        default_matches: limits.default_matches,
        matches: limits.matches,
        batch_items: limits.batch_items,
        batch_documents: limits.batch_documents,
        query_time: Duration::from_millis(limits.query_ms),
        write_time: Duration::from_millis(limits.write_ms),
        deletion_time: Duration::from_secs(settings.server.deletion_seconds),
        slow_query: Duration::from_millis(settings.log.slow_query_ms),
    }
}

/// The settings of the engine.
pub fn engine_settings(settings: &Settings) -> EngineSettings {
    let budget = memory_budget(settings).map(|budget| budget.bytes);
    EngineSettings {
        checkpoints: CheckpointPolicy {
            every_changes: settings.snapshots.every_changes,
            every: Duration::from_secs(settings.snapshots.every_seconds),
            keep: settings.snapshots.keep,
        },
        queue_operations: settings.store.queue_operations,
        queue_bytes: settings.store.queue_bytes,
        store: StoreSettings {
            cache_bytes: settings.store.cache_bytes,
            journal_bytes: settings.store.journal_bytes,
            reserve_bytes: settings.store.reserve_bytes,
            verify: settings.store.verify,
        },
        new_store: uuid::Uuid::new_v4().as_u64_pair().0,
        wall_ms: now_ms,
        memory_budget: budget,
        posting_cache_bytes: settings.memory.posting_cache.unwrap_or_else(|| posting_cache_bytes(budget)),
        resident_bytes: machine::resident_bytes,
    }
}

/// The memory budget of the process, and its source.
struct MemoryBudget {
    bytes: u64,
    from: String,
}

/// The budget from the settings, or four fifths of the memory limit of the process.
fn memory_budget(settings: &Settings) -> Option<MemoryBudget> {
    match (settings.memory.budget, machine::memory_limit()) {
        (Some(bytes), _) => Some(MemoryBudget { bytes, from: "memory.budget".to_owned() }),
        (None, Some(limit)) => {
            let from = format!("80 % of {}", limit.from.display());
            Some(MemoryBudget { bytes: limit.bytes / 5 * 4, from })
        }
        (None, None) => None,
    }
}

/// The smallest budget with huge pages. They make lookups in a large index faster, but a small budget cannot
/// afford the memory that they waste.
const HUGE_PAGES_FROM: u64 = 1 << 30;

fn disable_huge_pages_if_small(settings: &Settings) {
    if memory_budget(settings).is_some_and(|budget| budget.bytes < HUGE_PAGES_FROM) {
        machine::disable_huge_pages();
    }
}

fn log_memory_budget(settings: &Settings) {
    let requests = request_bytes(settings);
    if let Some(MemoryBudget { bytes, from }) = memory_budget(settings) {
        tracing::info!(bytes, from, requests, "memory budget");
    } else {
        tracing::warn!("there is no memory budget: no memory limit was found, and memory.budget is not set");
    }
}

/// The bytes that all requests together may hold: by default a third of the budget. Documents are refused
/// above nine tenths of the budget, and the budget is four fifths of the limit, so the memory of requests
/// fits between these two.
fn request_bytes(settings: &Settings) -> usize {
    let usual = || memory_budget(settings).map_or(256 << 20, |budget| budget.bytes / 3);
    usize::try_from(settings.memory.requests.unwrap_or_else(usual)).unwrap_or(usize::MAX)
}

/// The accountant of the memory of requests, below the budget as its ceiling.
fn accountant(settings: &Settings) -> Accountant {
    let ceiling = |budget: MemoryBudget| Ceiling { bytes: budget.bytes, resident: machine::resident_bytes };
    Accountant::new(request_bytes(settings)).with_ceiling(memory_budget(settings).map(ceiling))
}

/// The bytes of the posting cache by default: a fiftieth of the budget.
fn posting_cache_bytes(budget: Option<u64>) -> u64 {
    budget.map_or(64 << 20, |budget| (budget / 50).clamp(16 << 20, 1 << 30))
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn new_id() -> DocumentId {
    DocumentId::new(&uuid::Uuid::now_v7().to_string()).expect("a UUID is an id")
}
