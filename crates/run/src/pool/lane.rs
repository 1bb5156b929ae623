//! A lane: threads, and the queue of tasks that wait for them. Clients take turns.
//!
//! Clients with waiting tasks form a ring. A thread takes the oldest task of the first client and moves the
//! client to the end of the ring. If the queue is full, a task of a client with fewer waiting tasks
//! displaces the newest task of the client with the most.
//!
//! One lock guards all of it. It is held for a few steps, never while a task runs or is dropped.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::process::{Pid, setpriority_process};
use rustix::thread::gettid;

use super::PoolError;
use crate::call::Client;
use crate::machine::thread_time;

/// The nice value of bulk threads and of threads with a demoted task: at 10 the system gives them a tenth
/// of a processor that another thread wants.
const NICE: i32 = 10;

/// The parameters of a lane.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) name: &'static str,
    /// Tasks that run at a time, without the demoted ones.
    pub(super) permits: usize,
    /// The capacity of the queue.
    pub(super) queue: usize,
    /// Tasks that may run demoted at a time, half of them of one client.
    pub(super) demoted: usize,
    /// Whether its threads have a low priority.
    pub(super) is_bulk: bool,
}

/// A task. It returns a closure that delivers its result.
type Work = Box<dyn FnOnce() -> Deliver + Send>;
pub(super) type Deliver = Box<dyn FnOnce() + Send>;

struct Task {
    number: u64,
    work: Work,
}

struct Running {
    client: Client,
    since: Instant,
    thread: Pid,
    is_demoted: bool,
}

#[derive(Default)]
struct State {
    /// The waiting tasks of each client, the oldest first. No queue in it is empty.
    waiting: HashMap<Client, VecDeque<Task>>,
    /// Each client that has waiting tasks, once.
    ring: VecDeque<Client>,
    running: HashMap<u64, Running>,
    next: u64,
    is_closed: bool,
}

struct Inner {
    rules: Rules,
    state: Mutex<State>,
    /// Signals that a task was queued, or that a client may start another one.
    work: Condvar,
    /// The number of waiting tasks, readable without the lock.
    waiting: AtomicUsize,
    /// The processor time for which tasks kept others waiting, in nanoseconds: that of the tasks that have
    /// ended, and of a demoted task the slice after which another thread replaced its own.
    worked: AtomicU64,
}

impl Inner {
    fn add_work(&self, time: Duration) {
        self.worked.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

/// A handle to a lane. Its threads end after the last handle is dropped and the queue is empty.
#[derive(Clone)]
pub(super) struct Lane(Arc<Handle>);

struct Handle(Arc<Inner>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.state.lock().is_closed = true;
        self.0.work.notify_all();
    }
}

impl Lane {
    pub(super) fn new(rules: Rules) -> Lane {
        let inner = Arc::new(Inner {
            rules,
            state: Mutex::default(),
            work: Condvar::new(),
            waiting: AtomicUsize::new(0),
            worked: AtomicU64::new(0),
        });
        for _ in 0..rules.permits {
            // If a thread cannot be started, the others do its work. If none can, callers get the error
            // that the pool is busy.
            start(&inner);
        }
        Lane(Arc::new(Handle(inner)))
    }

    /// The number of waiting tasks.
    pub(super) fn waiting(&self) -> usize {
        self.0.0.waiting.load(Ordering::Relaxed)
    }

    /// The processor time for which tasks kept others waiting.
    pub(super) fn worked(&self) -> Duration {
        Duration::from_nanos(self.0.0.worked.load(Ordering::Relaxed))
    }

    /// Adds processor time that tasks had.
    pub(super) fn add_work(&self, time: Duration) {
        self.0.0.add_work(time);
    }

    /// Whether a task of this client would be refused.
    pub(super) fn is_full_for(&self, client: Client) -> bool {
        let inner = &self.0.0;
        if self.waiting() < inner.rules.queue {
            return false;
        }
        let state = inner.state.lock();
        !state.has_capacity(&inner.rules) && state.to_displace(client).is_none()
    }

    /// Queues a task and returns its number.
    ///
    /// # Errors
    /// [`PoolError::Busy`] if the queue is full and no other client has more tasks in it.
    pub(super) fn push(&self, client: Client, work: Work) -> Result<u64, PoolError> {
        let inner = &self.0.0;
        let mut state = inner.state.lock();
        let displaced = if state.has_capacity(&inner.rules) {
            None
        } else {
            let largest = state.to_displace(client).ok_or(PoolError::Busy)?;
            state.pop_newest(largest)
        };
        let number = state.next;
        state.next += 1;
        let tasks = state.waiting.entry(client).or_default();
        tasks.push_back(Task { number, work });
        if tasks.len() == 1 {
            state.ring.push_back(client);
        }
        if displaced.is_none() {
            inner.waiting.fetch_add(1, Ordering::Relaxed);
        }
        drop(state);
        inner.work.notify_one();
        Ok(number)
    }

    /// Whether a task has not started.
    pub(super) fn is_waiting(&self, client: Client, number: u64) -> bool {
        let state = self.0.0.state.lock();
        state.waiting.get(&client).is_some_and(|tasks| tasks.iter().any(|task| task.number == number))
    }

