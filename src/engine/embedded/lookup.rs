//! Query evaluation: from the hashes within k to the documents, in the order of distance, then id.
//!
//! The index returns the near hashes, the store the documents that have them. A page does only the necessary
//! work. The radius grows until enough hashes are found; the index is exact for every radius. Of the
//! documents at one distance, only as many ids are read as fit into the page.

use std::cell::{Cell, OnceCell};
use std::collections::BTreeMap;
use std::time::Instant;

use super::clock::Clock;
use super::gate::Passed;
use super::intake::has_signature;
use super::posting_cache::{CachedPosting, PostingCache};
use super::registry::Collection;
use super::shared::Shared;
use crate::call::{self, Reserved};
use crate::engine::{Answer, EngineError, Judge, Match, Position, Query, Row, Work};
use crate::ids::{DocumentId, Hash};
use crate::index::{GROUP, Neighbour, Report, Stay, Subject, stay};
use crate::pool::Cancel;
use crate::store::{Posting, PostingList, StoreError, View};

/// The first radius that is tried when the page may be full before k is reached, and the increment of the
/// later ones.
const FIRST_RADIUS: u32 = 3;
const STEP: u32 = 4;
/// Up to this estimated cost, in ns, all hashes within k are searched for at once.
const QUICK: u64 = 4_096;

/// The maximum number of found hashes, and of examined documents, of a query that is answered on the
/// caller's thread.
const FEW: usize = 128;
/// The maximum bytes of metadata of such an answer.
const FEW_BYTES: usize = 64 << 10;
/// Bytes of metadata at which a page ends, whatever its limit. The document that reaches this size is
/// included.
const PAGE_BYTES: usize = 4 << 20;
/// Number of documents examined between two checks for cancellation.
const CHECK: usize = 128;
/// Bytes of memory per found hash: once in the result of the index, once in the classes by distance.
const FOUND_BYTES: usize = 64;

/// Prefetches the memory that these queries read first. Call it immediately before they are answered.
pub(super) fn prefetch(collection: &Collection, queries: &[Query]) {
    let Some(k) = queries.first().map(|query| query.k.unwrap_or_else(|| collection.settings().k)) else {
        return;
    };
    let hashes: Vec<Hash> = queries.iter().map(|query| query.hash).collect();
    collection.index.approach(&hashes, k);
}

/// Estimates the cost of queries in ns. The cost within k is cached for the last k.
pub(super) struct Costs<'a> {
    collection: &'a Collection,
    known: Option<(u32, u64)>,
}

impl Costs<'_> {
    pub(super) fn of(collection: &Collection) -> Costs<'_> {
        Costs { collection, known: None }
    }

    /// Estimated cost of a search within k by the index.
    fn within(&mut self, k: u32) -> u64 {
        match self.known {
            Some((known, cost)) if known == k => cost,
            _ => self.known.insert((k, self.collection.index.cost(k))).1,
        }
    }

    fn k(&self, query: &Query) -> u32 {
        query.k.unwrap_or_else(|| self.collection.settings().k)
    }

    /// Whether all hashes within k are searched for at once.
    fn is_quick(&mut self, query: &Query) -> bool {
        let k = self.k(query);
        !query.scan && query.after.is_none() && !query.needs_row() && self.within(k) <= QUICK
    }

    /// Estimated cost of a query. The number of rows that a filter reads is unknown, so a query with such a
    /// filter never runs on the caller's thread.
    pub(super) fn query(&mut self, query: &Query) -> u64 {
        let k = self.k(query);
        match (query.needs_row(), query.scan) {
            (true, _) => u64::MAX,
            (false, true) => self.collection.index.cost_of_scan(k),
            (false, false) => self.within(k),
        }
    }

    /// Estimated cost of all these queries.
    pub(super) fn queries(mut self, queries: &[Query]) -> u64 {
        queries.iter().fold(0, |sum, query| sum.saturating_add(self.query(query)))
    }
}

