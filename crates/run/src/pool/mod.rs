//! The bounded CPU pool. CPU-bound work runs here, never on the async workers.
//!
//! It guarantees that the queue has a fixed capacity, that an interactive caller waits only for a fixed
//! amount of work of others before it learns that the pool is busy, and that long tasks hardly delay short
//! ones, whichever client sends them.
//!
//! That amount is processor time, not time on a clock. If other programs load the machine, the threads of the
//! pool get a part of the processors, and a task may not start for a long time although no other is before
//! it: then the pool is not busy, and its caller waits until its deadline.
//!
//! There are two lanes (`lane`), each with one thread per permit. Threads of the bulk lane have a low
//! priority: they use every processor that no other thread wants. Splitting the permits between the lanes
//! would leave processors idle, or make queries wait for whole chunks.
//!
//! In both lanes clients take turns: a client with many tasks delays its own tasks, and those of any other
//! client by at most one. An interactive task that runs for longer than 5 ms while others wait is demoted:
//! its thread gets the priority of the bulk lane, and another thread replaces it. So nothing has to predict
//! which tasks are long.
//!
//! Dropping the future of [`CpuPool::run`] cancels the work. A task that has not started is removed from
//! the queue. A running task learns of it from its [`Cancel`], which every loop must check if a request
//! controls its length. Deadlines end work in this way.
//!
//! *Absent*: anything that holds a lock across an `.await`.

mod lane;
mod turns;

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;
use parking_lot::Mutex;
use tokio::sync::oneshot::{self, error::RecvError};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::call::{Call, Client};
use lane::{Deliver, Lane, Rules};
pub use turns::Turns;

/// How long an interactive task may keep a thread while others wait.
const SLICE: Duration = Duration::from_millis(5);
/// Interactive tasks per permit that may run demoted at a time, half of them of one client.
const DEMOTED: usize = 16;

/// How long a caller waits for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// While others work for at most [`PoolLimits::wait`], and only if the queue has capacity: for a request
    /// whose client waits.
    Interactive,
    /// Without a limit: for streams, which slow down with the pool instead of failing.
    Bulk,
}

/// The limits of a pool.
#[derive(Clone, Copy, Debug)]
pub struct PoolLimits {
    /// Tasks that run at a time.
    pub permits: usize,
    /// Interactive callers that wait at a time.
    pub queue: usize,
    /// How much processor time others may have, per permit, before an interactive caller that waits is
    /// refused.
    pub wait: Duration,
}

/// Why work has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// The queue is full, or others had too much work before the caller, or its task was displaced.
    #[error("the processors are busy; try again in a moment")]
    Busy,
    /// The caller has dropped the result. Only cancelled work sees this error.
    #[error("the work was cancelled: its caller is gone, or its deadline has passed")]
    Cancelled,
    /// The task panicked. Its result is lost, and nothing else.
    #[error("the task failed; this is a fault of the server")]
    Panicked,
}

/// How a task ends.
type Ended = Result<(), PoolError>;

/// Tells running work whether its caller still waits for the result.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// # Errors
    /// [`PoolError::Cancelled`] if the caller no longer waits for the result.
    pub fn check(&self) -> Result<(), PoolError> {
        if self.0.load(Ordering::Relaxed) { Err(PoolError::Cancelled) } else { Ok(()) }
    }
}

/// Cancels the work when it is dropped.
struct CancelOnDrop(Cancel);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

/// A handle to the pool; clones share it. The threads end after the last one is dropped.
#[derive(Clone)]
pub struct CpuPool {
    interactive: Lane,
    bulk: Lane,
    limits: PoolLimits,
}

/// A queued task. If this is dropped before the task has started, the task is removed from the queue.
struct Queued<'a> {
    lane: &'a Lane,
    client: Client,
    number: u64,
}

impl Queued<'_> {
    fn is_waiting(&self) -> bool {
        self.lane.is_waiting(self.client, self.number)
    }

    /// Removes the task from the queue; `false` if it was no longer there.
    fn withdraw(&self) -> bool {
        self.lane.withdraw(self.client, self.number)
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.withdraw();
    }
}

impl CpuPool {
    /// A pool with these limits. At least one permit is assumed.
    pub fn new(limits: PoolLimits) -> CpuPool {
        let permits = limits.permits.max(1);
        let demoted = permits * DEMOTED;
        CpuPool {
            interactive: Lane::new(Rules {
                name: "query",
                permits,
                queue: limits.queue,
                demoted,
                is_bulk: false,
            }),
            bulk: Lane::new(Rules { name: "bulk", permits, queue: usize::MAX, demoted: 0, is_bulk: true }),
            limits: PoolLimits { permits, ..limits },
        }
    }

