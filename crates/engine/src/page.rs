//! One page of an answer: from the hashes within k to the documents, in the order of distance, then id.
//!
//! A page does only the necessary work. The radius grows until enough hashes are found; the index is exact
//! for every radius. Of the documents at one distance, only as many ids are read as fit into the page.
//! *Absent*: which thread does it, and groups of queries (`lookup`).

use std::cell::{Cell, OnceCell};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use super::cluster_queries::Placements;
use super::expiry::Clock;
use super::gate::Passed;
use super::lookup::{Costs, FEW, FEW_BYTES, WorkBudget};
use super::marks::{LeftOut, Marks};
use super::nearest::{FIRST_RADIUS, STEP, counted_radius};
use super::posting_cache::{CachedPosting, PostingCache};
use super::registry::Collection;
use super::shared::Shared;
use super::{Answer, EngineError, Match, Position, Query, Work};
use lookalike_hamming::{Neighbour, Report, Stay, Subject};
use lookalike_hash::{DocumentId, Hash};
use lookalike_run::call::Reserved;
use lookalike_store::{Lists, Posting, PostingList, StoreError, View};

/// Bytes of metadata at which a page ends, whatever its limit. The document that reaches this size is
/// included.
const PAGE_BYTES: usize = 4 << 20;
/// Number of documents examined between two checks for cancellation.
const CHECK: usize = 128;
/// Number of examined documents that take as long as reading the cluster of one.
const PLACED: usize = 8;
/// Bytes of memory per found hash: once in the result of the index, once in the classes by distance.
const FOUND_BYTES: usize = 64;
/// Approximate bytes of memory per document that is left out because of a mark.
const MARKED_BYTES: usize = 120;

/// Shared by several quick queries: the pass of the gate and the pin of the index.
pub(super) type Held<'a> = (Passed<'a>, Stay);

/// Answers one query. If `held` is `None`, it passes the gate itself. `start` is the time at which the query
/// began.
pub(super) fn answer(
    held: Option<&Held<'_>>,
    shared: &Shared,
    collection: &Collection,
    query: &Query,
    (start, budget): (Instant, WorkBudget<'_>),
) -> Result<Option<Answer>, EngineError> {
    let epoch = collection.epoch.stable();
    let time = Time { clock: &shared.clock, now_ms: OnceCell::new() };
    let mut page = Page {
        collection,
        query,
        epoch,
        time,
        budget,
        examined: Cell::new(0),
        bytes: 0,
        reserved: Reserved::default(),
        matches: Vec::new(),
        is_of_marked: false,
        marked: BTreeSet::new(),
        marked_before: 0,
        work: Work::default(),
    };
    // Under the gate the index has every hash of the documents in the view: a hash is inserted before its
    // documents become visible, and removed only while the gate is closed.
    let _gate = held.is_none().then(|| collection.gate.pass());
    let mut found = Vec::new();
    let is_quick = held.is_some() || Costs::of(collection).is_quick(query);
    if is_quick && page.answer_from_memory(&shared.postings, &mut found) {
        return Ok(Some(page.finish(start)));
    }
    let expires = collection.has_clusters() && shared.expiry_is_due();
    let (view, marks) = collection.marks.view(&shared.store);
    let left_out = Marks::of(&view, collection, marks).left_out(query.document.as_ref())?;
    page.is_of_marked = left_out.as_ref().is_some_and(LeftOut::is_everything);
    let left_out = left_out.filter(|_| !page.is_of_marked);
    // The hashes found before the view was taken are complete if no commit fell in between. If there are
    // many, a smaller radius may be enough.
    let mut ahead = (!found.is_empty() && found.len() <= FEW && page.is_epoch_unchanged()).then_some(found);
    let mut done_to = query.after.as_ref().map_or(0, |after| after.distance);
    loop {
        let (radius, classes) = match ahead.take() {
            Some(found) => (query.k, classes(found)),
            None => page.near(done_to)?,
        };
        if page.work.verified > budget.documents as u64 {
            return Ok(None);
        }
        for (distance, hashes) in classes {
            page.read_class(&shared.postings, (&view, left_out.as_ref()), distance, &hashes)?;
            if page.exceeds_budget() {
                return Ok(None);
            }
            if page.is_full() {
                break;
            }
        }
        if radius >= query.k || page.is_full() {
            break;
        }
        done_to = radius + 1;
    }
    if collection.has_clusters() && !page.place(&view, expires)? {
        return Ok(None);
    }
    Ok(Some(page.finish(start)))
}

/// The time of an answer. The clock is read only if a document may have expired.
struct Time<'a> {
    clock: &'a Clock,
    now_ms: OnceCell<u64>,
}

