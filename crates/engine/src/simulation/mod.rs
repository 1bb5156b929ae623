//! An engine without threads, for simulations: whoever has it decides when the writer takes a message, and
//! when it does some of its work in the background.
//!
//! Everything else is the code of a server: planning, commits, the index, answers, and the store in its
//! directory.
//!
//! *Absent*: the intake of requests, queries, and the snapshot thread.

mod draw;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::oneshot;

use super::cluster_queries::Placements;
use super::command::{Callers, Command, Done, Payload, WriteReply};
use super::replica::{Membership, Replica, Turns, digests};
use super::writer::{Outcomes, Writer};
use super::{EngineError, EngineSettings, OpenError, Parts, Progress, Shared};
use lookalike_hash::CollectionName;
use lookalike_store::{CopyError, StoreError};

/// The number of the tree of clusters in a copy (`store/trees`).
const CLUSTERS: u8 = 8;

/// A server of a simulation. Dropping it is a kill.
pub struct Server {
    shared: Arc<Shared>,
    writer: Writer,
    turns: Turns,
    membership: Membership,
}

/// What a caller will be told.
pub struct Answer {
    writes: Vec<oneshot::Receiver<Outcomes>>,
    other: Option<oneshot::Receiver<Result<Done, EngineError>>>,
}

/// What a caller was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// The command has this result.
    Done(String),
    /// The log does not have it, and never will.
    Unwritten,
    /// The log may have it.
    Unknown,
}

impl Server {
    /// Opens the data of a server.
    ///
    /// # Errors
    /// As [`super::Engine::open`].
    pub fn open(dir: &Path, settings: EngineSettings, membership: Membership) -> Result<Server, OpenError> {
        let parts = Parts::load(dir, settings, &Progress::default(), Some(&membership))?;
        let Parts { shared, mut writer, commands, .. } = parts;
        writer.load_clusters();
        let turns = Turns::new(Arc::clone(&shared), commands);
        Ok(Server { shared, writer, turns, membership })
    }

    /// Takes the commands of all servers.
    pub fn turns(&self) -> Turns {
        self.turns.clone()
    }

    /// Lets the writer take the next message with what it groups, or without one do some of its work in the
    /// background. Returns whether there was anything to do.
    pub fn step(&mut self) -> bool {
        match self.writer.held.take().or_else(|| self.writer.messages.try_recv().ok()) {
            Some(message) => self.writer.take(message),
            None => return self.writer.work_in_background(),
        }
        true
    }

    /// Does all that there is to do, removes what has expired, and records the position.
    pub fn settle(&mut self) {
        self.writer.expiring = true;
        while self.step() {}
        self.writer.record_position();
    }

    /// The position of the last command that was applied.
    pub fn position(&self) -> u64 {
        self.shared.position.borrow().0
    }

    /// A random command, and the collections that it writes to. The numbers are below those that are asked
    /// for.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read, here and below.
    pub fn draw(
        &self,
        now_ms: u64,
        number: &mut dyn FnMut(u64) -> u64,
    ) -> Result<(Payload, Vec<CollectionName>), StoreError> {
        let command = draw::Draw { server: self, now_ms, number }.command()?;
        let names = match &command {
            Command::Write(parts) => parts.iter().map(|part| self.name_of(part.collection)).collect(),
            _ => Vec::new(),
        };
        Ok((Payload(command), names))
    }

    /// The position of the last command whose effect the store has, and a copy of all data.
    ///
    /// # Errors
    /// [`CopyError`] if the store cannot be read.
    pub fn copy(&self) -> Result<(u64, Vec<u8>), CopyError> {
        let mut copy = Vec::new();
        self.shared.store.view().copy_to(&mut copy)?;
        Ok((self.shared.store.log_position()?.map_or(0, |position| position.entry), copy))
    }

