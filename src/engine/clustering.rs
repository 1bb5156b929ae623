//! Clusters: which documents represent others, kept true while documents come, change and go.
//!
//! Documents are ordered by rank: the key of the keep rule, then the order of arrival. A document is a
//! representative unless a representative of smaller rank is near it: within k, and not marked as no
//! duplicate of it. Otherwise it is a member of the nearest of these, of several the one that arrived first.
//! Without marks this is what `dedupe` keeps of the same documents. So the clusters depend on the stored
//! documents and marks alone, and not on their history.
//!
//! A change of a document or a mark creates tasks. They are done in the order of ranks, so whatever ranks
//! before the first task is decided. A group of writes does a limited number; the writer does the rest
//! between groups. Tasks are stored, so a restart continues with them.
//!
//! *Absent*: reading clusters (`cluster_queries`), their bytes (`store`).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::convert::Infallible;
use std::sync::Arc;

use serde_json::Value;

use super::filter::member;
use super::marks::Marks;
use super::nearest::nearest;
use super::planning::{Plan, Touched};
use super::registry::Collection;
use crate::ids::{ClusterRule, DocumentId, Hash, KeepRule, Mark};
use crate::index::{HashIndex, Subject};
use crate::store::{
    Cluster, ClusterChanges, ClusterState, Clustered, Clusters, Lists, Queued, Rank, Role, StoreError, Task,
};

/// Maximum number of stored tasks that a step reads, and about the number of those that it does.
pub(super) const STEP: usize = 256;
/// Maximum number of documents that a task reads before it is continued later.
const CHUNK: usize = 256;
/// Maximum number of entries that are removed at once when all clusters are removed.
const CLEARED: usize = 4_096;
/// The number of representatives that are asked for at first.
const REPRESENTATIVES: usize = 8;

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
    /// Hashes that may have got a representative or lost one.
    pub(super) hashes: HashSet<Hash>,
}

fn rank(id: &DocumentId, document: &Clustered) -> Rank {
    Rank { key: document.key, place: document.place, id: id.clone() }
}

