//! The effect of ordered commands, on the writer thread.
//!
//! Writes that wait together are applied as a group, unless a document expires in between. A write whose
//! result depends on what is in the index of signatures is applied alone, because servers form different
//! groups. If the disk is full, the writer waits: the command has its place, so it must be applied before any
//! later one.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::Idle;
use super::order::Turn;
use crate::command::{Command, Operations, Payload};
use crate::writer::{GROUP_OPERATIONS, Message, Write, Writer};
use crate::{EngineError, Operation};
use lookalike_hash::CollectionId;

/// How long the writer waits before it tries again on a full disk.
const PAUSE: Duration = Duration::from_millis(200);
/// After more commands without an effect than this, or more bytes of them, the position is recorded alone.
const IDLE_COMMANDS: usize = 1_024;
const IDLE_BYTES: usize = 32 << 20;

/// A command to be applied.
pub(crate) struct Apply {
    turn: Turn,
    /// Whether an attempt has used up the command.
    is_used: bool,
    /// Number of operations; `None` if it does something else.
    operations: Option<usize>,
    /// The collections that it asks for near-duplicates.
    asked: Vec<CollectionId>,
    /// The earliest expiry of its documents.
    soonest_ms: u64,
    _permit: OwnedSemaphorePermit,
}

impl Apply {
    pub(super) fn new(turn: Turn, permit: OwnedSemaphorePermit) -> Apply {
        let asks = |operation: &Operation| matches!(operation, Operation::Put { unless: Some(_), .. });
        let (mut operations, mut asked, mut soonest_ms) = (None, Vec::new(), u64::MAX);
        if let Command::Write(parts) = &turn.payload.0 {
            let all = || parts.iter().flat_map(|part| &part.operations);
            operations = Some(all().count());
            let asking = parts.iter().filter(|part| part.operations.iter().any(asks));
            asked = asking.map(|part| part.collection).collect();
            soonest_ms = all().filter_map(expiry).min().unwrap_or(u64::MAX);
        }
        Apply { turn, is_used: false, operations, asked, soonest_ms, _permit: permit }
    }

    /// The command, which is read again if an attempt has used it up.
    fn command(&mut self) -> Command {
        if std::mem::replace(&mut self.is_used, true) {
            return (self.turn.again)().0;
        }
        std::mem::replace(&mut self.turn.payload, Payload(Command::PassTime)).0
    }
}

/// The time at which a document expires that an operation puts.
fn expiry(operation: &Operation) -> Option<u64> {
    match operation {
        Operation::Put { document, .. } => document.row.lifetime.end_ms(),
        Operation::Delete { .. } => None,
    }
}

/// Whether work was done.
enum Attempt {
    Done,
    /// The disk is full.
    Full,
    Failed,
}

impl Attempt {
    fn of<T>(result: &Result<T, EngineError>) -> Attempt {
        match result {
            Err(EngineError::DiskFull(_)) => Attempt::Full,
            Err(EngineError::ReadOnly(_) | EngineError::Unknown(_) | EngineError::Store(_)) => {
                Attempt::Failed
            }
            Ok(_) | Err(_) => Attempt::Done,
        }
    }
}

impl Writer {
    /// Applies a command, and further ones that wait.
    pub(crate) fn apply(&mut self, first: Apply) {
        let mut entries = self.gather_entries(first);
        let number = entries.last().map_or(0, |entry| entry.turn.number);
        let Some(replica) = &mut self.replica else { return };
        let mut position = replica.position;
        let is_next =
            entries.iter().all(|of| std::mem::replace(&mut position, of.turn.position) == of.turn.after);
        if !is_next && !replica.has_stopped {
            replica.has_stopped = true;
            self.shared.set_read_only("an entry of the log is missing; this is a fault of the server".into());
        }
        if replica.has_stopped {
            return give_up(entries);
        }
        let mut time_ms = replica.time_ms;
        for entry in &mut entries {
            time_ms = time_ms.max(entry.turn.time_ms);
            entry.turn.time_ms = time_ms;
        }
        let (first_ms, before) = (entries.first().map_or(0, |entry| entry.turn.time_ms), self.last);
        let done = self.expire_until(first_ms) && self.attempt(&mut entries, position, time_ms);
        let Some(replica) = &mut self.replica else { return };
        replica.applying = None;
        if !done {
            replica.has_stopped = true;
            return give_up(entries);
        }
        replica.position = position;
        replica.idle.commands += entries.len();
        replica.idle.bytes += entries.iter().map(|entry| entry.turn.bytes).sum::<usize>();
        if self.last != before {
            replica.idle = Idle::default();
        }
        let is_idle = replica.idle.commands > IDLE_COMMANDS || replica.idle.bytes > IDLE_BYTES;
        // Who sends entries finds those up to the position.
        if is_idle || !replica.unsent.is_empty() {
            self.record_position();
        }
        self.shared.entry_number.store(number, Ordering::SeqCst);
        self.shared.position.send_replace((position, time_ms));
    }

    /// Records the position alone, after many entries without an effect: the log keeps what the servers
    /// have not recorded. Also after any that the log does not have yet.
    pub(crate) fn record_position(&mut self) {
        let Some(replica) = &mut self.replica else { return };
        replica.idle = Idle::default();
        let time_ms = replica.time_ms;
        let committed = self.shared.store.batch().and_then(|mut batch| {
            batch.record_time(time_ms);
            let sent = self.record_entries(&mut batch);
            batch.commit().map(|_| sent)
        });
        match committed {
            Ok(sent) => self.entries_recorded(sent),
            Err(error) => {
                if self.shared.store.failure().is_some() {
                    self.fail(&error);
                }
                tracing::warn!(%error, "the position in the log is not recorded; the log keeps more entries");
            }
        }
    }

