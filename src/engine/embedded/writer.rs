//! The one writer: takes what is queued, makes it durable as one group, applies it, acknowledges it.
//!
//! *Invariants*
//! - 4: an acknowledgement is sent after the group is durable, and a query shows nothing of a group before.
//! - Operations are decided in the order in which they were queued. That is all that makes
//!   `unless_within` atomic, for every k: there is nobody to race with.
//! - After a failed commit nobody knows what the disk holds, so nothing is written any more until the
//!   process starts anew and reads it. Queries go on.
//!
//! The order around a commit: hashes that are new enter the index before it (no document bears them yet,
//! so no query shows them), hashes that are gone leave it after, behind the collection's gate. Between
//! the two a query sees either state of every document, and never neither.
//!
//! A group is what has queued up while the group before was being made durable, so the disk's pace
//! decides how large groups are: one document when there is one, thousands when there are thousands.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use foldhash::fast::RandomState;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use super::planning::{Checked, Plan};
use super::posting_cache::TouchedHash;
use super::recent::Recent;
use super::registry::Collection;
use super::restore::Step;
use super::shared::Shared;
use crate::engine::{Changed, CollectionChange, Condition, EngineError, Operation, Outcome};
use crate::ids::{CollectionId, CollectionName, Hash, Sequence};
use crate::store::{Batch, Change, StoreError};

/// Operations in a group, at most: bounds the memory of a plan and the wait of the last in line.
const GROUP_OPERATIONS: usize = 4_096;
/// Rows of deleted collections swept away between two groups, at most.
const SWEEP_ROWS: usize = 2_000;

/// What the writer is asked for.
pub(super) enum Command {
    /// Operations on a collection.
    Write(Write),
    /// A collection made or changed.
    PutCollection {
        name: CollectionName,
        change: Box<CollectionChange>,
        condition: Condition,
        now_ms: u64,
        reply: oneshot::Sender<Result<Changed, EngineError>>,
    },
    /// A collection deleted.
    DeleteCollection {
        name: CollectionName,
        condition: Condition,
        reply: oneshot::Sender<Result<bool, EngineError>>,
    },
    /// A step of a restore.
    Restore(Step),
    /// A document on the disk may have expired.
    Expire,
    /// The log up to here is in every snapshot kept.
    TrimLog(Sequence),
    /// Nothing comes after this.
    Close,
}

/// Operations queued together.
pub(super) struct Write {
    pub(super) collection: Arc<Collection>,
    pub(super) operations: Vec<(Operation, Option<Checked>)>,
    pub(super) reply: oneshot::Sender<Outcomes>,
    /// Its share of the queue, given back when it has been done.
    pub(super) room: [OwnedSemaphorePermit; 2],
}

pub(super) struct Writer {
    pub(super) shared: Arc<Shared>,
    commands: mpsc::UnboundedReceiver<Command>,
    /// A command that came behind writes and has to wait for their group.
    held: Option<Command>,
    pub(super) recent: Recent,
    pub(super) garbage: VecDeque<CollectionId>,
    /// Collections that are being filled and that nobody sees yet.
    pub(super) restoring: HashSet<CollectionId>,
    pub(super) last: Sequence,
    /// Whether documents on the disk have expired.
    pub(super) expiring: bool,
}

impl Writer {
    pub(super) fn new(
        shared: Arc<Shared>,
        commands: mpsc::UnboundedReceiver<Command>,
        garbage: Vec<CollectionId>,
    ) -> Writer {
        let last = shared.applied();
        let recent = Recent::new(last);
        let (garbage, restoring) = (garbage.into(), HashSet::new());
        Writer { shared, commands, held: None, recent, garbage, restoring, last, expiring: true }
    }

