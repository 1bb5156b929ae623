//! The embedded engine: index, store and snapshots in this process.
//!
//! One writer thread (`writer`) logs, applies and acknowledges writes. A query reads the index and a view of
//! the store and does not wait for the writer. A snapshot thread (`checkpoint`) works concurrently with
//! both.
//!
//! # Locks
//! They are taken in this order, and none is held across an `.await`: a collection's `pending_removals` and
//! gate (`registry`), then the locks of `index`. A collection's settings and a shard of the posting cache
//! are locked last, for the time of one copy; a shard also while its oldest block is emptied.

mod backup;
mod budget;
mod checkpoint;
mod clock;
mod collections;
mod directory;
mod expiry;
mod gate;
mod inspect;
mod intake;
mod lookup;
mod planning;
mod posting_cache;
mod recent;
mod recovery;
mod registry;
mod repair;
mod restore;
mod shared;
mod writer;

use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::mpsc as sync_mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::sync::{Semaphore, mpsc, oneshot};

use super::{
    Admission, Answer, BucketSizes, Changed, CollectionChange, CollectionInfo, CollectionSettings, Condition,
    Document, Engine, EngineError, EngineStats, Health, Incoming, Judge, Memory, OpenError, Operation, Page,
    Pieces, Query, Receipt, RestoreRules, Restored, Snapshot,
};
use crate::ids::{CollectionName, DocumentId};
use crate::index::{GROUP, Progress, Subject};
use crate::pool::{Cancel, CpuPool, Patience, PoolError, driven};
use crate::snapshot;
use crate::store::Store;
pub use crate::store::{Loss, LostPart, StoreSettings, Verified};
use budget::Budget;
use checkpoint::{Checkpointer, Request, describe};
use clock::Clock;
pub use inspect::{Flaw, verify};
use intake::{WriteQueue, fits, has_profile};
use lookup::Costs;
use planning::{Checked, NEAREST};
use posting_cache::PostingCache;
use registry::Collection;
pub use repair::{RepairReport, RepairedCollection, repair};
use shared::Shared;
use writer::{Command, Write, Writer};

/// Queries with at most this estimated cost, in ns, are answered on the caller's thread, because handing
/// them to another thread costs more. The CPU pool answers the others.
const INLINE_COST: u64 = 20_000;
/// Maximum number of concurrent backups: each holds a view of the store and a thread.
const BACKUPS: usize = 2;

/// When snapshots are taken and how many are kept.
#[derive(Clone, Copy, Debug)]
pub struct CheckpointPolicy {
    /// After this number of changes.
    pub every_changes: u64,
    /// After this time, if there are changes.
    pub every: Duration,
    /// The number of retained snapshots, at least 1.
    pub keep: usize,
}

/// The settings of the engine.
#[derive(Clone, Copy, Debug)]
pub struct EmbeddedSettings {
    /// When snapshots are taken.
    pub checkpoints: CheckpointPolicy,
    /// Maximum number of queued operations.
    pub queue_operations: usize,
    /// Maximum bytes of queued documents.
    pub queue_bytes: usize,
    /// Settings of the store.
    pub store: StoreSettings,
    /// The identifying number for a new store. It should be unique.
    pub new_store: u64,
    /// The wall clock, in milliseconds since 1970-01-01 UTC. It is read once, when the engine opens.
    pub wall_ms: fn() -> u64,
    /// The memory budget in bytes. Documents are rejected when resident memory exceeds nine tenths of it.
    pub memory_budget: Option<u64>,
    /// The capacity of the posting cache in bytes; 0 disables it.
    pub posting_cache_bytes: u64,
    /// Measures resident memory in bytes. It is called up to ten times a second while documents are written.
    pub resident_bytes: fn() -> Option<u64>,
}

/// An engine on a data directory.
pub struct Embedded {
    shared: Arc<Shared>,
    pool: CpuPool,
    commands: mpsc::UnboundedSender<Command>,
    requests: sync_mpsc::Sender<Request>,
    queue: WriteQueue,
    /// Permits for backups; the next field has those for restores.
    backups: Arc<Semaphore>,
    restores: Arc<Semaphore>,
    incoming: PathBuf,
    /// The writer and the snapshot thread; `None` after they are joined.
    threads: Mutex<Option<(JoinHandle<()>, JoinHandle<()>)>>,
}