    /// All data, in parts that are the same on servers which have applied the same entries. Of clusters,
    /// which each server numbers by itself, it is in which one each document is.
    ///
    /// # Errors
    /// [`CopyError`] if the store cannot be read.
    pub fn state(&self) -> Result<Vec<String>, CopyError> {
        let (copy, mut state) = (self.copy()?.1, Vec::new());
        let mut rest = &copy[..];
        while let Some((&length, after)) = rest.split_first_chunk() {
            let frame =
                after.get(8..).and_then(|after| after.split_at_checked(u32::from_le_bytes(length) as usize));
            let (frame, next) = frame.unwrap_or_default();
            if frame.first().is_some_and(|code| code / 2 != CLUSTERS) {
                state.push(frame.escape_ascii().to_string());
            }
            rest = next;
        }
        let view = self.shared.store.view();
        for collection in self.shared.registry.all().iter().filter(|collection| collection.has_clusters()) {
            let places = Placements::of(&view, collection, false)?;
            for row in view.rows_after(collection.id, None) {
                let (id, _) = row?;
                state.push(format!("{} {id}: {:?}", collection.name, places.of_document(&id)?));
            }
        }
        Ok(state)
    }

    /// What is in memory and is not as in the store, if there is anything. Compares the content of the store
    /// with its digests.
    ///
    /// # Errors
    /// [`StoreError::Differs`].
    pub fn flaw(&self) -> Result<Option<String>, StoreError> {
        let store = &self.shared.store;
        digests::check(store)?;
        if let Some(reason) = self.shared.read_only() {
            return Ok(Some(reason));
        }
        let noted = self.writer.replica.as_ref().map(Replica::digest);
        if noted != Some(digests::of_all(store)?) {
            return Ok(Some("the digest of all collections".to_owned()));
        }
        for collection in self.shared.registry.all() {
            let hashes = store.hashes(&collection.record()).count();
            if collection.index.len() != hashes
                || collection.marks.get() != store.mark_counts(collection.id)?
            {
                return Ok(Some(format!("the index or the marks of {}", collection.name)));
            }
        }
        let noted_ms = self.shared.next_expiry_ms.load(Ordering::SeqCst);
        let is_late = store.expiries(0).flatten().any(|expiry| {
            expiry.at_ms < noted_ms && self.shared.registry.with_id(expiry.collection).is_some()
        });
        Ok(is_late.then(|| "the time of the next expiry".to_owned()))
    }

    fn name_of(&self, id: lookalike_hash::CollectionId) -> CollectionName {
        let known = self.shared.registry.with_id(id).map(|known| known.name.clone());
        known.unwrap_or_else(|| CollectionName::default_collection().clone())
    }
}

impl Answer {
    /// The callers of a command that writes to these collections, or to none, and what they will be told.
    pub fn new(written: &[CollectionName]) -> (Callers, Answer) {
        if written.is_empty() {
            let (reply, answer) = oneshot::channel();
            return (Callers::of_one(reply, Vec::new()), Answer { writes: Vec::new(), other: Some(answer) });
        }
        let reply_to = |collection: &CollectionName| {
            let (reply, answer) = oneshot::channel();
            (WriteReply { collection: collection.clone(), reply, _permits: Vec::new() }, answer)
        };
        let (replies, writes) = written.iter().map(reply_to).unzip();
        (Callers::of_writes(replies), Answer { writes, other: None })
    }

    /// Waits for it.
    pub async fn told(self) -> Told {
        let mut all = Vec::new();
        for answer in self.writes {
            all.push(answer.await.map(|answer| answer.map(|outcomes| format!("{outcomes:?}"))));
        }
        if let Some(answer) = self.other {
            all.push(answer.await.map(|answer| answer.map(|done| describe(&done))));
        }
        let mut told = String::new();
        for answer in all {
            match answer {
                Ok(Ok(done)) => told += &done,
                Ok(Err(EngineError::LogUnavailable(_) | EngineError::TooLarge(_))) => return Told::Unwritten,
                Err(_) | Ok(Err(EngineError::Unknown(_) | EngineError::ReadOnly(_))) => return Told::Unknown,
                Ok(Err(error)) => told += &error.to_string(),
            }
        }
        Told::Done(told)
    }
}

fn describe(done: &Done) -> String {
    match done {
        Done::Collection(changed) => {
            let info = &changed.info;
            let made =
                (changed.is_new, info.id, info.version, info.documents, info.distinct_hashes, info.marks);
            format!("{made:?}")
        }
        Done::Count(count) => format!("{count}"),
        Done::Begun(begun) => format!("{:?}", begun.id),
        Done::Nothing => "done".to_owned(),
        Done::Missing => "missing".to_owned(),
    }
}
