//! Marks: which documents users marked as no duplicates, what follows for lookups, and their changes.
//!
//! Two documents are near each other if their distance is at most k, they are not marked as a pair, and
//! neither of them is marked itself. Collections without marks pay for none of this: the numbers of marks
//! are in memory. The writer raises them before a commit becomes visible and lowers them afterwards. So if
//! a number is 0 both before a view is taken and afterwards, the view has no such marks.
//!
//! *Absent*: the keys of marks (`store`), the tasks that follow from them (`clustering`).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::clustering::Clustering;
use super::command::{Command, Done};
use super::lists::ListKey;
use super::planning::Plan;
use super::registry::Collection;
use super::shared::Shared;
use super::writer::Writer;
use super::{Admission, Engine, EngineError, MarkPage, Marked};
use lookalike_hash::{CollectionId, CollectionName, DocumentId, Mark};
use lookalike_run::pool::Cancel;
use lookalike_store::{Change, MarkCounts, MarksOf, Posting, Store, StoreError, View};

/// The maximum number of marks of a document. They are in memory while its neighbours are looked up.
pub(super) const MAX_MARKS_OF_DOCUMENT: usize = 1_000;
/// Approximate bytes of a mark in the write queue.
const MARK_BYTES: usize = 700;
/// Number of keys that a list reads between two checks for cancellation.
const CHECK: usize = 1_024;

/// The numbers of marks of a collection, in memory.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pairs: AtomicU64,
    documents: AtomicU64,
}

impl Counts {
    pub(super) fn set(&self, counts: MarkCounts) {
        self.pairs.store(counts.pairs, Ordering::SeqCst);
        self.documents.store(counts.documents, Ordering::SeqCst);
    }

    pub(super) fn get(&self) -> MarkCounts {
        let read = |count: &AtomicU64| count.load(Ordering::SeqCst);
        MarkCounts { pairs: read(&self.pairs), documents: read(&self.documents) }
    }

    /// A view, and numbers of marks that are 0 only if the view has no such marks.
    pub(super) fn view<'s>(&self, store: &'s Store) -> (View<'s>, MarkCounts) {
        let before = self.get();
        let view = store.view();
        let after = self.get();
        let counts = MarkCounts {
            pairs: before.pairs.max(after.pairs),
            documents: before.documents.max(after.documents),
        };
        (view, counts)
    }

    /// Whether a mark may affect a query about this document, or about no document.
    pub(super) fn may_affect(&self, document: Option<&DocumentId>) -> bool {
        let counts = self.get();
        counts.documents > 0 || (counts.pairs > 0 && document.is_some())
    }
}

/// The marks of a collection in a view.
#[derive(Clone, Copy)]
pub(super) struct Marks<'v, 's> {
    view: &'v View<'s>,
    collection: CollectionId,
    counts: MarkCounts,
}

impl<'v, 's> Marks<'v, 's> {
    /// The marks in a view, which has at most this many.
    pub(super) fn of(view: &'v View<'s>, collection: &Collection, counts: MarkCounts) -> Marks<'v, 's> {
        Marks { view, collection: collection.id, counts }
    }

    /// The marks in a view on the writer thread, where no number changes meanwhile.
    pub(super) fn of_writer(view: &'v View<'s>, collection: &Collection) -> Marks<'v, 's> {
        Marks::of(view, collection, collection.marks.get())
    }

    /// Whether a document itself is marked.
    pub(super) fn has(&self, id: &DocumentId) -> Result<bool, StoreError> {
        Ok(self.counts.documents > 0 && self.view.has_mark(self.collection, id)?)
    }

    /// Whether a document has a mark, alone or in a pair.
    pub(super) fn concern(&self, id: &DocumentId) -> Result<bool, StoreError> {
        Ok(self.counts.all() > 0 && self.view.marks_of(self.collection, id)?.count() > 0)
    }

    /// Whether a mark says that these documents are no duplicates: that of the pair, or that of one of them.
    pub(super) fn separate(&self, a: &DocumentId, b: &DocumentId) -> Result<bool, StoreError> {
        let is_pair = self.counts.pairs > 0 && self.view.has_pair(self.collection, a, b)?;
        Ok(is_pair || self.has(a)? || self.has(b)?)
    }

    /// The documents that an answer about this one leaves out; `None` if there are none.
    pub(super) fn left_out(
        self,
        document: Option<&DocumentId>,
    ) -> Result<Option<LeftOut<'v, 's>>, StoreError> {
        let has_any = self.counts.all() > 0;
        let own = match document.filter(|_| has_any) {
            Some(document) => self.view.marks_of(self.collection, document)?,
            None => MarksOf::default(),
        };
        let may_leave_out = self.counts.documents > 0 || own.count() > 0;
        Ok(may_leave_out.then_some(LeftOut { marks: self, own }))
    }
}

/// The documents that an answer leaves out because of marks.
pub(super) struct LeftOut<'v, 's> {
    marks: Marks<'v, 's>,
    own: MarksOf,
}

impl LeftOut<'_, '_> {
    /// Whether the document of the query is marked itself, so that the answer has no matches.
    pub(super) fn is_everything(&self) -> bool {
        self.own.is_marked
    }

