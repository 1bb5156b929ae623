//! Reindexing: a collection is filled with the documents of another one, whose fingerprints the caller makes
//! again, and then takes its name.
//!
//! The new collection is hidden until the end, in the same way as one that is being restored: the store lists
//! its number as garbage, so the next start after a crash removes it, and the old one is as it was.
//!
//! *Invariants*
//! - The writer records every document and mark that changes in the old collection. The caller reads what was
//!   recorded, from a view that is opened afterwards, and puts its present state into the new collection. So
//!   the new collection has the state of the old one except for what is still recorded.
//! - Before the last of these passes the old collection accepts no more writes ([`EngineError::Switching`]).
//!   Therefore nothing is recorded when the name is given to the new collection, and no acknowledged write is
//!   lost.
//! - One batch deletes the old collection and makes the new one visible. A query sees all of one of them.
//! - The rows of the old collection stay until the last query that began on it has ended.
//!
//! *Absent*: texts and fingerprints (`service`), and documents that expire: their copies have the same expiry
//! time and are in no answer either.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use super::collections::info;
use super::listing::page;
use super::planning::Plan;
use super::registry::{Collection, record_of};
use super::shared::Shared;
use super::writer::{Command, Writer};
use super::{
    CollectionChange, CollectionInfo, CollectionSettings, Condition, Document, Engine, EngineError, Listing,
    MarkPage, Operation, Page,
};
use crate::ids::{CollectionId, CollectionName, DocumentId, Mark};
use crate::pool::{Cancel, CpuPool, Patience};
use crate::store::{CollectionRecord, Row};

/// Bytes of documents that are read at a time. They are written in one batch, which other writes wait for.
const PAGE_BYTES: usize = 1 << 20;
/// Number of marks that are read at a time.
const PAGE_MARKS: usize = 1_000;
/// The interval between two checks whether queries still read the old collection.
const CHECK_READERS: Duration = Duration::from_millis(100);

/// What changed in a collection that is being reindexed.
#[derive(Clone, Debug, Default)]
pub struct Followed {
    /// Documents that were written or deleted.
    pub documents: HashSet<DocumentId>,
    /// Marks that were added or removed.
    pub marks: HashSet<Mark>,
    /// Whether the collection accepts no more writes.
    is_frozen: bool,
}

impl Followed {
    /// Adds what changed later.
    pub fn extend(&mut self, later: Followed) {
        self.documents.extend(later.documents);
        self.marks.extend(later.marks);
    }
}

/// Documents and marks for the new collection.
#[derive(Debug, Default)]
pub(super) struct Filling {
    /// Documents that the new collection does not have.
    new: Vec<Document>,
    /// The present state of documents that changed; `None` if they were deleted.
    changed: Vec<(DocumentId, Option<Document>)>,
    /// The present state of marks: the time at which each was made, `None` if it was removed.
    marks: Vec<(Mark, Option<u64>)>,
}

/// A step of a reindex for the writer.
pub(super) enum Step {
    /// Create a hidden collection, and record from now on what changes in `source`.
    Begin {
        source: Arc<Collection>,
        record: Box<CollectionRecord>,
        reply: oneshot::Sender<Result<Arc<Collection>, EngineError>>,
    },
    /// Take what changed; with `freeze`, accept no more writes.
    Changes { source: Arc<Collection>, freeze: bool, reply: oneshot::Sender<Result<Followed, EngineError>> },
    /// Write documents and marks to the hidden collection.
    Fill { target: Arc<Collection>, filling: Box<Filling>, reply: oneshot::Sender<Result<(), EngineError>> },
    /// Give it the name.
    Finish {
        source: Arc<Collection>,
        target: Arc<Collection>,
        change: Arc<CollectionChange>,
        reply: oneshot::Sender<Result<CollectionInfo, EngineError>>,
    },
    /// Discard it, and accept writes to the old collection again.
    Abandon { source: CollectionId, target: CollectionId },
    /// No query reads the old collection any more.
    Release(CollectionId),
}

