//! The writer thread: takes the queued commands, makes writes durable as a group, applies and acknowledges
//! them.
//!
//! *Invariants*
//! - 4: an acknowledgement is sent after the group is durable, and no query shows a part of a group earlier.
//! - Operations are decided in the order in which they were queued, by one thread. Therefore `unless`
//!   is atomic, for every k, without a lock.
//! - After a failed commit the state of the disk is unknown. Nothing is written until the process is
//!   restarted and reads the disk again. Queries are still answered.
//!
//! New hashes enter the index before the commit: no document has them yet, so no query shows them. Unused
//! hashes leave it after the commit, while the collection's gate is closed. In between, a query sees the old
//! or the new state of each document, and never neither.
//!
//! A group contains the operations that were queued while the previous group was made durable (group
//! commit). So the latency of the disk determines the size of a group, from one document to thousands.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::{mpsc, oneshot};

use super::cluster_work::ClusterWork;
use super::command::{Callers, Command, Done, HiddenWork};
use super::intake::Permits;
use super::marks::MarkChange;
use super::near_duplicates::Checked;
use super::planning::{Plan, place};
use super::recent::Recent;
use super::registry::Collection;
use super::reindex::Followed;
use super::replica::{Apply, Replica};
use super::shared::Shared;
use crate::{EngineError, Operation, Outcome};
use lookalike_hash::{CollectionId, Hash, Sequence};
use lookalike_store::StoreError;

/// Maximum weight of the operations in a group. It bounds the memory of a plan and the latency of the last
/// operation.
pub(super) const GROUP_OPERATIONS: usize = 4_096;
/// Posting lists of grams that weigh as much as an operation.
const GRAMS_PER_OPERATION: usize = 8;
/// Maximum number of rows of deleted collections that are removed between two groups.
const SWEEP_ROWS: usize = 2_000;

/// A message to the writer.
pub(super) enum Message {
    /// Operations on a collection.
    Write(Write),
    /// Another command, and who waits for it.
    Do(Command, Callers),
    /// Take what changed in the collection that a hidden one will replace.
    TakeChanges { target: CollectionId, reply: oneshot::Sender<Result<Followed, EngineError>> },
    /// The last query of a collection has ended that another one has replaced.
    Release(CollectionId),
    /// A stored document may have expired.
    Expire,
    /// Every retained snapshot covers the history up to this change.
    TrimHistory(Sequence),
    /// The next command in the order that all replicas share.
    Apply(Box<Apply>),
    /// No message follows this one.
    Close,
}

/// Operations that were queued together.
pub(super) struct Write {
    pub(super) collection: Arc<Collection>,
    pub(super) operations: Vec<(Operation, Option<Checked>)>,
    pub(super) reply: oneshot::Sender<Outcomes>,
    /// Its share of the queue's capacity, released when the write is done.
    pub(super) permits: Permits,
    /// The time of the entry that has it, in milliseconds since 1970-01-01 UTC; `None` without a log.
    pub(super) at_ms: Option<u64>,
}

pub(super) struct Writer {
    pub(super) shared: Arc<Shared>,
    pub(super) messages: mpsc::UnboundedReceiver<Message>,
    /// A message that followed writes. It must wait until their group is done.
    pub(super) held: Option<Message>,
    pub(super) recent: Recent,
    pub(super) garbage: VecDeque<CollectionId>,
    /// Collections that this server reindexes, with what changed in them.
    pub(super) followed: HashMap<CollectionId, Followed>,
    pub(super) last: Sequence,
    /// Whether stored documents have expired.
    pub(super) expiring: bool,
    /// Whether the last step between two groups was one of expiry.
    has_expired: bool,
    pub(super) clusters: ClusterWork,
    /// The least place of the next new document.
    pub(super) next_place: u64,
    /// The state of a replica.
    pub(super) replica: Option<Replica>,
    /// Where messages for this writer are sent.
    pub(super) own: mpsc::WeakUnboundedSender<Message>,
}

