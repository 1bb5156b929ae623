//! Servers that run the engine's real planning and commits over the real log, in a world that fails by a
//! seed (`lookalike-log`, `objects/world`), are held against a sequential twin: one server that applies the
//! entries of the log one by one.
//!
//! It runs appends, tails and snapshots of the log, the order of commands (`LogOrder`), entries, the writer
//! with its groups and its work in the background, the store, starts, and joins by a snapshot. Servers are
//! killed between any two steps, start again from their directory, lose it, and fall behind until the log
//! does not reach back to them. Clocks are wrong by seconds.
//!
//! In the end all have the same bytes in the store, the same clusters and an index that fits, every write
//! that was acknowledged is in the log, and each command was answered as by the twin.
//!
//! *Replaced*: the store of the log, the time, the threads of writers, whose steps the seed orders, and what
//! makes commands of requests. The directories are in memory where the machine has a file system for that; a
//! commit is whole there or not at all (`tests/torture` tears them).
//!
//! *Absent*: queries, the snapshot thread, hints, the comparison of digests (`agreement`), and a server that
//! writes before the log (`sender`).

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::{AbortHandle, BoxFuture, FutureExt};
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use parking_lot::Mutex;
use tempfile::TempDir;

use super::in_tests::settings;
use super::{Entry, LogOrder, turn_of};
use lookalike_engine::simulation::{Answer, Server, Told};
use lookalike_engine::{EngineSettings, Membership, OpenError, StoreSettings, Submission, replace_data};
use lookalike_hash::CollectionName;
use lookalike_log::memory::MemoryLog;
use lookalike_log::objects::ObjectLog;
use lookalike_log::objects::world::{World, each_seed};
use lookalike_log::{self as log, Log, LogError, Position};
use lookalike_store::StoreError;

const SERVERS: usize = 3;
/// The time with faults, that after which all servers run, and that at which all have read all entries.
const STORM: Duration = Duration::from_secs(30);
const CALM: Duration = Duration::from_secs(38);
const END: Duration = Duration::from_secs(48);
/// How late a request takes effect. What it makes or removes must not have been removed meanwhile, so the log
/// keeps what is younger than this and the time in which a server notices that the log has grown.
const LATE: Duration = Duration::from_secs(5);
const KEEP: Duration = Duration::from_secs(16);
/// The time of the world begins at this one, in milliseconds since 1970-01-01 UTC.
const BEGIN_MS: u64 = 1_700_000_000_000;
/// How far clocks are wrong at most.
const SKEW_MS: u64 = 4_000;

thread_local! {
    static WALL_MS: Cell<u64> = const { Cell::new(0) };
}

fn engine_settings() -> EngineSettings {
    let of_tests = settings();
    let store = StoreSettings { journal_bytes: 256 << 10, ..of_tests.store };
    EngineSettings { wall_ms: || WALL_MS.get(), store, ..of_tests }
}

/// What identifies an entry: a start of a server, and its number there.
type Id = ([u8; 16], u64);

#[derive(Default)]
struct Notes {
    /// The entries of the log, as any server has read them.
    entries: BTreeMap<u64, Bytes>,
    /// The collections to which the entries of this server write.
    written: BTreeMap<Id, Vec<CollectionName>>,
    told: BTreeMap<Id, Told>,
}

struct Scenario {
    world: World,
    dir: TempDir,
    notes: Mutex<Notes>,
    running: Mutex<[Option<Arc<Mutex<Server>>>; SERVERS]>,
}

/// The log as a server reads it.
struct Noted {
    log: ObjectLog,
    of: Arc<Scenario>,
    /// Whether the clock of the server is known to be right.
    is_right: bool,
}

impl Log for Noted {
    fn append(&self, payload: Bytes, within: Duration) -> BoxFuture<'_, Result<Position, LogError>> {
        self.log.append(payload, within)
    }

    fn tail(&self, after: Position) -> BoxStream<'static, Result<log::Entry, LogError>> {
        let of = Arc::clone(&self.of);
        let note = move |read: &Result<log::Entry, LogError>| {
            if let Ok(log::Entry { position: Position(at), payload, .. }) = read {
                let mut notes = of.notes.lock();
                let known = notes.entries.entry(*at).or_insert_with(|| payload.clone());
                assert_eq!(known, payload, "entry {at}");
            }
        };
        self.log.tail(after).inspect(note).boxed()
    }

    fn last(&self) -> BoxFuture<'_, Result<(Position, u64), LogError>> {
        self.log.last()
    }

    fn max_payload(&self) -> usize {
        self.log.max_payload()
    }

    fn ahead_ms(&self) -> Option<i64> {
        self.is_right.then_some(0)
    }
}

