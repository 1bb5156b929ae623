//! A world for simulations: virtual time, tasks that take turns by a seed, and a store that fails.
//!
//! `LOOKALIKE_LOG_SEEDS=100000` runs as many seeds, and `LOOKALIKE_LOG_SEED=17` only this one.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::num::NonZero;
use std::panic::{RefUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::available_parallelism;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::{AbortHandle, BoxFuture, abortable, pending};
use parking_lot::Mutex;

use super::ObjectLog;
use super::store::{Answer, Created, Fate, Listed, Objects, StoreError};
use super::time::Time;

/// How often requests fail, in percent of all, and how late they are at most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weather {
    /// The request is lost: no effect, no answer.
    pub(super) lost: u32,
    /// It has an effect, and no answer.
    pub(super) unanswered: u32,
    /// It has an effect long after the caller has given up: by so many milliseconds at most.
    pub(super) late: u32,
    late_ms: u64,
    /// No connection is made.
    pub(super) unconnected: u32,
    /// An error, with or without an effect.
    pub(super) error: u32,
    /// It is done twice, and the answer is the second one, such as a conflict with itself.
    pub(super) repeated: u32,
    /// A conflict without an object.
    pub(super) conflict: u32,
    /// An object that was made in the last second is not seen.
    pub(super) unseen: u32,
    pub(super) delay_ms: u64,
}

impl Weather {
    const FAIR: Weather = Weather {
        lost: 0,
        unanswered: 0,
        late: 0,
        late_ms: 0,
        unconnected: 0,
        error: 0,
        repeated: 0,
        conflict: 0,
        unseen: 0,
        delay_ms: 5,
    };

    fn drawn(rng: &mut fastrand::Rng) -> Weather {
        let mut percent = || if rng.bool() { rng.u32(0..12) } else { 0 };
        Weather {
            lost: percent(),
            unanswered: percent(),
            late: percent(),
            late_ms: 15_000,
            unconnected: percent(),
            error: percent(),
            repeated: percent(),
            conflict: percent(),
            unseen: percent(),
            delay_ms: rng.u64(1..60),
        }
    }
}

struct State {
    now: Duration,
    timers: BTreeMap<(Duration, u64), Waker>,
    count: u64,
    spawned: Vec<BoxFuture<'static, ()>>,
    rng: fastrand::Rng,
    weather: Weather,
    objects: BTreeMap<String, (Bytes, Duration)>,
    /// Whether a store makes an object again that exists, which none may.
    is_broken: bool,
}

/// A world. Clones are the same one.
#[derive(Clone)]
pub struct World(Arc<Mutex<State>>);

struct Task {
    id: usize,
    ready: Arc<Mutex<Vec<usize>>>,
}

impl Wake for Task {
    fn wake(self: Arc<Task>) {
        let mut ready = self.ready.lock();
        if !ready.contains(&self.id) {
            ready.push(self.id);
        }
    }
}

impl World {
    /// A world by a seed. If it `is_broken`, its store makes an object again that exists, which none may.
    pub fn new(seed: u64, is_broken: bool) -> World {
        let mut rng = fastrand::Rng::with_seed(seed);
        let weather = Weather::drawn(&mut rng);
        World(Arc::new(Mutex::new(State {
            now: Duration::ZERO,
            timers: BTreeMap::new(),
            count: 0,
            spawned: Vec::new(),
            rng,
            weather,
            objects: BTreeMap::new(),
            is_broken,
        })))
    }

    /// Lets no request take longer than this, or two seconds more.
    pub fn limit_lateness(&self, most: Duration) {
        self.0.lock().weather.late_ms = most.as_millis() as u64;
    }

    /// The log in the store of this world.
    pub fn log(&self, server: &str, process: u128) -> ObjectLog {
        ObjectLog::of(Box::new(self.clone()), Box::new(self.clone()), server, process)
    }

    /// The time since the beginning.
    pub fn now(&self) -> Duration {
        self.0.lock().now
    }