/// Reads the posting lists of all grams of a group ahead.
fn read_grams(plan: &mut Plan<'_>, group: &[Write]) -> Result<(), StoreError> {
    let mut grams: HashMap<CollectionId, Vec<Hash>> = HashMap::new();
    for write in group.iter().filter(|write| write.collection.keeps_grams()) {
        let of_collection = grams.entry(write.collection.id).or_default();
        for (operation, _) in &write.operations {
            if let Operation::Put { document, .. } = operation {
                of_collection.extend(document.row.grams.iter().map(|gram| Hash::from_u64(gram.hash)));
            }
        }
    }
    grams.into_iter().try_for_each(|(collection, grams)| plan.read_grams(collection, grams))
}

/// The weight of operations: one for each, and more for the posting lists of grams.
fn weight(write: &Write) -> usize {
    let grams = |operation: &Operation| match operation {
        Operation::Put { document, .. } => document.row.grams.len(),
        Operation::Delete { .. } => 0,
    };
    let grams: usize = write.operations.iter().map(|(operation, _)| grams(operation)).sum();
    write.operations.len() + grams / GRAMS_PER_OPERATION
}

impl Writer {
    pub(super) fn new(
        shared: Arc<Shared>,
        messages: mpsc::UnboundedReceiver<Message>,
        garbage: Vec<CollectionId>,
        replica: Option<Replica>,
        own: mpsc::WeakUnboundedSender<Message>,
    ) -> Writer {
        let last = shared.applied();
        let recent = Recent::new(last);
        let next_place = match &replica {
            Some(replica) => replica.next_place(),
            // Documents of the last millisecond before the start may have greater places than its first.
            None => place(shared.clock.now_ms() + 1),
        };
        Writer {
            shared,
            messages,
            held: None,
            recent,
            garbage: garbage.into(),
            followed: HashMap::new(),
            last,
            expiring: true,
            has_expired: false,
            clusters: ClusterWork::default(),
            next_place,
            replica,
            own,
        }
    }

    /// The time by which operations are decided: that of the clock, or on a replica that of the shared log.
    pub(super) fn now_ms(&self) -> u64 {
        self.replica.as_ref().map_or_else(|| self.shared.clock.now_ms(), |replica| replica.time_ms)
    }

    /// Runs until [`Message::Close`] or until all senders are dropped.
    pub(super) fn run(mut self) {
        self.load_clusters();
        while let Some(message) = self.next() {
            if matches!(message, Message::Close) {
                return;
            }
            self.take(message);
        }
    }

    /// Does what a message asks for.
    pub(super) fn take(&mut self, message: Message) {
        match message {
            Message::Apply(first) => {
                self.apply(*first);
                self.settle_some();
            }
            Message::Write(first) => {
                self.group(first);
                self.expiring |= self.shared.expiry_is_due();
                // One step of expiry or of clusters between two groups, in turns. Otherwise expired documents
                // and tasks could accumulate under a constant load of writes.
                self.has_expired = self.expiring && !self.has_expired;
                if self.has_expired {
                    self.expire();
                } else {
                    self.settle_some();
                }
            }
            Message::Do(command, callers) => {
                let done = self.execute(command);
                if let Some(Ok(Done::Begun(target))) = callers.answer(done) {
                    // Nobody waits to fill it.
                    let _ = self.abandon_hidden(target.id);
                }
                self.settle_some();
            }
            Message::TakeChanges { target, reply } => drop(reply.send(self.take_changes(target))),
            Message::Release(collection) => self.garbage.push_back(collection),
            Message::Expire => {
                self.clusters.resume();
                self.expire();
            }
            // After a failed commit nothing more is written.
            Message::TrimHistory(_) if self.refuse_read_only().is_err() => {}
            Message::TrimHistory(through) => {
                if let Err(error) = self.shared.store.trim_history(through) {
                    if self.shared.store.failure().is_some() {
                        self.fail(&error);
                    }
                    tracing::warn!(%error, "the history could not be trimmed; it keeps using disk space");
                }
            }
            Message::Close => {}
        }
    }

