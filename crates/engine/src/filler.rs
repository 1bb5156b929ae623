//! The side of the caller that fills a hidden collection.
//!
//! On a replica each step is an entry of the shared log, and is done when this server has applied it. A step
//! that the log does not take is tried again for about a minute; one whose outcome is unknown ends the work.
//!
//! *Guarantee*: a collection whose [`Filler`] is dropped before the end is discarded.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::collections::info;
use super::command::{Callers, Command, Done, HiddenWork, Operations};
use super::intake::{logged, parts};
use super::registry::Collection;
use super::replica::Membership;
use super::shared::Shared;
use super::writer::Message;
use super::{CollectionChange, CollectionInfo, Engine, EngineError, Operation};
use lookalike_hash::{CollectionId, Mark};
use lookalike_store::{CollectionRecord, HiddenRecord};

/// Approximate bytes of the documents in an entry, without compression. An entry has at most 1 MiB.
const ENTRY_BYTES: usize = 512 << 10;
/// Maximum number of marks in an entry.
const ENTRY_MARKS: usize = 500;
/// How often a step is tried that the log does not take, and the pause in between.
const ATTEMPTS: usize = 60;
const PAUSE: Duration = Duration::from_secs(1);

/// A caller's access to hidden collections.
#[derive(Clone)]
pub(super) struct Access {
    shared: Arc<Shared>,
    commands: mpsc::UnboundedSender<Message>,
    membership: Option<Membership>,
}

/// A hidden collection that this process fills. Dropping it before [`Filler::finish`] discards it.
pub(super) struct Filler {
    access: Access,
    pub(super) target: Arc<Collection>,
    is_done: bool,
}

impl Drop for Filler {
    fn drop(&mut self) {
        if !self.is_done {
            let work = HiddenWork::Abandon { target: self.target.id };
            let discard = Message::Do(Command::Hidden(work), Callers::default());
            let _ = self.access.commands.send(discard);
        }
    }
}

impl Engine {
    pub(super) fn access(&self) -> Access {
        Access {
            shared: Arc::clone(&self.shared),
            commands: self.commands.clone(),
            membership: self.membership.clone(),
        }
    }
}

impl Access {
    /// Creates a hidden collection, which will replace `source` if there is one.
    pub(super) async fn begin(
        self,
        record: CollectionRecord,
        source: Option<CollectionId>,
    ) -> Result<Filler, EngineError> {
        self.shared.budget.admit(true)?;
        let own = self.membership.as_ref();
        let (owner, server) = own.map_or((0, String::new()), |own| (own.origin, own.server.clone()));
        let hidden = HiddenRecord { record, owner, server, source, is_frozen: false };
        match self.send(HiddenWork::Begin(Box::new(hidden))).await? {
            Done::Begun(target) => Ok(Filler { access: self, target, is_done: false }),
            _ => Err(EngineError::Discarded),
        }
    }

    async fn send(&self, work: HiddenWork) -> Result<Done, EngineError> {
        Command::Hidden(work).send(&self.commands, Vec::new()).await
    }
}

impl Filler {
    /// Applies operations to the documents.
    pub(super) async fn fill(&self, operations: Vec<Operation>) -> Result<(), EngineError> {
        self.access.shared.budget.admit(true)?;
        let most = if self.access.membership.is_some() { ENTRY_BYTES } else { usize::MAX };
        for operations in parts(operations, most, logged) {
            let collection = self.target.id;
            self.step(HiddenWork::Fill(Operations { collection, operations })).await?;
        }
        Ok(())
    }

    /// Adds marks.
    pub(super) async fn mark(&self, marks: Vec<(Mark, u64)>) -> Result<(), EngineError> {
        for marks in marks.chunks(ENTRY_MARKS).map(<[_]>::to_vec) {
            self.step(HiddenWork::Mark { target: self.target.id, marks }).await?;
        }
        Ok(())
    }

    /// Removes marks.
    pub(super) async fn unmark(&self, marks: Vec<Mark>) -> Result<(), EngineError> {
        for marks in marks.chunks(ENTRY_MARKS).map(<[_]>::to_vec) {
            self.step(HiddenWork::Unmark { target: self.target.id, marks }).await?;
        }
        Ok(())
    }

    /// Makes the collection that will be replaced refuse writes, or accept them again.
    pub(super) async fn freeze(&self, is_frozen: bool) -> Result<(), EngineError> {
        self.step(HiddenWork::Freeze { target: self.target.id, is_frozen }).await
    }

    /// Makes the collection visible.
    pub(super) async fn finish(
        mut self,
        change: Option<Box<CollectionChange>>,
    ) -> Result<CollectionInfo, EngineError> {
        // Read before the step: an error afterwards would report a success as a failure.
        let documents = self.access.shared.store.documents(self.target.id)?;
        self.step(HiddenWork::Finish { target: self.target.id, change }).await?;
        self.is_done = true;
        Ok(info(&self.target, documents))
    }

    async fn step(&self, work: HiddenWork) -> Result<(), EngineError> {
        if self.access.membership.is_none() {
            return self.access.send(work).await.map(drop);
        }
        for _ in 1..ATTEMPTS {
            match self.access.send(work.clone()).await {
                Err(EngineError::LogUnavailable(reason)) => {
                    tracing::debug!(reason, "a restore or reindex waits for the shared log");
                    tokio::time::sleep(PAUSE).await;
                }
                done => return done.map(drop),
            }
        }
        self.access.send(work).await.map(drop)
    }
}