    /// Removes a task from the queue; `false` if it has already started.
    pub(super) fn withdraw(&self, client: Client, number: u64) -> bool {
        let inner = &self.0.0;
        let task = inner.state.lock().take(client, number);
        if task.is_some() {
            inner.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        task.is_some()
    }

    /// Demotes tasks that have run for longer than `slice`, up to the limit of the lane: lowers the
    /// priority of their threads and starts a replacement for each. Returns whether tasks that cannot be
    /// demoted keep all threads.
    pub(super) fn demote_long_tasks(&self, slice: Duration) -> bool {
        let inner = &self.0.0;
        let (mut replacements, mut kept) = (0, 0);
        let mut state = inner.state.lock();
        let mut demoted = state.running.values().filter(|running| running.is_demoted).count();
        for running in state.running.values_mut() {
            if running.is_demoted || running.since.elapsed() < slice {
                continue;
            }
            if demoted >= inner.rules.demoted {
                kept += 1;
            } else {
                running.is_demoted = true;
                demoted += 1;
                replacements += 1;
                if let Err(error) = setpriority_process(Some(running.thread), NICE) {
                    tracing::debug!(%error, "a long task keeps its priority");
                }
            }
        }
        drop(state);
        (0..replacements).for_each(|_| start(inner));
        self.add_work(slice * replacements);
        kept > 0 && kept >= inner.rules.permits
    }
}

impl State {
    /// Whether one more task can run or wait.
    fn has_capacity(&self, rules: &Rules) -> bool {
        let running = self.running.values().filter(|running| !running.is_demoted).count();
        let waiting: usize = self.waiting.values().map(VecDeque::len).sum();
        running + waiting < rules.permits.saturating_add(rules.queue)
    }

    /// The client with the most waiting tasks, if it has more than `client` would have with another one.
    fn to_displace(&self, client: Client) -> Option<Client> {
        let own = self.waiting.get(&client).map_or(0, VecDeque::len);
        let most = self.waiting.iter().max_by_key(|(_, tasks)| tasks.len());
        most.filter(|(_, tasks)| tasks.len() > own + 1).map(|(client, _)| *client)
    }

    fn pop_newest(&mut self, client: Client) -> Option<Task> {
        let number = self.waiting.get(&client)?.back()?.number;
        self.take(client, number)
    }

    fn take(&mut self, client: Client, number: u64) -> Option<Task> {
        let tasks = self.waiting.get_mut(&client)?;
        let at = tasks.iter().position(|task| task.number == number)?;
        let task = tasks.remove(at);
        if tasks.is_empty() {
            self.waiting.remove(&client);
            self.ring.retain(|other| *other != client);
        }
        task
    }

    /// The number of demoted running tasks of a client.
    fn demoted_of(&self, client: Client) -> usize {
        self.running.values().filter(|running| running.is_demoted && running.client == client).count()
    }

    /// Takes the task whose turn it is.
    fn next(&mut self, rules: &Rules) -> Option<(Client, Task)> {
        for _ in 0..self.ring.len() {
            let client = self.ring.pop_front()?;
            if rules.demoted > 0 && self.demoted_of(client) >= rules.demoted.div_ceil(2) {
                self.ring.push_back(client);
                continue;
            }
            let tasks = self.waiting.get_mut(&client)?;
            let task = tasks.pop_front();
            if tasks.is_empty() {
                self.waiting.remove(&client);
            } else {
                self.ring.push_back(client);
            }
            return Some((client, task?));
        }
        None
    }
}

/// Starts a thread of a lane.
fn start(inner: &Arc<Inner>) {
    let name = inner.rules.name;
    let own = Arc::clone(inner);
    let thread = std::thread::Builder::new().name(format!("lookalike-{name}"));
    if let Err(error) = thread.spawn(move || work(&own)) {
        tracing::error!(%error, name, "a thread of the pool cannot be started");
    }
}

/// Runs tasks until the lane is closed, or until another thread has replaced this one.
fn work(inner: &Inner) {
    let thread = gettid();
    if inner.rules.is_bulk
        && let Err(error) = setpriority_process(Some(thread), NICE)
    {
        tracing::debug!(%error, "bulk work keeps the normal priority");
    }
    let mut state = inner.state.lock();
    let mut before = thread_time();
    loop {
        let Some((client, task)) = state.next(&inner.rules) else {
            if state.is_closed {
                return;
            }
            inner.work.wait(&mut state);
            continue;
        };
        inner.waiting.fetch_sub(1, Ordering::Relaxed);
        state
            .running
            .insert(task.number, Running { client, since: Instant::now(), thread, is_demoted: false });
        drop(state);
        let number = task.number;
        let deliver = catch_unwind(AssertUnwindSafe(task.work));
        // The permit is released before the result is delivered: the caller may submit another task at
        // once.
        let is_demoted = inner.state.lock().running.remove(&number).is_some_and(|running| running.is_demoted);
        // The time since the last task is that of this one: a thread that waits takes none.
        let now = thread_time();
        let worked = now.saturating_sub(std::mem::replace(&mut before, now));
        if !is_demoted {
            inner.add_work(worked);
        }
        if let Ok(deliver) = deliver {
            deliver();
        }
        state = inner.state.lock();
        if is_demoted {
            // The client of the demoted task may start another one now.
            inner.work.notify_one();
            return;
        }
    }
}