impl Time<'_> {
    /// Whether a document with this expiry has expired.
    fn has_expired(&self, expires_ms: Option<u64>) -> bool {
        expires_ms.is_some_and(|at| at <= *self.now_ms.get_or_init(|| self.clock.now_ms()))
    }
}

/// A page under construction. It collects one match more than the limit, which shows whether there is a next
/// page.
struct Page<'a> {
    collection: &'a Collection,
    query: &'a Query,
    /// The epoch of the collection before the view was taken; `None` if a commit was becoming visible.
    epoch: Option<u64>,
    time: Time<'a>,
    budget: WorkBudget<'a>,
    /// Number of examined documents, including the skipped ones.
    examined: Cell<usize>,
    /// Bytes of the matches' metadata.
    bytes: usize,
    /// Memory reserved for the matches and for the found hashes.
    reserved: Reserved,
    matches: Vec<Match>,
    /// Whether the document of the query is marked itself.
    is_of_marked: bool,
    /// The positions of documents that were left out because of marks, as far as they may follow the page.
    marked: BTreeSet<(u32, DocumentId)>,
    /// The number of documents left out because of marks that precede the end of the page.
    marked_before: u64,
    work: Work,
}

/// A posting and the hash by which it was found.
struct FoundPosting {
    hash: Hash,
    posting: Posting,
    is_single: bool,
}

type Classes = BTreeMap<u32, Vec<Hash>>;

/// Groups hashes by distance.
fn classes(found: Vec<Neighbour<Hash>>) -> Classes {
    let mut classes = Classes::new();
    for near in found {
        classes.entry(near.distance).or_default().push(near.hash);
    }
    classes
}

