//! Queries: from hashes within k to documents, by distance and then id.
//!
//! The index says which hashes are near, the store which documents bear them. Each page does only the work
//! it needs: radii grow until enough hashes are found (the index is exact for every one of them), and of
//! the documents of one distance only as many ids are read as the page has room for.

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

/// The first radius tried when the page may be full before k is reached, and the steps after it.
const FIRST_RADIUS: u32 = 3;
const STEP: u32 = 4;
/// Up to this cost, in nanoseconds or so, all within k is looked for at once before anything else.
const QUICK: u64 = 4_096;

/// Hashes found within the distance, and documents looked at, up to which a question is answered where it is asked.
const FEW: usize = 128;
/// Bytes of metadata of such an answer.
const FEW_BYTES: usize = 64 << 10;
/// Bytes of metadata with which a page is full, whatever its limit. The one document that reaches them belongs to it.
const PAGE_BYTES: usize = 4 << 20;
/// Documents looked at between two looks at whether the question was cancelled.
const CHECK: usize = 128;
/// Bytes of memory for a hash that was found: once as the index reports it, once by distance.
const FOUND_BYTES: usize = 64;

/// Asks for the memory that these queries will read first; for some that are answered right after.
pub(super) fn approach(collection: &Collection, queries: &[Query]) {
    let Some(k) = queries.first().map(|query| query.k.unwrap_or_else(|| collection.settings().k)) else {
        return;
    };
    let hashes: Vec<Hash> = queries.iter().map(|query| query.hash).collect();
    collection.index.approach(&hashes, k);
}

/// What queries are expected to take, in nanoseconds or so; for those of one k after the other it is reckoned once.
pub(super) struct Costs<'a> {
    collection: &'a Collection,
    known: Option<(u32, u64)>,
}

impl Costs<'_> {
    pub(super) fn of(collection: &Collection) -> Costs<'_> {
        Costs { collection, known: None }
    }

    /// What all within k is expected to take by the index.
    fn within(&mut self, k: u32) -> u64 {
        match self.known {
            Some((known, cost)) if known == k => cost,
            _ => self.known.insert((k, self.collection.index.cost(k))).1,
        }
    }

    fn k(&self, query: &Query) -> u32 {
        query.k.unwrap_or_else(|| self.collection.settings().k)
    }

    /// Whether all within k is looked for at once before anything else.
    fn is_quick(&mut self, query: &Query) -> bool {
        let k = self.k(query);
        !query.scan && query.after.is_none() && !query.needs_row() && self.within(k) <= QUICK
    }

    /// What a query is expected to take. Nobody knows how many rows a filter reads: one that does is never inline.
    pub(super) fn query(&mut self, query: &Query) -> u64 {
        let k = self.k(query);
        match (query.needs_row(), query.scan) {
            (true, _) => u64::MAX,
            (false, true) => self.collection.index.cost_of_scan(k),
            (false, false) => self.within(k),
        }
    }

    /// Of all of them.
    pub(super) fn queries(mut self, queries: &[Query]) -> u64 {
        queries.iter().fold(0, |sum, query| sum.saturating_add(self.query(query)))
    }
}

/// Answers queries in order, whatever they take.
pub(super) fn answer_each(
    shared: &Shared,
    collection: &Collection,
    queries: &[Query],
    cancel: &Cancel,
    each: &mut dyn FnMut(Answer),
) -> Result<(), EngineError> {
    let mut costs = Costs::of(collection);
    let mut answers = Vec::with_capacity(GROUP);
    for (at, group) in queries.chunks(GROUP).enumerate() {
        approach(collection, group);
        // One look at the gate for those that take little: two threads that pass it by turns keep each other waiting.
        let matches: usize = group.iter().map(|query| query.limit).sum();
        let all_quick = matches <= FEW && group.iter().all(|query| costs.is_quick(query));
        let held = all_quick.then(|| (collection.gate.pass(), stay()));
        // Each begins when the one before has ended: a look at the clock takes a twentieth of a query.
        let mut start = Instant::now();
        for (place, query) in group.iter().enumerate() {
            cancel.check()?;
            let answer = answer(held.as_ref(), shared, collection, query, (start, Bounds::wide(cancel)));
            let answer = answer.map_err(|error| error.of_question(at * GROUP + place))?;
            let answer = answer.expect(NOT_TOO_MUCH);
            start += answer.work.elapsed;
            answers.push(answer);
        }
        drop(held);
        answers.drain(..).for_each(&mut *each);
    }
    Ok(())
}

