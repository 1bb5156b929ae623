//! Servers that share a log in memory, for the tests of this module.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use tempfile::TempDir;
use tokio::sync::watch;

use super::entry::Entry;
use super::hidden_tests::Begun;
use super::*;
use lookalike_engine::{
    Admission, CheckpointPolicy, CollectionChange, Condition, Document, DuplicateRule, Engine,
    EngineSettings, Listing, Membership, OpenError, Operation, Outcome, ProfileFacts, Progress, Row,
    SettingsChange, StoreSettings,
};
use lookalike_hash::{CollectionName, DocumentId, Hash, Mark, Width};
use lookalike_log::memory::{MemoryLog, unknown};
use lookalike_log::{self as log, Position};
use lookalike_run::pool::{CpuPool, PoolLimits};
use lookalike_store::{Store, wait_until_closed};

/// A log in memory that fails as one on a network does.
#[derive(Clone, Default)]
pub(super) struct TestLog {
    log: MemoryLog,
    /// Whether appends fail, and whether they succeed without an answer.
    pub(super) fails: Arc<AtomicBool>,
    pub(super) loses_answers: Arc<AtomicBool>,
    /// A server whose store fails before the next entry with work is in the log.
    pub(super) breaks: Arc<Mutex<Option<Arc<Engine>>>>,
    /// Whether no entry is read.
    pub(super) holds: watch::Sender<bool>,
}

impl TestLog {
    /// The same log for a server whose reading can be held alone.
    pub(super) fn of_one(&self) -> TestLog {
        TestLog { holds: watch::Sender::default(), ..self.clone() }
    }
}

impl Log for TestLog {
    fn append(&self, payload: Bytes, within: Duration) -> BoxFuture<'_, Result<Position, LogError>> {
        async move {
            if self.fails.load(Ordering::SeqCst) {
                return Err(LogError::Busy);
            }
            let has_work = Entry::from_bytes(&payload).unwrap().payload.has_work();
            if let Some(server) = self.breaks.lock().take_if(|_| has_work) {
                server.refuse_writes("a test asked for it");
            }
            let position = self.log.append(payload, within).await?;
            if self.loses_answers.load(Ordering::SeqCst) {
                return Err(unknown());
            }
            Ok(position)
        }
        .boxed()
    }

    fn tail(&self, after: Position) -> BoxStream<'static, Result<log::Entry, LogError>> {
        let holds = self.holds.subscribe();
        let free = move |entry| {
            let mut holds = holds.clone();
            async move {
                let _ = holds.wait_for(|holds| !holds).await;
                entry
            }
        };
        self.log.tail(after).then(free).boxed()
    }

    fn last(&self) -> BoxFuture<'_, Result<(Position, u64), LogError>> {
        self.log.last()
    }

    fn max_payload(&self) -> usize {
        self.log.max_payload()
    }
}

/// The settings of engines in tests.
pub(super) fn settings() -> EngineSettings {
    EngineSettings {
        checkpoints: CheckpointPolicy { every_changes: 1 << 40, every: Duration::from_hours(1), keep: 1 },
        queue_operations: 10_000,
        queue_bytes: 1 << 24,
        store: StoreSettings { cache_bytes: 1 << 20, reserve_bytes: 0, journal_bytes: 1 << 20, verify: true },
        new_store: 1,
        wall_ms: || 1_700_000_000_000,
        memory_budget: None,
        posting_cache_bytes: 1 << 20,
        resident_bytes: || None,
    }
}

pub(super) fn open(dir: &Path, log: &TestLog, origin: u128) -> Result<Engine, OpenError> {
    let server = format!("s{origin}");
    let order = Arc::new(LogOrder::new(Arc::new(log.clone()), origin));
    let membership = Membership { order, origin, server };
    Engine::open(dir, settings(), pool(), &Progress::default(), Some(membership))
}

pub(super) fn pool() -> CpuPool {
    CpuPool::new(PoolLimits { permits: 2, queue: 8, wait: Duration::from_secs(10) })
}

pub(super) fn name(number: u8) -> CollectionName {
    CollectionName::new(&format!("c{number}")).unwrap()
}

pub(super) fn id(number: u8) -> DocumentId {
    DocumentId::new(&format!("d{number}")).unwrap()
}

