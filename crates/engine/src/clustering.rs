//! Clusters: which documents represent others, kept true while documents come, change and go.
//!
//! Documents are ordered by rank: the key of the keep rule, then the order of arrival. A document is a
//! representative unless a representative of smaller rank is near it: within k, or by the check, and not
//! marked as no duplicate of it. Otherwise it is a member of the nearest of these, of several the one that
//! arrived first. Without marks and check this is what `dedupe` keeps of the same documents. So the clusters
//! depend on the stored documents and marks alone, and not on their history.
//!
//! Documents of one hash and one sketch that are not marked are decided together (`copies`): only the first
//! of them can be a representative, and when it goes, the next one takes its place. So what a change costs
//! does not depend on the number of copies, only on the number of different ones near them.
//!
//! A change of a document or a mark creates tasks. They are done in the order of ranks, so whatever ranks
//! before the first task is decided. A group of writes does a limited number; the writer does the rest
//! between groups. Tasks are stored, so a restart continues with them.
//!
//! *Absent*: reading clusters (`cluster_queries`), their bytes (`store`).

mod copies;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

use self::copies::assign;
use super::filter::member;
use super::marks::Marks;
use super::planning::{Plan, Touched};
use super::registry::Collection;
use lookalike_hamming::{HashIndex, Subject};
use lookalike_hash::{ClusterRule, DocumentId, Hash, KeepRule, Mark};
use lookalike_store::{
    Cluster, ClusterChanges, ClusterState, Clustered, Clusters, Copies, CopiesOf, Membership, Part, Queued,
    Rank, StoreError, Task,
};

/// Maximum number of stored tasks that a step reads, and about the number of those that it does.
pub(super) const STEP: usize = 256;
/// Maximum number of entries that a task reads before it is continued later.
const CHUNK: usize = 256;
/// Maximum number of entries that are removed at once when all clusters are removed.
const CLEARED: usize = 4_096;

/// The changes of the clusters of a collection by a group of writes, or by a step between groups.
pub(super) struct Clustering<'p, 'a> {
    plan: &'p Plan<'a>,
    collection: &'p Collection,
    /// `None` if the clusters are being removed.
    rule: Option<ClusterRule>,
    /// The hashes of the representatives that are not marked.
    representatives: Arc<dyn HashIndex>,
    marks: Marks<'p, 'a>,
    clusters: Clusters<'p, 'a>,
    state: ClusterState,
    before: ClusterState,
    queue: BTreeMap<Vec<u8>, Queued>,
    /// The tasks that were stored before.
    loaded: BTreeMap<Vec<u8>, Queued>,
    /// Stored tasks after this one were not read.
    rest: Option<Vec<u8>>,
    /// Signatures of documents that are not stored yet.
    signatures: HashMap<DocumentId, Vec<u8>>,
    hashes: HashSet<Hash>,
}

/// The result of a [`Clustering`].
pub(super) struct ClusteringResult {
    pub(super) changes: ClusterChanges,
    /// The number of entries that were read.
    pub(super) read: u64,
    /// Hashes that may have got a representative or lost one.
    pub(super) hashes: HashSet<Hash>,
}

/// The place of a rank in the order of tasks.
fn at(rank: &Rank) -> (u64, u64) {
    (rank.key, rank.place)
}

impl<'p, 'a> Clustering<'p, 'a> {
    /// The stored clusters and their first tasks, without changes.
    pub(super) fn new(
        plan: &'p Plan<'a>,
        collection: &'p Collection,
        representatives: Arc<dyn HashIndex>,
    ) -> Result<Clustering<'p, 'a>, StoreError> {
        let clusters = Clusters::of(&plan.view, collection.id);
        let state = clusters.state()?;
        let tasks = clusters.tasks(&state, STEP)?;
        let loaded: BTreeMap<_, _> = tasks.into_iter().map(|task| (task.order(), task)).collect();
        let rest = loaded.last_key_value().map(|(order, _)| order.clone());
        let rest = rest.filter(|_| loaded.len() == STEP);
        let rule = collection.settings().clusters.clone();
        // If no task is stored, their number is 0.
        let tasks = if loaded.is_empty() { 0 } else { state.tasks };
        Ok(Clustering {
            plan,
            collection,
            rule,
            representatives,
            marks: Marks::of_writer(&plan.view, collection),
            clusters,
            state: ClusterState { tasks, ..state },
            before: state,
            queue: loaded.clone(),
            loaded,
            rest,
            signatures: HashMap::new(),
            hashes: HashSet::new(),
        })
    }