/// Answers one query where it is asked, if that takes little: `None` if it found so much that reading it should
/// be left to the pool.
pub(super) fn similar_at_once(
    shared: &Shared,
    collection: &Collection,
    query: &Query,
) -> Result<Option<Answer>, EngineError> {
    answer(None, shared, collection, query, (Instant::now(), Bounds::FEW))
}

/// Answers one query, whatever it takes, unless it is cancelled.
pub(super) fn similar(
    shared: &Shared,
    collection: &Collection,
    query: &Query,
    cancel: &Cancel,
) -> Result<Answer, EngineError> {
    let bounds = Bounds::wide(cancel);
    Ok(answer(None, shared, collection, query, (Instant::now(), bounds))?.expect(NOT_TOO_MUCH))
}

/// Answers one query with the documents that `judge` gives a similarity, each with its own.
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
    // Row by row: texts of a megabyte each are not held together.
    for mut near in std::mem::take(&mut answer.matches) {
        cancel.check()?;
        // A document may have gone since; it has no similarity then.
        let Some(row) = view.row(collection.id, &near.id)? else { continue };
        near.similarity = judge(row)?;
        if near.similarity.is_some() {
            judged.push(near);
        }
    }
    answer.matches = judged;
    Ok(answer)
}

/// Why an answer without a bound is there.
const NOT_TOO_MUCH: &str = "nothing is too much";

/// How much may be done for an answer.
#[derive(Clone, Copy)]
struct Bounds<'a> {
    /// Hashes found and documents looked at.
    documents: usize,
    /// Bytes of metadata.
    bytes: usize,
    cancel: Option<&'a Cancel>,
}

impl<'a> Bounds<'a> {
    const FEW: Bounds<'static> = Bounds { documents: FEW, bytes: FEW_BYTES, cancel: None };

    fn wide(cancel: &'a Cancel) -> Bounds<'a> {
        Bounds { documents: usize::MAX, bytes: usize::MAX, cancel: Some(cancel) }
    }
}

/// What a caller holds who answers several that are quick: the gate, and the index in sight.
type Held<'a> = (Passed<'a>, Stay);

/// Answers one query, behind the gate if the caller holds it, else it is taken. It began at `start`.
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
    let epoch = collection.epoch.quiet();
    let time = Time { clock: &shared.clock, now_ms: OnceCell::new() };
    let mut page = Page {
        collection,
        query,
        k,
        epoch,
        time,
        bounds,
        looked_at: Cell::new(0),
        bytes: 0,
        reserved: call::reserve(0)?,
        matches: Vec::new(),
        work: Work::default(),
    };
    // Under the gate every hash that a document of the view bears is in the index: hashes enter before
    // their documents can be seen, and leave behind the gate.
    let _gate = held.is_none().then(|| collection.gate.pass());
    let mut found = Vec::new();
    let is_quick = held.is_some() || Costs::of(collection).is_quick(query);
    if is_quick && page.is_known(&shared.postings, &mut found) {
        return Ok(Some(page.finish(start)));
    }
    let view = shared.store.view();
    // What was found before the view was taken is all there is if no commit fell in between. Where there is much of it, a
    // smaller radius may be enough.
    let mut ahead = (!found.is_empty() && found.len() <= FEW && page.is_quiet()).then_some(found);
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
            if page.is_too_much() {
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

/// The time of an answer, which is looked at only if something may have expired.
struct Time<'a> {
    clock: &'a Clock,
    now_ms: OnceCell<u64>,
}

impl Time<'_> {
    /// Whether a document that expires then counts as gone.
    fn has_lapsed(&self, expires_ms: Option<u64>) -> bool {
        expires_ms.is_some_and(|at| at <= *self.now_ms.get_or_init(|| self.clock.now_ms()))
    }
}

