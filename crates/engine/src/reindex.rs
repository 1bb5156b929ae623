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
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use super::filler::Filler;
use super::listing::page;
use super::planning::Plan;
use super::registry::Collection;
use super::shared::Shared;
use super::writer::{Message, Writer};
use super::{
    CollectionChange, CollectionInfo, CollectionSettings, Condition, Document, Engine, EngineError, Listing,
    MarkPage, Operation, Page, Weights, permit,
};
use lookalike_hash::{CollectionId, CollectionName, DocumentId, Mark};
use lookalike_run::pool::{Cancel, CpuPool, Patience};
use lookalike_store::{CollectionRecord, Row, StoreError};

/// Bytes of documents that are read at a time. They are written in one batch, which other writes wait for.
const PAGE_BYTES: usize = 1 << 20;
/// Number of marks that are read at a time.
const PAGE_MARKS: usize = 1_000;

/// Documents and marks that changed in a collection that is being reindexed.
#[derive(Clone, Debug, Default)]
pub struct Followed {
    /// Documents that were written or deleted.
    pub documents: HashSet<DocumentId>,
    /// Marks that were added or removed.
    pub marks: HashSet<Mark>,
}

impl Followed {
    /// Adds what changed later.
    pub fn extend(&mut self, later: Followed) {
        self.documents.extend(later.documents);
        self.marks.extend(later.marks);
    }
}

/// A collection that is being filled. Dropping it before [`Reindex::finish`] discards the new collection.
pub struct Reindex {
    shared: Arc<Shared>,
    pool: CpuPool,
    commands: mpsc::UnboundedSender<Message>,
    source: Arc<Collection>,
    filler: Filler,
    change: Box<CollectionChange>,
    /// Whether the old collection accepts no writes.
    is_frozen: AtomicBool,
    _permit: OwnedSemaphorePermit,
}

impl Engine {
    /// Begins to fill a hidden collection in place of `name`, with the settings after `change`.
    ///
    /// # Errors
    /// [`EngineError::Busy`] if another reindex is running on this server, [`EngineError::ReindexedBy`] if
    /// another replica reindexes the collection, the errors of a collection's settings, and
    /// those of a write.
    pub async fn begin_reindex(
        &self,
        name: &CollectionName,
        change: CollectionChange,
    ) -> Result<Reindex, EngineError> {
        let source = self.shared.registry.get(name)?;
        let settings = change.reform(&source.settings())?;
        let permit = permit(&self.reindexes, "the capacity for one reindex at a time")?;
        // The writer assigns the number.
        let (id, name) = (CollectionId(0), name.clone());
        let record = CollectionRecord { id, name, settings, created_ms: source.created_ms };
        let filler = self.access().begin(record, Some(source.id)).await?;
        Ok(Reindex {
            shared: Arc::clone(&self.shared),
            pool: self.pool.clone(),
            commands: self.commands.clone(),
            source,
            filler,
            change: Box::new(change),
            is_frozen: AtomicBool::new(false),
            _permit: permit,
        })
    }

    /// The other replica that reindexes a collection, if one does.
    pub fn reindexed_by(&self, collection: CollectionId) -> Option<String> {
        let own = self.membership.as_ref()?;
        let (owner, server) = self.shared.hidden.owner_for(collection)?;
        (owner != own.origin).then_some(server)
    }
}

impl Reindex {
    /// The settings by which the documents of the new collection are made.
    pub fn settings(&self) -> Arc<CollectionSettings> {
        self.filler.target.settings()
    }

    /// Sets the weights by which the documents of the new collection are made from now on.
    ///
    /// # Errors
    /// The errors of a collection's settings.
    pub fn weigh(&mut self, weights: Weights) -> Result<(), EngineError> {
        self.change.settings.weights = Some(Some(weights));
        self.filler.target.set_settings(self.change.reform(&self.source.settings())?);
        Ok(())
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
    /// [`EngineError::NoCollection`] if the old collection was deleted, [`EngineError::Discarded`] if the
    /// other replicas have discarded the new one.
    pub async fn changes(&self, freeze: bool) -> Result<Followed, EngineError> {
        if self.is_frozen.load(Ordering::SeqCst) != freeze {
            self.filler.freeze(freeze).await?;
            self.is_frozen.store(freeze, Ordering::SeqCst);
        }
        let target = self.filler.target.id;
        let (reply, answer) = oneshot::channel();
        let take = Message::TakeChanges { target, reply };
        self.commands.send(take).map_err(|_| EngineError::Closed)?;
        answer.await.map_err(|_| EngineError::Closed)?
    }

    /// Writes documents that the new collection does not have.
    ///
    /// # Errors
    /// Those of a write.
    pub async fn fill(&self, new: Vec<Document>) -> Result<(), EngineError> {
        self.filler.fill(new.into_iter().map(Operation::put).collect()).await
    }

    /// Writes the present state of documents that changed.
    ///
    /// # Errors
    /// As [`Reindex::fill`].
    pub async fn follow(&self, changed: Vec<(DocumentId, Option<Document>)>) -> Result<(), EngineError> {
        // A document that was deleted and written again has a new place, which a replacement would not get.
        let renewed = |(id, document): (DocumentId, Option<Document>)| {
            let delete = Operation::Delete { id, condition: Condition::None };
            [Some(delete), document.map(Operation::put)].into_iter().flatten()
        };
        self.filler.fill(changed.into_iter().flat_map(renewed).collect()).await
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
        self.filler.mark(marks).await?;
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
            let present = |mark: &Mark| view.marked_ms(source, mark).map(|at| Some((mark.clone(), at?)));
            let present = changed.iter().filter_map(|mark| present(mark).transpose());
            let present = present.collect::<Result<Vec<_>, StoreError>>()?;
            Ok::<_, EngineError>((changed.into_iter().collect(), present))
        };
        let (changed, present) = self.pool.run(Patience::Bulk, read).await??;
        // A mark that was removed and made again has another time.
        self.filler.unmark(changed).await?;
        self.filler.mark(present).await
    }

    /// Gives the name to the new collection. The old one must be frozen, and all its changes written.
    ///
    /// # Errors
    /// [`EngineError::NoCollection`] if the old collection was deleted, [`EngineError::ChangesLeft`], and
    /// those of a write. The new collection is then discarded.
    pub async fn finish(self) -> Result<CollectionInfo, EngineError> {
        let left = self.changes(true).await?;
        if !(left.documents.is_empty() && left.marks.is_empty()) {
            return Err(EngineError::ChangesLeft(self.source.name.clone()));
        }
        self.filler.finish(Some(self.change)).await
    }
}

impl Writer {
    /// Takes what changed in the collection that a hidden one will replace.
    pub(super) fn take_changes(&mut self, target: CollectionId) -> Result<Followed, EngineError> {
        let (hidden, target) = self.shared.hidden.find(target)?;
        // It is forgotten when the collection is deleted.
        let followed = hidden.source.and_then(|source| self.followed.get_mut(&source));
        let followed = followed.ok_or_else(|| EngineError::NoCollection(target.name.clone()))?;
        Ok(std::mem::take(followed))
    }

    /// Records the documents that a plan touches in collections that are being reindexed.
    pub(super) fn follow_documents(&mut self, plan: &Plan<'_>) {
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
