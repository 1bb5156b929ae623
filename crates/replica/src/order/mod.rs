//! The order of commands in a shared log: an appender makes entries of the commands of this server, one at a
//! time, and a follower reads the entries of all servers and gives each its turn.
//!
//! As only one append is in progress, the log has the commands of a server in the order in which they
//! arrived.
//!
//! *Absent*: what commands do (`lookalike-engine`), and where the log is kept (`lookalike-log`).

mod entry;
#[cfg(test)]
mod hidden_tests;
#[cfg(test)]
mod in_tests;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::clock;
pub(super) use entry::Entry;
pub use entry::EntryError;
use lookalike_engine::{Callers, EngineError, Order, Submission, Submitted, Turn, Turns};
use lookalike_log::{self as log, Log, LogError, Position};

/// How long an append is tried again: with work, and without. Writes wait for both.
const WITHIN: Duration = Duration::from_secs(4);
const WITHIN_OF_TIME: Duration = Duration::from_secs(1);
/// An append that takes this long is reported, at most once in the time after it.
const SLOW: Duration = Duration::from_millis(500);
const WARN_AGAIN: Duration = Duration::from_mins(1);
/// How often a closing server checks whether all callers have their answers.
const PAUSE: Duration = Duration::from_millis(5);

/// Why a server follows the log no further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    /// The reason.
    pub(super) reason: String,
    /// Whether the log has been trimmed beyond its position, so that a snapshot helps.
    pub(super) is_trimmed: bool,
}

/// The order of the commands of an engine by a log.
pub(super) struct LogOrder {
    log: Arc<dyn Log>,
    /// This start of the server.
    origin: u128,
    /// The callers of this server that wait, by the number of their entry.
    pending: Mutex<HashMap<u64, Callers>>,
    /// Why it follows the log no further, if that is so.
    trouble: Mutex<Option<Trouble>>,
    /// Bytes of the entries that were followed.
    followed: AtomicU64,
    /// Ends the follower.
    closing: Notify,
}

impl Order for LogOrder {
    fn run(self: Arc<Self>, submitted: Submitted, turns: Turns) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let follower = Arc::clone(&self);
            // Before the first append, which may only follow what the tail begins with.
            let entries = self.log.tail(Position(turns.position()));
            let follower = tokio::spawn(async move {
                // Until the engine closes, the log cannot be followed any further, or an entry cannot be
                // read.
                tokio::select! {
                    () = follower.follow(&turns, entries) => {}
                    () = follower.closing.notified() => {}
                }
            });
            self.append_all(submitted).await;
            let _ = follower.await;
        })
    }

    fn command_bytes(&self) -> usize {
        self.log.max_payload() / 8
    }

    fn admit_expiry(&self) -> Result<(), EngineError> {
        clock::trouble(&*self.log).map_or(Ok(()), |reason| Err(EngineError::LogUnavailable(reason)))
    }
}

impl LogOrder {
    pub(super) fn new(log: Arc<dyn Log>, origin: u128) -> LogOrder {
        LogOrder {
            log,
            origin,
            pending: Mutex::default(),
            trouble: Mutex::default(),
            followed: AtomicU64::new(0),
            closing: Notify::new(),
        }
    }

    /// Bytes of the entries that it has followed.
    pub(super) fn followed(&self) -> u64 {
        self.followed.load(Ordering::Relaxed)
    }

    /// Why it follows the log no further, if that is so.
    pub(super) fn trouble(&self) -> Option<Trouble> {
        self.trouble.lock().clone()
    }

    /// Follows the log no further. The caller lets the engine refuse writes.
    pub(super) fn stop(&self, reason: &str) {
        self.note_trouble(reason, false);
        self.closing.notify_one();
    }

    fn note_trouble(&self, reason: &str, is_trimmed: bool) {
        tracing::error!(%reason, "this server follows the shared log no further");
        *self.trouble.lock() = Some(Trouble { reason: reason.to_owned(), is_trimmed });
    }

