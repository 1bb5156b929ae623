//! Copies: the documents of one hash and one sketch, which are decided together.
//!
//! They are in the order of their ranks. If the first one is no representative, each belongs to the nearest
//! of the representatives that rank before it, so copies are cut into parts where a nearer one ranks between
//! them. A document is added or removed without reading the others.
//!
//! *Absent*: the order of tasks (`clustering`).

use std::convert::Infallible;
use std::ops::Bound;

use super::{CHUNK, Clustering, at};
use crate::nearest::nearest;
use lookalike_hamming::Subject;
use lookalike_hash::DocumentId;
use lookalike_store::{
    Cluster, Clustered, Clusters, Copies, CopiesOf, Membership, Part, Rank, StoreError, Task,
};

/// The number of representatives that are asked for at first.
const REPRESENTATIVES: usize = 8;

/// From this rank on, copies are in this cluster, unless a later target says otherwise.
pub(super) struct Target {
    from: Rank,
    of: Membership,
}

/// The order of arrival, which decides between representatives at one distance.
fn arrival(rank: &Rank) -> (u64, &DocumentId) {
    (rank.place, &rank.id)
}

impl Clustering<'_, '_> {
    /// Adds a document to its copies.
    pub(super) fn enter(&mut self, id: &DocumentId, document: &Clustered) -> Result<(), StoreError> {
        let (of, own) = (document.copies(id), document.rank(id));
        let Some(before) = self.clusters.copies(&of)? else {
            let part = Part { first: own.clone(), count: 1, of: None };
            self.clusters.set_copies(&of, None, Some(&Copies { represents: false, parts: vec![part] }))?;
            self.add(at(&own), Task::Decide(of));
            return Ok(());
        };
        let first = before.parts[0].first.clone();
        if before.count() == 1 {
            self.clusters.add_copy(&of, &first);
        }
        self.clusters.add_copy(&of, &own);
        let mut copies = before.clone();
        let part = copies.part_of(&own);
        copies.parts[part].count += 1;
        if own < first {
            copies.parts[0].first = own.clone();
        }
        self.clusters.set_copies(&of, Some(&before), Some(&copies))?;
        if let (Some(number), true) = (copies.represented(), own < first) {
            self.hand_over(number, &copies, &first, &own)?;
        }
        if !copies.represents || own < first {
            self.add(at(&own), Task::Decide(of));
        } else {
            // No representative is nearer to it than a copy.
            self.state.reached = self.state.reached.max(at(&own));
        }
        Ok(())
    }

    /// Removes a document from its copies, and from its cluster.
    pub(super) fn leave(&mut self, id: &DocumentId, document: &Clustered) -> Result<(), StoreError> {
        let (of, own) = (document.copies(id), document.rank(id));
        let Some(before) = self.clusters.copies(&of)? else { return Ok(()) };
        let left = before.count() - 1;
        if left == 0 {
            if before.represents {
                self.abdicate(&of, &before)?;
            }
            return self.clusters.set_copies(&of, Some(&before), None);
        }
        self.clusters.remove_copy(&of, &own);
        let mut copies = before.clone();
        let part = copies.part_of(&own);
        copies.parts[part].count -= 1;
        if copies.parts[part].count == 0 {
            copies.parts.remove(part);
        } else if copies.parts[part].first == own {
            let next = self.clusters.ranks(&of, (Bound::Excluded(&own), None), 1, false)?;
            copies.parts[part].first = next.into_iter().next().ok_or(StoreError::Damaged("cluster"))?;
        }
        if left == 1 {
            self.clusters.remove_copy(&of, &copies.parts[0].first);
        }
        self.clusters.set_copies(&of, Some(&before), Some(&copies))?;
        match copies.represented() {
            Some(number) if copies.parts[0].first != own && before.parts[0].first == own => {
                self.hand_over(number, &copies, &own, &copies.parts[0].first)
            }
            _ => Ok(()),
        }
    }

    /// Makes another one of the copies represent a cluster. Queues what that may change for others.
    fn hand_over(&mut self, number: u64, copies: &Copies, from: &Rank, to: &Rank) -> Result<(), StoreError> {
        let Some(before) = self.clusters.cluster(number)? else { return Ok(()) };
        let mut after = Cluster { representative: to.clone(), ..before.clone() };
        self.clusters.rename_representative(before.of.hash, number, &to.id)?;
        let has_others = before.size > copies.count();
        let arrives_later = arrival(to) > arrival(from);
        if has_others && (to > from || arrives_later) {
            // At most one task of a cluster, however often it is handed over: it begins again.
            let first = at(from.min(to)).min(before.dissolves.unwrap_or((u64::MAX, u64::MAX)));
            after.dissolves = Some(first);
            self.add(first, Task::Dissolve { number, after: None });
        }
        if to < from || !arrives_later {
            self.add(at(to), Task::Promote { of: before.of.clone(), after: None });
        }
        self.clusters.set_cluster(number, Some(before), Some(after));
        Ok(())
    }