/// Opens the data in a directory, where a killed server may still end.
fn open(dir: &Path, membership: &Membership) -> Server {
    loop {
        match Server::open(dir, engine_settings(), membership.clone()) {
            Err(OpenError::Store(StoreError::Locked(_))) => std::thread::yield_now(),
            opened => return opened.unwrap(),
        }
    }
}

impl Scenario {
    /// The directory of a start of a server.
    fn dir(&self, process: u128) -> PathBuf {
        self.dir.path().join(process.to_string())
    }

    fn one_in(&self, times: u64) -> bool {
        self.world.number(0..times) == 0
    }

    /// Runs a server until it is killed. Then it starts again.
    async fn serve(self: Arc<Self>, at: usize) {
        let (mut process, mut has_lost) = ((at as u128 + 1) << 64, true);
        let mut dir = self.dir(process);
        while self.world.now() < END {
            process += 1;
            let log = self.world.log(&at.to_string(), process);
            if has_lost {
                // Threads of the one before may still end.
                dir = self.dir(process);
                self.join(&log, &dir).await;
            }
            let skew_ms = self.world.number(0..SKEW_MS);
            WALL_MS.set(self.clock_ms(skew_ms));
            let noted = Noted { log: log.clone(), of: Arc::clone(&self), is_right: !self.one_in(6) };
            let order = Arc::new(LogOrder::new(Arc::new(noted), process));
            let membership = Membership { order: order.clone(), origin: process, server: at.to_string() };
            let server = Arc::new(Mutex::new(open(&dir, &membership)));
            self.running.lock()[at] = Some(Arc::clone(&server));
            let turns = server.lock().turns();
            let follower = Arc::clone(&order);
            let entries = order.log.tail(Position(turns.position()));
            let tasks = [
                self.world.start(async move { follower.follow(&turns, entries).await }),
                self.world.start(Arc::clone(&self).ask(Arc::clone(&order), Arc::clone(&server), skew_ms)),
                self.world.start(Arc::clone(&self).work(Arc::clone(&server))),
                self.world.start(Arc::clone(&self).keep_snapshots(log, Arc::clone(&server))),
            ];
            drop(server);
            let end = self.world.now() + Duration::from_millis(self.world.number(500..24_000));
            // One from whose place the log is removed meanwhile finds that out after a minute, or at a start.
            let end = if self.world.now() < CALM { end.min(STORM) } else { END };
            while self.world.now() < end && order.trouble().is_none() {
                self.world.pause(1_000).await;
            }
            if self.world.now() >= END {
                return;
            }
            tasks.iter().for_each(AbortHandle::abort);
            self.running.lock()[at] = None;
            let trouble = order.trouble();
            assert!(trouble.as_ref().is_none_or(|trouble| trouble.is_trimmed), "{trouble:?}");
            // The tasks end before it waits, and with them the server.
            drop(order);
            let most_ms = if self.one_in(3) { 25_000 } else { 2_000 };
            let away = Duration::from_millis(self.world.number(1..most_ms));
            let start = self.world.now() + away;
            // The last start is when nothing is removed any more.
            let start = if start < STORM { start } else { CALM };
            self.world.sleep(start.saturating_sub(self.world.now())).await;
            has_lost = trouble.is_some() || self.one_in(6);
        }
    }

    /// The time by a clock that is wrong.
    fn clock_ms(&self, skew_ms: u64) -> u64 {
        BEGIN_MS + self.world.now().as_millis() as u64 + skew_ms - SKEW_MS / 2
    }

    /// Replaces the data in a directory by those of the newest snapshot, or if there is none by nothing.
    async fn join(&self, log: &ObjectLog, dir: &Path) {
        loop {
            let copied = match log.newest_snapshot(None).await {
                Ok(None) => return,
                Ok(Some(snapshot)) => log.read_snapshot(&snapshot).try_collect::<Vec<Bytes>>().await,
                Err(error) => Err(error),
            };
            match copied {
                Ok(pieces) => {
                    return replace_data(dir, &engine_settings(), &mut &pieces.concat()[..]).unwrap();
                }
                Err(error) => assert!(!matches!(error, LogError::Damaged(_)), "{error}"),
            }
            self.world.pause(1_000).await;
        }
    }

