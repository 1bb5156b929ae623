//! The appender: turns the commands of this server's callers into entries, one at a time.
//!
//! While an entry is being appended, the commands that arrive wait and form the next one (group commit). As
//! only one append is in progress, the log has the commands of a server in the order in which they arrived.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use super::super::hidden::HiddenWork;
use super::super::intake::logged;
use super::super::shared::Shared;
use super::super::writer::{Command, Write};
use super::Following;
use super::entry::{Entry, Work};
use super::replies::{Replies, of_command, of_writes};
use crate::EngineError;
use lookalike_log::LogError;

/// Approximate bytes at which an entry is complete, without compression. Larger ones hardly raise the rate
/// of etcd, and take longer.
pub(crate) const ENTRY_BYTES: usize = 128 << 10;
/// How often the appender checks whether documents have expired: if nobody writes, no entry has a time at
/// which they are removed. And how old the last digest is when the next one is wanted.
const TICK: Duration = Duration::from_secs(5);
/// How long an append is tried again. Writes wait while one without work is.
const WITHIN: Duration = Duration::from_secs(4);
const WITHIN_OF_TIME: Duration = Duration::from_secs(1);
/// An append that takes this long is reported, at most once in the time after it.
const SLOW: Duration = Duration::from_millis(500);
const WARN_AGAIN: Duration = Duration::from_mins(1);
/// How often a closing server checks whether all callers have their answers.
const PAUSE: Duration = Duration::from_millis(5);
/// How long a closing server waits for the answers, unless the engine sets a deadline.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) struct Appender {
    following: Arc<Following>,
    shared: Arc<Shared>,
    commands: mpsc::UnboundedReceiver<Command>,
    writer: mpsc::UnboundedSender<Command>,
    /// A command that must wait until the writes before it are appended.
    held: Option<Command>,
    /// The number of the last entry.
    number: u64,
    /// The position at which it last asked for a digest.
    asked_at: u64,
    /// When a slow append was last reported.
    warned: Option<Instant>,
}

impl Appender {
    pub(super) fn new(
        following: Arc<Following>,
        shared: Arc<Shared>,
        commands: mpsc::UnboundedReceiver<Command>,
        writer: mpsc::UnboundedSender<Command>,
    ) -> Appender {
        Appender { following, shared, commands, writer, held: None, number: 0, asked_at: 0, warned: None }
    }

    /// Runs until [`Command::Close`] or until all senders are dropped. Then it waits for the answers to what
    /// was appended, and closes the writer.
    pub(super) async fn run(mut self) {
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let command = if self.held.is_some() {
                self.held.take()
            } else {
                tokio::select! {
                    command = self.commands.recv() => command,
                    _ = tick.tick() => {
                        self.discard_unwanted().await;
                        self.pass_time().await;
                        continue;
                    }
                }
            };
            match command {
                None | Some(Command::Close) => break,
                Some(Command::Write(first)) => {
                    let (work, replies) = of_writes(self.gather(first));
                    self.append(work, replies).await;
                }
                Some(command) => match of_command(command) {
                    Ok((work, replies)) => self.append(work, replies).await,
                    Err(other) => drop(self.writer.send(other)),
                },
            }
        }
        self.finish().await;
    }

    /// Collects the writes that wait behind `first`.
    fn gather(&mut self, first: Write) -> Vec<Write> {
        let bytes_of = |write: &Write| write.operations.iter().map(|(operation, _)| logged(operation)).sum();
        let mut bytes: usize = bytes_of(&first);
        let mut writes = vec![first];
        while bytes < ENTRY_BYTES {
            match self.commands.try_recv() {
                Ok(Command::Write(write)) if bytes + bytes_of(&write) <= ENTRY_BYTES => {
                    bytes += bytes_of(&write);
                    writes.push(write);
                }
                Ok(other) => {
                    self.held = Some(other);
                    break;
                }
                Err(_) => break,
            }
        }
        writes
    }

    /// Appends an entry without work if documents have expired since the last entry, or if there are entries
    /// after the last digest.
    async fn pass_time(&mut self) {
        let (position, time_ms) = *self.shared.position.borrow();
        let is_due = self.shared.expiry_is_due() && time_ms < self.shared.clock.now_ms();
        // Once for each position: while the log takes no entries, writes wait for each attempt.
        let is_wanted = position != self.asked_at && self.shared.lacks_digest(TICK);
        if (is_due || is_wanted) && self.shared.read_only().is_none() {
            self.asked_at = position;
            self.append(Work::Time, Replies::Nobody).await;
        }
    }

    /// Discards what callers of this server have begun and nobody fills any more: the entry that does so was
    /// not appended.
    async fn discard_unwanted(&mut self) {
        for target in self.shared.hidden.unwanted(self.following.origin) {
            self.append(Work::Hidden(HiddenWork::Abandon { target }), Replies::Nobody).await;
        }
    }

    async fn append(&mut self, work: Work, replies: Replies) {
        // A server that cannot apply entries, or follows another log than it began with, appends none.
        if let Some(reason) = self.shared.read_only() {
            return replies.fail(|| EngineError::ReadOnly(reason.clone()));
        }
        self.number += 1;
        let number = self.number;
        let (origin, time_ms) = (self.following.origin, self.shared.clock.now_ms());
        let within = if matches!(work, Work::Time) { WITHIN_OF_TIME } else { WITHIN };
        let bytes = Entry { origin, number, time_ms, work }.into_bytes();
        // Before the entry is in the log: the follower may read it before the append returns.
        self.following.pending.add(number, replies);
        let begun = Instant::now();
        let appended = self.following.log.append(bytes, within).await;
        self.record_time(begun.elapsed());
        if let Err(error) = appended {
            let taken = self.following.pending.take(number);
            if let Some(replies) = taken {
                tell(replies, error);
            }
        }
    }

    /// Records how long the log took for an entry.
    fn record_time(&mut self, took: Duration) {
        metrics::histogram!("lookalike_replica_append_seconds").record(took);
        if took >= SLOW && self.warned.is_none_or(|last| last.elapsed() >= WARN_AGAIN) {
            self.warned = Some(Instant::now());
            let ms = took.as_millis() as u64;
            tracing::warn!(ms, "etcd is slow to append an entry: every write waits for it; check its disks");
        }
    }

    /// Waits for the answers, and ends the follower and the writer.
    async fn finish(self) {
        let end = self.shared.close_deadline.get().copied().unwrap_or_else(|| Instant::now() + PATIENCE);
        while !self.following.pending.is_empty() && Instant::now() < end {
            tokio::time::sleep(PAUSE).await;
        }
        for replies in self.following.pending.take_all() {
            replies.fail(|| EngineError::Unknown("the server was closed before it applied the write".into()));
        }
        self.following.closing.notify_one();
        let _ = self.writer.send(Command::Close);
    }
}

fn tell(replies: Replies, error: LogError) {
    if !matches!(error, LogError::TooLarge { .. }) {
        tracing::warn!(%error, "a write was not appended to the shared log");
    }
    let error = EngineError::from(error);
    replies.fail(|| match &error {
        EngineError::Unknown(reason) => EngineError::Unknown(reason.clone()),
        EngineError::TooLarge(reason) => EngineError::TooLarge(reason.clone()),
        other => EngineError::LogUnavailable(other.to_string()),
    });
}