    /// Works until [`Command::Close`] or until nobody is left to send one.
    pub(super) fn run(mut self) {
        while let Some(command) = self.next() {
            match command {
                Command::Write(first) => {
                    self.group(first);
                    self.expiring |= self.shared.expiry_is_due();
                    // A step between two groups: what expires as fast as it comes must not pile up.
                    if self.expiring {
                        self.expire();
                    }
                }
                Command::Restore(step) => self.restore(step),
                Command::Expire => self.expire(),
                Command::PutCollection { name, change, condition, now_ms, reply } => {
                    let _ = reply.send(self.put_collection(&name, &change, &condition, now_ms));
                }
                Command::DeleteCollection { name, condition, reply } => {
                    let _ = reply.send(self.delete_collection(&name, &condition));
                }
                // After a failed commit nothing is written any more.
                Command::TrimLog(_) if self.refuse_read_only().is_err() => {}
                Command::TrimLog(through) => {
                    if let Err(error) = self.shared.store.trim_log(through) {
                        if self.shared.store.failure().is_some() {
                            self.fail(&error);
                        }
                        tracing::warn!(%error, "the log could not be trimmed; it stays longer than it needs to be");
                    }
                }
                Command::Close => return,
            }
        }
    }

    /// The next command; while there is none, what has expired is removed and what deleted collections left is
    /// swept away.
    fn next(&mut self) -> Option<Command> {
        loop {
            if let Some(command) = self.held.take() {
                return Some(command);
            }
            let writable = self.refuse_read_only().is_ok();
            // The snapshot thread says when there is room again: this one would look for ever.
            let is_put_off = !writable && (self.expiring || !self.garbage.is_empty());
            self.shared.is_put_off.store(is_put_off, Ordering::SeqCst);
            let garbage = self.garbage.front().filter(|_| writable).copied();
            if garbage.is_none() && !(self.expiring && writable) {
                return self.commands.blocking_recv();
            }
            match self.commands.try_recv() {
                Ok(command) => return Some(command),
                Err(mpsc::error::TryRecvError::Disconnected) => return None,
                Err(mpsc::error::TryRecvError::Empty) => match garbage {
                    _ if self.expiring => self.expire(),
                    Some(collection) => self.sweep(collection),
                    None => {}
                },
            }
        }
    }

    fn sweep(&mut self, collection: CollectionId) {
        match self.shared.store.sweep(collection, SWEEP_ROWS) {
            // Without room it is put off until there is some.
            Ok(false) | Err(StoreError::Full { .. }) => {}
            Ok(true) => drop(self.garbage.pop_front()),
            Err(error) => {
                tracing::warn!(%error, "a deleted collection's rows stay until the next start");
                self.garbage.pop_front();
            }
        }
    }

    /// Takes the writes that have queued up behind `first`.
    fn gather(&mut self, first: Write) -> Vec<Write> {
        let mut operations = first.operations.len();
        let mut group = vec![first];
        while operations < GROUP_OPERATIONS {
            match self.commands.try_recv() {
                Ok(Command::Write(write)) => {
                    operations += write.operations.len();
                    group.push(write);
                }
                Ok(other) => {
                    self.held = Some(other);
                    break;
                }
                Err(_) => break,
            }
        }
        group
    }

    fn group(&mut self, first: Write) {
        let group = self.gather(first);
        if let Some(reason) = self.shared.read_only() {
            refuse(group, || EngineError::ReadOnly(reason.clone()));
            return;
        }
        if let Err(error) = self.shared.check_room() {
            refuse(group, || EngineError::DiskFull(error.to_string()));
            return;
        }
        let shared = Arc::clone(&self.shared);
        let mut answers = Vec::with_capacity(group.len());
        let mut touched = HashMap::new();
        let planned = self.plan(&shared, group, &mut answers, &mut touched);
        let failed = match planned {
            Ok(plan) => {
                let soonest = plan.soonest_ms().unwrap_or(u64::MAX);
                self.shared.next_expiry_ms.fetch_min(soonest, Ordering::SeqCst);
                let (batch, hashes) = plan.into_batch();
                let failed = self.commit(batch, &touched, &hashes).err();
                failed.map(|error| self.not_committed(&error))
            }
            // Nothing was written; but a store that cannot be read is not to be written to.
            Err(error) => Some(EngineError::ReadOnly(self.fail(&error))),
        };
        for answer in answers {
            answer.send(failed.as_ref());
        }
    }

