//! A record of appends and their outcomes, and the check of what the log contains against it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt;
use lookalike_log::objects::ObjectLog;
use lookalike_log::{Entry, Log, LogError, Position};

/// How an append ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Appended(Position),
    Unknown,
    Refused,
}

/// Appends by one task.
#[derive(Default)]
pub struct History {
    outcomes: HashMap<Bytes, Outcome>,
    /// The longest time between two successes.
    pub longest_gap: Duration,
}

/// A payload that no other has, of up to `size` bytes.
pub fn payload(name: &str, number: usize, size: usize) -> Bytes {
    let mut payload = format!("{name}/{number}:").into_bytes();
    payload.resize(payload.len() + fastrand::usize(..=size), b'x');
    payload.into()
}

/// Appends until `stop` is set.
pub async fn append_until(
    log: ObjectLog,
    name: String,
    size: usize,
    within: Duration,
    stop: Arc<AtomicBool>,
) -> History {
    let mut history = History::default();
    let mut last = Instant::now();
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let payload = payload(&name, number, size);
        let outcome = match log.append(payload.clone(), within).await {
            Ok(position) => {
                history.longest_gap = history.longest_gap.max(last.elapsed());
                last = Instant::now();
                Outcome::Appended(position)
            }
            Err(LogError::Unknown(_)) => Outcome::Unknown,
            Err(LogError::Unavailable { .. } | LogError::Busy) => Outcome::Refused,
            Err(error) => panic!("{error}"),
        };
        history.outcomes.insert(payload, outcome);
    }
    history
}

/// The entries of the log through a position.
pub async fn read(log: &ObjectLog, after: Position, through: Position) -> Vec<Entry> {
    let mut tail = log.tail(after);
    let mut entries = Vec::new();
    let mut last = after;
    while last < through {
        let entry = tail.next().await.unwrap().unwrap();
        last = entry.position;
        entries.push(entry);
    }
    entries
}

impl History {
    pub fn merge(histories: Vec<History>) -> History {
        let longest_gap = histories.iter().map(|history| history.longest_gap).max().unwrap();
        History {
            outcomes: histories.into_iter().flat_map(|history| history.outcomes).collect(),
            longest_gap,
        }
    }

    fn count(&self, is_counted: impl Fn(&Outcome) -> bool) -> usize {
        self.outcomes.values().filter(|outcome| is_counted(outcome)).count()
    }

    /// Checks a log that has nothing but these appends: the acknowledged ones are there once, at their
    /// positions; those of unknown outcome at most once; the refused ones never.
    pub fn check(&self, title: &str, entries: &[Entry]) {
        for (at, pair) in entries.windows(2).enumerate() {
            assert!(pair[0].position < pair[1].position, "entry {at} and the next are not in order");
        }
        for (at, entry) in entries.iter().enumerate() {
            assert_eq!(entry.number, at as u64 + 1, "the numbers have a gap");
        }
        let mut found: HashMap<&Bytes, Position> = HashMap::new();
        for entry in entries {
            let earlier = found.insert(&entry.payload, entry.position);
            assert_eq!(
                earlier,
                None,
                "{:?} is in the log twice",
                &entry.payload[..20.min(entry.payload.len())]
            );
        }
        for (payload, outcome) in &self.outcomes {
            match outcome {
                Outcome::Appended(position) => assert_eq!(found.get(payload), Some(position)),
                Outcome::Refused => assert_eq!(found.get(payload), None, "a refused entry is in the log"),
                Outcome::Unknown => {}
            }
        }
        assert!(found.keys().all(|payload| self.outcomes.contains_key(*payload)), "an entry has no append");
        let is_appended = |outcome: &Outcome| matches!(outcome, Outcome::Appended(_));
        let unknown = self.outcomes.iter().filter(|(_, outcome)| **outcome == Outcome::Unknown);
        let landed = unknown.filter(|(payload, _)| found.contains_key(payload)).count();
        println!(
            "{title}: {} entries; {} acknowledged, {} unknown ({landed} of them in the log), {} refused; \
             longest time without a success {:.1} s",
            entries.len(),
            self.count(is_appended),
            self.count(|outcome| *outcome == Outcome::Unknown),
            self.count(|outcome| *outcome == Outcome::Refused),
            self.longest_gap.as_secs_f64(),
        );
        assert!(self.count(is_appended) > 0, "nothing was appended");
    }
}
