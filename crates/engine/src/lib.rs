//! The engine stores documents and answers which of them are near-duplicates: index, store and snapshots.
//!
//! One writer thread (`writer`) logs, applies and acknowledges writes. A query reads the index and a view of
//! the store and does not wait for the writer. A snapshot thread (`checkpoint`) works concurrently with
//! both.
//!
//! *Invariants*
//! - 4: an operation is acknowledged (its [`Receipt`] resolves) after it is durable, and no query shows it
//!   before. A query that begins after an acknowledgement shows the acknowledged operations.
//! - The operations of one [`Engine::write`] are applied in order. Writes are applied in the order in which
//!   the calls returned their receipts.
//! - `unless` is decided in that order too: of any number of near-duplicates submitted at the same
//!   time, the first is stored and the others are reported as duplicates of it, for every k.
//! - An expired document ([`Row::lifetime`]) is in no answer and does not prevent another document from
//!   being stored, whether it is still on the disk or not.
//!
//! *Absent*: the conversion of texts into hashes, HTTP, status codes, and any wall clock other than the one
//! that is passed in.
//!
//! # Locks
//! They are taken in this order, and none is held across an `.await`: a collection's `pending_removals` and
//! gate (`registry`), then the locks of `hamming`. A shard of the posting cache is locked last, for the time
//! of one copy, or while its oldest block is emptied.

#![deny(unreachable_pub)]

mod backup;
mod boilerplate;
mod budget;
mod change;
mod checkpoint;
mod cluster_queries;
mod cluster_work;
mod clustering;
mod collections;
mod command;
mod commit;
mod condition;
mod directory;
mod error;
mod expiry;
mod filler;
mod filter;
mod gate;
mod hidden;
mod inspect;
mod intake;
mod listing;
mod lists;
mod lookup;
mod marks;
mod most_shared;
mod near_duplicates;
mod nearest;
mod page;
mod pairs;
mod passages;
mod planning;
mod posting_cache;
mod recent;
mod recovery;
mod registry;
mod reindex;
mod relations;
mod repair;
mod replica;
mod restore;
mod shared;
#[cfg(feature = "simulation")]
pub mod simulation;
mod traffic;
mod types;
mod writer;