    /// Decides every operation of a group. Who queued them is in `answers` also if that fails.
    fn plan<'s>(
        &mut self,
        shared: &'s Shared,
        group: Vec<Write>,
        answers: &mut Vec<Acknowledgement>,
        touched: &mut HashMap<CollectionId, Arc<Collection>>,
    ) -> Result<Plan<'s>, StoreError> {
        let mut plan = Plan::new(&shared.store, self.last, shared.clock.now_ms());
        for Write { collection, operations, reply, room } in group {
            let outcomes = match &mut plan {
                Ok(plan) => self.decide(shared, plan, &collection, operations),
                Err(_) => Ok(Ok(Vec::new())),
            };
            match outcomes {
                Ok(outcomes) => answers.push(Acknowledgement { reply, outcomes, _room: room }),
                Err(error) => {
                    answers.push(Acknowledgement { reply, outcomes: Ok(Vec::new()), _room: room });
                    plan = Err(error);
                }
            }
            touched.insert(collection.id, collection);
        }
        plan
    }

    fn decide(
        &mut self,
        shared: &Shared,
        plan: &mut Plan<'_>,
        collection: &Collection,
        operations: Vec<(Operation, Option<Checked>)>,
    ) -> Result<Outcomes, StoreError> {
        if shared.registry.find(&collection.name).is_none_or(|now| now.id != collection.id) {
            return Ok(Err(EngineError::NoCollection(collection.name.clone())));
        }
        plan.reserve(operations.len());
        let outcomes = operations.into_iter().map(|(operation, checked)| {
            plan.decide(collection, operation, checked.as_ref(), &mut self.recent)
        });
        outcomes.collect::<Result<Vec<_>, _>>().map(Ok)
    }

    /// Makes a batch durable and the index follow it.
    pub(super) fn commit(
        &mut self,
        mut batch: Batch<'_>,
        touched: &HashMap<CollectionId, Arc<Collection>>,
        hashes: &[TouchedHash],
    ) -> Result<(), StoreError> {
        if batch.is_empty() {
            return Ok(());
        }
        let planned = Sequence(self.last.0 + batch.changes().len() as u64);
        self.shared.planned.store(planned.0, Ordering::SeqCst);
        let fates = fates(batch.changes());
        for (&(of, hash), fate) in &fates {
            if fate.stays
                && let Some(collection) = touched.get(&of)
            {
                collection.take_in(hash);
            }
        }
        batch.record_time(self.shared.clock.now_ms());
        let started = std::time::Instant::now();
        let mut in_sight = false;
        let committed = batch.commit_telling(|| {
            in_sight = true;
            touched.values().for_each(|collection| collection.epoch.begin_commit());
        });
        if in_sight {
            self.shared.postings.follow(hashes, committed.is_ok());
            touched.values().for_each(|collection| collection.epoch.end_commit());
        }
        let last = match committed {
            Ok(last) => last,
            Err(error) => {
                if matches!(error, StoreError::Full { .. }) {
                    self.take_back(&fates, touched);
                }
                return Err(error);
            }
        };
        metrics::histogram!("lookalike_commit_seconds").record(started.elapsed());
        metrics::histogram!("lookalike_commit_changes").record((last.0 - self.last.0) as f64);
        for collection in touched.values() {
            let gone = fates.iter().filter(|((of, _), fate)| *of == collection.id && !fate.stays);
            collection.let_go(gone.map(|((_, hash), _)| *hash));
        }
        self.last = last;
        self.shared.applied.store(last.0, Ordering::SeqCst);
        Ok(())
    }

    /// Nothing of a batch was written: what it was to add leaves the index again, but for what was there before it.
    fn take_back(&mut self, fates: &Fates, touched: &HashMap<CollectionId, Arc<Collection>>) {
        self.recent.forget_after(self.last);
        for collection in touched.values() {
            let added = fates.iter().filter(|((of, _), fate)| *of == collection.id && !fate.was_there);
            collection.let_go(added.map(|((_, hash), _)| *hash));
        }
        // After the index: a snapshot that sees these numbers unchanged has seen none of the hashes.
        self.shared.taken_back.fetch_add(1, Ordering::SeqCst);
        self.shared.planned.store(self.last.0, Ordering::SeqCst);
    }

    /// The same for who has to be told.
    pub(super) fn commit_or_fail(
        &mut self,
        batch: Batch<'_>,
        touched: &HashMap<CollectionId, Arc<Collection>>,
        hashes: &[TouchedHash],
    ) -> Result<(), EngineError> {
        let committed = self.commit(batch, touched, hashes);
        committed.map_err(|error| self.not_committed(&error))
    }

    pub(super) fn refuse_read_only(&self) -> Result<(), EngineError> {
        self.shared.read_only().map_or(Ok(()), |reason| Err(EngineError::ReadOnly(reason)))?;
        self.shared.check_room()
    }

    /// What is said of a batch that was not committed.
    fn not_committed(&self, error: &StoreError) -> EngineError {
        match error {
            StoreError::Full { .. } => EngineError::DiskFull(error.to_string()),
            _ => EngineError::Unknown(self.fail(error)),
        }
    }

    /// Takes no more writes; answers with the reason.
    pub(super) fn fail(&self, error: &StoreError) -> String {
        let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
        let reason =
            format!("a write failed ({error}{cause}); no more are taken until the server is restarted");
        tracing::error!(%reason, "the store takes no more writes; queries go on");
        self.shared.set_read_only(reason.clone());
        reason
    }
}