/// A page in the making: one match more than the limit tells whether there is a next page.
struct Page<'a> {
    collection: &'a Collection,
    query: &'a Query,
    k: u32,
    /// The epoch of the collection before the view was taken, if no commit was coming in sight.
    epoch: Option<u64>,
    time: Time<'a>,
    bounds: Bounds<'a>,
    /// Documents looked at, those that are passed over among them.
    looked_at: Cell<usize>,
    /// Bytes of the metadata of the matches.
    bytes: usize,
    /// Memory for the matches and for the hashes found.
    reserved: Reserved,
    matches: Vec<Match>,
    work: Work,
}

/// A document found by its hash.
struct FoundPosting {
    hash: Hash,
    posting: Posting,
    is_sole: bool,
}

type Classes = BTreeMap<u32, Vec<Hash>>;

/// Hashes by distance.
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

    /// Whether more was done than a question may take where it is asked.
    fn is_too_much(&self) -> bool {
        self.looked_at.get() > self.bounds.documents || self.bytes > self.bounds.bytes
    }

    /// Another document is looked at; whether that may go on.
    fn look_at_next(&self) -> Result<bool, EngineError> {
        let looked_at = self.looked_at.get() + 1;
        self.looked_at.set(looked_at);
        if let Some(cancel) = self.bounds.cancel.filter(|_| looked_at.is_multiple_of(CHECK)) {
            cancel.check()?;
        }
        Ok(looked_at <= self.bounds.documents)
    }

    fn push(&mut self, near: Match) -> Result<(), EngineError> {
        self.bytes += near.metadata.as_ref().map_or(0, String::len);
        if self.bytes > FEW_BYTES {
            self.reserved.grow_to(self.bytes.next_multiple_of(FEW_BYTES))?;
        }
        self.matches.push(near);
        Ok(())
    }

    fn room(&self) -> usize {
        (self.query.limit + 1).saturating_sub(self.matches.len())
    }

    /// Answers from memory alone if that can be done: nothing is near, which is what most questions of a
    /// crawler come to, or all that is near was stored or looked up lately. It needs no view of the store, which costs as
    /// much as the look: while the gate is held a document that moves from one hash to another is under one of
    /// them at every moment, so nothing slips through where nothing is found; and what is remembered is good
    /// while no commit falls in between. If it cannot be done, all hashes within k are in `found`.
    fn is_known(&mut self, postings: &PostingCache, found: &mut Vec<Neighbour<Hash>>) -> bool {
        let report = self.collection.index.within(self.subject(), self.k, found);
        self.account(&report, found);
        if found.is_empty() || self.has_at_hand(postings, found) {
            return true;
        }
        self.matches.clear();
        self.bytes = 0;
        false
    }

    /// Whether no commit has begun or ended since the page was.
    fn is_quiet(&self) -> bool {
        self.epoch.is_some() && self.collection.epoch.quiet() == self.epoch
    }

    fn has_at_hand(&mut self, postings: &PostingCache, found: &[Neighbour<Hash>]) -> bool {
        if self.epoch.is_none() || found.len() > self.query.limit {
            return false;
        }
        for near in found {
            let Some(CachedPosting { id, expires_ms, metadata }) =
                postings.get(self.collection.id, near.hash)
            else {
                return false;
            };
            if !self.query.excludes(&id) && !self.time.has_lapsed(expires_ms) {
                let (hash, distance) = (near.hash, near.distance);
                self.bytes += metadata.as_ref().map_or(0, String::len);
                self.matches.push(Match { id, hash, distance, similarity: None, expires_ms, metadata });
            }
            if self.bytes > FEW_BYTES {
                return false;
            }
        }
        self.matches.sort_unstable_by(|a, b| (a.distance, &a.id).cmp(&(b.distance, &b.id)));
        self.is_quiet()
    }

    /// The hashes at distances from `least` to a radius, which is k or less.
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
        self.account(&report, &found);
        self.reserve_found(found.len())?;
        found.retain(|near| near.distance >= least);
        Ok((radius, classes(found)))
    }

    /// Reserves memory for so many hashes that are found.
    fn reserve_found(&mut self, hashes: usize) -> Result<(), EngineError> {
        let bytes = self.bytes + hashes * FOUND_BYTES;
        if bytes > FEW_BYTES {
            self.reserved.grow_to(bytes)?;
        }
        Ok(())
    }

    /// How far to look now. Where the index would compare every hash, counting them by distance first
    /// costs as much again and spares the memory for all that the page has no room for.
    fn radius(&mut self, least: u32) -> Result<u32, EngineError> {
        let (index, k) = (&self.collection.index, self.k);
        let step = index.first_radius((least + STEP).max(FIRST_RADIUS), k);
        if !self.query.scan && !index.scans(step) {
            return Ok(step);
        }
        let mut counts = vec![0u64; index.most() as usize + 1];
        index.distances(self.subject(), &mut counts);
        let wanted = self.room() as u64;
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

    fn account(&mut self, report: &Report, found: &[Neighbour<Hash>]) {
        self.work.scanned |= report.scanned;
        self.work.plan = report.plan;
        self.work.probes += report.touched.probes;
        self.work.candidates += report.touched.candidates;
        self.work.verified = found.len() as u64;
    }

    /// Adds the documents of one distance, as many as the page has room for, in the order of their ids.
    /// It stops when it has looked at more than the bounds allow.
    fn read_class(
        &mut self,
        postings: &PostingCache,
        view: &View<'_>,
        distance: u32,
        hashes: &[Hash],
    ) -> Result<(), EngineError> {
        let after =
            self.query.after.as_ref().filter(|after| after.distance == distance).map(|after| &after.id);
        let room = self.room();
        let of = self.collection.id;
        let mut first: BTreeMap<DocumentId, FoundPosting> = BTreeMap::new();
        for &hash in hashes {
            if !self.look_at_next()? {
                return Ok(());
            }
            match view.posting_list(of, hash)? {
                None => {}
                Some(PostingList::One(posting)) if after.is_some_and(|after| posting.id <= *after) => {}
                Some(PostingList::One(posting)) => {
                    self.offer(view, &mut first, room, FoundPosting { hash, posting, is_sole: true })?;
                }
                Some(PostingList::Many(_)) => {
                    for posting in view.shared_postings(of, hash, after) {
                        let found = FoundPosting { hash, posting: posting?, is_sole: false };
                        if !self.offer(view, &mut first, room, found)? || !self.look_at_next()? {
                            break;
                        }
                    }
                }
            }
        }
        for (id, FoundPosting { hash, posting, is_sole }) in first {
            let row = if posting.has_metadata { view.row(of, &id)? } else { None };
            let metadata = row.and_then(|row| row.metadata);
            let expires_ms = posting.expires_ms;
            if let Some(seen) = self.epoch.filter(|_| is_sole) {
                let posting = CachedPosting { id: id.clone(), expires_ms, metadata: metadata.clone() };
                postings.note(&self.collection.epoch, seen, of, hash, &posting);
            }
            self.push(Match { id, hash, distance, similarity: None, expires_ms, metadata })?;
            if self.bytes >= PAGE_BYTES || self.is_too_much() {
                break;
            }
        }
        Ok(())
    }

    /// Takes a document among the first of its distance; whether one with a greater id could be among them.
    fn offer(
        &self,
        view: &View<'_>,
        first: &mut BTreeMap<DocumentId, FoundPosting>,
        room: usize,
        found: FoundPosting,
    ) -> Result<bool, StoreError> {
        if first.len() >= room && first.last_key_value().is_some_and(|(last, _)| found.posting.id > *last) {
            return Ok(false);
        }
        if !self.time.has_lapsed(found.posting.expires_ms) && self.counts(view, &found.posting.id)? {
            first.insert(found.posting.id.clone(), found);
            if first.len() > room {
                first.pop_last();
            }
        }
        Ok(true)
    }

    fn counts(&self, view: &View<'_>, id: &DocumentId) -> Result<bool, StoreError> {
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
        // What was read is held until it is written; what was found is not.
        self.reserved.shrink_to(self.bytes);
        self.reserved.keep();
        let last = self.matches.last().filter(|_| more);
        let next = last.map(|last| Position { distance: last.distance, id: last.id.clone() });
        let signatures = self.collection.signatures;
        Answer { k: self.k, signatures, matches: self.matches, next, work: self.work }
    }
}