use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::mpsc as sync_mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use boilerplate::BOILERPLATE;
pub use boilerplate::{Boilerplate, Sources};
use budget::MemoryBudget;
pub use change::{Changed, CollectionChange, ProfileFacts, SettingsChange};
use checkpoint::{Checkpointer, Request, describe};
pub use cluster_queries::{
    ClusterMembers, ClusterOrder, ClusterPage, ClusterQuery, FoundCluster, Member, Placement, Represented,
};
pub use command::{Callers, Payload};
use command::{Command, Done};
pub use condition::{Condition, Version};
pub use error::{EngineError, OpenError};
use expiry::Clock;
pub use filter::{Bound, FieldCondition, Filter, Relation};
pub use inspect::{Flaw, verify};
use intake::WriteQueue;
use lookalike_hamming::snapshot;
pub use lookalike_hamming::{Plan, Progress};
use lookalike_hash::{CollectionId, CollectionName, Sequence};
use lookalike_run::pool::{CpuPool, PoolError};
use lookalike_store::Store;
pub use lookalike_store::backup::{BackupError, Manifest};
pub use lookalike_store::{
    ClusterPlace, CollectionSettings, Digest, Lifetime, Loss, LostPart, Rank, Row, StoreSettings, Verified,
    Weights, made_by,
};
pub use lookup::WorkBudget;
pub use near_duplicates::MAX_REPLACED;
pub use pairs::{DocumentPair, Pairs};
pub use passages::{by_letters, fewest_grams, ranges, rank};
use posting_cache::PostingCache;
pub use registry::{Collection, reach};
pub use reindex::{Followed, Reindex};
pub use relations::Outline;
pub use repair::{RepairReport, RepairedCollection, repair};
pub use replica::{
    JoinError, Membership, Order, Part, StateDigest, Submission, Submitted, Turn, Turns, remove_data,
    replace_data,
};
use shared::Shared;
pub use traffic::{NEAR, Traffic};
pub use types::*;
use writer::{Message, Writer};

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
pub struct EngineSettings {
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
pub struct Engine {
    shared: Arc<Shared>,
    pool: CpuPool,
    /// Messages to the writer, or on a replica to the order.
    commands: mpsc::UnboundedSender<Message>,
    requests: sync_mpsc::Sender<Request>,
    queue: WriteQueue,
    /// Permits for backups; the next fields have those for restores and reindexes.
    backups: Arc<Semaphore>,
    restores: Arc<Semaphore>,
    reindexes: Arc<Semaphore>,
    /// Permits for lists of pairs.
    pairs: Arc<Semaphore>,
    incoming: PathBuf,
    /// The order and the identity of a replica; `None` for a single server.
    membership: Option<Membership>,
    /// `None` after they are joined.
    threads: Mutex<Option<Threads>>,
}

/// What an engine begins with, before it has threads.
struct Parts {
    shared: Arc<Shared>,
    writer: Writer,
    /// Messages to the writer.
    commands: mpsc::UnboundedSender<Message>,
    /// The change up to which the newest snapshot goes.
    newest: Option<Sequence>,
    incoming: PathBuf,
}

impl Parts {
    fn load(
        path: &Path,
        settings: EngineSettings,
        progress: &Progress,
        membership: Option<&Membership>,
    ) -> Result<Parts, OpenError> {
        let directory = directory::Directory::open(path)?;
        let new = directory.is_new.then_some(settings.new_store);
        let store = Store::open(&directory.store, settings.store, new);
        let store = store.map_err(|error| directory::open_error(path, error))?;
        directory.seal()?;
        restore::clear(&directory.incoming).map_err(|source| {
            let path = directory.incoming.clone();
            OpenError::Directory { path, action: "emptied", source }
        })?;
        let replica = replica::check(path, &store, membership, settings.store.verify)?;
        let recovered = recovery::recover(&store, &directory.snapshots, progress)?;
        let is_hidden = |id: &CollectionId| recovered.hidden.iter().any(|one| one.record.record.id == *id);
        let garbage = store.garbage()?.into_iter().filter(|id| !is_hidden(id)).collect();
        let newest = recovered.snapshot.map(|file| file.from);
        let clock = Clock::start((settings.wall_ms)(), store.recorded_time()?);
        let budget = MemoryBudget::new(settings.memory_budget, settings.resident_bytes);
        let postings = PostingCache::new(settings.posting_cache_bytes);
        let (registry, last) = (recovered.registry, recovered.last);
        let shared = Shared::new(store, registry, directory.snapshots, clock, budget, postings, last);
        recovered.hidden.into_iter().for_each(|hidden| shared.hidden.add(hidden));
        let shared = Arc::new(shared);
        let (commands, queue) = mpsc::unbounded_channel();
        if let Some(replica) = &replica {
            let (position, time_ms) = replica.position();
            shared.visible.store(position, Ordering::SeqCst);
            shared.position.send_replace((position, time_ms));
        }
        let writer = Writer::new(Arc::clone(&shared), queue, garbage, replica, commands.downgrade());
        Ok(Parts { shared, writer, commands, newest, incoming: directory.incoming })
    }
}

/// The writer, the snapshot thread, and the task of the order.
type Threads = (JoinHandle<()>, JoinHandle<()>, Option<tokio::task::JoinHandle<()>>);

impl Engine {
    /// Opens the data directory `path`, or creates it, and restores the index. Blocks until that is done;
    /// `progress` counts the restored hashes for other threads. Expensive work will run on `pool`. With a
    /// `membership` it is a replica, and the caller must be in a runtime.
    ///
    /// # Errors
    /// [`OpenError`] if the directory cannot be used, or if its content is damaged or too new. Nothing in it
    /// is changed then.
    pub fn open(
        path: &Path,
        settings: EngineSettings,
        pool: CpuPool,
        progress: &Progress,
        membership: Option<Membership>,
    ) -> Result<Engine, OpenError> {
        let Parts { shared, writer, commands, newest, incoming } =
            Parts::load(path, settings, progress, membership.as_ref())?;
        let (requests, wanted) = sync_mpsc::channel();
        let checkpointer =
            Checkpointer::new(Arc::clone(&shared), wanted, commands.clone(), settings.checkpoints, newest);
        let writer_thread = start("lookalike-writer", {
            let shared = Arc::clone(&shared);
            move || {
                if std::panic::catch_unwind(AssertUnwindSafe(|| writer.run())).is_err() {
                    tracing::error!(
                        "the writer panicked; no more writes are accepted until the server is restarted"
                    );
                    shared.set_read_only("the writer failed; this is a fault of the server".to_owned());
                }
            }
        })?;
        let snapshots = start("lookalike-snapshots", move || checkpointer.run())?;
        let (commands, order) = match &membership {
            None => (commands, None),
            Some(membership) => {
                let (submit, order) = membership.start(&shared, commands);
                (submit, Some(order))
            }
        };
        Ok(Engine {
            shared,
            pool,
            commands,
            requests,
            queue: WriteQueue::new(settings.queue_operations, settings.queue_bytes),
            backups: Arc::new(Semaphore::new(BACKUPS)),
            restores: Arc::new(Semaphore::new(1)),
            reindexes: Arc::new(Semaphore::new(1)),
            pairs: Arc::new(Semaphore::new(pairs::LISTS)),
            incoming,
            membership,
            threads: Mutex::new(Some((writer_thread, snapshots, order))),
        })
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

    async fn command(&self, command: Command) -> Result<Done, EngineError> {
        command.send(&self.commands, Vec::new()).await
    }
}

impl Engine {
    /// Creates a collection, or changes the settings of the existing one. Changes are applied one at a time,
    /// each to the result of the previous one; the condition is checked in the same step.
    ///
    /// # Errors
    /// [`EngineError::Condition`] if the condition does not hold, and the errors of
    /// [`CollectionChange::merge`].
    pub async fn put_collection(
        &self,
        name: &CollectionName,
        change: CollectionChange,
        condition: Condition,
        now_ms: u64,
    ) -> Result<Changed, EngineError> {
        let (name, change) = (name.clone(), Box::new(change));
        match self.command(Command::PutCollection { name, change, condition, now_ms }).await? {
            Done::Collection(changed) => Ok(*changed),
            _ => unreachable!("it is what the command does"),
        }
    }