    /// Waits.
    pub fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        let world = self.clone();
        let until = self.now() + time;
        poll_fn(move |context| {
            let mut state = world.0.lock();
            if state.now >= until {
                return Poll::Ready(());
            }
            state.count += 1;
            let key = (until, state.count);
            state.timers.insert(key, context.waker().clone());
            Poll::Pending
        })
        .boxed()
    }

    /// Waits for a random time of up to so many milliseconds.
    pub async fn pause(&self, most_ms: u64) {
        self.sleep(Duration::from_millis(self.number(0..most_ms))).await;
    }

    /// Spawns a task.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.0.lock().spawned.push(task.boxed());
    }

    /// Spawns a task that can be aborted.
    pub fn start(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let (task, handle) = abortable(task);
        self.spawn(task.map(drop));
        handle
    }

    /// A random number.
    pub fn number(&self, range: std::ops::Range<u64>) -> u64 {
        self.0.lock().rng.u64(range)
    }

    pub(super) fn weather(&self) -> Weather {
        self.0.lock().weather
    }

    /// The objects of a folder and below it, in the order of their names.
    #[cfg(test)]
    pub(super) fn below(&self, folder: &str) -> Vec<Bytes> {
        let objects = &self.0.lock().objects;
        objects
            .iter()
            .filter(|(name, _)| name.starts_with(folder))
            .map(|(_, found)| found.0.clone())
            .collect()
    }

    /// The names of the objects of a folder, in their order.
    #[cfg(test)]
    pub(super) fn names(&self, folder: &str) -> Vec<String> {
        let objects = &self.0.lock().objects;
        objects.keys().filter_map(|name| name.strip_prefix(folder)).map(str::to_owned).collect()
    }

    fn hits(&self, percent: u32) -> bool {
        self.0.lock().rng.u32(0..100) < percent
    }

    /// Runs all tasks in a world that fails until `storm`, and then in fair weather until `end`.
    pub fn run_through(&self, storm: Duration, end: Duration) {
        let world = self.clone();
        self.spawn(async move {
            world.sleep(storm).await;
            world.0.lock().weather = Weather::FAIR;
        });
        self.run(end);
    }

    /// Runs all tasks until nothing can happen any more, or until some time.
    fn run(&self, until: Duration) {
        let ready = Arc::new(Mutex::new(Vec::new()));
        let mut tasks: Vec<Option<BoxFuture<'static, ()>>> = Vec::new();
        loop {
            for task in std::mem::take(&mut self.0.lock().spawned) {
                ready.lock().push(tasks.len());
                tasks.push(Some(task));
            }
            let next = {
                let mut ready = ready.lock();
                let count = ready.len();
                (count > 0).then(|| ready.swap_remove(self.0.lock().rng.usize(0..count)))
            };
            if let Some(id) = next {
                let waker = Waker::from(Arc::new(Task { id, ready: Arc::clone(&ready) }));
                if let Some(task) = &mut tasks[id]
                    && task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready()
                {
                    tasks[id] = None;
                }
                continue;
            }
            let mut state = self.0.lock();
            let Some(((at, _), waker)) = state.timers.pop_first() else { return };
            if at > until {
                return;
            }
            state.now = at;
            drop(state);
            waker.wake();
        }
    }

    /// What a request does, when, and what is answered. It goes on if nobody waits for it any more.
    fn request<T: Send + 'static>(
        &self,
        name: &str,
        effect: impl Fn(&mut State) -> T + Send + 'static,
    ) -> Answer<'static, T> {
        let (world, object, weather) = (self.clone(), name.to_owned(), self.weather());
        if self.hits(weather.lost) {
            return pending().boxed();
        }
        if self.hits(weather.unconnected) {
            let source = "no connection".into();
            let error = StoreError { object, fate: Fate::Undone, source };
            return futures::future::ready(Err(error)).boxed();
        }
        let (answer, answered) = oneshot::channel();
        self.spawn(async move {
            let most = if world.hits(weather.late) { weather.late_ms } else { weather.delay_ms };
            world.sleep(Duration::from_micros(world.number(0..1000 * most))).await;
            if world.hits(weather.error) {
                if world.hits(50) {
                    effect(&mut world.0.lock());
                }
                let _ = answer.send(Err(StoreError::unknown(&object, "503")));
                return;
            }
            let mut done = effect(&mut world.0.lock());
            if world.hits(weather.repeated) {
                world.sleep(Duration::from_millis(world.number(0..2_000))).await;
                done = effect(&mut world.0.lock());
            }
            world.sleep(Duration::from_micros(world.number(0..1000 * weather.delay_ms))).await;
            if !world.hits(weather.unanswered) {
                let _ = answer.send(Ok(done));
            }
        });
        async move {
            match answered.await {
                Ok(answer) => answer,
                Err(_) => pending().await,
            }
        }
        .boxed()
    }

    /// Whether an object is there that the store does not show yet.
    fn hides(&self, name: &str) -> bool {
        let is_new = {
            let state = self.0.lock();
            let made = state.objects.get(name).map(|(_, made)| *made);
            made.is_some_and(|made| state.now < made + Duration::from_secs(1))
        };
        is_new && self.hits(self.weather().unseen)
    }
}

