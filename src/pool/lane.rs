//! A lane: threads, and the tasks that wait for them, which clients take in turns.
//!
//! Clients with waiting tasks stand in a ring. A thread takes the oldest task of the first client and puts the client
//! at the end of the ring. When the queue is full, a client with fewer tasks in it displaces the newest task of the
//! client with the most.
//!
//! One lock guards all of it. It is held for a few steps, never while a task runs or is dropped.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::process::{Pid, setpriority_process};
use rustix::thread::gettid;

use super::PoolError;
use crate::call::Client;

/// The priority of bulk threads, and of threads with a task that was moved out of the way: at 10 the system gives
/// them a tenth of a processor that another thread wants.
const NICE: i32 = 10;

/// What a lane is like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) name: &'static str,
    /// Tasks that run at a time, those that were moved out of the way aside.
    pub(super) permits: usize,
    /// Tasks that wait, at most.
    pub(super) queue: usize,
    /// Running tasks that may have been moved out of the way, half of them of one client.
    pub(super) moved: usize,
    /// Whether its threads have a low priority.
    pub(super) is_bulk: bool,
}

/// A task; what it gives back tells its result.
type Work = Box<dyn FnOnce() -> Tell + Send>;
pub(super) type Tell = Box<dyn FnOnce() + Send>;

struct Task {
    number: u64,
    work: Work,
}

struct Running {
    client: Client,
    since: Instant,
    thread: Pid,
    is_moved: bool,
}

#[derive(Default)]
struct State {
    /// The waiting tasks of each client, the oldest first; none is empty.
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
    /// A task was queued, or a client may begin another one.
    work: Condvar,
    /// How many tasks wait, for those who only look.
    waiting: AtomicUsize,
}

/// A handle to a lane. Its threads end with the last handle, after the tasks that they are at.
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
        });
        for _ in 0..rules.permits {
            // Without a thread its work waits for the others; without any, callers are told that the pool is busy.
            start(&inner);
        }
        Lane(Arc::new(Handle(inner)))
    }

    /// How many tasks wait.
    pub(super) fn waiting(&self) -> usize {
        self.0.0.waiting.load(Ordering::Relaxed)
    }

    /// Whether a task of this client would be refused.
    pub(super) fn is_full_for(&self, client: Client) -> bool {
        let inner = &self.0.0;
        if self.waiting() < inner.rules.queue {
            return false;
        }
        let state = inner.state.lock();
        !state.has_room(&inner.rules) && state.to_displace(client).is_none()
    }

    /// Queues a task; its number.
    ///
    /// # Errors
    /// [`PoolError::Busy`] if the queue is full and no other client has more tasks in it.
    pub(super) fn push(&self, client: Client, work: Work) -> Result<u64, PoolError> {
        let inner = &self.0.0;
        let mut state = inner.state.lock();
        let displaced = if state.has_room(&inner.rules) {
            None
        } else {
            let crowded = state.to_displace(client).ok_or(PoolError::Busy)?;
            state.pop_newest(crowded)
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

    /// Whether a task has not begun.
    pub(super) fn is_waiting(&self, client: Client, number: u64) -> bool {
        let state = self.0.0.state.lock();
        state.waiting.get(&client).is_some_and(|tasks| tasks.iter().any(|task| task.number == number))
    }

    /// Takes a task out of the queue; whether it had not begun.
    pub(super) fn withdraw(&self, client: Client, number: u64) -> bool {
        let inner = &self.0.0;
        let task = inner.state.lock().take(client, number);
        if task.is_some() {
            inner.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        task.is_some()
    }

    /// Moves tasks that have run for longer than this out of the way, as many as may be.
    pub(super) fn make_way(&self, slice: Duration) {
        let inner = &self.0.0;
        let mut begun = 0;
        let mut state = inner.state.lock();
        let mut moved = state.running.values().filter(|running| running.is_moved).count();
        for running in state.running.values_mut() {
            if !running.is_moved && running.since.elapsed() >= slice && moved < inner.rules.moved {
                running.is_moved = true;
                moved += 1;
                begun += 1;
                if let Err(error) = setpriority_process(Some(running.thread), NICE) {
                    tracing::debug!(%error, "a long task keeps its priority");
                }
            }
        }
        drop(state);
        (0..begun).for_each(|_| start(inner));
    }
}

impl State {
    /// Whether a task more can run or wait.
    fn has_room(&self, rules: &Rules) -> bool {
        let running = self.running.values().filter(|running| !running.is_moved).count();
        let waiting: usize = self.waiting.values().map(VecDeque::len).sum();
        running + waiting < rules.permits.saturating_add(rules.queue)
    }

    /// The client with the most waiting tasks, if it has more than this one will have with another.
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

    /// Running tasks of a client that were moved out of the way.
    fn moved_of(&self, client: Client) -> usize {
        self.running.values().filter(|running| running.is_moved && running.client == client).count()
    }

    /// The task whose turn it is.
    fn next(&mut self, rules: &Rules) -> Option<(Client, Task)> {
        for _ in 0..self.ring.len() {
            let client = self.ring.pop_front()?;
            if rules.moved > 0 && self.moved_of(client) >= rules.moved.div_ceil(2) {
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

/// The life of a thread: until the lane is closed, or until another thread has taken its place.
fn work(inner: &Inner) {
    let thread = gettid();
    if inner.rules.is_bulk
        && let Err(error) = setpriority_process(Some(thread), NICE)
    {
        tracing::debug!(%error, "bulk work has the priority of all other work");
    }
    let mut state = inner.state.lock();
    loop {
        let Some((client, task)) = state.next(&inner.rules) else {
            if state.is_closed {
                return;
            }
            inner.work.wait(&mut state);
            continue;
        };
        inner.waiting.fetch_sub(1, Ordering::Relaxed);
        state.running.insert(task.number, Running { client, since: Instant::now(), thread, is_moved: false });
        drop(state);
        let number = task.number;
        let tell = catch_unwind(AssertUnwindSafe(task.work));
        // The place is free before the result is told: who is told may ask again at once.
        let is_moved = inner.state.lock().running.remove(&number).is_some_and(|running| running.is_moved);
        if let Ok(tell) = tell {
            tell();
        }
        state = inner.state.lock();
        if is_moved {
            // Its client may begin another task now.
            inner.work.notify_one();
            return;
        }
    }
}
