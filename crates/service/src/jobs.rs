//! Jobs of collections: at most one of a kind for each collection, with its progress and its result.
//!
//! A job is known until the next one of its collection, until a request forgets it, or until the process
//! ends. Whether it takes effect is decided once. If a request ends it first, it has no effect; once it
//! begins to take effect, no request ends it any more.
//!
//! *Absent*: the work itself, and how many jobs run at a time.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use dashmap::DashMap;
use tokio::sync::Notify;

use super::ServiceError;
use lookalike_engine::CollectionInfo;
use lookalike_hash::CollectionName;

/// Maximum number of jobs of a kind that are remembered. Of those that have ended, the oldest are removed.
const MAX_JOBS: usize = 256;

/// A request can still end the job.
const RUNNING: u8 = 0;
/// A request has ended the job.
const CANCELLED: u8 = 1;
/// The job takes effect, whatever requests come.
const EFFECTIVE: u8 = 2;

/// The jobs of one kind: with this progress and this result.
pub(super) struct Jobs<P, R>(DashMap<CollectionName, Arc<Job<P, R>>>);

impl<P, R> Default for Jobs<P, R> {
    fn default() -> Jobs<P, R> {
        Jobs(DashMap::new())
    }
}

/// A running or finished job.
pub(super) struct Job<P, R> {
    /// When the collection was created. It distinguishes the collection from a later one of the same name.
    collection_created_ms: u64,
    pub(super) started_ms: u64,
    pub(super) progress: P,
    state: AtomicU8,
    end: OnceLock<(u64, R)>,
    has_ended: Notify,
}

impl<P, R> Job<P, R> {
    /// A job that begins.
    pub(super) fn of(collection: &CollectionInfo, started_ms: u64, progress: P) -> Arc<Job<P, R>> {
        Arc::new(Job {
            collection_created_ms: collection.created_ms,
            started_ms,
            progress,
            state: AtomicU8::new(RUNNING),
            end: OnceLock::new(),
            has_ended: Notify::new(),
        })
    }

    /// # Errors
    /// [`ServiceError::Forgotten`] if a request has ended it.
    pub(super) fn check(&self) -> Result<(), ServiceError> {
        if self.is_cancelled() { Err(ServiceError::Forgotten) } else { Ok(()) }
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.state.load(Ordering::SeqCst) == CANCELLED
    }

    pub(super) fn is_running(&self) -> bool {
        self.end.get().is_none()
    }

    /// Whether the collection is the one that exists now.
    pub(super) fn is_of(&self, collection: &CollectionInfo) -> bool {
        self.collection_created_ms == collection.created_ms
    }

    /// Whether another job is of the same collection, if both have its name.
    pub(super) fn has_collection_of(&self, other: &Job<P, R>) -> bool {
        self.collection_created_ms == other.collection_created_ms
    }

    /// Ends the job; `false` if it takes effect already.
    pub(super) fn cancel(&self) -> bool {
        let change = self.state.compare_exchange(RUNNING, CANCELLED, Ordering::SeqCst, Ordering::SeqCst);
        change.is_ok() || change == Err(CANCELLED)
    }

    /// Decides that the job takes effect.
    ///
    /// # Errors
    /// [`ServiceError::Forgotten`] if a request has ended it.
    pub(super) fn begin_effect(&self) -> Result<(), ServiceError> {
        let change = self.state.compare_exchange(RUNNING, EFFECTIVE, Ordering::SeqCst, Ordering::SeqCst);
        change.map(drop).map_err(|_| ServiceError::Forgotten)
    }

    /// Sets the result, with the time.
    pub(super) fn finish(&self, now_ms: u64, result: R) {
        let _ = self.end.set((now_ms, result));
        self.has_ended.notify_one();
    }

    /// The result and its time, if the job has ended.
    pub(super) fn end(&self) -> Option<&(u64, R)> {
        self.end.get()
    }

    /// Waits for the end, at most this long. One caller can wait.
    pub(super) async fn wait(&self, most: Duration) {
        let _ = tokio::time::timeout(most, self.has_ended.notified()).await;
    }
}