impl<'p, 'a> Clustering<'p, 'a> {
    /// Nothing has changed yet.
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
            let (rank_key, place) = (queued.key, queued.place);
            let done = match queued.task {
                Task::Evaluate(id) => self.evaluate(&id, (rank_key, place))?,
                Task::Promote { id, after } => self.promote(id, after)?,
                Task::Dissolve(number) => self.dissolve(number, (rank_key, place))?,
                Task::Scan { after } => self.scan(after.as_ref())?,
                Task::Clear => {
                    self.clear()?;
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
        Ok(ClusteringResult { changes: self.clusters.into_changes(), hashes: self.hashes })
    }

    /// Takes the next task.
    fn next(&mut self) -> Option<Queued> {
        let (order, _) = self.queue.first_key_value()?;
        if self.rest.as_ref().is_some_and(|rest| order > rest) {
            return None;
        }
        self.queue.pop_first().map(|(_, queued)| queued)
    }

    fn add(&mut self, key: u64, place: u64, task: Task) {
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
        let now = Clustered { hash: row.hash, key, place: row.place, role: Role::Undecided };
        if let Some(before) = &before {
            if *before == (Clustered { role: before.role, ..now }) {
                return Ok(());
            }
            self.leave(&id, before)?;
        }
        if let Some(signature) = signature {
            self.signatures.insert(id.clone(), signature);
        }
        self.clusters.set_document(&id, Some(&now));
        self.add(now.key, now.place, Task::Evaluate(id));
        Ok(())
    }

    /// Whether the clusters are being removed, to be built again from all documents.
    fn are_being_removed(&self) -> bool {
        self.queue.first_key_value().is_some_and(|(_, queued)| queued.task == Task::Clear)
    }

    /// Takes note of a mark that is added or removed by the batch. Its tasks must be done with a view of the
    /// store after the batch.
    pub(super) fn touch_mark(&mut self, mark: &Mark, is_added: bool) -> Result<(), StoreError> {
        if self.rule.is_none() || self.are_being_removed() {
            return Ok(());
        }
        let id = mark.id();
        let Some(document) = self.clusters.document(id)? else { return Ok(()) };
        if let Some(other_id) = mark.other() {
            // What is decided about a document depends on those that rank before it.
            let Some(other) = self.clusters.document(other_id)? else { return Ok(()) };
            let later = rank(id, &document).max(rank(other_id, &other));
            self.add(later.key, later.place, Task::Evaluate(later.id));
            return Ok(());
        }
        let (key, place) = (document.key, document.place);
        match (document.role, is_added) {
            (Role::Representative(number), true) => {
                self.clusters.remove_representative(document.hash, id)?;
                self.hashes.insert(document.hash);
                self.add(key, place, Task::Dissolve(number));
            }
            (Role::Representative(number), false) => {
                let signature = self.signature(id)?;
                self.list_representative(id, document.hash, number, signature.as_deref())?;
                self.add(key, place, Task::Evaluate(id.clone()));
                self.add(key, place, Task::Promote { id: id.clone(), after: None });
            }
            _ => self.add(key, place, Task::Evaluate(id.clone())),
        }
        Ok(())
    }

    /// Makes a representative known to those that rank after it. One that is marked itself represents no
    /// other document; if it were listed, the list of a hash could grow without a limit.
    fn list_representative(
        &mut self,
        id: &DocumentId,
        hash: Hash,
        number: u64,
        signature: Option<&[u8]>,
    ) -> Result<(), StoreError> {
        self.clusters.add_representative(hash, id, number)?;
        if let Some(signature) = signature {
            self.representatives.announce(hash, signature);
        }
        self.representatives.insert(hash);
        self.hashes.insert(hash);
        Ok(())
    }

    /// Removes a document from its cluster.
    fn leave(&mut self, id: &DocumentId, document: &Clustered) -> Result<(), StoreError> {
        match document.role {
            Role::Undecided => {}
            Role::Representative(number) => {
                let cluster = self.clusters.cluster(number)?;
                self.clusters.set_cluster(number, cluster.as_ref(), None);
                self.clusters.remove_representative(document.hash, id)?;
                self.hashes.insert(document.hash);
                if cluster.is_none_or(|cluster| cluster.size > 1) {
                    self.add(document.key, document.place, Task::Dissolve(number));
                }
            }
            Role::Member { cluster: number, .. } => {
                self.clusters.remove_member(number, &rank(id, document));
                if let Some(cluster) = self.clusters.cluster(number)? {
                    let smaller = Cluster { size: cluster.size - 1, ..cluster.clone() };
                    self.clusters.set_cluster(number, Some(&cluster), Some(&smaller));
                }
            }
        }
        Ok(())
    }

    /// Decides the role of a document. Returns the cost, as all tasks do.
    fn evaluate(&mut self, id: &DocumentId, at: (u64, u64)) -> Result<usize, StoreError> {
        let Some(document) = self.clusters.document(id)? else { return Ok(1) };
        // The document has another rank now, and another task.
        if (document.key, document.place) != at {
            return Ok(1);
        }
        let own = rank(id, &document);
        let follows_all = at > self.state.reached;
        self.state.reached = self.state.reached.max(at);
        let signature = self.signature(id)?;
        let subject = Subject { hash: document.hash, signature: signature.as_deref() };
        let is_marked = self.marks.has(id)?;
        let found = if is_marked { None } else { self.nearest_representative(&own, subject)? };
        match (document.role, &found) {
            (Role::Representative(_), None) => return Ok(1),
            (Role::Member { cluster, .. }, Some((_, number, _)))
                if cluster == *number && self.clusters.cluster(cluster)?.is_some() =>
            {
                return Ok(1);
            }
            _ => self.leave(id, &document)?,
        }
        let role = if let Some((distance, number, cluster)) = found {
            self.clusters.add_member(number, &own, distance);
            let larger = Cluster { size: cluster.size + 1, ..cluster.clone() };
            self.clusters.set_cluster(number, Some(&cluster), Some(&larger));
            Role::Member { cluster: number, distance }
        } else {
            self.state.last += 1;
            let number = self.state.last;
            self.clusters.set_cluster(number, None, Some(&Cluster { representative: own, size: 1 }));
            if !is_marked {
                self.list_representative(id, document.hash, number, signature.as_deref())?;
            }
            if !is_marked && !follows_all {
                self.add(at.0, at.1, Task::Promote { id: id.clone(), after: None });
            }
            Role::Representative(number)
        };
        self.clusters.set_document(id, Some(&Clustered { role, ..document }));
        Ok(1)
    }

    /// The nearest representative within k of smaller rank that is not marked with this document, of several
    /// the one that arrived first: its distance and its cluster.
    fn nearest_representative(
        &self,
        own: &Rank,
        subject: Subject<'_>,
    ) -> Result<Option<(u32, u64, Cluster)>, StoreError> {
        let Some(rule) = &self.rule else { return Ok(None) };
        let mut wanted = REPRESENTATIVES;
        loop {
            let Ok(found) =
                nearest(&*self.representatives, subject, rule.k, wanted, || Ok::<_, Infallible>(()));
            let mut best: Option<(u32, u64, Cluster)> = None;
            for near in &found {
                if best.as_ref().is_some_and(|(distance, ..)| *distance < near.distance) {
                    break;
                }
                for (_, number) in self.clusters.representatives(near.hash)? {
                    let Some(cluster) = self.clusters.cluster(number)? else { continue };
                    let arrived = |of: &Cluster| (of.representative.place, of.representative.id.clone());
                    let is_better = best.as_ref().is_none_or(|(.., best)| arrived(&cluster) < arrived(best));
                    let is_near = cluster.representative < *own && is_better;
                    if is_near && !self.marks.separate(&own.id, &cluster.representative.id)? {
                        best = Some((near.distance, number, cluster));
                    }
                }
            }
            if best.is_some() || found.len() < wanted {
                return Ok(best);
            }
            wanted *= 8;
        }
    }

    /// Queues the documents that a new representative may affect: those within k that rank after it, and are
    /// no nearer to another.
    fn promote(
        &mut self,
        id: DocumentId,
        mut after: Option<(Hash, DocumentId)>,
    ) -> Result<usize, StoreError> {
        let Some(own) = self.clusters.document(&id)? else { return Ok(1) };
        let (Role::Representative(_), Some(rule)) = (own.role, &self.rule) else { return Ok(1) };
        let (rank_of_own, k) = (rank(&id, &own), rule.k);
        let signature = self.signature(&id)?;
        let subject = Subject { hash: own.hash, signature: signature.as_deref() };
        let (hashes, _) = self.plan.near_hashes(self.collection, subject, k, usize::MAX);
        let mut read = 0;
        for hash in hashes {
            let from = match &after {
                Some((last, _)) if hash < *last => continue,
                Some((last, id)) if hash == *last => Some(id.clone()),
                _ => None,
            };
            let distance = self.collection.index.distance(subject, hash).unwrap_or(0);
            let list = (Lists::Hashes, self.collection.id, hash);
            let postings = self.plan.first_postings(self.collection, list, from.as_ref(), CHUNK - read)?;
            for posting in postings {
                read += 1;
                after = Some((hash, posting.id.clone()));
                let Some(other) = self.clusters.document(&posting.id)? else { continue };
                let is_nearer = matches!(other.role, Role::Member { distance: own, .. } if own < distance);
                if !is_nearer && rank(&posting.id, &other) > rank_of_own {
                    self.add(other.key, other.place, Task::Evaluate(posting.id));
                }
            }
            if read >= CHUNK {
                self.add(own.key, own.place, Task::Promote { id, after });
                break;
            }
        }
        Ok(1 + read / 4)
    }

    /// Queues the members of a cluster that has lost its representative.
    fn dissolve(&mut self, number: u64, at: (u64, u64)) -> Result<usize, StoreError> {
        let members = self.clusters.members(number, None, CHUNK)?;
        if members.len() == CHUNK {
            self.add(at.0, at.1, Task::Dissolve(number));
        }
        let cost = 1 + members.len() / 4;
        for (member, _) in members {
            self.clusters.remove_member(number, &member);
            self.add(member.key, member.place, Task::Evaluate(member.id));
        }
        Ok(cost)
    }

    /// Queues stored documents, in the order of their ids.
    fn scan(&mut self, after: Option<&DocumentId>) -> Result<usize, StoreError> {
        let Some(rule) = self.rule.clone() else { return Ok(1) };
        let rows = self.plan.view.rows_after(self.collection.id, after).take(CHUNK);
        let ids: Vec<DocumentId> = rows.map(|row| row.map(|(id, _)| id)).collect::<Result<_, _>>()?;
        if ids.len() == CHUNK {
            self.add(0, 0, Task::Scan { after: ids.last().cloned() });
        }
        for id in ids {
            let Some(row) = self.plan.current(self.collection, &id)? else { continue };
            let (key, place) = (rank_key(&rule.keep, row.metadata.as_deref(), row.characters), row.place);
            if self.clusters.document(&id)?.is_none() {
                let document = Clustered { hash: row.hash, key, place, role: Role::Undecided };
                self.clusters.set_document(&id, Some(&document));
            }
            self.add(key, place, Task::Evaluate(id));
        }
        Ok(CHUNK)
    }

    /// Removes a part of the clusters, and begins to build them again when they are removed.
    fn clear(&mut self) -> Result<(), StoreError> {
        let is_empty = self.clusters.clear(CLEARED)?;
        // The tasks that were read are subtracted when they are removed.
        let (last, tasks) = (self.state.last, self.loaded.len() as u64);
        self.state = ClusterState { last, tasks, ..ClusterState::default() };
        self.queue.clear();
        self.rest = None;
        if !is_empty {
            self.add(0, 0, Task::Clear);
        } else if self.rule.is_some() {
            self.add(0, 0, Task::Scan { after: None });
        }
        Ok(())
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
