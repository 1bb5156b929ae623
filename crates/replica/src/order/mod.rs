//! The order of commands in a shared log: an appender makes entries of the commands of this server, one at a
//! time, and a follower reads the entries of all servers and gives each its turn.
//!
//! As only one append is in progress, the log has the commands of a server in the order in which they
//! arrived. A server that alone writes gives each its turn at once, and the entries follow to the log
//! (`sender`).
//!
//! *Absent*: what commands do (`lookalike-engine`), and where the log is kept (`lookalike-log`).

mod entry;
#[cfg(test)]
mod hidden_tests;
#[cfg(test)]
mod in_tests;
mod sender;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use parking_lot::Mutex;
use tokio::sync::{MutexGuard, Notify, watch};

use super::clock;
pub(super) use entry::Entry;
pub use entry::EntryError;
use lookalike_engine::{Callers, EngineError, Order, Part, Payload, Submission, Submitted, Turn, Turns};
use lookalike_log::objects::ObjectLog;
use lookalike_log::{self as log, Log, LogError, Position};
use sender::Sender;
pub use sender::{Behind, Unsent};

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
    /// Sends what the log does not have yet; `None` in tests.
    sender: Option<Sender>,
    /// Whether commands get their turns, or never will.
    is_begun: watch::Sender<bool>,
    /// The position and the count of the last own command that got its turn without the log. Locked while one
    /// does.
    given: tokio::sync::Mutex<(u64, u64)>,
    /// Those of a server that alone writes.
    turns: OnceLock<Turns>,
}