impl Time for World {
    fn now(&self) -> Duration {
        World::now(self)
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        World::sleep(self, time)
    }
}

impl Objects for World {
    fn place(&self) -> &'static str {
        "sim://"
    }

    fn polls(&self) -> (Duration, Duration) {
        (Duration::from_millis(20), Duration::from_millis(200))
    }

    fn create<'a>(&'a self, name: &'a str, bytes: Bytes) -> Answer<'a, Created> {
        if self.hits(self.weather().conflict) {
            return futures::future::ready(Ok(Created::Taken)).boxed();
        }
        let own = name.to_owned();
        self.request(name, move |state| {
            if state.objects.contains_key(&own) && !state.is_broken {
                return Created::Taken;
            }
            state.objects.insert(own.clone(), (bytes.clone(), state.now));
            Created::New
        })
    }

    fn read<'a>(&'a self, name: &'a str) -> Answer<'a, Option<Bytes>> {
        let (own, world) = (name.to_owned(), self.clone());
        let read = self.request(name, move |state| state.objects.get(&own).map(|found| found.0.clone()));
        async move { Ok(read.await?.filter(|_| !world.hides(name))) }.boxed()
    }

    fn exists<'a>(&'a self, name: &'a str) -> Answer<'a, bool> {
        self.read(name).map(|found| Ok(found?.is_some())).boxed()
    }

    fn replace<'a>(&'a self, name: &'a str, bytes: Bytes) -> Answer<'a, ()> {
        let own = name.to_owned();
        self.request(name, move |state| {
            state.objects.insert(own.clone(), (bytes.clone(), state.now));
        })
    }

    fn list<'a>(&'a self, folder: &'a str) -> Answer<'a, Vec<Listed>> {
        let own = format!("{folder}/");
        self.request(folder, move |state| {
            let listed = state.objects.iter().filter_map(|(name, (_, made))| {
                let name = name.strip_prefix(&own).filter(|name| !name.contains('/'))?;
                Some(Listed { name: name.to_owned(), changed: SystemTime::UNIX_EPOCH + *made })
            });
            listed.collect()
        })
    }

    fn remove<'a>(&'a self, name: &'a str) -> Answer<'a, ()> {
        let own = name.to_owned();
        self.request(name, move |state| {
            state.objects.remove(&own);
        })
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Runs a scenario with many seeds on all processors, or with the one that is asked for. Each run returns how
/// much it did.
///
/// # Panics
/// If a run does, with the seed that repeats it; or if all have done too little.
pub fn each_seed(run: impl Fn(u64) -> usize + Sync + RefUnwindSafe) {
    let seeds = match number("LOOKALIKE_LOG_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("LOOKALIKE_LOG_SEEDS").unwrap_or(1_000),
    };
    let (next, done) = (AtomicU64::new(seeds.start), AtomicUsize::new(0));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            let ran = catch_unwind(|| run(seed)).unwrap_or_else(|_| {
                next.store(seeds.end, Ordering::Relaxed);
                panic!("LOOKALIKE_LOG_SEED={seed} repeats this failure")
            });
            done.fetch_add(ran, Ordering::Relaxed);
        }
    };
    let threads = available_parallelism().map_or(1, NonZero::get);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let (done, count) = (done.into_inner(), seeds.end - seeds.start);
    println!("{done} entries or snapshots with {count} seeds");
    assert!(count == 1 || done as u64 > 20 * count, "only {done}");
}
