//! The embedded engine: index, store and snapshots in this process.
//!
//! A write goes log → apply → acknowledge, through one writer thread (`writer`); a query reads the index
//! and a view of the store and waits for nobody; a snapshot thread (`checkpoint`) works beside both.
//!
//! # Locks
//! In this order, none held across an `.await`: a collection's gate (`registry`), then those of `index`.
//! A collection's record and a shard of the postings at hand are taken last, for the time of one copy; of a
//! shard also while its oldest block is emptied.

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

/// Queries that are expected to take no more than this, in nanoseconds or so, are answered where they are asked: less
/// than it takes to hand them to another thread. Others go to the pool.
const INLINE_COST: u64 = 20_000;
/// Backups under way at a time: each holds a view of the store and a thread.
const BACKUPS: usize = 2;

/// When snapshots are taken and how many are kept.
#[derive(Clone, Copy, Debug)]
pub struct CheckpointPolicy {
    /// After so many changes.
    pub every_changes: u64,
    /// After so long, if there were any.
    pub every: Duration,
    /// How many are kept, at least 1.
    pub keep: usize,
}

/// How the engine is to work.
#[derive(Clone, Copy, Debug)]
pub struct EmbeddedSettings {
    /// When snapshots are taken.
    pub checkpoints: CheckpointPolicy,
    /// Operations that may wait to be written.
    pub queue_operations: usize,
    /// Bytes of documents that may wait to be written.
    pub queue_bytes: usize,
    /// How the store works.
    pub store: StoreSettings,
    /// The number of the store if one has to be made: no other store should have it.
    pub new_store: u64,
    /// The wall clock, in milliseconds since 1970-01-01 UTC. It is asked once, at the start.
    pub wall_ms: fn() -> u64,
    /// Bytes of resident memory above nine tenths of which no document is inserted.
    pub memory_budget: Option<u64>,
    /// Bytes of memory for who bears the hashes that were stored or found lately; 0 for none.
    pub posting_cache_bytes: u64,
    /// The bytes of resident memory; it is asked up to ten times a second while documents are written.
    pub resident_bytes: fn() -> Option<u64>,
}

/// The engine in a data directory.
pub struct Embedded {
    shared: Arc<Shared>,
    pool: CpuPool,
    commands: mpsc::UnboundedSender<Command>,
    requests: sync_mpsc::Sender<Request>,
    queue: WriteQueue,
    /// Backups and restores under way.
    backups: Arc<Semaphore>,
    restores: Arc<Semaphore>,
    incoming: PathBuf,
    /// Writer and snapshot thread, until they are joined.
    threads: Mutex<Option<(JoinHandle<()>, JoinHandle<()>)>>,
}

impl Embedded {
    /// Opens the data directory `path`, or makes one, and brings the index to its state. Blocks for as
    /// long as that takes; expensive lookups will run on `pool`.
    ///
    /// # Errors
    /// [`OpenError`] if the directory cannot be used or what it holds is damaged or too new. Nothing in it
    /// has been changed then.
    pub fn open(path: &Path, settings: EmbeddedSettings, pool: CpuPool) -> Result<Embedded, OpenError> {
        Embedded::open_telling(path, settings, pool, &Progress::default())
    }

    /// The same, counting the hashes of the index on the way, for others to see how far it has come.
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
        let store = store.map_err(|error| directory::unopened(path, error))?;
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
                            "the writer panicked; no more writes are taken until the server is restarted"
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

    /// Looks for near-duplicates beside the writer where that takes long; see [`recent`].
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
        let look = move |_: &Cancel| {
            let mut found = Vec::new();
            let subject = Subject { hash, signature: signature.as_deref() };
            collection.index.within(subject, k, &mut found);
            found.sort_unstable();
            Checked { seen, nearest: found.iter().map(|near| near.hash).take(NEAREST).collect() }
        };
        self.pool.run(Patience::Bulk, look).await.ok()
    }

    /// Runs `work`, which may wait for the disk, off the async workers.
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
        self.shared.check_room()?;
        if operations.iter().any(|operation| matches!(operation, Operation::Put { .. })) {
            // Who waits for room brings more than one request's worth.
            self.admit(admission == Admission::Wait)?;
        }
        let settings = collection.settings();
        operations.iter().try_for_each(|operation| fits(&collection.name, &settings, operation))?;
        // Before there is room: who waits for a processor must not keep others from the queue.
        let mut checks = Vec::with_capacity(operations.len());
        for operation in &operations {
            checks.push(self.check(&collection, operation).await);
        }
        let (reply, answer) = oneshot::channel();
        let (queue, commands) = (self.queue.clone(), self.commands.clone());
        let queued = driven(async move {
            let room = queue.take(&operations, admission).await?;
            let operations = operations.into_iter().zip(checks).collect();
            let write = Write { collection, operations, reply, room };
            commands.send(Command::Write(write)).map_err(|_| EngineError::Closed)
        });
        queued.await.unwrap_or(Err(EngineError::Closed))?;
        let shared = Arc::clone(&self.shared);
        Ok(Box::pin(async move {
            // The writer drops what it has not begun when it closes; if it failed, nobody knows what it did.
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
        self.shared.registry.look(collection, |collection| {
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
        let dear = Costs::of(&collection).queries(&queries) > INLINE_COST;
        if !dear {
            let at_once = |(at, query): (usize, &Query)| {
                if at.is_multiple_of(GROUP) {
                    lookup::approach(&collection, &queries[at..queries.len().min(at + GROUP)]);
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
        let permit = permit.map_err(|_| EngineError::Busy("the room for backups under way"))?;
        Ok(backup::stream(Arc::clone(&self.shared), collection, now_ms, permit))
    }

    async fn restore(
        &self,
        name: &CollectionName,
        tar: Incoming,
        rules: Arc<dyn RestoreRules>,
    ) -> Result<Restored, EngineError> {
        // Before the upload: who cannot succeed should not have to send it.
        if self.shared.registry.find(name).is_some() {
            return Err(EngineError::CollectionExists(name.clone()));
        }
        if let Some(reason) = self.shared.read_only() {
            return Err(EngineError::ReadOnly(reason));
        }
        self.admit(true)?;
        let permit = Arc::clone(&self.restores).try_acquire_owned();
        let permit = permit.map_err(|_| EngineError::Busy("the room for restores under way"))?;
        let spooled = restore::spool(&self.incoming, tar, &self.shared).await?;
        let (name, now_ms, writer) = (name.clone(), self.now_ms(), self.commands.clone());
        // A client that goes away now does not undo it: a thread of its own brings it to its end.
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
        // A failure comes first: it needs a restart, and room on the disk does not help.
        if let Some(reason) = self.shared.read_only() {
            return Health::ReadOnly(reason);
        }
        let full = self.shared.check_room().err();
        full.map_or(Health::Ready, |error| Health::DiskFull(error.to_string()))
    }

    async fn close(&self, within: Duration) {
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some((writer, checkpointer)) = threads else {
            return;
        };
        // A snapshot gets half of the time: memory has to be written out after it.
        let _ = self.shared.closes.set(Instant::now() + within / 2);
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