impl<P, R> Jobs<P, R> {
    /// Remembers a job in place of an earlier one of the same name; `false` if one of the collection runs.
    pub(super) fn remember(&self, collection: &CollectionName, job: &Arc<Job<P, R>>) -> bool {
        let mut entry = self.0.entry(collection.clone()).or_insert_with(|| Arc::clone(job));
        if !Arc::ptr_eq(&entry, job) {
            if entry.is_running() && entry.has_collection_of(job) {
                return false;
            }
            *entry = Arc::clone(job);
        }
        drop(entry);
        while self.0.len() > MAX_JOBS {
            let ended = self.0.iter().filter(|job| !job.is_running());
            let Some(oldest) = ended.min_by_key(|job| job.started_ms).map(|job| job.key().clone()) else {
                break;
            };
            self.0.remove_if(&oldest, |_, job| !job.is_running());
        }
        true
    }

    /// The job of a collection.
    pub(super) fn of(&self, collection: &CollectionInfo) -> Option<Arc<Job<P, R>>> {
        let job = self.0.get(&collection.name).map(|job| Arc::clone(&job));
        job.filter(|job| job.is_of(collection))
    }

    /// Ends the job of a collection if it runs, and forgets it.
    pub(super) fn forget(&self, collection: &CollectionName) {
        if let Some((_, job)) = self.0.remove(collection) {
            job.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lookalike_hash::{CollectionId, Width};

    fn collection(name: &str, created_ms: u64) -> CollectionInfo {
        CollectionInfo {
            id: CollectionId(1),
            name: CollectionName::new(name).unwrap(),
            settings: lookalike_engine::CollectionSettings {
                keep_text: true,
                ..lookalike_engine::CollectionSettings::of("copies-64@1".into(), Width::Bits64)
            },
            version: lookalike_engine::Version(0),
            created_ms,
            documents: 0,
            distinct_hashes: 0,
            index_bytes: 0,
            marks: 0,
            queries: 0,
            written: 0,
        }
    }

    #[test]
    fn a_job_is_ended_or_takes_effect_and_never_both() {
        let of = collection("news", 1);
        let job: Arc<Job<(), u8>> = Job::of(&of, 5, ());
        assert!(job.check().is_ok() && job.cancel() && job.cancel());
        assert!(job.check().is_err() && job.begin_effect().is_err());
        let job: Arc<Job<(), u8>> = Job::of(&of, 5, ());
        assert!(job.begin_effect().is_ok() && !job.cancel() && job.check().is_ok());
        for _ in 0..200 {
            let job: Arc<Job<(), u8>> = Job::of(&of, 5, ());
            let ended = std::thread::scope(|scope| {
                let ending = scope.spawn(|| job.cancel());
                let has_effect = job.begin_effect().is_ok();
                (ending.join().unwrap(), has_effect)
            });
            assert!(ended.0 != ended.1, "{ended:?}");
        }
    }

    #[test]
    fn a_collection_has_one_job_and_those_that_run_are_not_forgotten_for_others() {
        let jobs: Jobs<(), u8> = Jobs::default();
        let start = |name: &str, created_ms: u64, started_ms: u64| {
            let of = collection(name, created_ms);
            let job = Job::of(&of, started_ms, ());
            jobs.remember(&of.name, &job).then_some(job)
        };
        let first = start("news", 1, 0).unwrap();
        assert!(start("news", 1, 1).is_none(), "it runs");
        assert!(jobs.of(&collection("news", 2)).is_none(), "a later collection of the name");
        for number in 0..2 * MAX_JOBS as u64 {
            start(&format!("c{number}"), 1, 10 + number).unwrap().finish(0, 1);
        }
        assert_eq!(jobs.0.len(), MAX_JOBS);
        assert!(Arc::ptr_eq(&jobs.of(&collection("news", 1)).unwrap(), &first));
        first.finish(7, 3);
        assert_eq!(first.end(), Some(&(7, 3)));
        assert!(!first.is_running() && start("news", 1, 1).is_some());
        let running = start("news", 2, 1).unwrap();
        jobs.forget(&collection("news", 2).name);
        assert!(running.is_cancelled() && jobs.of(&collection("news", 2)).is_none());
    }
}