    /// Ends the cluster that copies represent.
    pub(super) fn abdicate(&mut self, of: &CopiesOf, copies: &Copies) -> Result<(), StoreError> {
        let Some(number) = copies.represented() else { return Ok(()) };
        let first = &copies.parts[0].first;
        let cluster = self.clusters.cluster(number)?;
        self.clusters.set_cluster(number, cluster.clone(), None);
        self.clusters.remove_representative(of.hash, &first.id)?;
        self.hashes.insert(of.hash);
        if cluster.is_none_or(|cluster| cluster.size > copies.count()) {
            self.add(at(first), Task::Dissolve { number, after: None });
        }
        Ok(())
    }

    /// The clusters in which copies are by what is decided; empty if they represent a cluster of their own.
    pub(super) fn targets(&self, of: &CopiesOf, copies: &Copies) -> Result<Vec<Target>, StoreError> {
        let first = &copies.parts[0].first;
        let Some(rule) = &self.rule else { return Ok(Vec::new()) };
        if self.is_apart(of)? {
            return Ok(Vec::new());
        }
        let signature = self.signature(&first.id)?;
        let subject = Subject { hash: of.hash, signature: signature.as_deref() };
        if copies.count() == 1 {
            let found = self.nearest_representative(first, subject)?;
            let target =
                |(distance, cluster, _)| Target { from: first.clone(), of: Membership { cluster, distance } };
            return Ok(found.map(target).into_iter().collect());
        }
        let sketch = self.sketch(&first.id)?;
        let (mut near, mut found) = (Vec::new(), Vec::new());
        self.representatives.within(subject, rule.reach(sketch.as_deref()), &mut near);
        for near in near {
            for (_, number) in self.clusters.representatives(near.hash)? {
                let cluster = self.clusters.cluster(number)?.filter(|cluster| cluster.of != *of);
                let Some(Cluster { representative, .. }) = cluster else { continue };
                let other = self.sketch(&representative.id)?;
                if rule.joins(near.distance, [sketch.as_deref(), other.as_deref()]) {
                    found.push((representative, near.distance, number));
                }
            }
        }
        found.sort_unstable();
        let (mut targets, mut best): (Vec<Target>, Option<(u32, u64, DocumentId)>) = (Vec::new(), None);
        for (rank, distance, cluster) in found {
            let own = (distance, rank.place, rank.id.clone());
            if best.as_ref().is_some_and(|best| *best < own) {
                continue;
            }
            best = Some(own);
            let of = Membership { cluster, distance };
            if rank < *first {
                targets = vec![Target { from: first.clone(), of }];
            } else if targets.is_empty() {
                break;
            } else {
                targets.push(Target { from: rank, of });
            }
        }
        Ok(targets)
    }