impl Page<'_> {
    fn subject(&self) -> Subject<'_> {
        Subject { hash: self.query.hash, signature: self.query.signature.as_deref() }
    }

    fn is_full(&self) -> bool {
        self.matches.len() > self.query.limit || self.bytes >= PAGE_BYTES
    }

    /// Whether the work exceeds the budget.
    fn exceeds_budget(&self) -> bool {
        self.examined.get() > self.budget.documents || self.bytes > self.budget.bytes
    }

    /// Counts an examined document. Returns whether the budget allows more; fails if the query is cancelled.
    fn count_examined(&self) -> Result<bool, EngineError> {
        let examined = self.examined.get() + 1;
        self.examined.set(examined);
        if let Some(cancel) = self.budget.cancel.filter(|_| examined.is_multiple_of(CHECK)) {
            cancel.check()?;
        }
        Ok(examined <= self.budget.documents)
    }

    fn push(&mut self, near: Match) -> Result<(), EngineError> {
        self.bytes += near.metadata.as_ref().map_or(0, String::len);
        if self.bytes > FEW_BYTES {
            self.reserved.grow_to(self.bytes.next_multiple_of(FEW_BYTES))?;
        }
        self.matches.push(near);
        Ok(())
    }

    fn remaining(&self) -> usize {
        (self.query.limit + 1).saturating_sub(self.matches.len())
    }

    /// Tries to answer without a view of the store, which costs as much as the search. It succeeds if no
    /// hash is within k, the most frequent case of a crawler, or if the postings of all found hashes are
    /// cached. While the gate is held, a document whose hash changes is in the index under the old or the
    /// new hash, so none is missed if nothing is found. Cached postings are valid if no commit falls in
    /// between. On failure, `found` has all hashes within k.
    fn answer_from_memory(&mut self, postings: &PostingCache, found: &mut Vec<Neighbour<Hash>>) -> bool {
        let report = self.collection.index.within(self.subject(), self.query.k, found);
        self.record_work(&report, found);
        // Marks and clusters are read from a view.
        let needs_view =
            self.collection.marks.may_affect(self.query.document.as_ref()) || self.collection.has_clusters();
        if found.is_empty() || (!needs_view && self.answer_from_cache(postings, found)) {
            return true;
        }
        self.matches.clear();
        self.bytes = 0;
        false
    }

    /// Whether no commit has begun or ended since the page was begun.
    fn is_epoch_unchanged(&self) -> bool {
        self.epoch.is_some() && self.collection.epoch.stable() == self.epoch
    }

    fn answer_from_cache(&mut self, postings: &PostingCache, found: &[Neighbour<Hash>]) -> bool {
        if self.epoch.is_none() || found.len() > self.query.limit {
            return false;
        }
        for near in found {
            let Some(CachedPosting { id, expires_ms, metadata }) =
                postings.get(self.collection.id, near.hash)
            else {
                return false;
            };
            if !self.query.excludes(&id) && !self.time.has_expired(expires_ms) {
                self.bytes += metadata.as_ref().map_or(0, String::len);
                self.matches.push(Match { expires_ms, metadata, ..Match::of(id, near.hash, near.distance) });
            }
            if self.bytes > FEW_BYTES {
                return false;
            }
        }
        self.matches.sort_unstable_by(|a, b| (a.distance, &a.id).cmp(&(b.distance, &b.id)));
        self.is_epoch_unchanged()
    }

    /// The hashes at distances from `least` to a radius, which is at most k.
    fn near(&mut self, least: u32) -> Result<(u32, Classes), EngineError> {
        self.budget.check()?;
        let (collection, query) = (self.collection, self.query);
        let mut found = Vec::new();
        let radius = self.radius(least)?;
        let report = if query.scan {
            collection.index.scan(self.subject(), radius, &mut found)
        } else {
            collection.index.within(self.subject(), radius, &mut found)
        };
        self.record_work(&report, &found);
        self.reserve_found(found.len())?;
        found.retain(|near| near.distance >= least);
        Ok((radius, classes(found)))
    }

    /// Reserves memory for this number of found hashes.
    fn reserve_found(&mut self, hashes: usize) -> Result<(), EngineError> {
        let bytes = self.bytes.saturating_add(hashes.saturating_mul(FOUND_BYTES));
        if bytes > FEW_BYTES {
            self.reserved.grow_to(bytes)?;
        }
        Ok(())
    }

    /// The radius of the next search. Where the index would compare every hash, the distances are counted
    /// first. That doubles the work, but saves the memory of hashes that do not fit into the page.
    fn radius(&mut self, least: u32) -> Result<u32, EngineError> {
        let (index, k) = (&self.collection.index, self.query.k);
        let step = index.first_radius((least + STEP).max(FIRST_RADIUS), k);
        if !self.query.scan && !index.scans(step) {
            return Ok(step);
        }
        let (radius, found) = counted_radius(&**index, self.subject(), least, k, self.remaining());
        self.reserve_found(found)?;
        Ok(radius)
    }

    fn record_work(&mut self, report: &Report, found: &[Neighbour<Hash>]) {
        self.work.scanned |= report.scanned;
        self.work.plan = report.plan;
        self.work.probes += report.touched.probes;
        self.work.candidates += report.touched.candidates;
        self.work.verified = found.len() as u64;
    }

    /// Adds the documents at one distance in id order, as many as fit into the page. It stops when the
    /// budget is exceeded.
    fn read_class(
        &mut self,
        postings: &PostingCache,
        of: (&View<'_>, Option<&LeftOut<'_, '_>>),
        distance: u32,
        hashes: &[Hash],
    ) -> Result<(), EngineError> {
        let after =
            self.query.after.as_ref().filter(|after| after.distance == distance).map(|after| &after.id);
        let remaining = self.remaining();
        let ((view, _), collection) = (of, self.collection.id);
        let mut first: BTreeMap<DocumentId, FoundPosting> = BTreeMap::new();
        for &hash in hashes {
            if !self.count_examined()? {
                return Ok(());
            }
            self.reserve_marked()?;
            match view.posting_list(Lists::Hashes, collection, hash)? {
                None => {}
                Some(PostingList::One(posting)) if after.is_some_and(|after| posting.id <= *after) => {}
                Some(PostingList::One(posting)) => {
                    let found = FoundPosting { hash, posting, is_single: true };
                    self.offer(of, &mut first, (remaining, distance), found)?;
                }
                Some(PostingList::Many(_)) => {
                    for posting in view.shared_postings(Lists::Hashes, collection, hash, after) {
                        let found = FoundPosting { hash, posting: posting?, is_single: false };
                        let may_follow = self.offer(of, &mut first, (remaining, distance), found)?;
                        if !may_follow || !self.count_examined()? {
                            break;
                        }
                        self.reserve_marked()?;
                    }
                }
            }
        }
        for (id, FoundPosting { hash, posting, is_single }) in first {
            let row = if posting.has_metadata { view.row_head(collection, &id)? } else { None };
            let metadata = row.and_then(|row| row.metadata);
            let expires_ms = posting.expires_ms;
            if let Some(seen) = self.epoch.filter(|_| is_single) {
                let posting = CachedPosting { id: id.clone(), expires_ms, metadata: metadata.clone() };
                postings.add(&self.collection.epoch, seen, collection, hash, &posting);
            }
            self.push(Match { expires_ms, metadata, ..Match::of(id, hash, distance) })?;
            if self.bytes >= PAGE_BYTES || self.exceeds_budget() {
                break;
            }
        }
        // The page ends after these, so they need not be kept.
        if self.matches.len() < self.query.limit && !self.is_full() {
            self.marked_before += self.marked.len() as u64;
            self.marked.clear();
        }
        Ok(())
    }

    /// Reserves memory for the documents that were left out because of marks.
    fn reserve_marked(&mut self) -> Result<(), EngineError> {
        if self.marked.len() > FEW {
            self.reserved.grow_to(self.bytes + self.marked.len() * MARKED_BYTES)?;
        }
        Ok(())
    }

    /// Offers a document for the first ones at its distance. Returns whether one with a greater id may still
    /// be among them.
    fn offer(
        &mut self,
        (view, left_out): (&View<'_>, Option<&LeftOut<'_, '_>>),
        first: &mut BTreeMap<DocumentId, FoundPosting>,
        (remaining, distance): (usize, u32),
        found: FoundPosting,
    ) -> Result<bool, StoreError> {
        if first.len() >= remaining
            && first.last_key_value().is_some_and(|(last, _)| found.posting.id > *last)
        {
            return Ok(false);
        }
        let id = &found.posting.id;
        if self.time.has_expired(found.posting.expires_ms) || !self.passes_filter(view, id)? {
            return Ok(true);
        }
        if let Some(left_out) = left_out
            && left_out.has(id)?
        {
            self.marked.insert((distance, id.clone()));
            return Ok(true);
        }
        first.insert(id.clone(), found);
        if first.len() > remaining {
            first.pop_last();
        }
        Ok(true)
    }

    fn passes_filter(&self, view: &View<'_>, id: &DocumentId) -> Result<bool, StoreError> {
        let Some(filter) = &self.query.filter else {
            return Ok(true);
        };
        if filter.excludes(id) {
            return Ok(false);
        }
        if !filter.needs_row() {
            return Ok(true);
        }
        let row = view.row_head(self.collection.id, id)?;
        Ok(row.is_some_and(|row| filter.admits(&row)))
    }

    /// Adds the clusters of the matches. Returns whether the budget allows it.
    fn place(&mut self, view: &View<'_>, expires: bool) -> Result<bool, EngineError> {
        let count = self.matches.len().min(self.query.limit);
        if count * PLACED > self.budget.documents {
            return Ok(false);
        }
        let placements = Placements::of(view, self.collection, expires)?;
        for near in self.matches.iter_mut().take(count) {
            near.cluster = Some(Box::new(placements.of_document(&near.id)?));
        }
        Ok(true)
    }

    fn finish(mut self, start: Instant) -> Answer {
        self.work.elapsed = start.elapsed();
        let more = self.is_full();
        self.matches.truncate(self.query.limit);
        if let Some(shape) = self.collection.signatures {
            self.matches.iter_mut().for_each(|near| near.similarity = Some(shape.similarity(near.distance)));
        }
        // The memory of the matches is held until the answer is written; that of the found hashes is
        // released.
        self.reserved.shrink_to(self.bytes);
        self.reserved.keep();
        let last = self.matches.last().filter(|_| more);
        let next = last.map(|last| Position { distance: last.distance, id: last.id.clone() });
        let precedes = |(distance, id): &(u32, DocumentId)| {
            next.as_ref().is_none_or(|next| (*distance, id) < (next.distance, &next.id))
        };
        let marked = self.marked_before + self.marked.iter().filter(|at| precedes(at)).count() as u64;
        if self.is_of_marked {
            let marked = self.matches.len() as u64;
            return Answer { matches: Vec::new(), next: None, marked, work: self.work };
        }
        Answer { matches: self.matches, next, marked, work: self.work }
    }
}
