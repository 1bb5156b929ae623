//! Lookups: queries are answered on the caller's thread, within a budget of work.
//!
//! The caller decides which thread that is, and passes the same queries on to another one if the budget is
//! too small. *Absent*: how one query is answered (`page`).

use std::time::Instant;

use super::intake::has_signature;
use super::page::answer;
use super::registry::Collection;
use super::shared::Shared;
use super::{Answer, Engine, EngineError, Judge, Match, Query};
use lookalike_hamming::{GROUP, stay};
use lookalike_hash::{DocumentId, Hash};
use lookalike_run::call;
use lookalike_run::pool::Cancel;

/// Up to this estimated cost, in ns, all hashes within k are searched for at once.
const QUICK: u64 = 4_096;
/// Queries with at most this estimated cost, in ns, are answered on the caller's thread, because handing
/// them to another thread costs more.
pub(super) const INLINE_COST: u64 = 20_000;
/// The estimated cost, in ns, up to which a thread of the CPU pool answers a batch alone.
const SLICE_COST: u64 = 5_000_000;
/// The maximum number of found hashes, and of examined documents, of a query that is answered on the
/// caller's thread.
pub(super) const FEW: usize = 128;
/// The maximum bytes of metadata of such an answer.
pub(super) const FEW_BYTES: usize = 64 << 10;

/// The work that queries may do on the thread that answers them.
#[derive(Clone, Copy, Debug)]
pub struct WorkBudget<'a> {
    /// The maximum estimated cost of all queries in ns.
    cost: u64,
    /// The maximum number of found hashes, and of examined documents, of one query.
    pub(super) documents: usize,
    /// The maximum bytes of metadata of one answer.
    pub(super) bytes: usize,
    pub(super) cancel: Option<&'a Cancel>,
}

impl<'a> WorkBudget<'a> {
    /// Work that costs less than handing it to another thread.
    pub const INLINE: WorkBudget<'static> =
        WorkBudget { cost: INLINE_COST, documents: FEW, bytes: FEW_BYTES, cancel: None };
    /// Work that one thread of the CPU pool does before others wait for it.
    pub const SLICE: WorkBudget<'static> =
        WorkBudget { cost: SLICE_COST, documents: usize::MAX, bytes: usize::MAX, cancel: None };