    /// The nearest representative within k of smaller rank that is not marked with this document, of several
    /// the one that arrived first: its distance and its cluster.
    fn nearest_representative(
        &self,
        own: &Rank,
        subject: Subject<'_>,
    ) -> Result<Option<(u32, u64, Cluster)>, StoreError> {
        let Some(rule) = &self.rule else { return Ok(None) };
        let sketch = self.sketch(&own.id)?;
        let reach = rule.reach(sketch.as_deref());
        let mut wanted = REPRESENTATIVES;
        loop {
            let Ok(found) =
                nearest(&*self.representatives, subject, reach, wanted, || Ok::<_, Infallible>(()));
            let mut best: Option<(u32, u64, Cluster)> = None;
            for near in &found {
                if best.as_ref().is_some_and(|(distance, ..)| *distance < near.distance) {
                    break;
                }
                for (_, number) in self.clusters.representatives(near.hash)? {
                    let Some(cluster) = self.clusters.cluster(number)? else { continue };
                    let arrived = |of: &Cluster| (of.representative.place, of.representative.id.clone());
                    let is_better = best.as_ref().is_none_or(|(.., best)| arrived(&cluster) < arrived(best));
                    if cluster.representative >= *own || !is_better {
                        continue;
                    }
                    let other = self.sketch(&cluster.representative.id)?;
                    let is_near = rule.joins(near.distance, [sketch.as_deref(), other.as_deref()]);
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

    /// Decides a document with its copies, or alone, by the marks that it has now.
    pub(super) fn regroup(&mut self, id: &DocumentId, from: (u64, u64)) -> Result<usize, StoreError> {
        let Some(before) = self.clusters.document(id)? else { return Ok(1) };
        // The rank has changed since the task was queued: the document was decided then, by the marks of that
        // time.
        if (before.key, before.place) != from {
            return Ok(1);
        }
        let now = Clustered { is_marked: self.marks.concern(id)?, ..before.clone() };
        let (earlier, of) = (before.copies(id), now.copies(id));
        let copies = self.clusters.copies(&earlier)?;
        let alone = copies.filter(|copies| copies.count() == 1);
        let alone = if earlier == of || self.clusters.copies(&of)?.is_none() { alone } else { None };
        let Some(alone) = alone else {
            self.leave(id, &before)?;
            self.clusters.set_document(id, Some(&now));
            self.enter(id, &now)?;
            return Ok(2);
        };
        // It keeps its cluster, whose number users may know.
        self.clusters.set_document(id, Some(&now));
        if earlier != of {
            self.clusters.set_copies(&earlier, Some(&alone), None)?;
            self.clusters.set_copies(&of, None, Some(&alone))?;
        }
        if let Some(number) = alone.represented()
            && let Some(cluster) = self.clusters.cluster(number)?
        {
            let moved = Cluster { of: of.clone(), ..cluster.clone() };
            self.clusters.set_cluster(number, Some(cluster), Some(moved));
            let is_listed = self.clusters.representatives(of.hash)?.iter().any(|(_, of)| *of == number);
            let is_apart = self.is_apart(&of)?;
            if is_apart && is_listed {
                self.clusters.remove_representative(of.hash, id)?;
                self.hashes.insert(of.hash);
                self.add(from, Task::Dissolve { number, after: None });
            } else if !is_apart && !is_listed {
                self.list_representative(&of, id, number)?;
                self.add(from, Task::Promote { of: of.clone(), after: None });
            }
        }
        self.add(from, Task::Decide(of));
        Ok(2)
    }
}

/// Puts copies into the clusters of the targets. A part of which only a piece changes is cut, and the smaller
/// piece is counted; if both are large, only some documents are done now. Returns the new parts, the cost,
/// and whether everything is done.
pub(super) fn assign(
    clusters: &Clusters<'_, '_>,
    copies_of: &CopiesOf,
    parts: Vec<Part>,
    targets: &[Target],
) -> Result<(Vec<Part>, usize, bool), StoreError> {
    let (mut done, mut read, mut is_done) = (Vec::<Part>::new(), 0, true);
    let ends: Vec<Option<Rank>> =
        (0..parts.len()).map(|at| parts.get(at + 1).map(|next| next.first.clone())).collect();
    for (part, mut end) in parts.into_iter().zip(ends) {
        let (mut part, mut tails) = (part, Vec::new());
        loop {
            let own = targets.partition_point(|target| target.from <= part.first).max(1) - 1;
            let inside = |target: &&Target| end.as_ref().is_none_or(|end| target.from < *end);
            let inner = targets[own + 1..].iter().take_while(inside).count();
            let of = Some(targets[own].of);
            if inner == 0 || !is_done {
                done.push(if is_done { Part { of, ..part } } else { part });
                break;
            }
            let border = &targets[own + 1].from;
            let left =
                clusters.ranks(copies_of, (Bound::Included(&part.first), Some(border)), CHUNK + 1, false)?;
            read += left.len();
            if left.len() <= CHUNK {
                let next = clusters.ranks(copies_of, (Bound::Included(border), end.as_ref()), 1, false)?;
                let Some(next) = next.into_iter().next() else {
                    done.push(Part { of, ..part });
                    break;
                };
                let count = left.len() as u64;
                done.push(Part { first: part.first, count, of });
                part = Part { first: next, count: part.count.saturating_sub(count), of: part.of };
                continue;
            }
            let last = &targets[own + inner];
            let right =
                clusters.ranks(copies_of, (Bound::Included(&last.from), end.as_ref()), CHUNK + 1, true)?;
            read += right.len();
            let Some(least) = right.get(right.len().min(CHUNK).wrapping_sub(1)).cloned() else {
                // No document of the part is after this border.
                end = Some(last.from.clone());
                continue;
            };
            let count = right.len().min(CHUNK) as u64;
            if right.len() <= CHUNK || part.of == of {
                is_done &= right.len() <= CHUNK;
                tails.push(Part { first: least.clone(), count, of: Some(last.of) });
                part.count = part.count.saturating_sub(count);
                end = Some(least);
            } else {
                is_done = false;
                let next = left[CHUNK].clone();
                done.push(Part { first: part.first, count: CHUNK as u64, of });
                part = Part { first: next, count: part.count.saturating_sub(CHUNK as u64), of: part.of };
            }
        }
        done.extend(tails.into_iter().rev());
    }
    done.dedup_by(|later, earlier| {
        let is_same = later.of == earlier.of;
        earlier.count += if is_same { later.count } else { 0 };
        is_same
    });
    Ok((done, 1 + read / 4, is_done))
}
