//! The order that replicas share: what the engine asks of it, and gives to it.
//!
//! Whoever keeps the order (a log) takes the commands of this server's callers from [`Submitted`],
//! and passes those of all servers to [`Turns`], one after another. It knows nothing of what commands say.
//!
//! While a command waits for its place, the writes that arrive wait and form the next one (group commit).

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::apply::Apply;
use super::unsent::Part;
use crate::EngineError;
use crate::command::{Callers, Command, HiddenWork, Operations, Payload, WriteReply};
use crate::intake::logged;
use crate::shared::Shared;
use crate::writer::{Message, Write};
use lookalike_hash::CollectionId;

/// How often expired documents are looked for: if nobody writes, no command has a time at which they are
/// removed. Also the age of the last digest at which the next one is wanted.
const TICK: Duration = Duration::from_secs(5);
/// How long a closing server waits for the answers, unless the engine sets a deadline.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of the commands that wait for the writer, which take more without compression; and what a small one
/// counts at least.
const AHEAD: usize = 64 << 20;
const LEAST: usize = 1 << 20;

/// Puts the commands of all replicas into one order.
pub trait Order: Send + Sync {
    /// Gives every command of `submitted` a place, and passes the commands of all servers to `turns` in
    /// their order. It ends when `submitted` does and its callers have their answers.
    fn run(self: Arc<Self>, submitted: Submitted, turns: Turns) -> BoxFuture<'static, ()>;

    /// Approximate bytes at which a command is complete.
    fn command_bytes(&self) -> usize;

    /// Refuses documents that expire, if the clock of this server is wrong.
    ///
    /// # Errors
    /// [`EngineError::LogUnavailable`].
    fn admit_expiry(&self) -> Result<(), EngineError>;
}

/// A command of this server's callers.
pub struct Submission {
    /// The command.
    pub payload: Payload,
    /// Who waits for its effect.
    pub callers: Callers,
    /// The time of this server, in milliseconds since 1970-01-01 UTC.
    pub time_ms: u64,
    /// Whether it and others with this mark have the same effect as one command ([`Payload::join`]).
    pub joins: bool,
}

/// The commands of this server's callers, in the order in which they arrived.
pub struct Submitted {
    shared: Arc<Shared>,
    messages: mpsc::UnboundedReceiver<Message>,
    writer: mpsc::UnboundedSender<Message>,
    /// This start of the server.
    origin: u128,
    command_bytes: usize,
    /// A message that must wait until the writes before it have their place.
    held: Option<Message>,
    /// Hidden collections that this server has begun and nobody fills any more.
    unwanted: Vec<CollectionId>,
    /// Whether to check now if a command must let time pass.
    is_late: bool,
    tick: Interval,
    /// The position at which it last asked for a digest.
    asked_at: u64,
}

impl Submitted {
    pub(super) fn new(
        (origin, command_bytes): (u128, usize),
        shared: Arc<Shared>,
        messages: mpsc::UnboundedReceiver<Message>,
        writer: mpsc::UnboundedSender<Message>,
    ) -> Submitted {
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (held, unwanted, is_late, asked_at) = (None, Vec::new(), false, 0);
        Submitted { shared, messages, writer, origin, command_bytes, held, unwanted, is_late, tick, asked_at }
    }

    /// The next command; `None` when the engine closes. A server that cannot apply commands, or follows
    /// another log than it began with, has none.
    pub async fn next(&mut self) -> Option<Submission> {
        loop {
            let (command, callers) = self.any().await?;
            match self.shared.read_only() {
                None => {
                    let (time_ms, joins) = (self.shared.clock.now_ms(), self.shared.joins(&command));
                    return Some(Submission { payload: Payload(command), callers, time_ms, joins });
                }
                Some(reason) => callers.fail(|| EngineError::ReadOnly(reason.clone())),
            }
        }
    }

    async fn any(&mut self) -> Option<(Command, Callers)> {
        loop {
            if let Some(target) = self.unwanted.pop() {
                let discard = Command::Hidden(HiddenWork::Abandon { target });
                return Some((discard, Callers::default()));
            }
            if std::mem::take(&mut self.is_late) && self.must_pass_time() {
                return Some((Command::PassTime, Callers::default()));
            }
            let message = if self.held.is_some() {
                self.held.take()
            } else {
                tokio::select! {
                    message = self.messages.recv() => message,
                    _ = self.tick.tick() => {
                        // The command that discards these had no place.
                        self.unwanted = self.shared.hidden.unwanted(self.origin);
                        self.is_late = true;
                        continue;
                    }
                }
            };
            match message? {
                Message::Close => return None,
                Message::Write(first) => return Some(of_writes(self.gather(first))),
                Message::Do(command, callers) => return Some((command, callers)),
                other => drop(self.writer.send(other)),
            }
        }
    }