    /// The number of waiting interactive callers.
    pub fn waiting(&self) -> usize {
        self.interactive.waiting()
    }

    /// Whether an interactive caller of this client would be refused.
    pub fn is_full_for(&self, client: Client) -> bool {
        self.interactive.is_full_for(client)
    }

    /// The number of tasks that run at a time, per lane.
    pub fn permits(&self) -> usize {
        self.limits.permits
    }

    /// Runs `work` on a thread of the pool when its turn comes, for the client of the current call.
    ///
    /// # Errors
    /// [`PoolError::Busy`] for an interactive caller, [`PoolError::Panicked`] if `work` panics.
    pub async fn run<T: Send + 'static>(
        &self,
        patience: Patience,
        work: impl FnOnce(&Cancel) -> T + Send + 'static,
    ) -> Result<T, PoolError> {
        let result = Arc::new(Mutex::new(None));
        let filled = Arc::clone(&result);
        let work = move |cancel: &Cancel| {
            let done = work(cancel);
            *filled.lock() = Some(done);
        };
        self.run_boxed(patience, Box::new(work)).await?;
        let result = result.lock().take();
        result.ok_or(PoolError::Busy)
    }

    /// [`CpuPool::run`] of work that leaves its result itself, so that this is compiled once.
    async fn run_boxed(
        &self,
        patience: Patience,
        work: Box<dyn FnOnce(&Cancel) + Send>,
    ) -> Result<(), PoolError> {
        let call = Call::current();
        let client = call.as_ref().map_or(Client::SERVER, |call| call.client());
        let (done, ended) = oneshot::channel();
        let cancel = Cancel::default();
        let _cancel = CancelOnDrop(cancel.clone());
        let task = move || {
            let work = || catch_unwind(AssertUnwindSafe(|| work(&cancel))).map_err(|_| PoolError::Panicked);
            let end = match call {
                Some(call) => call.within(work),
                None => work(),
            };
            // The caller may be gone.
            Box::new(move || _ = done.send(end)) as Deliver
        };
        let lane = match patience {
            Patience::Interactive => &self.interactive,
            Patience::Bulk => &self.bulk,
        };
        let number = lane.push(client, Box::new(task))?;
        let queued = Queued { lane, client, number };
        let end = match patience {
            Patience::Bulk => ended.await,
            Patience::Interactive => self.in_time(&queued, ended).await?,
        };
        // A task that is dropped without an end was displaced by a task of another client.
        end.unwrap_or(Err(PoolError::Busy))
    }

    /// The end of an interactive task; [`PoolError::Busy`] if others had [`PoolLimits::wait`] before it
    /// has started.
    async fn in_time(
        &self,
        queued: &Queued<'_>,
        mut ended: oneshot::Receiver<Ended>,
    ) -> Result<Result<Ended, RecvError>, PoolError> {
        let begin = self.interactive.worked();
        // The time of tasks that keep all threads counts before they end.
        let mut kept = Duration::ZERO;
        loop {
            // A caller that is woken late has waited for one slice, however long that took.
            if let Ok(end) = timeout(SLICE, &mut ended).await {
                return Ok(end);
            }
            if !queued.is_waiting() {
                return Ok(ended.await);
            }
            let worked = self.interactive.worked().saturating_sub(begin) / self.permits_as_u32();
            let others = worked + kept;
            if !others.is_zero() && others >= self.limits.wait && queued.withdraw() {
                return Err(PoolError::Busy);
            }
            if self.interactive.demote_long_tasks(SLICE) {
                kept += SLICE;
            }
        }
    }

    fn permits_as_u32(&self) -> u32 {
        u32::try_from(self.limits.permits).unwrap_or(u32::MAX)
    }
}

/// Drives `work`, which waits for memory or queue capacity, even if the caller is not polled; cancelled
/// with the caller. `None` if it panicked.
///
/// Capacity is granted to the first waiter. If that is a stream whose client does not read, its unpolled
/// future would keep the capacity from all others.
pub async fn driven<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Option<T> {
    let mut work = Box::pin(work);
    // Usually the capacity is available at once, and no task is needed.
    if let Some(done) = (&mut work).now_or_never() {
        return Some(done);
    }
    let mut waiting = JoinSet::new();
    waiting.spawn(work);
    waiting.join_next().await?.ok()
}

#[cfg(test)]
mod tests;
