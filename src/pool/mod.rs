//! The bounded CPU pool: work that takes a processor for long runs here, never on the async workers.
//!
//! It promises that no more tasks wait than the queue holds, that an interactive caller is told within a stated time
//! that the pool is busy, and that long tasks hardly delay short ones, whoever sends them.
//!
//! There are two lanes (`lane`), each with as many threads as there are permits. Threads of the bulk lane have a low
//! priority: they take every processor while nobody else wants one. A share of permits for each lane would leave
//! processors idle or make queries wait for whole chunks.
//!
//! In both lanes clients take turns: a client with many tasks delays its own, and nobody else's by more than one. An
//! interactive task that runs for longer than 5 ms while others wait is moved out of the way: its thread gets the
//! priority of the bulk lane, and another thread takes its place. Nobody has to know beforehand what takes long.
//!
//! Whoever drops the future of [`CpuPool::run`] cancels the work: what has not begun is taken out of the queue, and what
//! runs is told by its [`Cancel`], which every loop whose length a request controls asks. That is how a deadline ends work.
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
use tokio::sync::oneshot::{self, error::RecvError};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::call::{Call, Client};
use lane::{Lane, Rules, Tell};
pub use turns::Turns;

/// How long an interactive task may keep a thread that others wait for.
const SLICE: Duration = Duration::from_millis(5);
/// Interactive tasks for each permit that may have been moved out of the way at a time. Half of them may be of one client.
const MOVED: usize = 16;

/// How long a caller is ready to wait for its turn.
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
    /// Nobody waits for the result any more. Only work that was cancelled meets it.
    #[error("the work was cancelled: whoever asked for it went away, or its time was up")]
    Cancelled,
    /// The task panicked. What it worked on is lost, nothing else is.
    #[error("the task failed; this is a fault of the server")]
    Panicked,
}

/// Tells running work whether anybody still waits for it.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// # Errors
    /// [`PoolError::Cancelled`] if nobody waits for the result any more.
    pub fn check(&self) -> Result<(), PoolError> {
        if self.0.load(Ordering::Relaxed) { Err(PoolError::Cancelled) } else { Ok(()) }
    }
}

/// Cancels what it is of when it is dropped.
struct CancelOnDrop(Cancel);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

/// A handle to the pool; clones share it. Its threads end with the last of them.
#[derive(Clone)]
pub struct CpuPool {
    interactive: Lane,
    bulk: Lane,
    limits: PoolLimits,
}

/// A task in the queue of a lane, taken out of it when this is dropped before the task has begun.
struct Queued<'a> {
    lane: &'a Lane,
    client: Client,
    number: u64,
}

impl Queued<'_> {
    fn is_waiting(&self) -> bool {
        self.lane.is_waiting(self.client, self.number)
    }

    /// Takes it out of the queue; whether it was there.
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
    /// A pool with these limits, of which each is at least 1.
    pub fn new(limits: PoolLimits) -> CpuPool {
        let permits = limits.permits.max(1);
        let moved = permits * MOVED;
        CpuPool {
            interactive: Lane::new(Rules {
                name: "query",
                permits,
                queue: limits.queue,
                moved,
                is_bulk: false,
            }),
            bulk: Lane::new(Rules { name: "bulk", permits, queue: usize::MAX, moved: 0, is_bulk: true }),
            limits: PoolLimits { permits, ..limits },
        }
    }

    /// How many interactive callers wait.
    pub fn waiting(&self) -> usize {
        self.interactive.waiting()
    }

    /// Whether an interactive caller of this client would be refused.
    pub fn is_full_for(&self, client: Client) -> bool {
        self.interactive.is_full_for(client)
    }

    /// How many tasks run at a time.
    pub fn permits(&self) -> usize {
        self.limits.permits
    }

    /// Runs `work` on one of the pool's threads when its turn comes, for the client of the current call.
    ///
    /// # Errors
    /// [`PoolError::Busy`] for an impatient caller, [`PoolError::Panicked`] if `work` panics.
    pub async fn run<T: Send + 'static>(
        &self,
        patience: Patience,
        work: impl FnOnce(&Cancel) -> T + Send + 'static,
    ) -> Result<T, PoolError> {
        let call = Call::current();
        let client = call.as_ref().map_or(Client::SERVER, |call| call.client());
        let (done, result) = oneshot::channel();
        let cancel = Cancel::default();
        let _cancel = CancelOnDrop(cancel.clone());
        let task = move || {
            let work = || catch_unwind(AssertUnwindSafe(|| work(&cancel))).map_err(|_| PoolError::Panicked);
            let result = match call {
                Some(call) => call.within(work),
                None => work(),
            };
            // Whoever asked may have gone away.
            Box::new(move || drop(done.send(result))) as Tell
        };
        let lane = match patience {
            Patience::Interactive => &self.interactive,
            Patience::Bulk => &self.bulk,
        };
        let number = lane.push(client, Box::new(task))?;
        let queued = Queued { lane, client, number };
        let result = match patience {
            Patience::Bulk => result.await,
            Patience::Interactive => self.in_time(&queued, result).await?,
        };
        // A task that is dropped without a result had to make room for another client's.
        result.unwrap_or(Err(PoolError::Busy))
    }

    /// What becomes of an interactive task; [`PoolError::Busy`] if it has not begun when the time to wait is up.
    async fn in_time<T>(
        &self,
        queued: &Queued<'_>,
        mut result: oneshot::Receiver<T>,
    ) -> Result<Result<T, RecvError>, PoolError> {
        let end = Instant::now() + self.limits.wait;
        let mut look = Instant::now() + SLICE;
        loop {
            if let Ok(result) = timeout_at(look.min(end), &mut result).await {
                return Ok(result);
            }
            if !queued.is_waiting() {
                return Ok(result.await);
            }
            if look >= end && queued.withdraw() {
                return Err(PoolError::Busy);
            }
            self.interactive.make_way(SLICE);
            look += SLICE;
        }
    }
}

/// Waits for room and does `work`, even if the caller is not polled; cancelled with the caller. `None` if it panicked.
///
/// Room is given to whoever waits for it first. A stream whose client does not read would keep it from all others.
pub async fn driven<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Option<T> {
    let mut work = Box::pin(work);
    // Most have room at once, and need no task of their own.
    if let Some(done) = (&mut work).now_or_never() {
        return Some(done);
    }
    let mut waiting = JoinSet::new();
    waiting.spawn(work);
    waiting.join_next().await?.ok()
}

#[cfg(test)]
mod tests;