    /// Collects the writes that wait behind `first`.
    fn gather(&mut self, first: Write) -> Vec<Write> {
        let bytes_of = |write: &Write| write.operations.iter().map(|(operation, _)| logged(operation)).sum();
        let mut bytes: usize = bytes_of(&first);
        let mut writes = vec![first];
        while bytes < self.command_bytes {
            match self.messages.try_recv() {
                Ok(Message::Write(write)) if bytes + bytes_of(&write) <= self.command_bytes => {
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

    /// Whether documents have expired since the last command, or there are commands after the last digest.
    fn must_pass_time(&mut self) -> bool {
        let (position, time_ms) = *self.shared.position.borrow();
        let is_due = self.shared.expiry_is_due() && time_ms < self.shared.clock.now_ms();
        // Once for each position: while commands get no place, writes wait for each attempt.
        let is_wanted = position != self.asked_at && self.shared.lacks_digest(TICK);
        if is_due || is_wanted {
            self.asked_at = position;
        }
        is_due || is_wanted
    }

    /// Until when the callers of a closing server wait for their answers.
    pub fn deadline(&self) -> Instant {
        self.shared.close_deadline.get().copied().unwrap_or_else(|| Instant::now() + PATIENCE)
    }

    /// Closes the writer. Nothing that gets its turn later has an effect.
    pub fn close(self) {
        let _ = self.writer.send(Message::Close);
    }
}

/// The command of several writes, and who waits for it.
fn of_writes(writes: Vec<Write>) -> (Command, Callers) {
    let (mut parts, mut callers) = (Vec::with_capacity(writes.len()), Vec::with_capacity(writes.len()));
    for Write { collection, operations, reply, permits, .. } in writes {
        let operations = operations.into_iter().map(|(operation, _)| operation).collect();
        parts.push(Operations { collection: collection.id, operations });
        callers.push(WriteReply { collection: collection.name.clone(), reply, _permits: permits });
    }
    (Command::Write(parts), Callers::of_writes(callers))
}

/// A command of any server whose turn it is.
pub struct Turn {
    /// The position of the command before it.
    pub after: u64,
    /// Its position.
    pub position: u64,
    /// Its number; 1 for the first of all.
    pub number: u64,
    /// Bytes that are kept for it.
    pub bytes: usize,
    /// The time of its server, in milliseconds since 1970-01-01 UTC.
    pub time_ms: u64,
    /// The command.
    pub payload: Payload,
    /// Reads the command again: an attempt on a full disk uses it up.
    pub again: Box<dyn Fn() -> Payload + Send>,
    /// Its callers, if it is one of this server.
    pub callers: Callers,
    /// What the store keeps of it until the log has it.
    pub unsent: Option<Part>,
}

/// Takes the commands of all servers, each when it is its turn.
#[derive(Clone)]
pub struct Turns {
    pub(super) shared: Arc<Shared>,
    writer: mpsc::UnboundedSender<Message>,
    ahead: Arc<Semaphore>,
}

impl Turns {
    pub(crate) fn new(shared: Arc<Shared>, writer: mpsc::UnboundedSender<Message>) -> Turns {
        Turns { shared, writer, ahead: Arc::new(Semaphore::new(AHEAD)) }
    }

    /// The position of the last command that was applied before the start.
    pub fn position(&self) -> u64 {
        self.shared.position.borrow().0
    }

    /// Lets the writer apply a command. Returns whether the next one may follow.
    pub async fn take(&self, turn: Turn) -> bool {
        let permits = turn.bytes.clamp(LEAST, AHEAD) as u32;
        let Ok(permit) = Arc::clone(&self.ahead).acquire_many_owned(permits).await else { return false };
        self.writer.send(Message::Apply(Box::new(Apply::new(turn, permit)))).is_ok()
    }

    /// Accepts no more writes, for this reason.
    pub fn refuse_writes(&self, reason: String) {
        self.shared.set_read_only(reason);
    }
}
