//! The effect of entries, on the writer thread.
//!
//! Entries with operations are applied as a group, as far as they wait together and no document expires in
//! between. If the disk is full, the writer waits: the entry is in the log, so it must be applied before any
//! later one.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::entry::{Entry, Work};
use super::replies::{Replies, WriteReply};
use crate::engine::EngineError;
use crate::engine::writer::{Command, GROUP_OPERATIONS, Outcomes, Write, Writer};

/// How long the writer waits before it tries again on a full disk.
const PAUSE: Duration = Duration::from_millis(200);

/// An entry to be applied.
pub(in crate::engine) struct Apply {
    /// The position of the entry before it.
    after: u64,
    position: u64,
    bytes: Bytes,
    /// The entry, until it is first applied.
    entry: Option<Entry>,
    time_ms: u64,
    /// Number of operations; `None` if the work is something else.
    operations: Option<usize>,
    replies: Replies,
    _permit: OwnedSemaphorePermit,
}

impl Apply {
    pub(super) fn new(
        after: u64,
        position: u64,
        bytes: Bytes,
        entry: Entry,
        replies: Replies,
        permit: OwnedSemaphorePermit,
    ) -> Apply {
        let operations = match &entry.work {
            Work::Writes(writes) => Some(writes.iter().map(|(_, operations)| operations.len()).sum()),
            _ => None,
        };
        let time_ms = entry.time_ms;
        Apply { after, position, bytes, entry: Some(entry), time_ms, operations, replies, _permit: permit }
    }

    /// The work, which is read again if an attempt has used it up.
    fn work(&mut self) -> Work {
        let read = || Entry::from_bytes(&self.bytes).expect("the follower has read it");
        self.entry.take().unwrap_or_else(read).work
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
    /// Applies an entry, and further ones that wait.
    pub(in crate::engine) fn apply(&mut self, first: Apply) {
        let mut entries = self.gather_entries(first);
        let Some(replica) = &mut self.replica else { return };
        let mut position = replica.position;
        let is_next =
            entries.iter().all(|entry| std::mem::replace(&mut position, entry.position) == entry.after);
        if !is_next && !replica.has_stopped {
            replica.has_stopped = true;
            self.shared.set_read_only("an entry of the log is missing; this is a fault of the server".into());
        }
        if replica.has_stopped {
            return give_up(entries);
        }
        let mut time_ms = replica.time_ms;
        for entry in &mut entries {
            time_ms = time_ms.max(entry.time_ms);
            entry.time_ms = time_ms;
        }
        let first_ms = entries.first().map_or(0, |entry| entry.time_ms);
        let done = self.expire_until(first_ms) && self.attempt(&mut entries, position, time_ms);
        let Some(replica) = &mut self.replica else { return };
        replica.applying = None;
        if !done {
            replica.has_stopped = true;
            return give_up(entries);
        }
        replica.position = position;
        self.shared.position.send_replace((position, time_ms));
    }

    /// Collects the entries with operations that wait behind `first`.
    fn gather_entries(&mut self, first: Apply) -> Vec<Apply> {
        let Some(mut operations) = first.operations else { return vec![first] };
        let mut entries = vec![first];
        while operations < GROUP_OPERATIONS {
            match self.commands.try_recv() {
                Ok(Command::Apply(next)) if self.may_join(&next) => {
                    operations += next.operations.unwrap_or(0);
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

    /// Whether an entry may be applied together with those before it.
    fn may_join(&self, next: &Apply) -> bool {
        next.operations.is_some() && self.shared.next_expiry_ms.load(Ordering::SeqCst) > next.time_ms
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
            let at_ms = Some(entry.time_ms);
            let mut of_entry = Vec::new();
            let Work::Writes(writes) = entry.work() else { continue };
            for (collection, operations) in writes {
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
        let result = failed.map_or(Ok(()), Err);
        let attempt = Attempt::of(&result);
        if matches!(attempt, Attempt::Full) {
            return attempt;
        }
        let failed = result.err();
        acknowledgements.into_iter().for_each(|answer| answer.send(failed.as_ref()));
        answer_all(entries, answers);
        attempt
    }

    fn apply_other(&mut self, entry: &mut Apply) -> Attempt {
        macro_rules! answered {
            ($result:expr, $kind:path) => {{
                let result = $result;
                let attempt = Attempt::of(&result);
                if !matches!(attempt, Attempt::Full)
                    && let $kind(reply, ..) = std::mem::replace(&mut entry.replies, Replies::Nobody)
                {
                    let _ = reply.send(result);
                }
                attempt
            }};
        }
        match entry.work() {
            Work::Writes(_) | Work::Time => Attempt::Done,
            Work::PutCollection { name, change, condition, now_ms } => {
                answered!(self.put_collection(&name, &change, &condition, now_ms), Replies::PutCollection)
            }
            Work::DeleteCollection { name, condition } => {
                answered!(self.delete_collection(&name, &condition), Replies::DeleteCollection)
            }
            Work::PutClusters { name, rule } => {
                answered!(self.put_clusters(&name, rule), Replies::PutClusters)
            }
            Work::ChangeMarks { collection, change } => {
                if let Some(collection) = self.shared.registry.with_id(collection) {
                    answered!(self.change_marks(&collection, change), Replies::ChangeMarks)
                } else {
                    entry.replies.answer_missing();
                    Attempt::Done
                }
            }
        }
    }
}

/// Passes the outcomes of operations to the callers of this server.
fn answer_all(entries: &mut [Apply], answers: Vec<Vec<oneshot::Receiver<Outcomes>>>) {
    for (entry, answers) in entries.iter_mut().zip(answers) {
        let Replies::Writes(replies) = std::mem::replace(&mut entry.replies, Replies::Nobody) else {
            continue;
        };
        for (WriteReply { collection, reply, .. }, mut answer) in replies.into_iter().zip(answers) {
            let missing = |_| Err(EngineError::NoCollection(collection));
            let _ = reply.send(answer.try_recv().unwrap_or_else(missing));
        }
    }
}

fn give_up(entries: Vec<Apply>) {
    for entry in entries {
        let reason = "the log has the write, and this server cannot apply it now";
        entry.replies.fail(|| EngineError::Unknown(reason.to_owned()));
    }
}
