//! Servers that append to the log and read it, in a world that fails by a seed, are held against the objects
//! that the store has in the end: one sequence of appends.
//!
//! It runs the real appends and tails, and in `snapshots` the real snapshots. Replaced are the store
//! (`world`), the time, and the engine: a server keeps the payloads that it has read, and loses the last ones
//! in a crash.

mod snapshots;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::future::AbortHandle;
use parking_lot::Mutex;

use super::batch::unpack;
use super::world::{World, each_seed};
use super::{LogError, ObjectLog};
use crate::{Log, Position};

const SERVERS: usize = 3;
/// The time with faults, and the time after it in which all servers read all entries.
const STORM: Duration = Duration::from_secs(20);
const CALM: Duration = Duration::from_mins(1);
/// Shortly before the servers that run then crash.
const END: Duration = Duration::from_secs(79);

/// An append: its payload, when it began and ended, and what it was told.
struct Append {
    payload: Bytes,
    begun: Duration,
    ended: Duration,
    outcome: Outcome,
}

#[derive(Debug)]
enum Outcome {
    At(u64),
    Never,
    Unknown,
}

#[derive(Default)]
struct Notes {
    appends: Vec<Append>,
    /// The payloads that each server has read.
    read: [Vec<Bytes>; SERVERS],
    /// Ends of the log, with the time at which they were asked for.
    ends: Vec<(Duration, u64)>,
    count: u64,
}

struct Scenario {
    world: World,
    notes: Mutex<Notes>,
}

impl Scenario {
    /// Runs a server until it crashes. Then it starts again with what it has on its disk.
    async fn serve(self: Arc<Self>, server: usize) {
        let mut process = (server as u128 + 1) << 64;
        while self.world.now() < STORM {
            process += 1;
            let life = self.world.number(100..8_000);
            let log = self.world.log(&server.to_string(), process);
            let mut handles = Vec::new();
            for _ in 0..2 {
                handles.push(self.world.start(Arc::clone(&self).append(log.clone())));
            }
            handles.push(self.world.start(Arc::clone(&self).follow(log.clone(), server)));
            handles.push(self.world.start(Arc::clone(&self).ask(log)));
            let until = self.world.now() + Duration::from_millis(life);
            let until = if until < STORM { until } else { STORM + CALM };
            self.world.sleep(until.saturating_sub(self.world.now())).await;
            handles.iter().for_each(AbortHandle::abort);
            // What was read last may not be on the disk.
            let lost = self.world.number(0..4) as usize;
            let read = &mut self.notes.lock().read[server];
            read.truncate(read.len().saturating_sub(lost));
        }
    }

    async fn append(self: Arc<Self>, log: ObjectLog) {
        while self.world.now() < STORM {
            self.world.pause(400).await;
            let payload = {
                let mut notes = self.notes.lock();
                notes.count += 1;
                Bytes::from(notes.count.to_string())
            };
            let begun = self.world.now();
            let within = Duration::from_millis(self.world.number(50..5_000));
            let outcome = match log.append(payload.clone(), within).await {
                Ok(Position(at)) => Outcome::At(at),
                Err(LogError::Unknown(_)) => Outcome::Unknown,
                Err(LogError::Unavailable { .. } | LogError::Busy) => Outcome::Never,
                Err(error) => panic!("{error}"),
            };
            let ended = self.world.now();
            self.notes.lock().appends.push(Append { payload, begun, ended, outcome });
        }
    }

    async fn follow(self: Arc<Self>, log: ObjectLog, server: usize) {
        let mut next = self.notes.lock().read[server].len() as u64 + 1;
        let mut tail = log.tail(Position(next - 1));
        while let Some(entry) = tail.next().await {
            let entry = entry.unwrap();
            assert_eq!((entry.position.0, entry.number), (next, next));
            next += 1;
            self.notes.lock().read[server].push(entry.payload);
        }
        panic!("the tail ended");
    }

    async fn ask(self: Arc<Self>, log: ObjectLog) {
        while self.world.now() < STORM {
            self.world.pause(2_000).await;
            let asked = self.world.now();
            if let Ok(Position(end)) = log.end().await {
                self.notes.lock().ends.push((asked, end));
            }
        }
    }
}

fn run(seed: u64, is_broken: bool) -> usize {
    let world = World::new(seed, is_broken);
    let is_consistent = world.weather().unseen == 0;
    let scenario = Arc::new(Scenario { world: world.clone(), notes: Mutex::default() });
    for server in 0..SERVERS {
        world.spawn(Arc::clone(&scenario).serve(server));
    }
    world.run_through(STORM, END);
    let log: Vec<Bytes> = world.below("log/").iter().map(|object| unpack("", object).unwrap().1).collect();
    let notes = scenario.notes.lock();
    check(&log, &notes, is_consistent);
    log.len()
}

fn check(log: &[Bytes], notes: &Notes, is_consistent: bool) {
    let mut places = BTreeMap::new();
    for (at, payload) in log.iter().enumerate() {
        assert_eq!(places.insert(payload, at as u64 + 1), None, "{payload:?} is in the log twice");
    }
    for server in &notes.read {
        assert_eq!(server, log, "a server has read something else");
    }
    for append in &notes.appends {
        let place = places.get(&append.payload).copied();
        match append.outcome {
            Outcome::At(at) => assert_eq!(place, Some(at), "{:?}", append.payload),
            Outcome::Never => assert_eq!(place, None, "{:?} was not to be written", append.payload),
            Outcome::Unknown => {}
        }
    }
    // The order of the log is that of time: it has a later append, or a later look, after an earlier one.
    let done = |append: &Append| match append.outcome {
        Outcome::At(at) => Some((append.ended, at)),
        _ => None,
    };
    let before = |time: Duration| {
        notes.appends.iter().filter_map(done).filter(|(ended, _)| *ended < time).map(|(_, at)| at).max()
    };
    for append in &notes.appends {
        if let Outcome::At(at) = append.outcome {
            assert!(before(append.begun) < Some(at), "{:?} is before an earlier append", append.payload);
        }
    }
    for (asked, end) in notes.ends.iter().filter(|_| is_consistent) {
        assert!(before(*asked) <= Some(*end), "the end at {asked:?} is {end}");
    }
}

#[test]
fn an_append_is_in_the_log_once_and_all_servers_read_the_same() {
    each_seed(|seed| run(seed, false));
}

/// The checks find a store that replaces what is there.
#[test]
fn a_store_without_conditions_is_found_out() {
    let found = (0..5).filter(|&seed| std::panic::catch_unwind(|| run(seed, true)).is_err()).count();
    assert_eq!(found, 5);
}
