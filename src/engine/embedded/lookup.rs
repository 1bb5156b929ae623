//! Queries: from hashes within k to documents, by distance and then id.
//!
//! The index says which hashes are near, the store which documents bear them. Each page does only the work
//! it needs: radii grow until enough hashes are found (the index is exact for every one of them), and of
//! the documents of one distance only as many ids are read as the page has room for.

use std::collections::BTreeMap;
use std::time::Instant;

use super::registry::Collection;
use crate::engine::{Answer, EngineError, Match, Position, Query, Row, Work};
use crate::ids::{DocumentId, Hash};
use crate::index::{Neighbour, Report};
use crate::store::{Bearer, Store, StoreError, View};

/// The first radius tried when the page may be full before k is reached, and the steps after it.
const FIRST_RADIUS: u32 = 3;
const STEP: u32 = 4;

/// Answers one query.
pub(super) fn similar(store: &Store, collection: &Collection, query: &Query) -> Result<Answer, EngineError> {
    let start = Instant::now();
    let width = collection.index.width();
    if query.hash.width() != width {
        let (expected, found) = (width, query.hash.width());
        return Err(EngineError::Width { name: collection.name.clone(), expected, found });
    }
    let mut page = Page { collection, query, matches: Vec::new(), work: Work::default() };
    // Under the gate every hash that a document of the view bears is in the index: hashes enter before
    // their documents can be seen, and leave behind the gate.
    let _gate = collection.gate.read();
    if page.nothing_is_near() {
        page.work.elapsed = start.elapsed();
        return Ok(page.finish());
    }
    let view = store.view();
    let mut done_to = query.after.as_ref().map_or(0, |after| after.distance);
    loop {
        let (radius, classes) = page.near(done_to);
        for (distance, hashes) in classes {
            page.read_class(&view, distance, &hashes)?;
            if page.is_full() {
                break;
            }
        }
        if radius >= query.k || page.is_full() {
            break;
        }
        done_to = radius + 1;
    }
    let mut answer = page.finish();
    answer.work.elapsed = start.elapsed();
    Ok(answer)
}

/// A page in the making: one match more than the limit tells whether there is a next page.
struct Page<'a> {
    collection: &'a Collection,
    query: &'a Query,
    matches: Vec<Match>,
    work: Work,
}

type Classes = BTreeMap<u32, Vec<Hash>>;

impl Page<'_> {
    fn is_full(&self) -> bool {
        self.matches.len() > self.query.limit
    }

    fn room(&self) -> usize {
        (self.query.limit + 1).saturating_sub(self.matches.len())
    }

    /// Whether the index alone can tell, cheaply, that there is no match: what most questions of a crawler
    /// come to. Without a view, which costs as much as the look itself; while the gate is held, a document that
    /// moves from one hash to another is under one of them at every moment, so none can slip through.
    fn nothing_is_near(&mut self) -> bool {
        let Query { hash, k, scan, .. } = *self.query;
        if scan || k > FIRST_RADIUS {
            return false;
        }
        let mut found = Vec::new();
        let report = self.collection.index.within(hash, k, &mut found);
        if found.is_empty() {
            self.account(&report, &found);
        }
        found.is_empty()
    }

    /// The hashes at distances from `least` to a radius, which is k or less.
    fn near(&mut self, least: u32) -> (u32, Classes) {
        let (collection, query) = (self.collection, self.query);
        let mut found = Vec::new();
        let radius = self.radius(least);
        let report = if query.scan {
            collection.index.scan(query.hash, radius, &mut found)
        } else {
            collection.index.within(query.hash, radius, &mut found)
        };
        self.account(&report, &found);
        let mut classes = Classes::new();
        for near in found.into_iter().filter(|near| near.distance >= least) {
            classes.entry(near.distance).or_default().push(near.hash);
        }
        (radius, classes)
    }

    /// How far to look now. Where the index would compare every hash, counting them by distance first
    /// costs as much again and spares the memory for all that the page has no room for.
    fn radius(&self, least: u32) -> u32 {
        let (index, k) = (&self.collection.index, self.query.k);
        let step = (least + STEP).max(FIRST_RADIUS).min(k);
        if !self.query.scan && !index.scans(step) {
            return step;
        }
        let mut counts = [0u64; 129];
        index.distances(self.query.hash, &mut counts);
        let wanted = self.room() as u64;
        let mut sum = 0;
        let reaches = |distance: &u32| {
            sum += counts[*distance as usize];
            sum >= wanted
        };
        (least..=k).find(reaches).unwrap_or(k)
    }

    fn account(&mut self, report: &Report, found: &[Neighbour<Hash>]) {
        self.work.scanned |= report.plan.is_none();
        self.work.radii = report.plan.map(|plan| plan.radii().to_vec()).unwrap_or_default();
        self.work.probes += report.touched.probes;
        self.work.candidates += report.touched.candidates;
        self.work.verified = found.len() as u64;
    }

    /// Adds the documents of one distance, as many as the page has room for, in the order of their ids.
    fn read_class(&mut self, view: &View<'_>, distance: u32, hashes: &[Hash]) -> Result<(), EngineError> {
        let after =
            self.query.after.as_ref().filter(|after| after.distance == distance).map(|after| &after.id);
        let room = self.room();
        let mut first: BTreeMap<DocumentId, (Hash, bool)> = BTreeMap::new();
        for &hash in hashes {
            for bearer in view.bearers(self.collection.id, hash, after)? {
                let Bearer { id, has_metadata } = bearer?;
                if first.len() >= room && first.last_key_value().is_some_and(|(last, _)| id > *last) {
                    break;
                }
                if self.counts(view, &id)? {
                    first.insert(id, (hash, has_metadata));
                    if first.len() > room {
                        first.pop_last();
                    }
                }
            }
        }
        for (id, (hash, has_metadata)) in first {
            let row = if has_metadata { view.row(self.collection.id, &id)? } else { None };
            self.matches.push(Match { id, hash, distance, metadata: row.and_then(|row| row.metadata) });
        }
        Ok(())
    }

    fn counts(&self, view: &View<'_>, id: &DocumentId) -> Result<bool, StoreError> {
        let filter = &self.query.filter;
        if filter.excludes(id) {
            return Ok(false);
        }
        if !filter.needs_row() {
            return Ok(true);
        }
        let row: Option<Row> = view.row(self.collection.id, id)?;
        Ok(row.is_some_and(|row| filter.admits(&row)))
    }

    fn finish(mut self) -> Answer {
        let more = self.is_full();
        self.matches.truncate(self.query.limit);
        let last = self.matches.last().filter(|_| more);
        let next = last.map(|last| Position { distance: last.distance, id: last.id.clone() });
        Answer { matches: self.matches, next, work: self.work }
    }
}
