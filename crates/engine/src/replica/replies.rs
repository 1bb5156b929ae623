//! The callers that wait for the effects of entries.

use std::collections::HashMap;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::super::hidden::HiddenReply;
use super::super::intake::Permits;
use super::super::registry::Registry;
use super::super::writer::{Command, Outcomes, Write};
use super::entry::Work;
use crate::{Changed, EngineError};
use lookalike_hash::CollectionName;

/// A caller that waits for operations on a collection.
pub(super) struct WriteReply {
    pub(super) collection: CollectionName,
    pub(super) reply: oneshot::Sender<Outcomes>,
    /// Its share of the write queue.
    _permits: Permits,
}

/// The callers that wait for an entry.
pub(super) enum Replies {
    /// One for each part of [`Work::Writes`].
    Writes(Vec<WriteReply>),
    PutCollection(oneshot::Sender<Result<Changed, EngineError>>),
    DeleteCollection(oneshot::Sender<Result<bool, EngineError>>),
    PutClusters(oneshot::Sender<Result<(), EngineError>>),
    ChangeMarks(oneshot::Sender<Result<usize, EngineError>>, CollectionName, Permits),
    Hidden(HiddenReply),
    /// Nobody waits.
    Nobody,
}

impl Replies {
    /// Tells every caller that its work failed.
    pub(super) fn fail(self, error: impl Fn() -> EngineError) {
        match self {
            Replies::Writes(writes) => {
                for write in writes {
                    let _ = write.reply.send(Err(error()));
                }
            }
            Replies::PutCollection(reply) => drop(reply.send(Err(error()))),
            Replies::DeleteCollection(reply) => drop(reply.send(Err(error()))),
            Replies::PutClusters(reply) => drop(reply.send(Err(error()))),
            Replies::Hidden(reply) => drop(reply.send(Err(error()))),
            Replies::ChangeMarks(reply, ..) => drop(reply.send(Err(error()))),
            Replies::Nobody => {}
        }
    }
}

impl Replies {
    /// Tells a caller that the collection of its marks does not exist.
    pub(super) fn answer_missing(&mut self, registry: &Registry) {
        if let Replies::ChangeMarks(reply, collection, _permits) = std::mem::replace(self, Replies::Nobody) {
            let _ = reply.send(Err(registry.missing(collection)));
        }
    }
}

/// The callers of this server that wait, by the number of their entry.
#[derive(Default)]
pub(super) struct Pending(Mutex<HashMap<u64, Replies>>);

impl Pending {
    pub(super) fn add(&self, number: u64, replies: Replies) {
        self.0.lock().insert(number, replies);
    }

    pub(super) fn take(&self, number: u64) -> Option<Replies> {
        self.0.lock().remove(&number)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Takes everyone who waits.
    pub(super) fn take_all(&self) -> Vec<Replies> {
        self.0.lock().drain().map(|(_, replies)| replies).collect()
    }
}

/// The work of several writes, and who waits for it.
pub(super) fn of_writes(writes: Vec<Write>) -> (Work, Replies) {
    let (mut work, mut replies) = (Vec::with_capacity(writes.len()), Vec::with_capacity(writes.len()));
    for Write { collection, operations, reply, permits, .. } in writes {
        work.push((collection.id, operations.into_iter().map(|(operation, _)| operation).collect()));
        replies.push(WriteReply { collection: collection.name.clone(), reply, _permits: permits });
    }
    (Work::Writes(work), Replies::Writes(replies))
}

/// The work of another command, and who waits for it; the command itself if it has no entry.
pub(super) fn of_command(command: Command) -> Result<(Work, Replies), Command> {
    Ok(match command {
        Command::Write(write) => of_writes(vec![write]),
        Command::PutCollection { name, change, condition, now_ms, reply } => {
            (Work::PutCollection { name, change, condition, now_ms }, Replies::PutCollection(reply))
        }
        Command::DeleteCollection { name, condition, reply } => {
            (Work::DeleteCollection { name, condition }, Replies::DeleteCollection(reply))
        }
        Command::PutClusters { name, rule, reply } => {
            (Work::PutClusters { name, rule }, Replies::PutClusters(reply))
        }
        Command::ChangeMarks { collection, change, reply, permits } => {
            let name = collection.name.clone();
            let work = Work::ChangeMarks { collection: collection.id, change };
            (work, Replies::ChangeMarks(reply, name, permits))
        }
        Command::Hidden { work, reply } => {
            (Work::Hidden(work), reply.map_or(Replies::Nobody, Replies::Hidden))
        }
        Command::PassTime => (Work::Time, Replies::Nobody),
        other => return Err(other),
    })
}