/// Answers queries in order, without a limit on their cost.
pub(super) fn answer_each(
    shared: &Shared,
    collection: &Collection,
    queries: &[Query],
    cancel: &Cancel,
    each: &mut dyn FnMut(Answer),
) -> Result<(), EngineError> {
    let mut costs = Costs::of(collection);
    let mut answers = Vec::with_capacity(GROUP);
    let mut unreserved = 0;
    for (at, group) in queries.chunks(GROUP).enumerate() {
        prefetch(collection, group);
        // Quick queries share one pass of the gate and one pin of the index. If two threads took the gate
        // for every query, they would contend for it.
        let matches: usize = group.iter().map(|query| query.limit).sum();
        let all_quick = matches <= FEW && group.iter().all(|query| costs.is_quick(query));
        let held = all_quick.then(|| (collection.gate.pass(), stay()));
        // A query begins when the previous one ends: reading the clock takes a twentieth of a query.
        let mut start = Instant::now();
        for (place, query) in group.iter().enumerate() {
            cancel.check()?;
            let answer = answer(held.as_ref(), shared, collection, query, (start, Bounds::unbounded(cancel)));
            let answer = answer.map_err(|error| error.of_question(at * GROUP + place))?;
            let answer = answer.expect(UNBOUNDED);
            start += answer.work.elapsed;
            unreserved += unreserved_bytes(&answer);
            answers.push(answer);
            // A page reserves memory only for many bytes; many pages of a few bytes need it too.
            if unreserved > FEW_BYTES {
                call::reserve(std::mem::take(&mut unreserved))?.keep();
            }
        }
        drop(held);
        answers.drain(..).for_each(&mut *each);
    }
    Ok(())
}

/// The bytes of metadata for which the page of this answer reserved no memory.
fn unreserved_bytes(answer: &Answer) -> usize {
    let bytes = answer.matches.iter().map(|near| near.metadata.as_ref().map_or(0, String::len)).sum();
    if bytes > FEW_BYTES { 0 } else { bytes }
}

/// Answers one query on the caller's thread. Returns `None` if it finds so much that the CPU pool should
/// answer it.
pub(super) fn similar_at_once(
    shared: &Shared,
    collection: &Collection,
    query: &Query,
) -> Result<Option<Answer>, EngineError> {
    answer(None, shared, collection, query, (Instant::now(), Bounds::FEW))
}

/// Answers one query, without a limit on its cost, unless it is cancelled.
pub(super) fn similar(
    shared: &Shared,
    collection: &Collection,
    query: &Query,
    cancel: &Cancel,
) -> Result<Answer, EngineError> {
    let bounds = Bounds::unbounded(cancel);
    Ok(answer(None, shared, collection, query, (Instant::now(), bounds))?.expect(UNBOUNDED))
}

/// Answers one query with the documents for which `judge` returns a similarity.
pub(super) fn similar_judged(
    shared: &Shared,
    collection: &Collection,
    query: &Query,
    mut judge: Judge,
    cancel: &Cancel,
) -> Result<Answer, EngineError> {
    let mut answer = similar(shared, collection, query, cancel)?;
    let view = shared.store.view();
    let mut judged = Vec::with_capacity(answer.matches.len());
    // Row by row: rows with texts of a megabyte each must not be in memory together.
    for mut near in std::mem::take(&mut answer.matches) {
        cancel.check()?;
        // A document that was deleted in the meantime is omitted.
        let Some(row) = view.row(collection.id, &near.id)? else { continue };
        near.similarity = judge(row)?;
        if near.similarity.is_some() {
            judged.push(near);
        }
    }
    answer.matches = judged;
    Ok(answer)
}

/// Without bounds, [`answer`] never returns `None`.
const UNBOUNDED: &str = "an unbounded query has an answer";

/// Limits on the work for an answer.
#[derive(Clone, Copy)]
struct Bounds<'a> {
    /// The maximum number of found hashes, and of examined documents.
    documents: usize,
    /// The maximum bytes of metadata.
    bytes: usize,
    cancel: Option<&'a Cancel>,
}

impl<'a> Bounds<'a> {
    const FEW: Bounds<'static> = Bounds { documents: FEW, bytes: FEW_BYTES, cancel: None };

