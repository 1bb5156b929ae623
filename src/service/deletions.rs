//! Deletion of many documents: those with given ids at once, those that a filter admits as a job.
//!
//! The job reads pages of documents and deletes each that is still in the version that the filter admitted,
//! so a document that changes in the meantime stays. A collection has one job at a time. Its result is kept
//! in memory until the next one or the end of the process. A job that the process does not survive has
//! deleted a part of the documents; the same request deletes the others.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use dashmap::DashMap;
use tokio::sync::Notify;

use super::Service;
use super::error::ServiceError;
use crate::call::{self, Call};
use crate::engine::{Admission, Condition, EngineError, Filter, Listing, Operation, Outcome, Page, Version};
use crate::ids::{CollectionName, DocumentId};
use crate::pool::{Cancel, Patience};

/// Documents in one write.
const PART: usize = 500;
/// Bytes of documents in one write. A document that reaches them is the last one.
const PART_BYTES: usize = 4 << 20;
/// The time after which a page of documents ends, so that progress is reported and a job can be ended.
const PAGE_TIME: Duration = Duration::from_millis(500);
/// How often, and after which pause, a write is tried that a reindex holds up.
const ATTEMPTS: usize = 600;
const PAUSE: Duration = Duration::from_secs(1);
/// Maximum number of jobs that are remembered. The oldest are removed first.
const MAX_JOBS: usize = 256;

/// The state of a deletion.
#[derive(Clone, Debug)]
pub struct Deletion {
    /// When it was requested, in milliseconds since 1970-01-01 UTC.
    pub started_ms: u64,
    /// When it ended, in milliseconds since 1970-01-01 UTC.
    pub ended_ms: Option<u64>,
    /// Whether it only counts.
    pub is_dry_run: bool,
    /// The number of documents that were read, of about this many.
    pub examined: (u64, u64),
    /// The number of documents that the filter admits, or with the given ids.
    pub matched: u64,
    /// The number of documents that were deleted.
    pub deleted: u64,
    /// Why it ended early.
    pub error: Option<Arc<ServiceError>>,
}

/// The deletions of a process.
#[derive(Default)]
pub(super) struct Deletions(DashMap<CollectionName, Arc<Job>>);

struct Job {
    /// When the collection was created. It distinguishes the collection from a later one of the same name.
    collection_created_ms: u64,
    started_ms: u64,
    is_dry_run: bool,
    to_examine: u64,
    examined: AtomicU64,
    matched: AtomicU64,
    deleted: AtomicU64,
    is_ended: AtomicBool,
    end: OnceLock<(u64, Option<Arc<ServiceError>>)>,
    has_ended: Notify,
}

impl Job {
    fn status(&self) -> Deletion {
        let end = self.end.get();
        let number = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Deletion {
            started_ms: self.started_ms,
            ended_ms: end.map(|end| end.0),
            is_dry_run: self.is_dry_run,
            examined: (number(&self.examined), self.to_examine.max(number(&self.examined))),
            matched: number(&self.matched),
            deleted: number(&self.deleted),
            error: end.and_then(|end| end.1.clone()),
        }
    }
}

