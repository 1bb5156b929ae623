//! The bounded CPU pool: work that takes a processor for long runs here, never on the async workers.
//!
//! It promises that no more tasks run than there are permits, that no more wait than the queue holds, and
//! that a caller who is in a hurry is told so within a stated time instead of waiting without end.
//!
//! There are two lanes, each with as many threads as there are permits. Those of the bulk lane give way to all others of
//! this process: while nobody is in a hurry it has every processor, and who is in a hurry hardly notices it. A share of
//! permits for each would leave processors idle or make queries wait for whole chunks.
//!
//! A thread takes the next task from the queue itself. With permits that callers wait for, two of them have to be woken
//! one after the other between two tasks, and a fifth of the processors' time went by meanwhile.
//!
//! What has begun cannot be cancelled: a caller that goes away leaves it to its end. What has not begun goes with its
//! caller, and only an empty envelope stays in the queue until a thread comes by. Bulk callers wait before the queue,
//! with their work, so that no more of it is in there than the threads do soon.
//!
//! *Absent*: anything that holds a lock across an `.await`.

use std::cell::Cell;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc as sync_mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::FutureExt;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;

use crate::machine::thread_time;

/// By how much bulk threads give way: at 10 the system gives them a tenth of a processor that another wants.
const NICE: i32 = 10;

/// Envelopes in the queue beyond the tasks that may run or wait: those of callers that went away, or waited for too long.
const EMPTY: usize = 4_096;

/// How long a caller is ready to wait for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// As long as [`PoolLimits::wait`], and only if the queue has room: for a request that someone waits for.
    Interactive,
    /// As long as it takes: for streams, which slow down with the pool instead of failing.
    Bulk,
}

/// How long a thread works for those who are patient before it lets others on.
const TURN: Duration = Duration::from_micros(100);

/// Lets others on between two pieces of work on a thread of the pool, if whoever waits for them is patient.
///
/// A thread of low priority keeps a processor until the scheduler has made up for what others had before, and whoever
/// comes back for a moment waits meanwhile, half a millisecond and more on Linux 6.18. Who comes for longer, as another program
/// on the machine does, takes whole slices at each turn; so a thread works for as long as it was kept waiting before it lets
/// others on again.
pub struct Turns(Option<Instant>);

