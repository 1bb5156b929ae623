//! Deletion of many documents, now or planned, and the end of such plans: of those with given ids at once, of
//! those that a filter admits as a job.
//!
//! The job reads pages of documents and changes each that is still in the version that the filter admitted,
//! so a document that changes in the meantime stays. A collection has one job at a time. Its result is kept
//! in memory until the next one or the end of the process. A job that the process does not survive has
//! deleted a part of the documents; the same request deletes the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Service;
use super::deed::Deed;
use super::error::ServiceError;
use super::jobs::{self, Jobs};
use lookalike_engine::{Admission, Condition, Filter, Listing, Operation, Outcome, Page};
use lookalike_hash::{CollectionName, DocumentId};
use lookalike_run::call::{self, Call};
use lookalike_run::pool::{Cancel, Patience};

/// Documents in one write.
const PART: usize = 500;
/// Bytes of documents in one write. A document that reaches them is the last one.
const PART_BYTES: usize = 4 << 20;
/// The time after which a page of documents ends, so that progress is reported and a job can be ended.
const PAGE_TIME: Duration = Duration::from_millis(500);
/// The state of a deletion.
#[derive(Clone, Debug)]
pub struct Deletion {
    /// When it was requested, in milliseconds since 1970-01-01 UTC.
    pub started_ms: u64,
    /// When it ended, in milliseconds since 1970-01-01 UTC.
    pub ended_ms: Option<u64>,
    /// What is done to the documents.
    pub deed: Deed,
    /// The number of documents that were read, of about this many.
    pub examined: (u64, u64),
    /// The number of documents that the filter admits, or with the given ids.
    pub matched: u64,
    /// The number of documents to which it was done.
    pub done: u64,
    /// Why it ended early.
    pub error: Option<Arc<ServiceError>>,
}

/// The deletions of a process.
pub(super) type Deletions = Jobs<Counts, Option<Arc<ServiceError>>>;

type Job = jobs::Job<Counts, Option<Arc<ServiceError>>>;

/// How far a deletion is.
#[derive(Default)]
pub(super) struct Counts {
    deed: Deed,
    to_examine: u64,
    examined: AtomicU64,
    matched: AtomicU64,
    done: AtomicU64,
}

fn status(job: &Job) -> Deletion {
    let (end, counts) = (job.end(), &job.progress);
    let number = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    Deletion {
        started_ms: job.started_ms,
        ended_ms: end.map(|end| end.0),
        deed: counts.deed,
        examined: (number(&counts.examined), counts.to_examine.max(number(&counts.examined))),
        matched: number(&counts.matched),
        done: number(&counts.done),
        error: end.and_then(|end| end.1.clone()),
    }
}

impl Service {
    /// Does something to the documents with these ids. Ids without a document are not counted.
    ///
    /// # Errors
    /// [`ServiceError::Invalid`] if there are too many ids, and the errors of a write.
    pub async fn delete_ids(
        &self,
        collection: &CollectionName,
        ids: Vec<DocumentId>,
        deed: Deed,
    ) -> Result<Deletion, ServiceError> {
        let (started_ms, count, most) = (self.now_ms(), ids.len(), self.limits.batch_items);
        if count > most {
            let detail = format!(
                "there are {count} ids; at most {most} are accepted in one request (limits.batch_items)"
            );
            return Err(ServiceError::invalid("ids", detail));
        }
        let engine = self.engine()?;
        let (matched, done) = match deed {
            Deed::Count => {
                let (engine, collection) = (Arc::clone(engine), engine.find(collection)?);
                let count = move |_: &Cancel| engine.count(&collection, &ids);
                (self.pool.run(Patience::Interactive, count).await??, 0)
            }
            Deed::Delete => {
                let written_to = engine.find(collection)?;
                let delete = |id| Operation::Delete { id, condition: Condition::None };
                let operations = ids.into_iter().map(delete).collect();
                let outcomes = engine.write(collection, None, operations, Admission::Shed).await?.await?;
                let deleted = outcomes.iter().filter(|outcome| **outcome == Outcome::Deleted).count() as u64;
                written_to.traffic.wrote(deleted);
                (deleted, deleted)
            }
            Deed::Plan(_) | Deed::Cancel => self.plan_ids(collection, ids, deed).await?,
        };
        Ok(Deletion {
            started_ms,
            ended_ms: Some(self.now_ms()),
            deed,
            examined: (count as u64, count as u64),
            matched,
            done,
            error: None,
        })
    }