impl Embedded {
    /// Opens the data directory `path`, or creates it, and restores the index. Blocks until that is done.
    /// Expensive lookups will run on `pool`.
    ///
    /// # Errors
    /// [`OpenError`] if the directory cannot be used, or if its content is damaged or too new. Nothing in it
    /// is changed then.
    pub fn open(path: &Path, settings: EmbeddedSettings, pool: CpuPool) -> Result<Embedded, OpenError> {
        Embedded::open_telling(path, settings, pool, &Progress::default())
    }

    /// Same as [`Embedded::open`]; `progress` counts the restored hashes for other threads.
    ///
    /// # Errors
    /// As [`Embedded::open`].
    pub fn open_telling(
        path: &Path,
        settings: EmbeddedSettings,
        pool: CpuPool,
        progress: &Progress,
    ) -> Result<Embedded, OpenError> {
        let directory = directory::Directory::open(path)?;
        let new = directory.is_new.then_some(settings.new_store);
        let store = Store::open(&directory.store, settings.store, new);
        let store = store.map_err(|error| directory::open_error(path, error))?;
        directory.seal()?;
        restore::clear(&directory.incoming).map_err(|source| {
            let path = directory.incoming.clone();
            OpenError::Directory { path, action: "emptied", source }
        })?;
        let recovered = recovery::recover(&store, &directory.snapshots, progress)?;
        let garbage = store.garbage()?;
        let newest = recovered.snapshot.map(|file| file.from);
        let clock = Clock::start((settings.wall_ms)(), store.recorded_time()?);
        let budget = Budget::new(settings.memory_budget, settings.resident_bytes);
        let postings = PostingCache::new(settings.posting_cache_bytes);
        let (registry, last) = (recovered.registry, recovered.last);
        let shared = Shared::new(store, registry, directory.snapshots, clock, budget, postings, last);
        let shared = Arc::new(shared);
        let (commands, queue) = mpsc::unbounded_channel();
        let (requests, wanted) = sync_mpsc::channel();
        let writer = Writer::new(Arc::clone(&shared), queue, garbage);
        let checkpointer =
            Checkpointer::new(Arc::clone(&shared), wanted, commands.clone(), settings.checkpoints, newest);
        let threads = (
            start("lookalike-writer", {
                let shared = Arc::clone(&shared);
                move || {
                    if std::panic::catch_unwind(AssertUnwindSafe(|| writer.run())).is_err() {
                        tracing::error!(
                            "the writer panicked; no more writes are accepted until the server is restarted"
                        );
                        shared.set_read_only("the writer failed; this is a fault of the server".to_owned());
                    }
                }
            })?,
            start("lookalike-snapshots", move || checkpointer.run())?,
        );
        Ok(Embedded {
            shared,
            pool,
            commands,
            requests,
            queue: WriteQueue::new(settings.queue_operations, settings.queue_bytes),
            backups: Arc::new(Semaphore::new(BACKUPS)),
            restores: Arc::new(Semaphore::new(1)),
            incoming: directory.incoming,
            threads: Mutex::new(Some(threads)),
        })
    }

    /// Searches for near-duplicates outside the writer thread if that is expensive; see [`recent`].
    async fn check(&self, collection: &Arc<Collection>, operation: &Operation) -> Option<Checked> {
        let Operation::Put { document, unless_within: Some(k) } = operation else {
            return None;
        };
        if collection.index.cost(*k) <= INLINE_COST {
            return None;
        }
        let (collection, hash, k) = (Arc::clone(collection), document.row.hash, *k);
        let signature = collection.signature_of(&document.row).map(Arc::<[u8]>::from);
        let seen = self.shared.applied();
        let search = move |_: &Cancel| {
            let mut found = Vec::new();
            let subject = Subject { hash, signature: signature.as_deref() };
            collection.index.within(subject, k, &mut found);
            found.sort_unstable();
            Checked { seen, nearest: found.iter().map(|near| near.hash).take(NEAREST).collect() }
        };
        self.pool.run(Patience::Bulk, search).await.ok()
    }

