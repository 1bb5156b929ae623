//! The bounded CPU pool: work that takes a processor for long runs here, never on the async workers.
//!
//! It promises that no more tasks run than there are permits, that no more wait than the queue holds, and
//! that a caller who is in a hurry is told so within a stated time instead of waiting without end.
//!
//! Bulk work has threads of its own, as many as there are permits, which give way to all others of this process: while
//! nobody is in a hurry it has every processor, and who is in a hurry hardly notices it. A share of permits for each
//! would leave processors idle or make queries wait for whole chunks.
//!
//! Work for those in a hurry runs on tokio's blocking threads. Neither can be cancelled, so the permit travels with the
//! work: a caller that goes away leaves its permit with the task until the task is done.
//!
//! *Absent*: anything that holds a lock across an `.await`.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc as sync_mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// By how much bulk threads give way: at 10 the system gives them a tenth of a processor that another wants.
const NICE: i32 = 10;

/// How long a caller is ready to wait for a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// As long as [`PoolLimits::wait`], and only if the queue has room: for a request that someone waits for.
    Interactive,
    /// As long as it takes: for streams, which slow down with the pool instead of failing.
    Bulk,
}

/// The named limits of a pool.
#[derive(Clone, Copy, Debug)]
pub struct PoolLimits {
    /// Tasks that run at a time.
    pub permits: usize,
    /// Interactive callers that wait at a time.
    pub queue: usize,
    /// How long an interactive caller waits.
    pub wait: Duration,
}

/// Why work was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// More callers wait than the queue holds, or this one waited as long as it may.
    #[error("the processors are busy; try again in a moment")]
    Busy,
    /// The task panicked. What it worked on is lost, nothing else is.
    #[error("the task failed; this is a fault of the server")]
    Panicked,
}

/// A piece of bulk work.
type Task = Box<dyn FnOnce() + Send>;

/// A handle to the pool; clones share it. The bulk threads end with the last of them.
#[derive(Clone)]
pub struct CpuPool {
    permits: Arc<Semaphore>,
    /// As many as there are bulk threads; the others wait here.
    bulk_permits: Arc<Semaphore>,
    bulk: sync_mpsc::Sender<Task>,
    waiting: Arc<AtomicUsize>,
    limits: PoolLimits,
}

/// Counts a waiting caller for as long as it waits, also when it goes away.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl CpuPool {
    /// A pool with these limits, of which each is at least 1.
    pub fn new(limits: PoolLimits) -> CpuPool {
        let permits = limits.permits.max(1);
        let (bulk, tasks) = sync_mpsc::channel::<Task>();
        let tasks = Arc::new(Mutex::new(tasks));
        for number in 0..permits {
            let tasks = Arc::clone(&tasks);
            let thread = std::thread::Builder::new().name(format!("lookalike-bulk-{number}"));
            // Without a thread the work waits for the others; without any it fails, which is told to who asks.
            if let Err(error) = thread.spawn(move || work_off(&tasks)) {
                tracing::error!(%error, "a thread for bulk work cannot be started");
            }
        }
        CpuPool {
            permits: Arc::new(Semaphore::new(permits)),
            bulk_permits: Arc::new(Semaphore::new(permits)),
            bulk,
            waiting: Arc::new(AtomicUsize::new(0)),
            limits: PoolLimits { permits, ..limits },
        }
    }

    /// How many callers wait.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Whether a caller in a hurry would be turned away.
    pub fn is_full(&self) -> bool {
        self.waiting() >= self.limits.queue && self.permits.available_permits() == 0
    }

    /// How many tasks run at a time.
    pub fn permits(&self) -> usize {
        self.limits.permits
    }

    /// Runs `work` on a thread of its own when a permit is free.
    ///
    /// # Errors
    /// [`PoolError::Busy`] for an impatient caller, [`PoolError::Panicked`] if `work` panics.
    pub async fn run<T: Send + 'static>(
        &self,
        patience: Patience,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, PoolError> {
        if patience == Patience::Bulk {
            return self.run_in_bulk(work).await;
        }
        let permit = self.permit().await?;
        let task = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            work()
        });
        task.await.map_err(|_| PoolError::Panicked)
    }

    async fn run_in_bulk<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, PoolError> {
        let permit = Arc::clone(&self.bulk_permits).acquire_owned().await.map_err(|_| PoolError::Busy)?;
        let (done, result) = oneshot::channel();
        let task = move || {
            let _permit = permit;
            // Whoever asked may have gone away; the work is done, and nobody wants it.
            let _ = done.send(work());
        };
        self.bulk.send(Box::new(task)).map_err(|_| PoolError::Panicked)?;
        result.await.map_err(|_| PoolError::Panicked)
    }

    async fn permit(&self) -> Result<OwnedSemaphorePermit, PoolError> {
        let permits = Arc::clone(&self.permits);
        if let Ok(permit) = Arc::clone(&permits).try_acquire_owned() {
            return Ok(permit);
        }
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waiting = Waiting(&self.waiting);
        if before >= self.limits.queue {
            return Err(PoolError::Busy);
        }
        match tokio::time::timeout(self.limits.wait, permits.acquire_owned()).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(PoolError::Busy),
        }
    }
}