    /// Does the work of a command other than [`Command::Write`], whose operations are grouped.
    pub(super) fn execute(&mut self, command: Command) -> Result<Done, EngineError> {
        // A single server discards without a write, also when the disk is full.
        let is_alone = self.replica.is_none();
        if !(is_alone && matches!(command, Command::Hidden(HiddenWork::Abandon { .. }))) {
            self.refuse_read_only()?;
        }
        let changes_records = command.changes_records();
        let done = match command {
            Command::PutCollection { name, change, condition, now_ms } => {
                self.put_collection(&name, &change, &condition, now_ms)
            }
            Command::DeleteCollection { name, condition } => self.delete_collection(&name, &condition),
            Command::PutClusters { name, rule } => self.put_clusters(&name, rule),
            Command::AddMarks { collection, marks } => self.change_marks(collection, MarkChange::Add(marks)),
            Command::RemoveMark { collection, mark } => {
                self.change_marks(collection, MarkChange::Remove(vec![mark]))
            }
            Command::Hidden(work) => self.change_hidden(work),
            Command::Write(_) | Command::PassTime => Ok(Done::Nothing),
        }?;
        if changes_records && !is_alone {
            self.sum_digests()?;
        }
        Ok(done)
    }

    /// Returns the next message. While there is none, it works in the background.
    fn next(&mut self) -> Option<Message> {
        loop {
            match self.held.take().map_or_else(|| self.messages.try_recv(), Ok) {
                Ok(message) => return Some(message),
                Err(mpsc::error::TryRecvError::Disconnected) => return None,
                Err(mpsc::error::TryRecvError::Empty) if self.work_in_background() => {}
                Err(mpsc::error::TryRecvError::Empty) => return self.messages.blocking_recv(),
            }
        }
    }

    /// Removes some expired documents or rows of deleted collections, or does a part of the tasks of
    /// clusters. Returns whether there was any work that can be done.
    pub(super) fn work_in_background(&mut self) -> bool {
        let writable = self.refuse_read_only().is_ok();
        // The snapshot thread sends a message when there is free space again; polling here would be a busy
        // loop.
        let is_deferred =
            (!writable && (self.expiring || !self.garbage.is_empty())) || self.clusters.is_deferred(writable);
        self.shared.is_deferred.store(is_deferred, Ordering::SeqCst);
        if !writable {
            return false;
        }
        match self.garbage.front().copied() {
            _ if self.expiring => self.expire(),
            _ if self.clusters.is_ready() => self.settle_some(),
            Some(collection) => self.sweep(collection),
            None => return false,
        }
        true
    }

    fn sweep(&mut self, collection: CollectionId) {
        match self.shared.store.sweep(collection, SWEEP_ROWS) {
            // Without free space it is deferred until there is some.
            Ok(false) | Err(StoreError::Full { .. }) => {}
            Ok(true) => drop(self.garbage.pop_front()),
            Err(error) => {
                tracing::warn!(%error, "a deleted collection's rows stay until the next start");
                self.garbage.pop_front();
            }
        }
    }