pub(super) fn change() -> CollectionChange {
    let facts = ProfileFacts {
        // The engine has no such profile; a `+` says that a user has defined it.
        id: "plain+1@1".into(),
        width: Width::Bits64,
        signatures: None,
        k: 3,
        sketch_bytes: Some(32),
        check: None,
    };
    CollectionChange { profile: None, default_profile: facts, settings: SettingsChange::default() }
}

pub(super) fn put(
    number: u8,
    hash: u64,
    expires_ms: Option<u64>,
    unless: Option<DuplicateRule>,
) -> Operation {
    let row = Row {
        hash: Hash::from_u64(hash),
        features: None,
        short: false,
        characters: None,
        place: 0,
        written_ms: 5,
        lifetime: expires_ms.into(),
        metadata: number.is_multiple_of(2).then(|| format!("{{\"n\":{number}}}")),
        grams: Vec::new(),
        text: None,
        sketch: None,
        thumbnail: None,
    };
    Operation::Put { document: Document { id: id(number), row }, unless, condition: Condition::None }
}

pub(super) fn delete(number: u8) -> Operation {
    Operation::Delete { id: id(number), condition: Condition::None }
}

pub(super) const SKIP: Option<DuplicateRule> =
    Some(DuplicateRule { k: 3, check: None, containment: None, replaces: false });

pub(super) async fn create(engine: &Engine, collection: u8) -> Result<bool, EngineError> {
    let name = name(collection);
    engine.put_collection(&name, change(), Condition::None, 7).await.map(|changed| changed.is_new)
}

pub(super) async fn write(
    engine: &Engine,
    collection: u8,
    work: Vec<Operation>,
) -> Result<Vec<Outcome>, EngineError> {
    engine.write(&name(collection), None, work, Admission::Wait).await?.await
}

/// Everything that users can see of the documents of a server, including places.
pub(super) async fn state(engine: &Engine) -> Vec<String> {
    let mut lines = Vec::new();
    for collection in engine.collections().unwrap() {
        lines.push(format!("{} {} {:?}", collection.name, collection.version, collection.settings));
        let opened = engine.find(&collection.name).unwrap();
        let page = engine.list(&opened, Listing::default()).await.unwrap();
        lines.extend(page.documents.iter().map(|document| format!("{document:?}")));
        let known = engine.find(&collection.name).unwrap();
        let marks = engine.marks(&known, None, 1_000, &lookalike_run::pool::Cancel::default()).unwrap();
        lines.push(format!("{:?}", marks.marks));
    }
    lines
}

pub(super) async fn reach(engine: &Engine, log: &TestLog) {
    let Position(end) = log.end().await.unwrap();
    engine.reach(end, Duration::from_mins(1)).await.unwrap();
}

pub(super) fn mark(a: u8, b: u8) -> Mark {
    Mark::pair(id(a), id(b)).unwrap_or(Mark::of(id(a)))
}

/// One of the servers, in its directory.
pub(super) struct Server {
    dir: TempDir,
    pub(super) engine: Arc<Engine>,
    pub(super) origin: u128,
    /// What it has begun and does not end.
    pub(super) begun: Mutex<Vec<Begun>>,
}

impl Server {
    pub(super) fn start(log: &TestLog, origin: &mut u128) -> Server {
        Server::start_in(TempDir::new().unwrap(), log, origin)
    }

    pub(super) fn start_in(dir: TempDir, log: &TestLog, origin: &mut u128) -> Server {
        *origin += 1;
        let engine = Arc::new(open(dir.path(), log, *origin).unwrap());
        Server { dir, engine, origin: *origin, begun: Mutex::default() }
    }

    /// Closes it. Returns its directory, and the number of collections that it has begun to fill or to
    /// remove.
    pub(super) async fn stop(self) -> (TempDir, usize) {
        let Server { dir, engine, begun, .. } = self;
        engine.close(Duration::from_secs(5)).await;
        drop((engine, begun));
        let path = dir.path().join("store");
        wait_until_closed(&path).unwrap();
        let store = Store::open(&path, settings().store, None).unwrap();
        let left = store.hidden().unwrap().len().max(store.garbage().unwrap().len());
        store.close();
        drop(store);
        wait_until_closed(&path).unwrap();
        (dir, left)
    }

    /// Closes it and opens it again, which compares the documents with their digests.
    pub(super) async fn restart(self, log: &TestLog, origin: &mut u128) -> Server {
        Server::start_in(self.stop().await.0, log, origin)
    }
}
