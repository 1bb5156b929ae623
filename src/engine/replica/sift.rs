//! Entries on a server that holds some partitions: which operations it carries out, and what it answers.
//!
//! *Guarantees*
//! - Every server refuses the same operations, by the window.
//! - A document has the same place on every server that holds it.
//! - The outcomes of the last entries are kept for the servers that appended them and hold other partitions.
//!
//! *Absent*: what an operation does (`planning`), and who asks for outcomes (`offer`).

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::apply::Apply;
use super::entry::Work;
use super::replies::{Replies, WriteReply};
use super::window::{BOUNDS, Window};
use crate::engine::partitions::Partitions;
use crate::engine::planning::place;
use crate::engine::writer::{Outcomes, Writer};
use crate::engine::{EngineError, Operation, Outcome};
use crate::ids::CollectionId;

/// The number of outcomes that are kept.
const KEPT: usize = 65_536;

/// The part of a server of a cluster with partitions.
pub(super) struct Part {
    partitions: Arc<Partitions>,
    pub(super) window: Window,
    decided: Arc<Decided>,
}

impl Part {
    /// A server whose window begins after a position.
    pub(super) fn new(partitions: Arc<Partitions>, window_after: u64, decided: Arc<Decided>) -> Part {
        Part { partitions, window: Window::after(window_after, BOUNDS), decided }
    }
}

/// What becomes of an operation on this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is carried out.
    Here,
    /// Other servers carry it out.
    Elsewhere,
    /// No server does.
    Refused,
}

/// The outcomes of the last entries, for the servers that appended them.
#[derive(Default)]
pub(in crate::engine) struct Decided(Mutex<Ring>);

#[derive(Default)]
struct Ring {
    /// The position of an entry, and the outcomes of its operations on this server.
    entries: VecDeque<(u64, Vec<Option<Outcome>>)>,
    outcomes: usize,
}

impl Decided {
    fn add(&self, entry: u64, outcomes: Vec<Option<Outcome>>) {
        let mut ring = self.0.lock();
        ring.outcomes += outcomes.len();
        ring.entries.push_back((entry, outcomes));
        while ring.outcomes > KEPT {
            let Some((_, outcomes)) = ring.entries.pop_front() else { break };
            ring.outcomes -= outcomes.len();
        }
    }

    /// The outcomes of some operations of an entry, each with its number; `None` if one is not known.
    pub(in crate::engine) fn outcomes(&self, entry: u64, operations: &[u32]) -> Option<Vec<(u32, Outcome)>> {
        let ring = self.0.lock();
        let at = ring.entries.binary_search_by_key(&entry, |(position, _)| *position).ok()?;
        let outcome = |&number: &u32| {
            let outcome = ring.entries[at].1.get(number as usize)?.clone()?;
            Some((number, outcome))
        };
        operations.iter().map(outcome).collect()
    }
}

impl Writer {
    /// Fills the window with an entry that was applied before the start. Returns whether it is one.
    pub(super) fn remembers(&mut self, entry: &mut Apply) -> bool {
        let Some(replica) = &mut self.replica else { return false };
        let Some(part) = &mut replica.part else { return false };
        if entry.position > replica.position {
            return false;
        }
        let size = (entry.position, entry.bytes.len());
        if let Work::Writes(writes) = entry.work() {
            part.window.admit(size, &writes);
        }
        true
    }

    /// Leaves only the operations of an entry that this server carries out. Without partitions, these are
    /// all.
    pub(super) fn sift(&mut self, entry: &mut Apply, writes: &mut [(CollectionId, Vec<Operation>)]) {
        let Some(part) = self.replica.as_mut().and_then(|replica| replica.part.as_mut()) else { return };
        // Once, also if the entry is tried again on a full disk.
        let size = (entry.position, entry.bytes.len());
        let refused = entry.refused.get_or_insert_with(|| part.window.admit(size, writes));
        let mut refused = refused.iter().copied();
        self.next_place = self.next_place.max(place(entry.time_ms));
        entry.fates.clear();
        for (_, operations) in writes {
            let mut fates = Vec::with_capacity(operations.len());
            operations.retain_mut(|operation| {
                let is_refused = refused.next().unwrap_or(false);
                let id = match operation {
                    Operation::Put { document, unless, .. } => {
                        document.row.place = self.next_place;
                        self.next_place += 1;
                        *unless = None;
                        &document.id
                    }
                    Operation::Delete { id, .. } => &*id,
                };
                let fate = match (is_refused, part.partitions.hold(id)) {
                    (true, _) => Fate::Refused,
                    (false, true) => Fate::Here,
                    (false, false) => Fate::Elsewhere,
                };
                fates.push(fate);
                fate == Fate::Here
            });
            entry.fates.push(fates);
        }
    }

    /// Passes the outcomes of entries to the callers of this server, or keeps them for other servers.
    pub(super) fn answer_parts(&self, entries: &mut [Apply], answers: Vec<Vec<oneshot::Receiver<Outcomes>>>) {
        let Some(part) = self.replica.as_ref().and_then(|replica| replica.part.as_ref()) else { return };
        for (entry, answers) in entries.iter_mut().zip(answers) {
            let mut number = 0;
            let fates = std::mem::take(&mut entry.fates);
            let complete = |(mut answer, fates): (oneshot::Receiver<Outcomes>, Vec<Fate>)| {
                let first = number;
                number += fates.len() as u32;
                let done = answer.try_recv().ok();
                let done = done.map(|done| done.map(|some| in_places(some, &fates, (entry.position, first))));
                (fates.len(), done)
            };
            let outcomes: Vec<Decision> = answers.into_iter().zip(fates).map(complete).collect();
            match std::mem::replace(&mut entry.replies, Replies::Nobody) {
                Replies::Writes(replies) => {
                    for (WriteReply { collection, reply, .. }, outcomes) in replies.into_iter().zip(outcomes)
                    {
                        let (_, outcomes) = outcomes;
                        let _ = reply.send(outcomes.unwrap_or(Err(EngineError::NoCollection(collection))));
                    }
                }
                _ => part.decided.add(entry.position, of_others(outcomes)),
            }
        }
    }
}

/// The number of operations of a write, and their outcomes; `None` if there is no such collection.
type Decision = (usize, Option<Outcomes>);

/// The outcomes of all operations of a write: of those that this server carried out, in their places.
fn in_places(outcomes: Vec<Outcome>, fates: &[Fate], (entry, first): (u64, u32)) -> Vec<Outcome> {
    let mut outcomes = outcomes.into_iter();
    let of = |(fate, operation): (&Fate, u32)| match fate {
        Fate::Here => outcomes.next().unwrap_or(Outcome::Absent),
        Fate::Elsewhere => Outcome::Elsewhere { entry, operation },
        Fate::Refused => Outcome::Retry { entry },
    };
    fates.iter().zip(first..).map(of).collect()
}

/// What another server can be told: the outcomes that this server decided.
fn of_others(decisions: Vec<Decision>) -> Vec<Option<Outcome>> {
    let is_own = |outcome: &Outcome| !matches!(outcome, Outcome::Elsewhere { .. } | Outcome::Retry { .. });
    let of_write = |(count, outcomes): Decision| match outcomes {
        Some(Ok(outcomes)) => outcomes.into_iter().map(|outcome| Some(outcome).filter(is_own)).collect(),
        Some(Err(_)) | None => vec![None; count],
    };
    decisions.into_iter().flat_map(of_write).collect()
}