    /// Deletes a collection with all its documents. Returns whether it existed.
    ///
    /// # Errors
    /// [`EngineError::Condition`] if the collection exists and the condition does not hold.
    pub async fn delete_collection(
        &self,
        name: &CollectionName,
        condition: Condition,
    ) -> Result<bool, EngineError> {
        let name = name.clone();
        let done = self.command(Command::DeleteCollection { name, condition }).await?;
        Ok(matches!(done, Done::Count(1)))
    }

    /// Returns the state of a collection.
    pub fn collection(&self, name: &CollectionName) -> Result<CollectionInfo, EngineError> {
        self.shared.info(self.shared.registry.get(name)?.as_ref())
    }

    /// All collections in the order of their names.
    pub fn collections(&self) -> Result<Vec<CollectionInfo>, EngineError> {
        self.shared.registry.all().iter().map(|collection| self.shared.info(collection)).collect()
    }

    /// Streams a backup: a view of the collection that concurrent writes do not affect. `now_ms` is
    /// recorded in the backup as its time.
    pub fn backup(&self, collection: &CollectionName, now_ms: u64) -> Result<Pieces, EngineError> {
        let collection = self.shared.registry.get(collection)?;
        let permit = permit(&self.backups, "the capacity for backups")?;
        Ok(backup::stream(Arc::clone(&self.shared), collection, now_ms, permit))
    }

    /// Returns the sizes of a collection's buckets.
    pub async fn bucket_sizes(&self, collection: &CollectionName) -> Result<BucketSizes, EngineError> {
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

    /// Takes a snapshot now.
    pub async fn snapshot(&self) -> Result<Snapshot, EngineError> {
        let (reply, answer) = oneshot::channel();
        self.requests.send(Request::Take(reply)).map_err(|_| EngineError::Closed)?;
        answer.await.map_err(|_| EngineError::Closed)?
    }

    /// Returns the retained snapshots, newest first.
    pub async fn snapshots(&self) -> Result<Vec<Snapshot>, EngineError> {
        self.blocking(|shared| Ok(snapshot::list(&shared.snapshots)?.iter().map(describe).collect())).await
    }

    /// Returns the statistics.
    pub async fn stats(&self) -> Result<EngineStats, EngineError> {
        let queued = self.queue.len();
        let read = move |shared: &Shared| {
            let sequence = shared.applied();
            Ok(EngineStats {
                sequence,
                history_changes: sequence.0.saturating_sub(shared.store.trimmed()?.0),
                disk_bytes: shared.store.disk_bytes(),
                queued_operations: queued as u64,
                snapshot: snapshot::list(&shared.snapshots)?.first().map(describe),
            })
        };
        self.blocking(read).await
    }

    /// Whether the engine is operational.
    pub fn health(&self) -> Health {
        // A failure comes first: it requires a restart, and free disk space does not resolve it.
        if let Some(reason) = self.shared.read_only() {
            return Health::ReadOnly(reason);
        }
        let full = self.shared.check_space().err();
        full.map_or(Health::Ready, |error| Health::DiskFull(error.to_string()))
    }

    /// Finishes the queued writes, takes a last snapshot and closes. Later writes are rejected. Optional
    /// work is cancelled so that `close` ends within this time; the queued writes, or a disk that does not
    /// respond, may take longer.
    pub async fn close(&self, within: Duration) {
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some((writer, checkpointer, order)) = threads else {
            return;
        };
        // The snapshot gets half of the time, because memtables are flushed after it.
        let _ = self.shared.close_deadline.set(Instant::now() + within / 2);
        let _ = self.commands.send(Message::Close);
        let requests = self.requests.clone();
        let shared = Arc::clone(&self.shared);
        let join = move || {
            let _ = writer.join();
            let _ = requests.send(Request::Close);
            let _ = checkpointer.join();
            shared.store.close();
        };
        let _ = tokio::task::spawn_blocking(join).await;
        if let Some(order) = order {
            let _ = order.await;
        }
    }
}

/// A permit, if there is one.
fn permit(of: &Arc<Semaphore>, capacity: &'static str) -> Result<OwnedSemaphorePermit, EngineError> {
    Arc::clone(of).try_acquire_owned().map_err(|_| EngineError::Busy(capacity))
}

fn start(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, OpenError> {
    std::thread::Builder::new().name(name.into()).spawn(work).map_err(OpenError::Thread)
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