    /// Runs `work`, which may block on the disk, outside the async workers.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Shared) -> Result<T, EngineError> + Send + 'static,
    ) -> Result<T, EngineError> {
        let shared = Arc::clone(&self.shared);
        let task = tokio::task::spawn_blocking(move || work(&shared));
        task.await.map_err(|_| EngineError::Pool(PoolError::Panicked))?
    }

    async fn command<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<Result<T, EngineError>>) -> Command,
    ) -> Result<T, EngineError> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(command(reply)).map_err(|_| EngineError::Closed)?;
        answer.await.map_err(|_| EngineError::Closed)?
    }
}

#[async_trait]
impl Engine for Embedded {
    async fn put_collection(
        &self,
        name: &CollectionName,
        change: CollectionChange,
        condition: Condition,
        now_ms: u64,
    ) -> Result<Changed, EngineError> {
        let (name, change) = (name.clone(), Box::new(change));
        self.command(|reply| Command::PutCollection { name, change, condition, now_ms, reply }).await
    }

    async fn delete_collection(
        &self,
        name: &CollectionName,
        condition: Condition,
    ) -> Result<bool, EngineError> {
        let name = name.clone();
        self.command(|reply| Command::DeleteCollection { name, condition, reply }).await
    }

    async fn collection(&self, name: &CollectionName) -> Result<CollectionInfo, EngineError> {
        self.shared.info(self.shared.registry.get(name)?.as_ref())
    }

    async fn collections(&self) -> Result<Vec<CollectionInfo>, EngineError> {
        self.shared.registry.all().iter().map(|collection| self.shared.info(collection)).collect()
    }

    async fn settings(&self, name: &CollectionName) -> Result<Arc<CollectionSettings>, EngineError> {
        Ok(self.shared.registry.get(name)?.settings())
    }

    async fn write(
        &self,
        collection: &CollectionName,
        profile: Option<&str>,
        operations: Vec<Operation>,
        admission: Admission,
    ) -> Result<Receipt, EngineError> {
        let collection = self.shared.registry.get(collection)?;
        if let Some(wanted) = profile {
            has_profile(&collection, wanted)?;
        }
        if let Some(reason) = self.shared.read_only() {
            return Err(EngineError::ReadOnly(reason));
        }
        self.shared.check_space()?;
        if operations.iter().any(|operation| matches!(operation, Operation::Put { .. })) {
            // A caller that waits for capacity sends bulk data.
            self.admit(admission == Admission::Wait)?;
        }
        let settings = collection.settings();
        operations.iter().try_for_each(|operation| fits(&collection.name, &settings, operation))?;
        // Before the write takes its share of the queue: waiting for the CPU pool must not block the queue
        // for others.
        let mut checks = Vec::with_capacity(operations.len());
        for operation in &operations {
            checks.push(self.check(&collection, operation).await);
        }
        let (reply, answer) = oneshot::channel();
        let (queue, commands) = (self.queue.clone(), self.commands.clone());
        let queued = driven(async move {
            let permits = queue.take(&operations, admission).await?;
            let operations = operations.into_iter().zip(checks).collect();
            let write = Write { collection, operations, reply, permits };
            commands.send(Command::Write(write)).map_err(|_| EngineError::Closed)
        });
        queued.await.unwrap_or(Err(EngineError::Closed))?;
        let shared = Arc::clone(&self.shared);
        Ok(Box::pin(async move {
            // On close, the writer drops writes that have not started. If it failed, the result of the write
            // is unknown.
            answer.await.map_err(|_| match shared.read_only() {
                Some(reason) => EngineError::Unknown(reason),
                None => EngineError::Closed,
            })?
        }))
    }

    async fn get(
        &self,
        collection: &CollectionName,
        id: &DocumentId,
    ) -> Result<Option<Document>, EngineError> {
        let collection = self.shared.registry.get(collection)?.id;
        let row = self.shared.store.view().row(collection, id)?;
        let row = row.filter(|row| !row.has_lapsed(self.now_ms()));
        Ok(row.map(|row| Document { id: id.clone(), row }))
    }