type Outcomes = Result<Vec<Outcome>, EngineError>;

/// An answer that waits for its group.
struct Acknowledgement {
    reply: oneshot::Sender<Outcomes>,
    outcomes: Outcomes,
    _room: [OwnedSemaphorePermit; 2],
}

impl Acknowledgement {
    /// Sends the outcomes, or that the group failed. A client that went away does not undo what was done.
    fn send(self, failed: Option<&EngineError>) {
        let answer = match failed {
            None => self.outcomes,
            Some(EngineError::Unknown(reason)) => Err(EngineError::Unknown(reason.clone())),
            Some(EngineError::ReadOnly(reason)) => Err(EngineError::ReadOnly(reason.clone())),
            Some(EngineError::DiskFull(reason)) => Err(EngineError::DiskFull(reason.clone())),
            Some(other) => Err(EngineError::ReadOnly(other.to_string())),
        };
        let _ = self.reply.send(answer);
    }
}

fn refuse(group: Vec<Write>, error: impl Fn() -> EngineError) {
    for write in group {
        let _ = write.reply.send(Err(error()));
    }
}

/// What becomes of a hash that comes or goes in a batch, perhaps several times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fate {
    /// Whether a document bore it before the batch.
    was_there: bool,
    /// Whether one bears it at its end.
    stays: bool,
}

type Fates = HashMap<(CollectionId, Hash), Fate, RandomState>;

/// What becomes of each hash that comes or goes in a batch.
fn fates(changes: &[Change]) -> Fates {
    let mut fates = Fates::with_capacity_and_hasher(changes.len(), RandomState::default());
    let mut see = |of: CollectionId, hash: Option<Hash>, stays: bool| {
        // What goes first was there, what comes first was not.
        let first = Fate { was_there: !stays, stays };
        if let Some(hash) = hash {
            fates.entry((of, hash)).or_insert(first).stays = stays;
        }
    };
    for change in changes {
        if let Change::Document { collection, added, removed } = change {
            see(*collection, *removed, false);
            see(*collection, *added, true);
        }
    }
    fates
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_there_before_a_batch_is_told_from_what_it_adds() {
        let of = CollectionId(1);
        let [a, b, c, d] = [1, 2, 3, 4].map(Hash::from_u64);
        let change = |added, removed| Change::Document { collection: of, added, removed };
        // a goes and comes back, b comes and goes, c comes, d goes.
        let fates = fates(&[
            change(Some(b), Some(a)),
            change(Some(a), Some(b)),
            change(Some(c), None),
            change(None, Some(d)),
        ]);
        let fate = |hash| (fates[&(of, hash)].was_there, fates[&(of, hash)].stays);
        assert_eq!([a, b, c, d].map(fate), [(true, true), (false, false), (false, true), (true, false)]);
    }
}