    /// Does tasks, but no more than about `budget`, and gives the changes.
    pub(super) fn finish(mut self, budget: usize) -> Result<ClusteringResult, StoreError> {
        let mut left = budget;
        while left > 0
            && let Some(queued) = self.next()
        {
            let at = (queued.key, queued.place);
            let done = match queued.task {
                Task::Decide(of) => self.decide(&of, at)?,
                Task::Regroup(id) => self.regroup(&id, at)?,
                Task::Promote { of, after } => self.promote(of, after, at)?,
                Task::Dissolve { number, after } => self.dissolve(number, after.as_ref(), at)?,
                Task::Scan { after } => self.scan(after.as_ref())?,
                Task::Clear { after } => {
                    self.clear(after.as_deref())?;
                    break;
                }
            };
            left = left.saturating_sub(done);
        }
        for order in self.loaded.keys().filter(|order| !self.queue.contains_key(*order)) {
            self.clusters.remove_task(order);
            self.state.tasks = self.state.tasks.saturating_sub(1);
        }
        for (order, queued) in &self.queue {
            match self.loaded.get(order) {
                Some(stored) if stored == queued => {}
                Some(_) => self.clusters.add_task(queued),
                None => {
                    let was_read = self.rest.as_ref().is_none_or(|rest| order <= rest);
                    let is_new = was_read || !self.clusters.has_task(order)?;
                    self.clusters.add_task(queued);
                    self.state.tasks += u64::from(is_new);
                }
            }
        }
        let at = |queued: &Queued| (queued.key, queued.place);
        let first = self.queue.values().next().map(at);
        let rest = self.loaded.values().next_back().filter(|_| self.rest.is_some()).map(at);
        self.state.first = first.into_iter().chain(rest).min().unwrap_or(self.state.first);
        if self.state != self.before {
            self.clusters.set_state(&self.state);
        }
        let (changes, read) = self.clusters.into_changes();
        Ok(ClusteringResult { changes, read, hashes: self.hashes })
    }

    /// Takes the next task.
    fn next(&mut self) -> Option<Queued> {
        let (order, _) = self.queue.first_key_value()?;
        if self.rest.as_ref().is_some_and(|rest| order > rest) {
            return None;
        }
        self.queue.pop_first().map(|(_, queued)| queued)
    }

    fn add(&mut self, (key, place): (u64, u64), task: Task) {
        let queued = Queued { key, place, task };
        self.queue.insert(queued.order(), queued);
    }

    /// Takes note of a document that was put or removed.
    pub(super) fn touch(&mut self, touched: Touched) -> Result<(), StoreError> {
        let Touched { id, put, .. } = touched;
        let Some(rule) = &self.rule else { return Ok(()) };
        if self.are_being_removed() {
            return Ok(());
        }
        let before = self.clusters.document(&id)?;
        let Some((row, signature)) = put else {
            if let Some(before) = before {
                self.leave(&id, &before)?;
                self.clusters.set_document(&id, None);
            }
            return Ok(());
        };
        let key = rank_key(&rule.keep, row.metadata.as_deref(), row.characters);
        let is_marked = self.marks.concern(&id)?;
        let sketch = digest(self.sketch(&id)?.as_deref());
        let now = Clustered { hash: row.hash, sketch, key, place: row.place, is_marked };
        if let Some(before) = &before {
            if *before == (Clustered { is_marked: before.is_marked, ..now }) {
                return Ok(());
            }
            self.leave(&id, before)?;
        }
        if let Some(signature) = signature {
            self.signatures.insert(id.clone(), signature);
        }
        self.clusters.set_document(&id, Some(&now));
        self.enter(&id, &now)
    }

    /// Whether the clusters are being removed, to be built again from all documents.
    fn are_being_removed(&self) -> bool {
        self.queue.first_key_value().is_some_and(|(_, queued)| matches!(queued.task, Task::Clear { .. }))
    }

    /// Takes note of a mark that is added or removed by the batch. Its tasks must be done with a view of the
    /// store after the batch.
    pub(super) fn touch_mark(&mut self, mark: &Mark) -> Result<(), StoreError> {
        if self.rule.is_none() || self.are_being_removed() {
            return Ok(());
        }
        for id in std::iter::once(mark.id()).chain(mark.other()) {
            if let Some(document) = self.clusters.document(id)? {
                self.add((document.key, document.place), Task::Regroup(id.clone()));
            }
        }
        Ok(())
    }