    async fn similar(&self, collection: &CollectionName, query: Query) -> Result<Answer, EngineError> {
        if let Some(answer) = self.similar_at_once(collection, &query)? {
            return Ok(answer);
        }
        let collection = self.shared.registry.get(collection)?;
        let shared = Arc::clone(&self.shared);
        let answer = move |cancel: &Cancel| lookup::similar(&shared, &collection, &query, cancel);
        self.pool.run(Patience::Interactive, answer).await?
    }

    async fn similar_judged(
        &self,
        collection: &CollectionName,
        query: Query,
        judge: Judge,
    ) -> Result<Answer, EngineError> {
        let collection = self.shared.registry.get(collection)?;
        let shared = Arc::clone(&self.shared);
        let answer =
            move |cancel: &Cancel| lookup::similar_judged(&shared, &collection, &query, judge, cancel);
        self.pool.run(Patience::Interactive, answer).await?
    }

    fn similar_at_once(
        &self,
        collection: &CollectionName,
        query: &Query,
    ) -> Result<Option<Answer>, EngineError> {
        self.shared.registry.with(collection, |collection| {
            if Costs::of(collection).query(query) > INLINE_COST {
                return Ok(None);
            }
            lookup::similar_at_once(&self.shared, collection, query)
        })
    }

    async fn similar_batch(
        &self,
        collection: &CollectionName,
        queries: Vec<Query>,
    ) -> Result<Vec<Answer>, EngineError> {
        let collection = self.shared.registry.get(collection)?;
        let is_expensive = Costs::of(&collection).queries(&queries) > INLINE_COST;
        if !is_expensive {
            let at_once = |(at, query): (usize, &Query)| {
                if at.is_multiple_of(GROUP) {
                    lookup::prefetch(&collection, &queries[at..queries.len().min(at + GROUP)]);
                }
                let answer = lookup::similar_at_once(&self.shared, &collection, query);
                answer.map_err(|error| error.of_question(at))
            };
            let answers = queries.iter().enumerate().map(at_once);
            if let Some(answers) = answers.collect::<Result<Option<Vec<Answer>>, _>>()? {
                return Ok(answers);
            }
        }
        let shared = Arc::clone(&self.shared);
        let answer = move |cancel: &Cancel| -> Result<Vec<Answer>, EngineError> {
            let mut answers = Vec::with_capacity(queries.len());
            lookup::answer_each(&shared, &collection, &queries, cancel, &mut |answer| answers.push(answer))?;
            Ok(answers)
        };
        self.pool.run(Patience::Interactive, answer).await?
    }

    fn similar_here(
        &self,
        collection: &CollectionName,
        queries: &[Query],
        most: u64,
        each: &mut dyn FnMut(Answer),
    ) -> Result<Option<u64>, EngineError> {
        let collection = self.shared.registry.get(collection)?;
        let expected = Costs::of(&collection).queries(queries);
        if expected > most {
            return Ok(None);
        }
        lookup::answer_each(&self.shared, &collection, queries, &Cancel::default(), each)?;
        Ok(Some(expected))
    }

    async fn export(
        &self,
        collection: &CollectionName,
        after: Option<DocumentId>,
        bytes: usize,
    ) -> Result<Page, EngineError> {
        let collection = self.shared.registry.get(collection)?.id;
        let shared = Arc::clone(&self.shared);
        let read = move |cancel: &Cancel| {
            let now_ms = shared.clock.now_ms();
            let view = shared.store.view();
            let (mut documents, mut held) = (Vec::new(), 0);
            for row in view.rows_after(collection, after.as_ref()) {
                cancel.check()?;
                let (id, row) = row?;
                if row.has_lapsed(now_ms) {
                    continue;
                }
                held += size_of::<Document>() + id.as_str().len() + row.held_bytes();
                documents.push(Document { id, row });
                if held >= bytes {
                    return Ok(Page { documents, is_last: false });
                }
            }
            Ok(Page { documents, is_last: true })
        };
        self.pool.run(Patience::Bulk, read).await?
    }

    async fn backup(&self, collection: &CollectionName, now_ms: u64) -> Result<Pieces, EngineError> {
        let collection = self.shared.registry.get(collection)?;
        let permit = Arc::clone(&self.backups).try_acquire_owned();
        let permit = permit.map_err(|_| EngineError::Busy("the capacity for backups"))?;
        Ok(backup::stream(Arc::clone(&self.shared), collection, now_ms, permit))
    }

