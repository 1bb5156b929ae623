//! Entries that follow to the log after they were applied: if one server alone writes, it gives them their
//! positions itself, keeps them in its store (`engine/replica/unsent`), and sends them in order behind.
//!
//! *Guarantees*
//! - The log has a prefix of the entries of this server.
//! - Entry n is made as the object n, or nowhere. If another server has made that object, nothing more is
//!   sent and no write is accepted. So two servers never go on side by side, and no lease is needed.
//! - What is not sent is bounded: above [`Behind::limit`] the caller refuses writes.
//!
//! Writes that arrive while an entry waits become parts of it, at the same time of the clock, so the rate
//! does not fall with the latency of the store. They are one command for all who read the log.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::FutureExt;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use super::entry::Entry;
use lookalike_engine::{EngineError, Turns};
use lookalike_log::objects::{IsOwn, ObjectLog};
use lookalike_log::{Log, LogError, Position};

/// Bytes of the parts of an entry, and the age of the first, after which no other one is added.
const ENTRY_BYTES: u64 = 1 << 20;
const ENTRY_AGE: Duration = Duration::from_secs(1);
/// Waits between tries: at first, and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// How often a failure is logged.
const WARN_AGAIN: Duration = Duration::from_mins(1);

/// When writes are acknowledged that the log does not have yet.
#[derive(Clone, Copy, Debug)]
pub struct Behind {
    /// Bytes of entries that the log may lack.
    pub limit: u64,
}

/// What the store of the log lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
pub struct Unsent {
    /// Entries.
    pub entries: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Milliseconds since the first of them was applied, or since the start of the server.
    pub oldest_ms: u64,
}

/// An entry that is not sent.
struct Waiting {
    entry: u64,
    parts: u32,
    bytes: u64,
    time_ms: u64,
    since: Instant,
    /// Whether parts can be added.
    is_open: bool,
}

pub(super) struct Sender {
    log: ObjectLog,
    /// `None` if writes wait for the log: then only what is left from before is sent.
    pub(super) behind: Option<Behind>,
    waiting: Mutex<VecDeque<Waiting>>,
    added: Notify,
    /// The last entry that was sent.
    sent: watch::Sender<u64>,
}

impl Sender {
    pub(super) fn new(log: ObjectLog, behind: Option<Behind>) -> Sender {
        let (waiting, added, sent) = (Mutex::default(), Notify::new(), watch::Sender::new(0));
        Sender { log, behind, waiting, added, sent }
    }

    /// Takes over what was not sent before the start.
    pub(super) async fn load(&self, turns: &Turns) -> Result<(), EngineError> {
        let since = Instant::now();
        let of = |(entry, parts, bytes)| Waiting { entry, parts, bytes, time_ms: 0, since, is_open: false };
        *self.waiting.lock() = turns.unsent_entries().await?.into_iter().map(of).collect();
        Ok(())
    }

    pub(super) fn unsent(&self) -> Unsent {
        let waiting = self.waiting.lock();
        Unsent {
            entries: waiting.len() as u64,
            bytes: waiting.iter().map(|one| one.bytes).sum(),
            oldest_ms: waiting.front().map_or(0, |first| first.since.elapsed().as_millis() as u64),
        }
    }

    /// Why no write is accepted now, if that is so.
    pub(super) fn refusal(&self) -> Option<String> {
        let (limit, Unsent { entries, bytes, .. }) = (self.behind?.limit, self.unsent());
        (bytes >= limit).then(|| {
            format!(
                "the store of the shared log lacks {entries} entries of {bytes} bytes, and \
                 shared_log.behind_bytes is {limit}: writes are refused until it has some of them. Make the \
                 store reachable (the log lines say what is wrong), or raise the setting"
            )
        })
    }

    /// The time that a command must have to be a part of the entry that waits last, if one may be added.
    pub(super) fn open_time(&self) -> Option<u64> {
        let mut waiting = self.waiting.lock();
        let last = waiting.back_mut()?;
        last.is_open &= last.since.elapsed() < ENTRY_AGE;
        last.is_open.then_some(last.time_ms)
    }

    /// Gives a command its entry and its part. `joins` says whether others may be parts of it, and `time_ms`
    /// is that of [`Sender::open_time`], if it gave one.
    pub(super) fn assign(&self, after: u64, (time_ms, joins): (u64, bool), bytes: usize) -> (u64, u32) {
        let (mut waiting, bytes) = (self.waiting.lock(), bytes as u64);
        let is_part = |last: &&mut Waiting| {
            joins && last.is_open && last.time_ms == time_ms && last.bytes + bytes <= ENTRY_BYTES
        };
        if let Some(last) = waiting.back_mut().filter(is_part) {
            (last.parts, last.bytes) = (last.parts + 1, last.bytes + bytes);
            return (last.entry, last.parts - 1);
        }
        let (entry, since) = (after + 1, Instant::now());
        waiting.push_back(Waiting { entry, parts: 1, bytes, time_ms, since, is_open: joins });
        self.added.notify_one();
        (entry, 0)
    }