    fn unbounded(cancel: &'a Cancel) -> Bounds<'a> {
        Bounds { documents: usize::MAX, bytes: usize::MAX, cancel: Some(cancel) }
    }
}

/// Shared by several quick queries: the pass of the gate and the pin of the index.
type Held<'a> = (Passed<'a>, Stay);

/// Answers one query. If `held` is `None`, it passes the gate itself. `start` is the time at which the query
/// began.
fn answer(
    held: Option<&Held<'_>>,
    shared: &Shared,
    collection: &Collection,
    query: &Query,
    (start, bounds): (Instant, Bounds<'_>),
) -> Result<Option<Answer>, EngineError> {
    let width = collection.index.width();
    if query.hash.width() != width {
        let (expected, found) = (width, query.hash.width());
        return Err(EngineError::Width { name: collection.name.clone(), expected, found });
    }
    let k = checked_k(collection, query)?;
    match &query.signature {
        Some(signature) => has_signature(collection, Some(signature))?,
        None if collection.signatures.is_some() && !collection.index.contains(query.hash) => {
            return Err(EngineError::NoSignature(query.hash));
        }
        None => {}
    }
    let epoch = collection.epoch.stable();
    let time = Time { clock: &shared.clock, now_ms: OnceCell::new() };
    let mut page = Page {
        collection,
        query,
        k,
        epoch,
        time,
        bounds,
        examined: Cell::new(0),
        bytes: 0,
        reserved: call::reserve(0)?,
        matches: Vec::new(),
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
    let view = shared.store.view();
    // The hashes found before the view was taken are complete if no commit fell in between. If there are
    // many, a smaller radius may be enough.
    let mut ahead = (!found.is_empty() && found.len() <= FEW && page.is_epoch_unchanged()).then_some(found);
    let mut done_to = query.after.as_ref().map_or(0, |after| after.distance);
    loop {
        let (radius, classes) = match ahead.take() {
            Some(found) => (k, classes(found)),
            None => page.near(done_to)?,
        };
        if page.work.verified > bounds.documents as u64 {
            return Ok(None);
        }
        for (distance, hashes) in classes {
            page.read_class(&shared.postings, &view, distance, &hashes)?;
            if page.exceeds_bounds() {
                return Ok(None);
            }
            if page.is_full() {
                break;
            }
        }
        if radius >= k || page.is_full() {
            break;
        }
        done_to = radius + 1;
    }
    Ok(Some(page.finish(start)))
}

fn checked_k(collection: &Collection, query: &Query) -> Result<u32, EngineError> {
    let most = collection.index.most();
    match query.k {
        None => Ok(collection.settings().k),
        Some(k) if k <= most => Ok(k),
        Some(k) => Err(EngineError::Distance { k, most }),
    }
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
    k: u32,
    /// The epoch of the collection before the view was taken; `None` if a commit was becoming visible.
    epoch: Option<u64>,
    time: Time<'a>,
    bounds: Bounds<'a>,
    /// Number of examined documents, including the skipped ones.
    examined: Cell<usize>,
    /// Bytes of the matches' metadata.
    bytes: usize,
    /// Memory reserved for the matches and for the found hashes.
    reserved: Reserved,
    matches: Vec<Match>,
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

    /// Whether the work exceeds the bounds.
    fn exceeds_bounds(&self) -> bool {
        self.examined.get() > self.bounds.documents || self.bytes > self.bounds.bytes
    }

    /// Counts an examined document. Returns whether the bounds allow more; fails if the query is cancelled.
    fn count_examined(&self) -> Result<bool, EngineError> {
        let examined = self.examined.get() + 1;
        self.examined.set(examined);
        if let Some(cancel) = self.bounds.cancel.filter(|_| examined.is_multiple_of(CHECK)) {
            cancel.check()?;
        }
        Ok(examined <= self.bounds.documents)
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
        let report = self.collection.index.within(self.subject(), self.k, found);
        self.record_work(&report, found);
        if found.is_empty() || self.answer_from_cache(postings, found) {
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
                let (hash, distance) = (near.hash, near.distance);
                self.bytes += metadata.as_ref().map_or(0, String::len);
                self.matches.push(Match { id, hash, distance, similarity: None, expires_ms, metadata });
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
        if let Some(cancel) = self.bounds.cancel {
            cancel.check()?;
        }
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
        let bytes = self.bytes + hashes * FOUND_BYTES;
        if bytes > FEW_BYTES {
            self.reserved.grow_to(bytes)?;
        }
        Ok(())
    }

    /// The radius of the next search. Where the index would compare every hash, the distances are counted
    /// first. That doubles the work, but saves the memory of hashes that do not fit into the page.
    fn radius(&mut self, least: u32) -> Result<u32, EngineError> {
        let (index, k) = (&self.collection.index, self.k);
        let step = index.first_radius((least + STEP).max(FIRST_RADIUS), k);
        if !self.query.scan && !index.scans(step) {
            return Ok(step);
        }
        let mut counts = vec![0u64; index.most() as usize + 1];
        index.distances(self.subject(), &mut counts);
        let wanted = self.remaining() as u64;
        let mut sum = 0;
        let reaches = |distance: &u32| {
            sum += counts[*distance as usize];
            sum >= wanted
        };
        let radius = (least..=k).find(reaches).unwrap_or(k);
        let found: u64 = counts[..=radius as usize].iter().sum();
        self.reserve_found(usize::try_from(found).unwrap_or(usize::MAX / FOUND_BYTES))?;
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
    /// bounds are exceeded.
    fn read_class(
        &mut self,
        postings: &PostingCache,
        view: &View<'_>,
        distance: u32,
        hashes: &[Hash],
    ) -> Result<(), EngineError> {
        let after =
            self.query.after.as_ref().filter(|after| after.distance == distance).map(|after| &after.id);
        let remaining = self.remaining();
        let of = self.collection.id;
        let mut first: BTreeMap<DocumentId, FoundPosting> = BTreeMap::new();
        for &hash in hashes {
            if !self.count_examined()? {
                return Ok(());
            }
            match view.posting_list(of, hash)? {
                None => {}
                Some(PostingList::One(posting)) if after.is_some_and(|after| posting.id <= *after) => {}
                Some(PostingList::One(posting)) => {
                    self.offer(view, &mut first, remaining, FoundPosting { hash, posting, is_single: true })?;
                }
                Some(PostingList::Many(_)) => {
                    for posting in view.shared_postings(of, hash, after) {
                        let found = FoundPosting { hash, posting: posting?, is_single: false };
                        if !self.offer(view, &mut first, remaining, found)? || !self.count_examined()? {
                            break;
                        }
                    }
                }
            }
        }
        for (id, FoundPosting { hash, posting, is_single }) in first {
            let row = if posting.has_metadata { view.row(of, &id)? } else { None };
            let metadata = row.and_then(|row| row.metadata);
            let expires_ms = posting.expires_ms;
            if let Some(seen) = self.epoch.filter(|_| is_single) {
                let posting = CachedPosting { id: id.clone(), expires_ms, metadata: metadata.clone() };
                postings.add(&self.collection.epoch, seen, of, hash, &posting);
            }
            self.push(Match { id, hash, distance, similarity: None, expires_ms, metadata })?;
            if self.bytes >= PAGE_BYTES || self.exceeds_bounds() {
                break;
            }
        }
        Ok(())
    }

    /// Offers a document for the first ones at its distance. Returns whether one with a greater id may still
    /// be among them.
    fn offer(
        &self,
        view: &View<'_>,
        first: &mut BTreeMap<DocumentId, FoundPosting>,
        remaining: usize,
        found: FoundPosting,
    ) -> Result<bool, StoreError> {
        if first.len() >= remaining
            && first.last_key_value().is_some_and(|(last, _)| found.posting.id > *last)
        {
            return Ok(false);
        }
        if !self.time.has_expired(found.posting.expires_ms) && self.passes_filter(view, &found.posting.id)? {
            first.insert(found.posting.id.clone(), found);
            if first.len() > remaining {
                first.pop_last();
            }
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
        let row: Option<Row> = view.row(self.collection.id, id)?;
        Ok(row.is_some_and(|row| filter.admits(&row)))
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
        let signatures = self.collection.signatures;
        Answer { k: self.k, signatures, matches: self.matches, next, work: self.work }
    }
}