    /// Whether this document is left out.
    pub(super) fn has(&self, id: &DocumentId) -> Result<bool, StoreError> {
        Ok(self.own.is_marked || self.own.others.contains(id) || self.marks.has(id)?)
    }

    /// Whether this document is marked as a pair with that of the query, which takes no read.
    pub(super) fn has_pair(&self, id: &DocumentId) -> bool {
        self.own.others.contains(id)
    }
}

pub(super) enum MarkChange {
    /// Add these, each made at a time in milliseconds since 1970-01-01 UTC.
    Add(Vec<(Mark, u64)>),
    Remove(Vec<Mark>),
}

impl Engine {
    /// Adds marks, all or none of them, each with the time at which it was made. A mark that exists keeps its
    /// time.
    ///
    /// # Errors
    /// [`EngineError::NoCollection`], [`EngineError::TooManyMarks`], and those of a write.
    pub async fn mark(
        &self,
        collection: &CollectionName,
        marks: Vec<(Mark, u64)>,
    ) -> Result<Marked, EngineError> {
        let count = marks.len();
        let add = |collection| Command::AddMarks { collection, marks };
        let added = self.change_marks(collection, count, add).await?;
        Ok(Marked { added, present: count - added })
    }

    /// Removes a mark. Returns whether it existed.
    ///
    /// # Errors
    /// As [`Engine::mark`].
    pub async fn unmark(&self, collection: &CollectionName, mark: Mark) -> Result<bool, EngineError> {
        let remove = |collection| Command::RemoveMark { collection, mark };
        Ok(self.change_marks(collection, 1, remove).await? > 0)
    }