impl Order for LogOrder {
    fn run(self: Arc<Self>, mut submitted: Submitted, turns: Turns) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            if let Some(sender) = &self.sender {
                let begun = refusing(&mut submitted, self.begin(sender, &turns)).await;
                self.is_begun.send_replace(true);
                if begun.is_none() {
                    return submitted.close();
                }
                if sender.behind.is_some() {
                    return self.go_ahead(sender, submitted, &turns).await;
                }
            }
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
            sender: None,
            is_begun: watch::Sender::new(false),
            given: tokio::sync::Mutex::default(),
            turns: OnceLock::new(),
        }
    }

    /// The order by a log of objects. With `behind`, this server alone writes, and does not wait for it.
    pub(super) fn of_objects(log: &ObjectLog, origin: u128, behind: Option<Behind>) -> LogOrder {
        let sender = Some(Sender::new(log.clone(), behind));
        LogOrder { sender, ..LogOrder::new(Arc::new(log.clone()), origin) }
    }

    /// What the store of the log lacks.
    pub(super) fn unsent(&self) -> Unsent {
        self.sender.as_ref().map(Sender::unsent).unwrap_or_default()
    }

    /// Why no write is accepted now although the data are right, if that is so.
    pub(super) fn refusal(&self) -> Option<String> {
        self.sender.as_ref()?.refusal()
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

    /// Sends what is left from before the start: all of it, or if this server alone writes and the log cannot
    /// be reached, some of it later. Then a server that alone writes takes what the log has beyond its data.
    async fn begin(&self, sender: &Sender, turns: &Turns) {
        if let Err((reason, is_trimmed)) = self.try_begin(sender, turns).await {
            self.note_trouble(&reason, is_trimmed);
            turns.refuse_writes(reason);
        }
    }

    async fn try_begin(&self, sender: &Sender, turns: &Turns) -> Result<(), (String, bool)> {
        let fatal = |reason| (reason, false);
        sender.load(turns).await.map_err(|error| fatal(error.to_string()))?;
        if sender.behind.is_none() {
            return sender.send(turns, u64::MAX).await.map_err(fatal);
        }
        let mut position = turns.position();
        if let Some(end) = sender.compare(turns, WITHIN).await.map_err(fatal)?
            && end > position
        {
            let missing = self.log.tail(Position(position)).take((end - position) as usize).boxed();
            self.follow(turns, missing).await;
            position = end;
            let reached = turns.applied().wait_for(|(applied, _)| *applied >= end).await.is_ok();
            debug_assert!(reached || self.trouble().is_some());
        }
        *self.given.lock().await = (position, 0);
        Ok(())
    }

    /// Gives every command its turn at once, and lets the entries follow to the log.
    async fn go_ahead(&self, sender: &Sender, mut submitted: Submitted, turns: &Turns) {
        let _ = self.turns.set(turns.clone());
        let taking = async {
            while let Some(submission) = submitted.next().await {
                self.give(sender, submission, turns).await;
            }
        };
        let sending = async {
            let reason = sender.keep_sending(turns).await;
            self.note_trouble(&reason, false);
            turns.refuse_writes(reason);
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = taking => {}
            () = sending => {}
        }
        if self.trouble().is_none() {
            let left = submitted.deadline().saturating_duration_since(Instant::now());
            let _ = tokio::time::timeout(left, sender.send(turns, u64::MAX)).await;
        }
        submitted.close();
    }

    async fn give(&self, sender: &Sender, mut submission: Submission, turns: &Turns) {
        if let Some(reason) = sender.refusal() {
            return submission.callers.fail(|| EngineError::LogUnavailable(reason.clone()));
        }
        if clock::trouble(&*self.log).is_some() {
            submission.time_ms = 0;
        }
        let mut given = self.given.lock().await;
        self.give_next(sender, &mut given, submission, turns).await;
    }

    async fn give_next(
        &self,
        sender: &Sender,
        given: &mut (u64, u64),
        submission: Submission,
        turns: &Turns,
    ) {
        let Submission { payload, callers, mut time_ms, joins } = submission;
        let (after, number) = (given.0, given.1 + 1);
        if joins && let Some(open) = sender.open_time() {
            time_ms = open;
        }
        let entry = Entry { origin: self.origin.to_be_bytes(), number, time_ms, payload };
        let bytes = entry.to_bytes();
        let (limit, length) = (self.log.max_payload(), bytes.len());
        if length > limit {
            return callers.fail(|| of_log(&LogError::TooLarge { bytes: length, limit }));
        }
        let (position, part) = sender.assign(after, (time_ms, joins), length);
        *given = (position, number);
        self.followed.fetch_add(length as u64, Ordering::Relaxed);
        let unsent = Some(Part { entry: position, part, bytes: bytes.clone() });
        let turn = turn_of(entry, (after, position, position), bytes, callers);
        turns.take(Turn { unsent, ..turn }).await;
    }

    /// Gives no command its turn while the guard lives. The data are those after a whole entry, whose
    /// position is returned too. `None` if the log gives the turns.
    pub(super) async fn hold(&self) -> Option<(MutexGuard<'_, (u64, u64)>, u64)> {
        let (sender, turns) = (self.sender.as_ref()?, self.turns.get()?);
        let mut given = self.given.lock().await;
        let (payload, callers) = (Payload::of_time(), Callers::default());
        let alone = Submission { payload, callers, time_ms: 0, joins: false };
        self.give_next(sender, &mut given, alone, turns).await;
        let position = given.0;
        turns.applied().wait_for(|(applied, _)| *applied >= position).await.ok()?;
        Some((given, position))
    }

    /// Waits until the log has an entry of a server that alone writes.
    pub(super) async fn has_sent(&self, position: u64, within: Duration) -> bool {
        let sender = self.sender.as_ref();
        sender.expect("an entry was given without the log").has_sent(position, within).await
    }

    /// Waits until commands get their turns, or never will.
    pub(super) async fn begun(&self) {
        // The sender lives as long as `self`.
        let _ = self.is_begun.subscribe().wait_for(|begun| *begun).await;
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
        let Submission { payload, callers, mut time_ms, .. } = submission;
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

/// Does `work`, for which commands wait as for an append, and are refused if it takes longer. `None` if the
/// engine closes.
async fn refusing<T>(submitted: &mut Submitted, work: impl Future<Output = T>) -> Option<T> {
    let mut work = std::pin::pin!(work);
    if let Ok(done) = tokio::time::timeout(WITHIN, &mut work).await {
        return Some(done);
    }
    let reason = "the server compares its data with the shared log";
    loop {
        tokio::select! {
            done = &mut work => return Some(done),
            next = submitted.next() => next?.callers.fail(|| EngineError::LogUnavailable(reason.to_owned())),
        }
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
        unsent: None,
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