/// A collection that is being filled. Dropping it before [`Reindex::finish`] discards the new collection.
pub struct Reindex {
    shared: Arc<Shared>,
    pool: CpuPool,
    commands: mpsc::UnboundedSender<Command>,
    source: Arc<Collection>,
    target: Arc<Collection>,
    change: Arc<CollectionChange>,
    is_done: bool,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Reindex {
    fn drop(&mut self) {
        if !self.is_done {
            let step = Step::Abandon { source: self.source.id, target: self.target.id };
            let _ = self.commands.send(Command::Reindex(step));
        }
    }
}

impl Engine {
    /// Begins to fill a hidden collection in place of `name`, with the settings after `change`.
    ///
    /// # Errors
    /// [`EngineError::NotInCluster`] on a server of a cluster, [`EngineError::Busy`] if another reindex is
    /// running, the errors of a collection's settings, and those of a write.
    pub async fn begin_reindex(
        &self,
        name: &CollectionName,
        change: CollectionChange,
    ) -> Result<Reindex, EngineError> {
        if self.following.is_some() {
            return Err(EngineError::NotInCluster(
                "a server of a cluster does not reindex: create a collection with the other profile and \
                 import an export of this one with its texts",
            ));
        }
        let source = self.shared.registry.get(name)?;
        let settings = change.reform(&source.settings())?;
        self.admit(true)?;
        let permit = Arc::clone(&self.reindexes).try_acquire_owned();
        let permit = permit.map_err(|_| EngineError::Busy("the capacity for one reindex at a time"))?;
        // The writer assigns the number.
        let record = Box::new(record_of(CollectionId(0), name, &settings, source.created_ms));
        let of = Arc::clone(&source);
        let begin = |reply| Command::Reindex(Step::Begin { source: of, record, reply });
        let target = self.command(begin).await?;
        Ok(Reindex {
            shared: Arc::clone(&self.shared),
            pool: self.pool.clone(),
            commands: self.commands.clone(),
            source,
            target,
            change: Arc::new(change),
            is_done: false,
            _permit: permit,
        })
    }
}

impl Reindex {
    /// The settings by which the documents of the new collection are made.
    pub fn settings(&self) -> Arc<CollectionSettings> {
        self.target.settings()
    }

    /// The documents of the old collection after `after`, in the order of their ids.
    ///
    /// # Errors
    /// [`EngineError::Store`], [`EngineError::Pool`].
    pub async fn page(&self, after: Option<DocumentId>) -> Result<Page, EngineError> {
        let (shared, source) = (Arc::clone(&self.shared), self.source.id);
        let wanted = Listing { after, bytes: PAGE_BYTES, ..Listing::default() };
        let read = move |cancel: &Cancel| page(&shared, source, &wanted, cancel);
        self.pool.run(Patience::Bulk, read).await?
    }

    /// The present state of the first of these documents, as many as fit a page and at least one.
    ///
    /// # Errors
    /// As [`Reindex::page`].
    pub async fn present(
        &self,
        ids: Vec<DocumentId>,
    ) -> Result<Vec<(DocumentId, Option<Document>)>, EngineError> {
        let (shared, source) = (Arc::clone(&self.shared), self.source.id);
        let read = move |cancel: &Cancel| {
            let (view, now_ms) = (shared.store.view(), shared.clock.now_ms());
            let (mut found, mut held) = (Vec::new(), 0);
            for id in ids {
                cancel.check()?;
                let row = view.row(source, &id)?.filter(|row| !row.has_lapsed(now_ms));
                held += size_of::<Document>() + row.as_ref().map_or(0, Row::held_bytes);
                let document = row.map(|row| Document { id: id.clone(), row });
                found.push((id, document));
                if held >= PAGE_BYTES {
                    break;
                }
            }
            Ok(found)
        };
        self.pool.run(Patience::Bulk, read).await?
    }

    /// Takes what changed since the last call, or since the beginning. With `freeze` the old collection
    /// accepts no more writes, and without it accepts them again.
    ///
    /// # Errors
    /// [`EngineError::NoCollection`] if the old collection was deleted.
    pub async fn changes(&self, freeze: bool) -> Result<Followed, EngineError> {
        let source = Arc::clone(&self.source);
        self.step(|reply| Step::Changes { source, freeze, reply }).await
    }

    /// Writes documents that the new collection does not have.
    ///
    /// # Errors
    /// Those of a write.
    pub async fn fill(&self, new: Vec<Document>) -> Result<(), EngineError> {
        self.write(Filling { new, ..Filling::default() }).await
    }