impl Service {
    /// Deletes the documents with these ids, or counts them. Ids without a document are not counted.
    ///
    /// # Errors
    /// [`ServiceError::Invalid`] if there are too many ids, and the errors of a write.
    pub async fn delete_ids(
        &self,
        collection: &CollectionName,
        ids: Vec<DocumentId>,
        is_dry_run: bool,
    ) -> Result<Deletion, ServiceError> {
        let (started_ms, count, most) = (self.now_ms(), ids.len(), self.limits.batch_items);
        if count > most {
            let detail = format!(
                "there are {count} ids; at most {most} are accepted in one request (limits.batch_items)"
            );
            return Err(ServiceError::invalid("ids", detail));
        }
        let engine = self.engine()?;
        let found = if is_dry_run {
            let (engine, collection) = (Arc::clone(engine), engine.find(collection)?);
            let count = move |_: &Cancel| engine.count(&collection, &ids);
            self.pool.run(Patience::Interactive, count).await??
        } else {
            let written_to = engine.find(collection)?;
            let delete = |id| Operation::Delete { id, condition: Condition::None };
            let operations = ids.into_iter().map(delete).collect();
            let outcomes = engine.write(collection, None, operations, Admission::Shed).await?.await?;
            let deleted = outcomes.iter().filter(|outcome| **outcome == Outcome::Deleted).count() as u64;
            written_to.traffic.wrote(deleted);
            deleted
        };
        Ok(Deletion {
            started_ms,
            ended_ms: Some(self.now_ms()),
            is_dry_run,
            examined: (count as u64, count as u64),
            matched: found,
            deleted: if is_dry_run { 0 } else { found },
            error: None,
        })
    }

    /// Starts to delete, or to count, the documents that a filter admits, and waits at most `wait` for the
    /// end.
    ///
    /// # Errors
    /// [`ServiceError::Deleting`] if a job of this collection is running, [`ServiceError::Invalid`] if the
    /// filter admits every document.
    pub async fn delete_matching(
        self: &Arc<Self>,
        collection: &CollectionName,
        filter: Box<Filter>,
        is_dry_run: bool,
        wait: Duration,
    ) -> Result<Deletion, ServiceError> {
        if *filter == Filter::default() {
            let detail = format!(
                "the filter has no condition, and every document would be deleted; add one, such as \
                 \"written_before\", or delete the collection with DELETE /collections/{collection}"
            );
            return Err(ServiceError::invalid("filter", detail));
        }
        self.check_filter(Some(&filter))?;
        let info = self.engine()?.collection(collection)?;
        let job = Arc::new(Job {
            collection_created_ms: info.created_ms,
            started_ms: self.now_ms(),
            is_dry_run,
            to_examine: info.documents,
            examined: AtomicU64::new(0),
            matched: AtomicU64::new(0),
            deleted: AtomicU64::new(0),
            is_ended: AtomicBool::new(false),
            end: OnceLock::new(),
            has_ended: Notify::new(),
        });
        self.deletions.remember(collection, &job)?;
        let running = Arc::clone(self).run_deletion(collection.clone(), filter, Arc::clone(&job));
        // The job is charged to the client.
        tokio::spawn(call::for_call(Call::current(), running));
        let _ = tokio::time::timeout(wait, job.has_ended.notified()).await;
        Ok(job.status())
    }

    /// The state of the last deletion of a collection by a filter.
    ///
    /// # Errors
    /// [`ServiceError::NoDeletion`] if there is none since the process started.
    pub fn deletion(&self, collection: &CollectionName) -> Result<Deletion, ServiceError> {
        self.deletion_job(collection).map(|job| job.status())
    }

    /// Ends the deletion of a collection if it is running, and forgets it.
    ///
    /// # Errors
    /// [`ServiceError::NoDeletion`] if there is none since the process started.
    pub fn forget_deletion(&self, collection: &CollectionName) -> Result<(), ServiceError> {
        let job = self.deletion_job(collection)?;
        job.is_ended.store(true, Ordering::Relaxed);
        self.deletions.0.remove_if(collection, |_, found| Arc::ptr_eq(found, &job));
        Ok(())
    }

    fn deletion_job(&self, collection: &CollectionName) -> Result<Arc<Job>, ServiceError> {
        let info = self.engine()?.collection(collection)?;
        let job = self.deletions.0.get(collection).map(|job| Arc::clone(&job));
        let job = job.filter(|job| job.collection_created_ms == info.created_ms);
        job.ok_or_else(|| ServiceError::NoDeletion(collection.clone()))
    }

