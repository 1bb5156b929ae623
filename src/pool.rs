//! The bounded CPU pool: work that takes a processor for long runs here, never on the async workers.
//!
//! It promises that no more tasks run than there are permits, that no more wait than the queue holds, and
//! that a caller who is in a hurry is told so within a stated time instead of waiting without end.
//!
//! Built on tokio's blocking threads. Those cannot be cancelled, so the permit travels with the work: a
//! caller that goes away leaves its permit with the task until the task is done.
//!
//! *Absent*: priorities, and anything that holds a lock across an `.await`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};

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

/// A handle to the pool; clones share it.
#[derive(Clone)]
pub struct CpuPool {
    permits: Arc<Semaphore>,
    /// Held by the one bulk caller that stands in line for a permit; the others wait behind it, so that a
    /// caller in a hurry has at most one of them before it.
    bulk_turn: Arc<Mutex<()>>,
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
        CpuPool {
            permits: Arc::new(Semaphore::new(limits.permits.max(1))),
            bulk_turn: Arc::default(),
            waiting: Arc::new(AtomicUsize::new(0)),
            limits,
        }
    }

    /// How many callers wait.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
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
        let permit = self.permit(patience).await?;
        let task = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            work()
        });
        task.await.map_err(|_| PoolError::Panicked)
    }

    async fn permit(&self, patience: Patience) -> Result<OwnedSemaphorePermit, PoolError> {
        let permits = Arc::clone(&self.permits);
        if patience == Patience::Bulk {
            let _turn = self.bulk_turn.lock().await;
            return permits.acquire_owned().await.map_err(|_| PoolError::Busy);
        }
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
        let slow = tokio::spawn(async move { other.run(Patience::Bulk, move || held.recv()).await });
        while pool.permits.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(pool.run(Patience::Interactive, || 1).await, Err(PoolError::Busy));
        let other = pool.clone();
        let bulk = tokio::spawn(async move { other.run(Patience::Bulk, || 2).await });
        release.send(()).unwrap();
        slow.await.unwrap().unwrap().unwrap();
        assert_eq!(bulk.await.unwrap(), Ok(2));
        assert_eq!(pool.run(Patience::Interactive, || 3).await, Ok(3));
        assert_eq!(pool.waiting(), 0);
    }

    #[tokio::test]
    async fn a_panic_is_an_error_and_gives_the_permit_back() {
        let pool = pool(1);
        let work = || -> u8 { panic!("on purpose") };
        assert_eq!(pool.run(Patience::Interactive, work).await, Err(PoolError::Panicked));
        assert_eq!(pool.run(Patience::Interactive, || 3).await, Ok(3));
    }
}