    /// Writes the present state of documents that changed.
    ///
    /// # Errors
    /// As [`Reindex::fill`].
    pub async fn follow(&self, changed: Vec<(DocumentId, Option<Document>)>) -> Result<(), EngineError> {
        self.write(Filling { changed, ..Filling::default() }).await
    }

    /// Copies some of the marks after `after`. Returns the last of them if there are more.
    ///
    /// # Errors
    /// As [`Reindex::fill`].
    pub async fn copy_marks(&self, after: Option<Mark>) -> Result<Option<Mark>, EngineError> {
        let (shared, source) = (Arc::clone(&self.shared), Arc::clone(&self.source));
        let read = move |cancel: &Cancel| shared.marks(&source, after.as_ref(), PAGE_MARKS, cancel);
        let MarkPage { marks, has_more } = self.pool.run(Patience::Bulk, read).await??;
        let last = marks.last().filter(|_| has_more).map(|(mark, _)| mark.clone());
        let marks = marks.into_iter().map(|(mark, marked_ms)| (mark, Some(marked_ms))).collect();
        self.write(Filling { marks, ..Filling::default() }).await?;
        Ok(last)
    }

    /// Writes the present state of marks that changed.
    ///
    /// # Errors
    /// As [`Reindex::fill`].
    pub async fn follow_marks(&self, changed: HashSet<Mark>) -> Result<(), EngineError> {
        let (shared, source) = (Arc::clone(&self.shared), self.source.id);
        let read = move |_: &Cancel| {
            let view = shared.store.view();
            let present = |mark: Mark| Ok((mark.clone(), view.marked_ms(source, &mark)?));
            changed.into_iter().map(present).collect::<Result<Vec<_>, EngineError>>()
        };
        let marks = self.pool.run(Patience::Bulk, read).await??;
        self.write(Filling { marks, ..Filling::default() }).await
    }

    /// Gives the name to the new collection. The old one must be frozen, and all its changes written.
    ///
    /// # Errors
    /// [`EngineError::NoCollection`] if the old collection was deleted, [`EngineError::ChangesLeft`], and
    /// those of a write. The new collection is then discarded.
    pub async fn finish(mut self) -> Result<CollectionInfo, EngineError> {
        let (source, target) = (Arc::clone(&self.source), Arc::clone(&self.target));
        let change = Arc::clone(&self.change);
        let info = self.step(|reply| Step::Finish { source, target, change, reply }).await?;
        self.is_done = true;
        let (source, commands) = (Arc::clone(&self.source), self.commands.clone());
        drop(self);
        tokio::spawn(async move {
            // Queries that began on the old collection read its rows.
            while Arc::strong_count(&source) > 1 {
                tokio::time::sleep(CHECK_READERS).await;
            }
            let _ = commands.send(Command::Reindex(Step::Release(source.id)));
        });
        Ok(info)
    }

    async fn write(&self, filling: Filling) -> Result<(), EngineError> {
        let (target, filling) = (Arc::clone(&self.target), Box::new(filling));
        self.step(|reply| Step::Fill { target, filling, reply }).await
    }

    async fn step<T>(
        &self,
        step: impl FnOnce(oneshot::Sender<Result<T, EngineError>>) -> Step,
    ) -> Result<T, EngineError> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(Command::Reindex(step(reply))).map_err(|_| EngineError::Closed)?;
        answer.await.map_err(|_| EngineError::Closed)?
    }
}

impl Writer {
    /// Performs a step of a reindex.
    pub(super) fn reindex(&mut self, step: Step) {
        match step {
            Step::Begin { source, record, reply } => {
                let _ = reply.send(self.begin_reindex(&source, *record));
            }
            Step::Changes { source, freeze, reply } => {
                let _ = reply.send(self.take_changes(&source, freeze));
            }
            Step::Fill { target, filling, reply } => {
                let _ = reply.send(self.fill_hidden(&target, *filling));
            }
            Step::Finish { source, target, change, reply } => {
                let _ = reply.send(self.finish_reindex(&source, &target, &change));
            }
            Step::Abandon { source, target } => {
                self.followed.remove(&source);
                self.abandon_hidden(target);
            }
            Step::Release(id) => self.garbage.push_back(id),
        }
    }