/// The life of a bulk thread.
fn work_off(tasks: &Mutex<sync_mpsc::Receiver<Task>>) {
    // Of this thread alone, as Linux has it. Where it cannot be had, bulk work is as urgent as the rest.
    if let Err(error) = rustix::process::nice(NICE) {
        tracing::debug!(%error, "bulk work does not give way");
    }
    loop {
        // Held while one waits for a task; the others wait for the lock, which comes to the same.
        let task = tasks.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(task) = task else { return };
        let _ = std::panic::catch_unwind(AssertUnwindSafe(task));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(queue: usize) -> CpuPool {
        CpuPool::new(PoolLimits { permits: 1, queue, wait: Duration::from_millis(20) })
    }

    #[tokio::test]
    async fn an_impatient_caller_is_told_that_the_pool_is_busy_and_a_stream_waits() {
        let pool = pool(4);
        let (release, held) = std::sync::mpsc::channel::<()>();
        let other = pool.clone();
        let slow = tokio::spawn(async move { other.run(Patience::Interactive, move || held.recv()).await });
        while pool.permits.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(pool.run(Patience::Interactive, || 1).await, Err(PoolError::Busy));
        assert_eq!(pool.run(Patience::Bulk, || 2).await, Ok(2), "bulk work waits for nobody in a hurry");
        release.send(()).unwrap();
        slow.await.unwrap().unwrap().unwrap();
        assert_eq!(pool.run(Patience::Interactive, || 3).await, Ok(3));
        assert_eq!(pool.waiting(), 0);
    }

    #[tokio::test]
    async fn bulk_work_is_done_in_turn_by_its_own_threads() {
        let pool = pool(0);
        let (release, held) = std::sync::mpsc::channel::<()>();
        let other = pool.clone();
        let slow = tokio::spawn(async move { other.run(Patience::Bulk, move || held.recv()).await });
        while pool.bulk_permits.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let other = pool.clone();
        let next = tokio::spawn(async move {
            other.run(Patience::Bulk, || std::thread::current().name().map(str::to_owned)).await
        });
        assert_eq!(
            pool.run(Patience::Interactive, || 1).await,
            Ok(1),
            "who is in a hurry has threads of his own"
        );
        release.send(()).unwrap();
        slow.await.unwrap().unwrap().unwrap();
        assert_eq!(next.await.unwrap(), Ok(Some("lookalike-bulk-0".to_owned())));
    }

    #[tokio::test]
    async fn a_panic_is_an_error_and_gives_the_permit_back() {
        let pool = pool(1);
        let work = || -> u8 { panic!("on purpose") };
        for patience in [Patience::Interactive, Patience::Bulk] {
            assert_eq!(pool.run(patience, work).await, Err(PoolError::Panicked));
            assert_eq!(pool.run(patience, || 3).await, Ok(3));
        }
    }
}