thread_local! {
    /// For how long this thread was kept waiting when it let others on, less what it worked since.
    static KEPT_WAITING: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    /// The time of the processor that it had taken when it was looked at last, while it makes up for that.
    static TAKEN: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

impl Turns {
    /// The first turn begins.
    pub fn new(patience: Patience) -> Turns {
        Turns((patience == Patience::Bulk).then(Instant::now))
    }

    /// Another piece of work is done.
    pub fn pause(&mut self) {
        let Some(begin) = &mut self.0 else { return };
        if begin.elapsed() < TURN {
            return;
        }
        *begin = Instant::now();
        let kept_waiting = KEPT_WAITING.get();
        if !kept_waiting.is_zero() {
            let taken = thread_time();
            let worked = taken.saturating_sub(TAKEN.replace(taken));
            KEPT_WAITING.set(kept_waiting.saturating_sub(worked));
            if worked < kept_waiting {
                return;
            }
        }
        std::thread::yield_now();
        let kept_waiting = begin.elapsed();
        *begin += kept_waiting;
        // For less than a turn the next one makes up anyway, and it need not be measured.
        if kept_waiting > TURN {
            KEPT_WAITING.set(kept_waiting);
            TAKEN.set(thread_time());
        }
    }
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

/// A piece of work on its way to a thread.
type Task = Box<dyn FnOnce() + Send>;

/// Tasks in order, and the threads that do them, which end with the last handle.
#[derive(Clone)]
struct Lane(sync_mpsc::Sender<Task>);

impl Lane {
    /// A lane with so many threads, `begin` being the first thing that each does.
    fn new(name: &str, threads: usize, begin: fn()) -> Lane {
        let (sender, tasks) = sync_mpsc::channel::<Task>();
        let tasks = Arc::new(Mutex::new(tasks));
        for number in 0..threads {
            let tasks = Arc::clone(&tasks);
            let thread = std::thread::Builder::new().name(format!("lookalike-{name}-{number}"));
            // Without a thread the work waits for the others; without any it fails, which is told to who asks.
            if let Err(error) = thread.spawn(move || {
                begin();
                work_off(&tasks);
            }) {
                tracing::error!(%error, name, "a thread of the pool cannot be started");
            }
        }
        Lane(sender)
    }

    /// Queues work; its result comes when it is done, and an error if it panics.
    fn send<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> oneshot::Receiver<T> {
        let (done, result) = oneshot::channel();
        // Whoever asked may have gone away; the work is done, and nobody wants it. Where all threads have ended the
        // task is dropped here, and with it what its result would have come by.
        let _ = self.0.send(Box::new(move || drop(done.send(work()))));
        result
    }
}

/// A handle to the pool; clones share it. Its threads end with the last of them.
#[derive(Clone)]
pub struct CpuPool {
    hurried: Lane,
    bulk: Lane,
    /// For one bulk task a thread and one that it does next; the others wait here.
    bulk_permits: Arc<Semaphore>,
    /// Tasks of those in a hurry that run or wait.
    taken: Arc<AtomicUsize>,
    /// The same and the empty envelopes.
    queued: Arc<AtomicUsize>,
    limits: PoolLimits,
}

/// One of so many places, for as long as it is taken.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(of: &Arc<AtomicUsize>, most: usize) -> Option<Place> {
        let before = of.fetch_add(1, Ordering::Relaxed);
        let place = Place(Arc::clone(of));
        (before < most).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Work that has not begun, shared by the caller and the thread that will do it: whoever takes it out has it.
struct Unbegun<F>(Arc<Mutex<Option<F>>>);

impl<F> Unbegun<F> {
    fn take(&self) -> Option<F> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Whichever of the two ends first: work that did not begin by then is wanted by nobody.
impl<F> Drop for Unbegun<F> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

impl CpuPool {
    /// A pool with these limits, of which each is at least 1.
    pub fn new(limits: PoolLimits) -> CpuPool {
        let permits = limits.permits.max(1);
        CpuPool {
            hurried: Lane::new("query", permits, || ()),
            bulk: Lane::new("bulk", permits, give_way),
            bulk_permits: Arc::new(Semaphore::new(2 * permits)),
            taken: Arc::default(),
            queued: Arc::default(),
            limits: PoolLimits { permits, ..limits },
        }
    }

    /// How many callers wait.
    pub fn waiting(&self) -> usize {
        self.taken.load(Ordering::Relaxed).saturating_sub(self.limits.permits)
    }

    /// Whether a caller in a hurry would be turned away.
    pub fn is_full(&self) -> bool {
        self.taken.load(Ordering::Relaxed) >= self.places()
    }

    /// How many tasks run at a time.
    pub fn permits(&self) -> usize {
        self.limits.permits
    }

    /// Tasks that may run or wait.
    fn places(&self) -> usize {
        self.limits.permits.saturating_add(self.limits.queue)
    }

    /// Runs `work` on one of the pool's threads when its turn comes.
    ///
    /// # Errors
    /// [`PoolError::Busy`] for an impatient caller, [`PoolError::Panicked`] if `work` panics.
    pub async fn run<T: Send + 'static>(
        &self,
        patience: Patience,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, PoolError> {
        match patience {
            Patience::Bulk => self.run_in_bulk(work).await,
            Patience::Interactive => self.run_soon(work).await,
        }
    }

    async fn run_in_bulk<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, PoolError> {
        let (permits, bulk) = (Arc::clone(&self.bulk_permits), self.bulk.clone());
        let begun = driven(async move {
            let permit = permits.acquire_owned().await.ok()?;
            Some(bulk.send(move || {
                let _permit = permit;
                work()
            }))
        });
        let result = begun.await.flatten().ok_or(PoolError::Busy)?;
        result.await.map_err(|_| PoolError::Panicked)
    }

    async fn run_soon<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, PoolError> {
        let place = Place::take(&self.taken, self.places()).ok_or(PoolError::Busy)?;
        let envelope =
            Place::take(&self.queued, self.places().saturating_add(EMPTY)).ok_or(PoolError::Busy)?;
        let unbegun = Unbegun(Arc::new(Mutex::new(Some((work, place)))));
        let queued = Unbegun(Arc::clone(&unbegun.0));
        let mut result = self.hurried.send(move || {
            drop(envelope);
            let (work, place) = queued.take()?;
            let done = work();
            // The place is free before the result is told: who asks next may be the one who is told.
            drop(place);
            Some(done)
        });
        let result = match tokio::time::timeout(self.limits.wait, &mut result).await {
            Ok(result) => result,
            Err(_) if unbegun.take().is_some() => return Err(PoolError::Busy),
            Err(_) => result.await,
        };
        // It was there when a thread came by, or it would have been given up here.
        result.ok().flatten().ok_or(PoolError::Panicked)
    }
}

/// Waits for room and does what it is for, also while nobody polls whoever asked; ends with him. `None` if it panicked.
///
/// A place is given to who waits for it even if he does not come for it: a stream whose client does not read would keep it from
/// all others.
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

/// Makes a thread give way to others, as Linux has it. Where it cannot be had, bulk work is as urgent as the rest.
fn give_way() {
    if let Err(error) = rustix::process::nice(NICE) {
        tracing::debug!(%error, "bulk work does not give way");
    }
}

/// The life of a thread.
fn work_off(tasks: &Mutex<sync_mpsc::Receiver<Task>>) {
    loop {
        // Held while one waits for a task; the others wait for the lock, which comes to the same.
        let task = tasks.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(task) = task else { return };
        let _ = std::panic::catch_unwind(AssertUnwindSafe(task));
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinHandle;

    use super::*;

    fn pool(queue: usize) -> CpuPool {
        CpuPool::new(PoolLimits { permits: 1, queue, wait: Duration::from_millis(20) })
    }

    /// Work that keeps the one thread of a lane, which has begun; and how to let it end.
    async fn occupied(
        pool: &CpuPool,
        patience: Patience,
    ) -> (JoinHandle<Result<(), PoolError>>, sync_mpsc::Sender<()>) {
        let (begin, begun) = oneshot::channel();
        let (release, held) = sync_mpsc::channel();
        let work = move || {
            begin.send(()).unwrap();
            held.recv().unwrap();
        };
        let pool = pool.clone();
        let slow = tokio::spawn(async move { pool.run(patience, work).await });
        begun.await.unwrap();
        (slow, release)
    }

    #[tokio::test]
    async fn an_impatient_caller_is_told_that_the_pool_is_busy_and_a_stream_waits() {
        let pool = pool(4);
        let (slow, release) = occupied(&pool, Patience::Interactive).await;
        assert_eq!(pool.run(Patience::Interactive, || 1).await, Err(PoolError::Busy));
        assert_eq!(pool.run(Patience::Bulk, || 2).await, Ok(2), "bulk work waits for nobody in a hurry");
        release.send(()).unwrap();
        slow.await.unwrap().unwrap();
        assert_eq!(pool.run(Patience::Interactive, || 3).await, Ok(3));
        assert_eq!(pool.waiting(), 0);
    }

    #[tokio::test]
    async fn what_began_goes_on_past_the_time_to_wait() {
        let pool = pool(0);
        let long = || std::thread::sleep(Duration::from_millis(60));
        assert_eq!(pool.run(Patience::Interactive, long).await, Ok(()));
    }

    #[tokio::test]
    async fn no_more_wait_than_the_queue_holds_and_who_goes_away_has_nothing_done() {
        let patient = PoolLimits { permits: 1, queue: 1, wait: Duration::from_mins(1) };
        let pool = CpuPool::new(patient);
        let (slow, release) = occupied(&pool, Patience::Interactive).await;
        let (done, was_done) = sync_mpsc::channel();
        let other = pool.clone();
        let gone = tokio::spawn(async move { other.run(Patience::Interactive, move || done.send(())).await });
        while pool.waiting() == 0 {
            tokio::task::yield_now().await;
        }
        assert!(pool.is_full());
        assert_eq!(pool.run(Patience::Interactive, || 1).await, Err(PoolError::Busy));
        gone.abort();
        assert!(gone.await.unwrap_err().is_cancelled());
        assert!(was_done.recv().is_err(), "it is given up, and not only forgotten");
        assert_eq!(pool.waiting(), 0, "and so is its place");
        release.send(()).unwrap();
        slow.await.unwrap().unwrap();
        assert_eq!(pool.run(Patience::Interactive, || 2).await, Ok(2));
    }

    #[tokio::test]
    async fn bulk_work_of_who_goes_away_is_not_kept() {
        let pool = pool(0);
        let (slow, release) = occupied(&pool, Patience::Bulk).await;
        let mut gone = tokio::task::JoinSet::new();
        let (done, was_done) = sync_mpsc::channel();
        for _ in 0..10 {
            let (other, done) = (pool.clone(), done.clone());
            gone.spawn(async move { other.run(Patience::Bulk, move || done.send(())).await });
        }
        drop(done);
        while pool.bulk_permits.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        gone.shutdown().await;
        release.send(()).unwrap();
        slow.await.unwrap().unwrap();
        assert_eq!(was_done.iter().count(), 1, "the one that the thread does next");
    }

    #[tokio::test]
    async fn who_is_not_polled_keeps_nobody_waiting() {
        let pool = pool(0);
        let (slow, release) = occupied(&pool, Patience::Bulk).await;
        let other = pool.clone();
        let second = tokio::spawn(async move { other.run(Patience::Bulk, || 2).await });
        while pool.bulk_permits.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        // As a stream does whose client does not read: it has asked for a permit, and never looks whether it has got it.
        let mut stalled = [1, 2].map(|number| Box::pin(pool.run(Patience::Bulk, move || number)));
        for waiting in &mut stalled {
            assert!(futures::poll!(waiting).is_pending());
        }
        release.send(()).unwrap();
        slow.await.unwrap().unwrap();
        assert_eq!(second.await.unwrap(), Ok(2));
        let more = tokio::time::timeout(Duration::from_mins(1), pool.run(Patience::Bulk, || 3)).await;
        assert_eq!(more, Ok(Ok(3)));
    }

    #[tokio::test]
    async fn bulk_work_is_done_in_turn_by_its_own_threads() {
        let pool = pool(0);
        let (slow, release) = occupied(&pool, Patience::Bulk).await;
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
        slow.await.unwrap().unwrap();
        assert_eq!(next.await.unwrap(), Ok(Some("lookalike-bulk-0".to_owned())));
    }

    #[tokio::test]
    async fn a_panic_is_an_error_and_gives_the_place_back() {
        let pool = pool(0);
        let work = || -> u8 { panic!("on purpose") };
        for patience in [Patience::Interactive, Patience::Bulk] {
            assert_eq!(pool.run(patience, work).await, Err(PoolError::Panicked));
            assert_eq!(pool.run(patience, || 3).await, Ok(3));
        }
    }
}