    fn begin_reindex(
        &mut self,
        source: &Collection,
        record: CollectionRecord,
    ) -> Result<Arc<Collection>, EngineError> {
        self.refuse_gone(&Arc::clone(&self.shared), source)?;
        let target = Collection::remade(self.begin_hidden(record)?);
        self.followed.insert(source.id, Followed::default());
        Ok(Arc::new(target))
    }

    fn take_changes(&mut self, source: &Collection, freeze: bool) -> Result<Followed, EngineError> {
        // It is forgotten when the collection is deleted.
        let followed = self.followed.get_mut(&source.id);
        let followed = followed.ok_or_else(|| EngineError::NoCollection(source.name.clone()))?;
        Ok(std::mem::replace(followed, Followed { is_frozen: freeze, ..Followed::default() }))
    }

    fn fill_hidden(&mut self, target: &Arc<Collection>, filling: Filling) -> Result<(), EngineError> {
        let Filling { new, changed, marks } = filling;
        let put = |document| Operation::Put { document, unless: None, condition: Condition::None };
        // A document that was deleted and written again has a new place, which a replacement would not get.
        let renewed = |(id, document): (DocumentId, Option<Document>)| {
            [Some(Operation::Delete { id, condition: Condition::None }), document.map(put)]
                .into_iter()
                .flatten()
        };
        let operations = new.into_iter().map(put).chain(changed.into_iter().flat_map(renewed));
        self.apply_hidden(target, operations)?;
        let (present, gone): (Vec<_>, Vec<_>) = marks.into_iter().partition(|(_, marked)| marked.is_some());
        let mut outdated = Vec::new();
        let shared = Arc::clone(&self.shared);
        let mut plan = Plan::new(&shared.store, self.last, 0)?;
        for (mark, marked_ms) in gone.iter().chain(&present) {
            let stored = plan.view.marked_ms(target.id, mark)?;
            if let Some(stored) = stored.filter(|stored| Some(*stored) != *marked_ms) {
                plan.batch.remove_mark(target.id, mark, stored);
                outdated.push(mark.clone());
            }
        }
        self.commit_marks(plan, target, &outdated, false)?;
        let present = present.into_iter().filter_map(|(mark, marked_ms)| Some((mark, marked_ms?)));
        self.fill_marks(target, present.collect())
    }

    fn finish_reindex(
        &mut self,
        source: &Arc<Collection>,
        target: &Arc<Collection>,
        change: &CollectionChange,
    ) -> Result<CollectionInfo, EngineError> {
        let left = self.followed.get(&source.id);
        // It is forgotten when the collection is deleted.
        let left = left.ok_or_else(|| EngineError::NoCollection(source.name.clone()))?;
        if !(left.is_frozen && left.documents.is_empty() && left.marks.is_empty()) {
            return Err(EngineError::ChangesLeft(source.name.clone()));
        }
        // The settings of the old collection may have changed meanwhile.
        target.set_settings(change.reform(&source.settings())?);
        let documents = self.shared.store.documents(target.id)?;
        self.reveal(target, Some(source))?;
        self.followed.remove(&source.id);
        self.clusters.forget(source.id);
        Ok(info(target, documents))
    }

    /// Refuses a write to a collection that has been deleted or replaced, or is about to be replaced.
    pub(super) fn refuse_gone(&self, shared: &Shared, collection: &Collection) -> Result<(), EngineError> {
        match shared.registry.find(&collection.name) {
            Some(now) if now.id == collection.id => match self.followed.get(&collection.id) {
                Some(Followed { is_frozen: true, .. }) => {
                    Err(EngineError::Switching(collection.name.clone()))
                }
                _ => Ok(()),
            },
            Some(now) => Err(now.not_for_this(EngineError::NoCollection)),
            None => Err(EngineError::NoCollection(collection.name.clone())),
        }
    }

    /// Records the documents that a plan touches in collections that are being reindexed.
    pub(super) fn follow_documents(&mut self, plan: &Plan<'_>) {
        if self.followed.is_empty() {
            return;
        }
        for (of, id) in plan.touched_ids() {
            if let Some(followed) = self.followed.get_mut(of) {
                followed.documents.insert(id.clone());
            }
        }
    }

    /// Records marks that change.
    pub(super) fn follow_marks(&mut self, of: CollectionId, changed: &[Mark]) {
        if let Some(followed) = self.followed.get_mut(&of) {
            followed.marks.extend(changed.iter().cloned());
        }
    }
}