    async fn run_deletion(self: Arc<Self>, name: CollectionName, filter: Box<Filter>, job: Arc<Job>) {
        let done = self.delete_pages(&name, filter, &job).await;
        let (matched, deleted) = (job.matched.load(Ordering::Relaxed), job.deleted.load(Ordering::Relaxed));
        match &done {
            Ok(()) => tracing::info!(collection = %name, matched, deleted, "a deletion by filter has ended"),
            Err(error) => {
                tracing::warn!(collection = %name, %error, deleted, "a deletion by filter has ended early");
            }
        }
        let _ = job.end.set((self.now_ms(), done.err().map(Arc::new)));
        job.has_ended.notify_one();
    }

    async fn delete_pages(
        &self,
        name: &CollectionName,
        filter: Box<Filter>,
        job: &Job,
    ) -> Result<(), ServiceError> {
        let engine = self.engine()?;
        let mut after = None;
        loop {
            let collection = engine.find(name)?;
            let is_same = engine.collection(name)?.created_ms == job.collection_created_ms;
            if !is_same || job.is_ended.load(Ordering::Relaxed) {
                return Err(ServiceError::DeletionEnded);
            }
            let filter = Some(filter.clone());
            let (limit, bytes, time) = (PART, PART_BYTES, PAGE_TIME);
            let wanted =
                Listing { after, filter, limit, bytes, time, has_texts: false, ..Listing::default() };
            let Page { documents, examined, next } = engine.list(&collection, wanted).await?;
            job.examined.fetch_add(examined, Ordering::Relaxed);
            job.matched.fetch_add(documents.len() as u64, Ordering::Relaxed);
            if !job.is_dry_run && !documents.is_empty() {
                let delete = |document: crate::engine::Document| {
                    let version =
                        Version::of_document(document.row.place, document.row.written_ms, document.row.hash);
                    let condition = Condition::Version(vec![version]);
                    Operation::Delete { id: document.id, condition }
                };
                let operations: Vec<Operation> = documents.into_iter().map(delete).collect();
                let outcomes = self.delete_patiently(name, operations).await?;
                let deleted = outcomes.iter().filter(|outcome| **outcome == Outcome::Deleted).count();
                collection.traffic.wrote(deleted as u64);
                job.deleted.fetch_add(deleted as u64, Ordering::Relaxed);
            }
            after = next;
            if after.is_none() {
                return Ok(());
            }
        }
    }
}

impl Service {
    /// Deletes documents, and waits while a reindex replaces the collection.
    async fn delete_patiently(
        &self,
        name: &CollectionName,
        operations: Vec<Operation>,
    ) -> Result<Vec<Outcome>, ServiceError> {
        let engine = self.engine()?;
        for _ in 0..ATTEMPTS {
            match engine.write(name, None, operations.clone(), Admission::Wait).await {
                Err(EngineError::Switching(_) | EngineError::Busy(_)) => tokio::time::sleep(PAUSE).await,
                written => return Ok(written?.await?),
            }
        }
        Err(EngineError::Switching(name.clone()).into())
    }
}

impl Deletions {
    fn remember(&self, collection: &CollectionName, job: &Arc<Job>) -> Result<(), ServiceError> {
        let mut is_running = false;
        let mut entry = self.0.entry(collection.clone()).or_insert_with(|| Arc::clone(job));
        if !Arc::ptr_eq(&entry, job) {
            is_running =
                entry.end.get().is_none() && entry.collection_created_ms == job.collection_created_ms;
            if !is_running {
                *entry = Arc::clone(job);
            }
        }
        drop(entry);
        if is_running {
            return Err(ServiceError::Deleting(collection.clone()));
        }
        while self.0.len() > MAX_JOBS {
            let ended = self.0.iter().filter(|job| job.end.get().is_some());
            let Some(oldest) = ended.min_by_key(|job| job.started_ms).map(|job| job.key().clone()) else {
                break;
            };
            self.0.remove(&oldest);
        }
        Ok(())
    }
}