    /// Makes a representative known to those that rank after it. One that is marked itself represents no
    /// other document; if it were listed, the list of a hash could grow without a limit.
    fn list_representative(&mut self, of: &CopiesOf, id: &DocumentId, number: u64) -> Result<(), StoreError> {
        self.clusters.add_representative(of.hash, id, number)?;
        if let Some(signature) = self.signature(id)? {
            self.representatives.announce(of.hash, &signature);
        }
        self.representatives.insert(of.hash);
        self.hashes.insert(of.hash);
        Ok(())
    }

    /// Whether copies are one document that is marked itself, and so near to no other one.
    fn is_apart(&self, of: &CopiesOf) -> Result<bool, StoreError> {
        of.marked.as_ref().map_or(Ok(false), |id| self.marks.has(id))
    }

    /// Decides copies from this rank on. Returns the cost, as all tasks do.
    fn decide(&mut self, of: &CopiesOf, from: (u64, u64)) -> Result<usize, StoreError> {
        let Some(before) = self.clusters.copies(of)? else { return Ok(1) };
        let first = before.parts[0].first.clone();
        let follows_all = at(&first) > self.state.reached;
        self.state.reached = self.state.reached.max(from);
        if before.represents && from > at(&first) {
            // No representative is nearer to these than their copy.
            return Ok(1);
        }
        let targets = self.targets(of, &before)?;
        if targets.is_empty() {
            if before.represents {
                return Ok(1);
            }
            self.state.last += 1;
            let (number, size) = (self.state.last, before.count());
            let all = Part {
                first: first.clone(),
                count: size,
                of: Some(Membership { cluster: number, distance: 0 }),
            };
            let after = Copies { represents: true, parts: vec![all] };
            self.clusters.set_copies(of, Some(&before), Some(&after))?;
            let id = first.id.clone();
            let place = at(&first);
            let cluster = Cluster { of: of.clone(), representative: first, size, dissolves: None };
            self.clusters.set_cluster(number, None, Some(cluster));
            if !self.is_apart(of)? {
                self.list_representative(of, &id, number)?;
                if !follows_all {
                    self.add(place, Task::Promote { of: of.clone(), after: None });
                }
            }
            return Ok(1);
        }
        let mut copies = before.clone();
        if before.represents {
            self.abdicate(of, &before)?;
            copies = Copies { represents: false, parts: vec![Part { of: None, ..before.parts[0].clone() }] };
        }
        let (parts, cost, is_done) = assign(&self.clusters, of, copies.parts, &targets)?;
        copies.parts = parts;
        self.clusters.set_copies(of, Some(&before), Some(&copies))?;
        if !is_done {
            self.add(from, Task::Decide(of.clone()));
        }
        Ok(cost)
    }

    /// Queues the copies that a representative may affect: those within k of which some rank after it, and
    /// are no nearer to another.
    fn promote(
        &mut self,
        of: CopiesOf,
        mut after: Option<CopiesOf>,
        from: (u64, u64),
    ) -> Result<usize, StoreError> {
        let Some(own) = self.clusters.copies(&of)?.filter(|own| own.represents) else { return Ok(1) };
        let (Some(rule), first) = (&self.rule, &own.parts[0].first) else { return Ok(1) };
        let k = rule.reach(self.sketch(&first.id)?.as_deref());
        let signature = self.signature(&first.id)?;
        let subject = Subject { hash: of.hash, signature: signature.as_deref() };
        let (hashes, _) = self.plan.near_hashes(self.collection, subject, k, usize::MAX);
        let mut read = 0;
        for hash in hashes {
            if after.as_ref().is_some_and(|after| hash < after.hash) {
                continue;
            }
            let distance = self.collection.index.distance(subject, hash).unwrap_or(0);
            let from_here = after.as_ref().filter(|after| after.hash == hash);
            for (other, copies) in self.clusters.all_copies(hash, from_here, CHUNK - read)? {
                read += 1;
                let is_nearer = |part: &Part| part.of.is_some_and(|of| of.distance < distance);
                let is_unaffected = if copies.represents {
                    copies.parts[0].first < *first
                } else {
                    copies.parts.iter().all(is_nearer)
                };
                if other != of && !is_unaffected {
                    self.add(at(&copies.parts[0].first).max(at(first)), Task::Decide(other.clone()));
                }
                after = Some(other);
            }
            if read >= CHUNK {
                self.add(from, Task::Promote { of, after });
                break;
            }
        }
        Ok(1 + read / 4)
    }