    /// Collects the entries with operations that wait behind `first`.
    fn gather_entries(&mut self, first: Apply) -> Vec<Apply> {
        let Some(mut operations) = first.operations else { return vec![first] };
        let is_alone = self.stands_alone(&first);
        let mut time_ms = self.now_ms().max(first.turn.time_ms);
        let mut soonest_ms = first.soonest_ms;
        let mut entries = vec![first];
        while operations < GROUP_OPERATIONS && !is_alone {
            match self.messages.try_recv() {
                Ok(Message::Apply(next)) if self.may_join(&next, time_ms, soonest_ms) => {
                    operations += next.operations.unwrap_or(0);
                    time_ms = time_ms.max(next.turn.time_ms);
                    soonest_ms = soonest_ms.min(next.soonest_ms);
                    entries.push(*next);
                }
                Ok(other) => {
                    self.held = Some(other);
                    break;
                }
                Err(_) => break,
            }
        }
        entries
    }

    /// Whether an entry may be applied together with those before it, which have this time and documents with
    /// this expiry: no document must be removed in between.
    fn may_join(&self, next: &Apply, time_ms: u64, soonest_ms: u64) -> bool {
        let stored_ms = self.shared.next_expiry_ms.load(Ordering::SeqCst);
        next.operations.is_some()
            && !self.stands_alone(next)
            && stored_ms.min(soonest_ms) > time_ms.max(next.turn.time_ms)
    }

    /// Whether its result depends on which documents of the group before it are in the index: elements of
    /// sets that many signatures have are not compared.
    fn stands_alone(&self, entry: &Apply) -> bool {
        entry.asked.iter().any(|id| self.shared.has_sets(*id))
    }

    /// Removes the documents that have expired at a time. Returns whether it succeeded.
    fn expire_until(&mut self, time_ms: u64) -> bool {
        if let Some(replica) = &mut self.replica {
            replica.time_ms = time_ms;
        }
        while self.shared.next_expiry_ms.load(Ordering::SeqCst) <= time_ms {
            let removed = self.refuse_read_only().and_then(|()| {
                let removed = self.expire_some();
                removed.map_err(|error| self.not_committed(&error))
            });
            match Attempt::of(&removed) {
                Attempt::Done => {}
                Attempt::Full if self.wait_for_space() => {}
                Attempt::Full | Attempt::Failed => return false,
            }
        }
        true
    }

    /// Tries until the entries are applied. Returns whether they are.
    fn attempt(&mut self, entries: &mut [Apply], position: u64, time_ms: u64) -> bool {
        if let Some(replica) = &mut self.replica {
            (replica.applying, replica.time_ms) = (Some(position), time_ms);
            replica.unsent.extend(entries.iter_mut().filter_map(|entry| entry.turn.unsent.take()));
        }
        // Before the effect is visible: a client that has seen it and asks another server for this position
        // must not see an older state there.
        self.shared.visible.store(position, Ordering::SeqCst);
        loop {
            let next_place = self.next_place;
            let attempt = match entries {
                [one] if one.operations.is_none() => self.apply_other(one),
                _ => self.apply_writes(entries),
            };
            match attempt {
                Attempt::Done => return true,
                Attempt::Failed => return false,
                Attempt::Full => self.next_place = next_place,
            }
            if !self.wait_for_space() {
                return false;
            }
        }
    }

    /// Waits a moment. Returns whether the engine is still open.
    fn wait_for_space(&self) -> bool {
        std::thread::sleep(PAUSE);
        self.shared.close_deadline.get().is_none()
    }

    fn apply_writes(&mut self, entries: &mut [Apply]) -> Attempt {
        let (mut group, mut answers) = (Vec::new(), Vec::new());
        for entry in entries.iter_mut() {
            let at_ms = Some(entry.turn.time_ms);
            let mut of_entry = Vec::new();
            let Command::Write(parts) = entry.command() else { continue };
            for Operations { collection, operations } in parts {
                let (reply, answer) = oneshot::channel();
                of_entry.push(answer);
                // Without the collection, dropping the reply says that there is none.
                if let Some(collection) = self.shared.registry.with_id(collection) {
                    let operations = operations.into_iter().map(|operation| (operation, None)).collect();
                    group.push(Write { collection, operations, reply, permits: Vec::new(), at_ms });
                }
            }
            answers.push(of_entry);
        }
        let (acknowledgements, failed) = self.write_group(group);
        let attempt = Attempt::of(&failed.map_or(Ok(()), Err));
        // Otherwise the callers wait for the next attempt, or are told that the log has their writes: the
        // error of the store says that nothing was applied, but the next start applies them.
        if matches!(attempt, Attempt::Done) {
            acknowledgements.into_iter().for_each(|answer| answer.send(None));
            for (entry, answers) in entries.iter_mut().zip(answers) {
                let answers = answers.into_iter().map(|mut answer| answer.try_recv().ok()).collect();
                let callers = std::mem::take(&mut entry.turn.callers);
                callers.answer_writes(answers, &self.shared.registry);
            }
        }
        attempt
    }

    fn apply_other(&mut self, entry: &mut Apply) -> Attempt {
        let command = entry.command();
        if matches!(command, Command::PassTime) {
            self.note_digest(entry.turn.position);
            return Attempt::Done;
        }
        let done = self.execute(command);
        let attempt = Attempt::of(&done);
        if matches!(attempt, Attempt::Done) {
            // A hidden collection that nobody fills is discarded later.
            let _ = std::mem::take(&mut entry.turn.callers).answer(done);
        }
        attempt
    }
}

fn give_up(entries: Vec<Apply>) {
    for entry in entries {
        let reason = "the log has the write, and this server cannot apply it now";
        entry.turn.callers.fail(|| EngineError::Unknown(reason.to_owned()));
    }
}