    /// Starts to do something to the documents that a filter admits, and waits at most `wait` for the end.
    ///
    /// # Errors
    /// [`ServiceError::Deleting`] if a job of this collection is running, [`ServiceError::Invalid`] if the
    /// filter admits every document.
    pub async fn delete_matching(
        self: &Arc<Self>,
        collection: &CollectionName,
        filter: Box<Filter>,
        deed: Deed,
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
        let counts = Counts { deed, to_examine: info.documents, ..Counts::default() };
        let job = Job::of(&info, self.now_ms(), counts);
        if !self.deletions.remember(collection, &job) {
            return Err(ServiceError::Deleting(collection.clone()));
        }
        let running = Arc::clone(self).run_deletion(collection.clone(), filter, Arc::clone(&job));
        // The job is charged to the client.
        tokio::spawn(call::for_call(Call::current(), running));
        job.wait(wait).await;
        Ok(status(&job))
    }

    /// The state of the last deletion of a collection by a filter.
    ///
    /// # Errors
    /// [`ServiceError::NoDeletion`] if there is none since the process started.
    pub fn deletion(&self, collection: &CollectionName) -> Result<Deletion, ServiceError> {
        self.deletion_job(collection).map(|job| status(&job))
    }

    /// Ends the deletion of a collection if it is running, and forgets it.
    ///
    /// # Errors
    /// [`ServiceError::NoDeletion`] if there is none since the process started.
    pub fn forget_deletion(&self, collection: &CollectionName) -> Result<(), ServiceError> {
        self.deletion_job(collection)?;
        self.deletions.forget(collection);
        Ok(())
    }

    fn deletion_job(&self, collection: &CollectionName) -> Result<Arc<Job>, ServiceError> {
        let info = self.engine()?.collection(collection)?;
        self.deletions.of(&info).ok_or_else(|| ServiceError::NoDeletion(collection.clone()))
    }

    async fn run_deletion(self: Arc<Self>, name: CollectionName, filter: Box<Filter>, job: Arc<Job>) {
        let done = self.delete_pages(&name, filter, &job).await;
        let Deletion { deed, matched, done: changed, .. } = status(&job);
        match &done {
            Ok(()) => {
                tracing::info!(collection = %name, ?deed, matched, changed, "a deletion by filter has ended");
            }
            Err(error) => {
                tracing::warn!(
                    collection = %name, %error, ?deed, changed, "a deletion by filter has ended early"
                );
            }
        }
        job.finish(self.now_ms(), done.err().map(Arc::new));
    }

    async fn delete_pages(
        &self,
        name: &CollectionName,
        filter: Box<Filter>,
        job: &Job,
    ) -> Result<(), ServiceError> {
        let engine = self.engine()?;
        let mut after: Option<DocumentId> = None;
        loop {
            let collection = engine.find(name)?;
            if !job.is_of(&engine.collection(name)?) || job.is_cancelled() {
                return Err(ServiceError::DeletionEnded);
            }
            let filter = Some(filter.clone());
            let (limit, bytes, time) = (PART, PART_BYTES, PAGE_TIME);
            let (from, deed) = (after.clone(), job.progress.deed);
            let has_texts = deed.writes();
            let wanted = Listing { after: from, filter, limit, bytes, time, has_texts, ..Listing::default() };
            let Page { documents, examined, next } = engine.list(&collection, wanted).await?;
            let matched = documents.len() as u64;
            let operations: Vec<Operation> =
                documents.into_iter().filter_map(|document| deed.operation(document)).collect();
            let wanted = operations.len() as u64;
            let done = self.write_patiently(name, &collection.settings(), operations).await?;
            job.progress.done.fetch_add(done, Ordering::Relaxed);
            // A reindex gives documents other versions. Those of this page that it left are read again.
            if done < wanted && !Arc::ptr_eq(&collection, &engine.find(name)?) {
                job.progress.examined.fetch_add(done, Ordering::Relaxed);
                job.progress.matched.fetch_add(done, Ordering::Relaxed);
                continue;
            }
            job.progress.examined.fetch_add(examined, Ordering::Relaxed);
            job.progress.matched.fetch_add(matched, Ordering::Relaxed);
            after = next;
            if after.is_none() {
                return Ok(());
            }
        }
    }
}