    async fn append_all(&self, mut submitted: Submitted) {
        let (mut number, mut warned) = (0, None);
        while let Some(submission) = submitted.next().await {
            number += 1;
            self.append(submission, number, &mut warned).await;
        }
        let end = submitted.deadline();
        while !self.pending.lock().is_empty() && Instant::now() < end {
            tokio::time::sleep(PAUSE).await;
        }
        for (_, callers) in std::mem::take(&mut *self.pending.lock()) {
            callers.fail(|| EngineError::Unknown("the server was closed before it applied the write".into()));
        }
        self.closing.notify_one();
        submitted.close();
    }

    async fn append(&self, submission: Submission, number: u64, warned: &mut Option<Instant>) {
        let Submission { payload, callers, mut time_ms } = submission;
        if !clock::is_right(&*self.log) {
            // The time of the entry is that of the one before.
            time_ms = 0;
        }
        let within = if payload.has_work() { WITHIN } else { WITHIN_OF_TIME };
        let bytes = Entry { origin: self.origin.to_be_bytes(), number, time_ms, payload }.to_bytes();
        // Before the entry is in the log: the follower may read it before the append returns.
        self.pending.lock().insert(number, callers);
        let begun = Instant::now();
        let appended = self.log.append(bytes, within).await;
        let took = begun.elapsed();
        metrics::histogram!("lookalike_replica_append_seconds").record(took);
        if took >= SLOW && warned.is_none_or(|last| last.elapsed() >= WARN_AGAIN) {
            *warned = Some(Instant::now());
            let ms = took.as_millis() as u64;
            tracing::warn!(
                ms,
                "the log is slow to append an entry: every write waits for it; check its store"
            );
        }
        if let Err(error) = appended
            && let Some(callers) = self.pending.lock().remove(&number)
        {
            if !matches!(error, LogError::TooLarge { .. }) {
                tracing::warn!(%error, "a write was not appended to the shared log");
            }
            callers.fail(|| of_log(&error));
        }
    }

    async fn follow(&self, turns: &Turns, mut entries: BoxStream<'static, Result<log::Entry, LogError>>) {
        let mut after = turns.position();
        while let Some(next) = entries.next().await {
            let taken = match next {
                Ok(log::Entry { position: Position(at), number, payload }) => {
                    let taken = self.turn((after, at, number), payload);
                    after = at;
                    taken.map_err(|error| (format!("entry {at} of the log cannot be read: {error}"), false))
                }
                Err(error) => {
                    let is_trimmed = matches!(error, LogError::Trimmed { .. });
                    Err((format!("the log cannot be followed: {error}"), is_trimmed))
                }
            };
            match taken {
                Ok(turn) => {
                    if !turns.take(turn).await {
                        return;
                    }
                }
                Err((reason, is_trimmed)) => {
                    self.note_trouble(&reason, is_trimmed);
                    return turns.refuse_writes(reason);
                }
            }
        }
    }

    /// The turn of an entry.
    fn turn(&self, (after, position, number): (u64, u64, u64), bytes: Bytes) -> Result<Turn, EntryError> {
        let entry = Entry::from_bytes(&bytes)?;
        self.followed.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let is_own = entry.origin == self.origin.to_be_bytes();
        let callers = if is_own { self.pending.lock().remove(&entry.number) } else { None };
        Ok(turn_of(entry, (after, position, number), bytes, callers.unwrap_or_default()))
    }
}

/// The turn of an entry, which was read from these bytes.
pub(super) fn turn_of(
    entry: Entry,
    (after, position, number): (u64, u64, u64),
    bytes: Bytes,
    callers: Callers,
) -> Turn {
    Turn {
        after,
        position,
        number,
        bytes: bytes.len(),
        time_ms: entry.time_ms,
        payload: entry.payload,
        again: Box::new(move || Entry::from_bytes(&bytes).expect("it was read before").payload),
        callers,
    }
}

/// The error of a write that the log did not take, or may not have taken.
pub(super) fn of_log(error: &LogError) -> EngineError {
    match error {
        LogError::Unknown(_) => EngineError::Unknown(error.to_string()),
        LogError::TooLarge { bytes, limit } => EngineError::TooLarge(format!(
            "the write takes {bytes} bytes in the shared log, and an entry has at most {limit}: \
             shorten the text, or create the collection with \"keep_text\": false"
        )),
        other => EngineError::LogUnavailable(other.to_string()),
    }
}