    /// Sends commands, one after another.
    async fn ask(self: Arc<Self>, order: Arc<LogOrder>, server: Arc<Mutex<Server>>, skew_ms: u64) {
        // It is not ready before.
        while order.log.last().await.is_err() {
            self.world.pause(1_000).await;
        }
        for number in 1.. {
            self.world.pause(700).await;
            if self.world.now() >= STORM {
                return;
            }
            let time_ms = self.clock_ms(skew_ms);
            let draw = |server: &Server| server.draw(time_ms, &mut |end| self.world.number(0..end));
            let (payload, written) = draw(&server.lock()).unwrap();
            let (callers, answer) = Answer::new(&written);
            let id = (order.origin.to_be_bytes(), number);
            self.notes.lock().written.insert(id, written);
            let noting = Arc::clone(&self);
            // It ends when the server does.
            self.world.spawn(async move {
                let told = answer.told().await;
                noting.notes.lock().told.insert(id, told);
            });
            order.append(Submission { payload, callers, time_ms, joins: false }, number, &mut None).await;
        }
    }

    /// Lets the writer work, quickly or slowly.
    async fn work(self: Arc<Self>, server: Arc<Mutex<Server>>) {
        loop {
            let pause_ms = [1, 20, 100, 3_000][self.world.number(0..4) as usize];
            self.world.pause(pause_ms).await;
            let is_calm = self.world.now() >= STORM;
            let mut steps = if is_calm { u64::MAX } else { self.world.number(1..8) };
            let mut server = server.lock();
            while steps > 0 && server.step() {
                steps -= 1;
            }
        }
    }

    async fn keep_snapshots(self: Arc<Self>, log: ObjectLog, server: Arc<Mutex<Server>>) {
        while self.world.now() < STORM {
            self.world.pause(6_000).await;
            let (position, copy) = server.lock().copy().unwrap();
            let pieces: Vec<_> = copy.chunks(4_000).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
            let _ = log.write_snapshot(Position(position), stream::iter(pieces).boxed()).await;
            let _ = log.tell(b"").await;
            if let Err(error @ LogError::Damaged(_)) = log.remove_old(KEEP).await {
                panic!("{error}");
            }
        }
    }

    /// Applies the entries one by one. Returns the twin, and what its callers were told.
    fn twin(&self) -> (Server, BTreeMap<Id, Told>) {
        WALL_MS.set(BEGIN_MS);
        let order = Arc::new(LogOrder::new(Arc::new(MemoryLog::default()), 0));
        let membership = Membership { order, origin: 0, server: "twin".to_owned() };
        let mut twin = open(&self.dir(0), &membership);
        let (mut told, mut after) = (BTreeMap::new(), 0);
        let notes = self.notes.lock();
        for (&at, payload) in &notes.entries {
            assert_eq!(at, after + 1, "an entry is missing");
            let entry = Entry::from_bytes(payload).unwrap();
            let id = entry.id();
            let (callers, answer) = Answer::new(&notes.written[&id]);
            let turn = turn_of(entry, (after, at, at), payload.clone(), callers);
            assert_eq!(twin.turns().take(turn).now_or_never(), Some(true));
            while twin.step() {}
            assert_eq!(told.insert(id, answer.told().now_or_never().unwrap()), None, "it is there twice");
            after = at;
        }
        twin.settle();
        (twin, told)
    }
}

fn run(seed: u64) -> usize {
    let world = World::new(seed, false);
    world.limit_lateness(LATE);
    let memory = Path::new("/dev/shm");
    let dir = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() };
    let scenario = Arc::new(Scenario {
        world: world.clone(),
        dir: dir.unwrap(),
        notes: Mutex::default(),
        running: Mutex::default(),
    });
    for at in 0..SERVERS {
        world.spawn(Arc::clone(&scenario).serve(at));
    }
    world.run_through(STORM, END);
    let (twin, expected) = scenario.twin();
    let state = twin.state().unwrap();
    assert_eq!(twin.flaw().unwrap(), None);
    // They hold the scenario.
    let running = std::mem::take(&mut *scenario.running.lock());
    for server in running {
        let server = server.unwrap();
        let mut server = server.lock();
        server.settle();
        assert_eq!(server.flaw().unwrap(), None);
        assert_eq!(server.position(), twin.position());
        let own = server.state().unwrap();
        own.iter().zip(&state).for_each(|(own, other)| assert_eq!(own, other));
        assert_eq!(own.len(), state.len());
    }
    let notes = scenario.notes.lock();
    for (id, told) in &notes.told {
        match told {
            Told::Done(_) => assert_eq!(expected.get(id), Some(told)),
            Told::Unwritten => assert!(!expected.contains_key(id), "{id:?} is in the log"),
            Told::Unknown => {}
        }
    }
    notes.entries.len()
}

#[test]
fn servers_and_a_sequential_twin_have_the_same_data_and_give_the_same_answers() {
    each_seed(run);
}