    /// The position of the first of these pairs that a mark separates.
    ///
    /// # Errors
    /// [`EngineError::Store`].
    pub fn first_separated(
        &self,
        collection: &Collection,
        pairs: &[(DocumentId, DocumentId)],
    ) -> Result<Option<usize>, EngineError> {
        let (view, counts) = collection.marks.view(&self.shared.store);
        let marks = Marks::of(&view, collection, counts);
        for (at, (a, b)) in pairs.iter().enumerate() {
            if marks.separate(a, b)? {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    async fn change_marks(
        &self,
        name: &CollectionName,
        count: usize,
        command: impl FnOnce(CollectionId) -> Command,
    ) -> Result<usize, EngineError> {
        let command = command(self.shared.registry.get(name)?.id);
        let permits = self.queue.take_for(count, count * MARK_BYTES, Admission::Shed).await?;
        match command.send(&self.commands, permits).await? {
            Done::Count(changed) => Ok(changed),
            _ => Err(self.shared.registry.missing(name.clone())),
        }
    }

    /// The marks of a collection after this one, in the order of their ids, at most `limit`.
    ///
    /// # Errors
    /// [`EngineError::Store`], and [`EngineError::Pool`] if the work is cancelled.
    pub fn marks(
        &self,
        collection: &Collection,
        after: Option<&Mark>,
        limit: usize,
        cancel: &Cancel,
    ) -> Result<MarkPage, EngineError> {
        self.shared.marks(collection, after, limit, cancel)
    }

    /// The marks of a document after this one, in order, at most `limit`.
    ///
    /// # Errors
    /// [`EngineError::Store`].
    pub fn marks_of(
        &self,
        collection: &Collection,
        id: &DocumentId,
        after: Option<&Mark>,
        limit: usize,
    ) -> Result<MarkPage, EngineError> {
        let view = self.shared.store.view();
        let MarksOf { is_marked, others } = view.marks_of(collection.id, id)?;
        let itself = is_marked.then(|| Mark::of(id.clone()));
        let mut marks: Vec<Mark> = itself
            .into_iter()
            .chain(others.into_iter().filter_map(|other| Mark::pair(id.clone(), other)))
            .collect();
        marks.sort_unstable();
        marks.retain(|mark| after.is_none_or(|after| mark > after));
        let has_more = marks.len() > limit;
        marks.truncate(limit);
        let with_time =
            |mark: Mark| Ok((mark.clone(), view.marked_ms(collection.id, &mark)?.unwrap_or_default()));
        let marks = marks.into_iter().map(with_time).collect::<Result<_, StoreError>>()?;
        Ok(MarkPage { marks, has_more })
    }
}

impl Shared {
    /// See [`Engine::marks`].
    pub(super) fn marks(
        &self,
        collection: &Collection,
        after: Option<&Mark>,
        limit: usize,
        cancel: &Cancel,
    ) -> Result<MarkPage, EngineError> {
        let view = self.store.view();
        let mut page = MarkPage::default();
        for (read, mark) in view.marks_after(collection.id, after).enumerate() {
            if read % CHECK == 0 {
                cancel.check()?;
            }
            let Some(mark) = mark? else { continue };
            if page.marks.len() == limit {
                page.has_more = true;
                break;
            }
            page.marks.push(mark);
        }
        Ok(page)
    }
}

impl Plan<'_> {
    /// The first live postings of a list in id order that an answer does not leave out.
    pub(super) fn unmarked_postings(
        &self,
        collection: &Collection,
        list: ListKey,
        left_out: Option<&LeftOut<'_, '_>>,
        most: usize,
    ) -> Result<Vec<Posting>, StoreError> {
        let Some(left_out) = left_out else { return self.first_postings(collection, list, None, most) };
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let part = self.first_postings(collection, list, after.as_ref(), most)?;
            let is_last = part.len() < most;
            after = part.last().map(|posting| posting.id.clone());
            for posting in part {
                if !left_out.has(&posting.id)? {
                    found.push(posting);
                }
            }
            if is_last || found.len() >= most {
                found.truncate(most);
                return Ok(found);
            }
        }
    }

    /// Changes marks in the batch. Returns those that it changes, and whether they are added. The caller sets
    /// the numbers.
    pub(super) fn change_marks(
        &mut self,
        collection: CollectionId,
        change: MarkChange,
    ) -> Result<(Vec<Mark>, bool), EngineError> {
        let marks = match change {
            MarkChange::Add(marks) => return Ok((self.add_marks(collection, marks)?, true)),
            MarkChange::Remove(marks) => marks,
        };
        let mut removed = Vec::new();
        for mark in marks {
            if let Some(stored) = self.view.marked_ms(collection, &mark)? {
                self.batch.remove_mark(collection, &mark, stored);
                removed.push(mark);
            }
        }
        Ok((removed, false))
    }

    /// Adds those marks to the batch that do not exist, and returns them.
    fn add_marks(
        &mut self,
        collection: CollectionId,
        marks: Vec<(Mark, u64)>,
    ) -> Result<Vec<Mark>, EngineError> {
        let mut new: Vec<Mark> = Vec::new();
        let mut seen = HashSet::new();
        let mut counts: HashMap<DocumentId, usize> = HashMap::new();
        for (mark, marked_ms) in marks {
            if self.view.marked_ms(collection, &mark)?.is_some() || !seen.insert(mark.clone()) {
                continue;
            }
            for id in std::iter::once(mark.id()).chain(mark.other()) {
                if !counts.contains_key(id) {
                    counts.insert(id.clone(), self.view.marks_of(collection, id)?.count());
                }
                let count = counts.entry(id.clone()).or_default();
                *count += 1;
                if *count > MAX_MARKS_OF_DOCUMENT {
                    return Err(EngineError::TooManyMarks { id: id.clone() });
                }
            }
            self.batch.add_mark(collection, &mark, marked_ms);
            new.push(mark);
        }
        Ok(new)
    }
}

impl Writer {
    /// Changes marks, and queues what follows for clusters.
    pub(super) fn change_marks(&mut self, of: CollectionId, change: MarkChange) -> Result<Done, EngineError> {
        let shared = Arc::clone(&self.shared);
        let Some(collection) = &shared.registry.with_id(of) else { return Ok(Done::Missing) };
        shared.refuse_gone(collection)?;
        let mut plan = Plan::new(&shared.store, self.last, self.now_ms())?;
        let (changed, are_added) = plan.change_marks(collection.id, change)?;
        if changed.is_empty() {
            return Ok(Done::Count(0));
        }
        if collection.has_clusters() {
            let representatives = self.clusters.representatives(collection);
            let mut clustering = Clustering::new(&plan, collection, representatives)?;
            for mark in &changed {
                clustering.touch_mark(mark)?;
            }
            // The tasks are done after the commit, when views have the marks.
            let done = clustering.finish(0)?;
            plan.clusters.push(self.clusters.note(collection, done));
        }
        self.follow_marks(collection.id, &changed);
        let done = self.commit_marks(plan, collection, &changed, are_added);
        self.clusters_after_commit();
        done.map(|()| Done::Count(changed.len()))
    }

    /// Commits a plan that adds or removes these marks.
    pub(super) fn commit_marks(
        &mut self,
        mut plan: Plan<'_>,
        collection: &Arc<Collection>,
        changed: &[Mark],
        are_added: bool,
    ) -> Result<(), EngineError> {
        if changed.is_empty() {
            return Ok(());
        }
        let pairs = changed.iter().filter(|mark| mark.other().is_some()).count() as u64;
        let documents = changed.len() as u64 - pairs;
        let before = collection.marks.get();
        let after = if are_added {
            MarkCounts { pairs: before.pairs + pairs, documents: before.documents + documents }
        } else {
            MarkCounts {
                pairs: before.pairs.saturating_sub(pairs),
                documents: before.documents.saturating_sub(documents),
            }
        };
        plan.batch.set_mark_counts(collection.id, after);
        plan.batch.record(Change::CollectionChanged(collection.id));
        if are_added {
            collection.marks.set(after);
        }
        let (batch, hashes) = plan.into_batch();
        let touched = [(collection.id, Arc::clone(collection))].into();
        let done = self.commit_or_fail(batch, &touched, &hashes);
        // After a failure other than a full disk the numbers do not matter: nothing is written any more, and
        // a number above 0 only means that marks are looked up.
        match &done {
            Ok(()) => collection.marks.set(after),
            Err(EngineError::DiskFull(_)) => collection.marks.set(before),
            Err(_) => {}
        }
        done
    }
}