    /// The entry to be sent next and its parts; no more are added.
    fn first(&self) -> Option<(u64, u32)> {
        let mut waiting = self.waiting.lock();
        let first = waiting.front_mut()?;
        first.is_open = false;
        Some((first.entry, first.parts))
    }

    /// Sends what waits, up to an entry. Ends when the log has all of that.
    ///
    /// # Errors
    /// Why nothing more can be sent.
    pub(super) async fn send(&self, turns: &Turns, through: u64) -> Result<(), String> {
        let (mut pause, mut warned) = (PAUSES.0, None::<Instant>);
        while let Some((entry, parts)) = self.first().filter(|(entry, _)| *entry <= through) {
            match self.send_one(turns, entry, parts).await {
                Ok(true) => {
                    turns.sent(entry, parts);
                    self.waiting.lock().pop_front();
                    self.sent.send_replace(entry);
                    pause = PAUSES.0;
                }
                Ok(false) => {
                    return Err(format!(
                        "another server has made entry {entry} of the shared log, and with \
                         shared_log.acknowledge = \"local\" only one may use it. What this server has from \
                         there on is not in the log: export the documents that you need, stop the other \
                         server or this one, and start it with an empty data directory"
                    ));
                }
                Err(error) if is_passing(&error) => {
                    if warned.is_none_or(|last| last.elapsed() >= WARN_AGAIN) {
                        warned = Some(Instant::now());
                        tracing::warn!(%error, entry, "the store of the shared log lacks entries");
                    }
                    tokio::time::sleep(pause).await;
                    pause = PAUSES.1.min(2 * pause);
                }
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    }

    /// Sends all entries as they come. Ends when nothing more can be sent.
    pub(super) async fn keep_sending(&self, turns: &Turns) -> String {
        loop {
            if let Err(reason) = self.send(turns, u64::MAX).await {
                return reason;
            }
            self.added.notified().await;
        }
    }

    async fn send_one(&self, turns: &Turns, entry: u64, parts: u32) -> Result<bool, LogError> {
        let mut applied = turns.applied();
        let parts = loop {
            applied.mark_unchanged();
            let found = turns.unsent(entry).await.map_err(|error| LogError::Copy(Box::new(error)))?;
            if found.len() as u32 >= parts {
                break found;
            }
            // The sender lives as long as the engine.
            let _ = applied.changed().await;
        };
        let damaged = |error| LogError::Damaged(format!("entry {entry} that was not sent: {error}"));
        let payload = joined(&parts).map_err(damaged)?;
        let own = Entry::from_bytes(&payload).map_err(damaged)?.id();
        let is_own: IsOwn = Box::new(move |found| Entry::from_bytes(found).is_ok_and(|one| one.id() == own));
        self.log.place(entry, payload, is_own).await
    }

    /// Finds where the log ends, waiting for it up to `within`, and sends what it should have up to there.
    /// Returns the end; `None` if the log cannot be reached.
    ///
    /// # Errors
    /// Why the log is not that of this server.
    pub(super) async fn compare(&self, turns: &Turns, within: Duration) -> Result<Option<u64>, String> {
        let begun = Instant::now();
        let end = loop {
            match self.log.last().await {
                Ok((Position(end), _)) => break end,
                Err(error) if !is_passing(&error) => return Err(error.to_string()),
                Err(error) if begun.elapsed() >= within => {
                    tracing::warn!(%error, "the shared log is not reached; entries follow when it is");
                    return Ok(None);
                }
                Err(_) => tokio::time::sleep(PAUSES.1.min(within)).await,
            }
        };
        self.send(turns, end).await?;
        let (position, _) = *turns.applied().borrow();
        let is_gap = end < position && self.first().is_none_or(|(first, _)| first > end + 1);
        let rewound = LogError::Rewound { position: Position(position), end: Position(end) };
        if is_gap { Err(rewound.to_string()) } else { Ok(Some(end)) }
    }

    /// Waits until an entry was sent.
    pub(super) async fn has_sent(&self, entry: u64, within: Duration) -> bool {
        let mut sent = self.sent.subscribe();
        let reached = sent.wait_for(|sent| *sent >= entry).map(|reached| reached.is_ok());
        tokio::time::timeout(within, reached).await.unwrap_or(false)
    }
}

/// Whether waiting may help. Rights can be given back.
fn is_passing(error: &LogError) -> bool {
    error.is_transient() || matches!(error, LogError::Unknown(_) | LogError::Refused { .. })
}

/// The entry of all its parts.
fn joined(parts: &[Vec<u8>]) -> Result<Bytes, super::EntryError> {
    if let [one] = parts {
        return Ok(Bytes::copy_from_slice(one));
    }
    let mut parts = parts.iter().map(|part| Entry::from_bytes(part));
    let mut first = parts.next().expect("an entry has a part")?;
    for part in parts {
        first.payload.join(part?.payload);
    }
    Ok(first.to_bytes())
}