    /// A limit of found hashes and examined documents alone.
    pub fn of_documents(documents: usize, cancel: &'a Cancel) -> WorkBudget<'a> {
        WorkBudget { documents, ..WorkBudget::unlimited(cancel) }
    }

    /// No limit. The work ends with an error when it is cancelled.
    pub fn unlimited(cancel: &'a Cancel) -> WorkBudget<'a> {
        WorkBudget { cost: u64::MAX, documents: usize::MAX, bytes: usize::MAX, cancel: Some(cancel) }
    }

    pub(super) fn check(&self) -> Result<(), EngineError> {
        Ok(self.cancel.map_or(Ok(()), Cancel::check)?)
    }
}

impl Engine {
    /// Answers queries in order on this thread while the budget lasts, and passes the answers to `each`.
    /// Returns how many it answered. The queries must have passed [`Collection::check`].
    ///
    /// # Errors
    /// [`EngineError::Store`], [`EngineError::NoMemory`], and [`EngineError::Pool`] if the work is cancelled.
    pub fn answer(
        &self,
        collection: &Collection,
        queries: &[Query],
        budget: &mut WorkBudget<'_>,
        each: &mut dyn FnMut(Answer),
    ) -> Result<usize, EngineError> {
        if budget.cost < u64::MAX {
            match budget.cost.checked_sub(Costs::of(collection).queries(queries)) {
                Some(rest) => budget.cost = rest,
                None => return Ok(0),
            }
        }
        if let [query] = queries {
            // A single query gains nothing from the preparation of a group.
            let answer = answer(None, &self.shared, collection, query, (Instant::now(), *budget))?;
            return Ok(answer.map_or(0, |answer| {
                each(answer);
                1
            }));
        }
        answer_groups(&self.shared, collection, queries, *budget, each)
    }

    /// Completes each match by its row, and removes those that `judge` rejects.
    ///
    /// # Errors
    /// As [`Engine::answer`].
    pub fn judge(
        &self,
        collection: &Collection,
        matches: &mut Vec<Match>,
        mut judge: Judge,
        cancel: &Cancel,
    ) -> Result<(), EngineError> {
        let view = self.shared.store.view();
        // Row by row: rows with texts of a megabyte each must not be in memory together.
        for mut near in std::mem::take(matches) {
            cancel.check()?;
            // A document that was deleted in the meantime is omitted.
            let Some(row) = view.row(collection.id, &near.id)? else { continue };
            if judge(&mut near, row, cancel)? {
                matches.push(near);
            }
        }
        Ok(())
    }
}

impl Collection {
    /// Checks that a query fits the collection.
    ///
    /// # Errors
    /// [`EngineError::Width`], [`EngineError::Distance`], [`EngineError::Signature`], or
    /// [`EngineError::NoSignature`] if a query without a signature names none that is stored.
    pub fn check(&self, query: &Query) -> Result<(), EngineError> {
        let (expected, found) = (self.index.width(), query.hash.width());
        if expected != found {
            return Err(EngineError::Width { name: self.name.clone(), expected, found });
        }
        let (k, most) = (query.k, self.index.most());
        if k > most {
            return Err(EngineError::Distance { k, most });
        }
        match &query.signature {
            Some(signature) => has_signature(self, Some(signature)),
            None if self.signatures.is_some() && !self.index.contains(query.hash) => {
                Err(EngineError::NoSignature(query.hash))
            }
            None => Ok(()),
        }
    }
}

impl Query {
    /// Whether the document is excluded by its id alone.
    pub(super) fn excludes(&self, id: &DocumentId) -> bool {
        self.filter.as_ref().is_some_and(|filter| filter.excludes(id))
    }

    /// Whether rows must be read to apply the filter.
    pub(super) fn needs_row(&self) -> bool {
        self.filter.as_ref().is_some_and(|filter| filter.needs_row())
    }
}

/// Prefetches the memory that these queries read first. Call it immediately before they are answered.
fn prefetch(collection: &Collection, queries: &[Query]) {
    let Some(first) = queries.first() else { return };
    let hashes: Vec<Hash> = queries.iter().map(|query| query.hash).collect();
    collection.index.prefetch(&hashes, first.k);
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

    /// Whether all hashes within k are searched for at once.
    pub(super) fn is_quick(&mut self, query: &Query) -> bool {
        !query.scan && query.after.is_none() && !query.needs_row() && self.within(query.k) <= QUICK
    }

    /// Estimated cost of a query. The number of rows that a filter reads is unknown, so a query with such a
    /// filter is within no limited budget.
    fn query(&mut self, query: &Query) -> u64 {
        match (query.needs_row(), query.scan) {
            (true, _) => u64::MAX,
            (false, true) => self.collection.index.cost_of_scan(query.k),
            (false, false) => self.within(query.k),
        }
    }

    /// Estimated cost of all these queries.
    fn queries(mut self, queries: &[Query]) -> u64 {
        queries.iter().fold(0, |sum, query| sum.saturating_add(self.query(query)))
    }
}

/// Answers queries in groups, whose memory is prefetched.
fn answer_groups(
    shared: &Shared,
    collection: &Collection,
    queries: &[Query],
    budget: WorkBudget<'_>,
    each: &mut dyn FnMut(Answer),
) -> Result<usize, EngineError> {
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
        for query in group {
            budget.check()?;
            let answer = answer(held.as_ref(), shared, collection, query, (start, budget))?;
            let Some(answer) = answer else { return Ok(at * GROUP) };
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
    Ok(queries.len())
}

/// The bytes of metadata for which the page of this answer reserved no memory.
fn unreserved_bytes(answer: &Answer) -> usize {
    let bytes = answer.matches.iter().map(|near| near.metadata.as_ref().map_or(0, String::len)).sum();
    if bytes > FEW_BYTES { 0 } else { bytes }
}