    async fn restore(
        &self,
        name: &CollectionName,
        tar: Incoming,
        rules: Arc<dyn RestoreRules>,
    ) -> Result<Restored, EngineError> {
        // Before the upload: a client should not send a backup that would be rejected.
        if self.shared.registry.find(name).is_some() {
            return Err(EngineError::CollectionExists(name.clone()));
        }
        if let Some(reason) = self.shared.read_only() {
            return Err(EngineError::ReadOnly(reason));
        }
        self.admit(true)?;
        let permit = Arc::clone(&self.restores).try_acquire_owned();
        let permit = permit.map_err(|_| EngineError::Busy("the capacity for restores"))?;
        let spooled = restore::spool(&self.incoming, tar, &self.shared).await?;
        let (name, now_ms, writer) = (name.clone(), self.now_ms(), self.commands.clone());
        // A detached thread completes the restore even if the client disconnects.
        let task = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            restore::restore(&name, &spooled, &*rules, now_ms, &writer)
        });
        task.await.map_err(|_| EngineError::Pool(PoolError::Panicked))?
    }

    async fn bucket_sizes(&self, collection: &CollectionName) -> Result<BucketSizes, EngineError> {
        let collection = self.shared.registry.get(collection)?;
        let count = move |_: &Shared| {
            let mut sizes = BucketSizes::default();
            collection.index.bucket_sizes(&mut |len| {
                let class = (usize::BITS - len.leading_zeros()) as usize;
                if sizes.histogram.len() <= class {
                    sizes.histogram.resize(class + 1, 0);
                }
                sizes.histogram[class] += 1;
                sizes.largest = sizes.largest.max(len as u64);
            });
            Ok(sizes)
        };
        self.blocking(count).await
    }

    async fn snapshot(&self) -> Result<Snapshot, EngineError> {
        let (reply, answer) = oneshot::channel();
        self.requests.send(Request::Take(reply)).map_err(|_| EngineError::Closed)?;
        answer.await.map_err(|_| EngineError::Closed)?
    }

    async fn snapshots(&self) -> Result<Vec<Snapshot>, EngineError> {
        self.blocking(|shared| Ok(snapshot::list(&shared.snapshots)?.iter().map(describe).collect())).await
    }

    async fn stats(&self) -> Result<EngineStats, EngineError> {
        let queued = self.queue.len();
        let read = move |shared: &Shared| {
            let sequence = shared.applied();
            Ok(EngineStats {
                sequence,
                log_entries: sequence.0.saturating_sub(shared.store.trimmed()?.0),
                disk_bytes: shared.store.disk_bytes(),
                queued_operations: queued as u64,
                snapshot: snapshot::list(&shared.snapshots)?.first().map(describe),
            })
        };
        self.blocking(read).await
    }

    fn now_ms(&self) -> u64 {
        self.shared.clock.now_ms()
    }

    fn memory(&self) -> Memory {
        self.shared.budget.memory()
    }

    fn admit(&self, is_bulk: bool) -> Result<(), EngineError> {
        self.shared.budget.admit(is_bulk)
    }

    fn health(&self) -> Health {
        // A failure comes first: it requires a restart, and free disk space does not resolve it.
        if let Some(reason) = self.shared.read_only() {
            return Health::ReadOnly(reason);
        }
        let full = self.shared.check_space().err();
        full.map_or(Health::Ready, |error| Health::DiskFull(error.to_string()))
    }

    async fn close(&self, within: Duration) {
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some((writer, checkpointer)) = threads else {
            return;
        };
        // The snapshot gets half of the time, because memtables are flushed after it.
        let _ = self.shared.close_deadline.set(Instant::now() + within / 2);
        let _ = self.commands.send(Command::Close);
        let requests = self.requests.clone();
        let shared = Arc::clone(&self.shared);
        let join = move || {
            let _ = writer.join();
            let _ = requests.send(Request::Close);
            let _ = checkpointer.join();
            shared.store.close();
        };
        let _ = tokio::task::spawn_blocking(join).await;
    }
}

fn start(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, OpenError> {
    std::thread::Builder::new().name(name.into()).spawn(work).map_err(OpenError::Thread)
}