    /// Queues the copies of which some are in a cluster that has lost its representative.
    fn dissolve(&mut self, number: u64, after: Option<&Rank>, from: (u64, u64)) -> Result<usize, StoreError> {
        let parts = self.clusters.parts(number, after, CHUNK)?;
        let cost = 1 + parts.len() / 4;
        if let (CHUNK, Some(last)) = (parts.len(), parts.last()) {
            self.add(from, Task::Dissolve { number, after: Some(last.first.clone()) });
        } else if let Some(cluster) = self.clusters.cluster(number)? {
            let after = Cluster { dissolves: None, ..cluster.clone() };
            self.clusters.set_cluster(number, Some(cluster), Some(after));
        }
        for part in parts {
            self.add(at(&part.first).max(from), Task::Decide(part.of));
        }
        Ok(cost)
    }

    /// Queues stored documents, in the order of their ids.
    fn scan(&mut self, after: Option<&DocumentId>) -> Result<usize, StoreError> {
        let Some(rule) = self.rule.clone() else { return Ok(1) };
        let rows = self.plan.view.rows_after(self.collection.id, after).take(CHUNK);
        let ids: Vec<DocumentId> = rows.map(|row| row.map(|(id, _)| id)).collect::<Result<_, _>>()?;
        if ids.len() == CHUNK {
            self.add((0, 0), Task::Scan { after: ids.last().cloned() });
        }
        for id in ids {
            let Some(row) = self.plan.current(self.collection, &id)? else { continue };
            if self.clusters.document(&id)?.is_none() {
                let key = rank_key(&rule.keep, row.metadata.as_deref(), row.characters);
                let is_marked = self.marks.concern(&id)?;
                let sketch = digest(self.sketch(&id)?.as_deref());
                let document = Clustered { hash: row.hash, sketch, key, place: row.place, is_marked };
                self.clusters.set_document(&id, Some(&document));
                self.enter(&id, &document)?;
            }
        }
        Ok(CHUNK)
    }

    /// Removes a part of the clusters, and begins to build them again when they are removed.
    fn clear(&mut self, after: Option<&[u8]>) -> Result<(), StoreError> {
        let last_key = self.clusters.clear(after, CLEARED)?;
        // The tasks that were read are subtracted when they are removed.
        let (last, tasks) = (self.state.last, self.loaded.len() as u64);
        self.state = ClusterState { last, tasks, ..ClusterState::default() };
        self.queue.clear();
        self.rest = None;
        if last_key.is_some() {
            self.add((0, 0), Task::Clear { after: last_key });
        } else if self.rule.is_some() {
            self.add((0, 0), Task::Scan { after: None });
        }
        Ok(())
    }

    /// The sketch of a document, if the rule compares sketches.
    fn sketch(&self, id: &DocumentId) -> Result<Option<Vec<u8>>, StoreError> {
        match self.rule.as_ref().and_then(|rule| rule.check) {
            Some(_) => self.plan.sketch(self.collection, id),
            None => Ok(None),
        }
    }

    /// The signature of a document, in a collection of signatures.
    fn signature(&self, id: &DocumentId) -> Result<Option<Vec<u8>>, StoreError> {
        if self.collection.signatures.is_none() {
            return Ok(None);
        }
        if let Some(signature) = self.signatures.get(id) {
            return Ok(Some(signature.clone()));
        }
        Ok(self.plan.view.row(self.collection.id, id)?.and_then(|row| row.sketch))
    }
}

/// The digest of a sketch, by which copies are told apart; 0 without one.
fn digest(sketch: Option<&[u8]>) -> u64 {
    sketch.map_or(0, |sketch| xxh3_64(sketch).max(1))
}

/// The key of a document by the keep rule. A document without the value that the rule reads comes last.
pub(super) fn rank_key(rule: &KeepRule, metadata: Option<&str>, characters: Option<u32>) -> u64 {
    let value = rule.field().and_then(|field| {
        let metadata: Value = serde_json::from_str(metadata?).ok()?;
        match member(&metadata, field)? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        }
    });
    rule.key(value.as_deref(), u64::from(characters.unwrap_or(0))).unwrap_or(u64::MAX)
}