    /// Collects the writes that are queued behind `first`.
    fn gather(&mut self, first: Write) -> Vec<Write> {
        let mut operations = weight(&first);
        let mut group = vec![first];
        while operations < GROUP_OPERATIONS {
            match self.messages.try_recv() {
                Ok(Message::Write(write)) => {
                    operations += weight(&write);
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
        let (answers, failed) = self.write_group(group);
        for answer in answers {
            answer.send(failed.as_ref());
        }
    }

    /// Decides the operations of a group and commits them. Returns the answers, and why nothing was
    /// committed, if that is so.
    pub(super) fn write_group(&mut self, group: Vec<Write>) -> (Vec<Acknowledgement>, Option<EngineError>) {
        if let Err(error) = self.refuse_read_only() {
            let unanswered = |write: Write| Acknowledgement::of(write.reply, write.permits);
            return (group.into_iter().map(unanswered).collect(), Some(error));
        }
        let shared = Arc::clone(&self.shared);
        let mut answers = Vec::with_capacity(group.len());
        let mut touched = HashMap::new();
        let planned = self.plan(&shared, group, &mut answers, &mut touched);
        let failed = match planned {
            Ok(plan) => {
                self.next_place = plan.next_place;
                let soonest = plan.soonest_ms().unwrap_or(u64::MAX);
                self.shared.next_expiry_ms.fetch_min(soonest, Ordering::SeqCst);
                let changes_clusters = !plan.clusters.is_empty();
                let (batch, hashes) = plan.into_batch();
                let failed = self.commit(batch, &touched, &hashes).err();
                if changes_clusters {
                    self.clusters_after_commit();
                }
                failed.map(|error| self.not_committed(&error))
            }
            // Nothing was written. But a store that cannot be read must not be written to.
            Err(error) => Some(EngineError::ReadOnly(self.fail(&error))),
        };
        (answers, failed)
    }

    /// Decides every operation of a group. On failure, `answers` still has every write of the group.
    fn plan<'s>(
        &mut self,
        shared: &'s Shared,
        group: Vec<Write>,
        answers: &mut Vec<Acknowledgement>,
        touched: &mut HashMap<CollectionId, Arc<Collection>>,
    ) -> Result<Plan<'s>, StoreError> {
        let now_ms = group.first().and_then(|write| write.at_ms).unwrap_or_else(|| self.now_ms());
        let mut plan = Plan::new(&shared.store, self.last, now_ms).and_then(|mut plan| {
            read_grams(&mut plan, &group)?;
            plan.next_place = plan.next_place.max(self.next_place);
            Ok(plan)
        });
        for Write { collection, operations, reply, permits, at_ms } in group {
            let outcomes = match &mut plan {
                Ok(plan) => {
                    at_ms.into_iter().for_each(|at_ms| plan.advance(at_ms));
                    self.decide(shared, plan, &collection, operations)
                }
                Err(_) => Ok(Ok(Vec::new())),
            };
            match outcomes {
                Ok(outcomes) => answers.push(Acknowledgement { reply, outcomes, _permits: permits }),
                Err(error) => {
                    answers.push(Acknowledgement::of(reply, permits));
                    plan = Err(error);
                }
            }
            touched.insert(collection.id, collection);
        }
        plan.and_then(|mut plan| {
            if !self.followed.is_empty() {
                self.follow_documents(&plan);
            }
            if !plan.touched.is_empty() {
                self.change_clusters(&mut plan, touched)?;
            }
            Ok(plan)
        })
    }

    fn decide(
        &mut self,
        shared: &Shared,
        plan: &mut Plan<'_>,
        collection: &Collection,
        operations: Vec<(Operation, Option<Checked>)>,
    ) -> Result<Outcomes, StoreError> {
        if let Err(error) = shared.refuse_gone(collection) {
            return Ok(Err(error));
        }
        plan.reserve(operations.len());
        let outcomes = operations.into_iter().map(|(operation, checked)| {
            plan.decide(collection, operation, checked.as_ref(), &mut self.recent)
        });
        outcomes.collect::<Result<Vec<_>, _>>().map(Ok)
    }
}

pub(super) type Outcomes = Result<Vec<Outcome>, EngineError>;

/// A reply to be sent when the group is done.
pub(super) struct Acknowledgement {
    reply: oneshot::Sender<Outcomes>,
    outcomes: Outcomes,
    _permits: Permits,
}

impl Acknowledgement {
    /// A reply without outcomes yet.
    fn of(reply: oneshot::Sender<Outcomes>, permits: Permits) -> Acknowledgement {
        Acknowledgement { reply, outcomes: Ok(Vec::new()), _permits: permits }
    }

    /// Sends the outcomes, or the error of the group. The write is not undone if the client has
    /// disconnected.
    pub(super) fn send(self, failed: Option<&EngineError>) {
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
