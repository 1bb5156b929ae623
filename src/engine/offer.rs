//! Writes in a cluster with partitions.
//!
//! All partitions are asked for near-duplicates before an entry is appended, and again if the entry is
//! refused because others may have been stored meanwhile (`replica/window`). What this server does not hold
//! is stored by those that do; one of them tells the outcome.
//!
//! *Guarantees*
//! - Of near-duplicates that servers are offered at the same time, one is stored, whatever their partitions.
//! - A write is acknowledged when its effect is durable on a server that holds the document.
//! - A document is reported as a duplicate of others only if they existed after the write was begun.
//!
//! *Absent*: the replacement of near-duplicates, which needs clusters of documents.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::condition::is_same;
use super::everywhere::{Everywhere, unexpected};
use super::intake::{self, WriteQueue};
use super::near_duplicates::DUPLICATES_NAMED;
use super::partitions::{PartAsk, PartFound};
use super::registry::Collection;
use super::replica::ENTRY_BYTES;
use super::writer::{Command, Outcomes};
use super::{
    Admission, Condition, Document, DuplicateRule, EngineError, Filter, Match, Operation, Outcome, Query,
    Receipt, Row, Version,
};
use crate::ids::{DocumentId, Hash};
use crate::log::{Log, Position};
use crate::pool::Patience;

/// How often a write is offered without any progress.
const ATTEMPTS: usize = 32;
/// The queries of one question to other servers, and the bytes of metadata of all matches that are kept:
/// thousands of duplicates may have much more.
const QUERIES: usize = 64;
const METADATA_BYTES: usize = 16 << 20;

/// A collection to which operations are offered.
#[derive(Clone)]
pub(super) struct Offering {
    pub(super) everywhere: Everywhere,
    pub(super) log: Arc<dyn Log>,
    pub(super) queue: WriteQueue,
    pub(super) commands: mpsc::UnboundedSender<Command>,
    pub(super) collection: Arc<Collection>,
    pub(super) admission: Admission,
}

/// An operation, and its place among those of the caller.
type Numbered = (usize, Operation);

/// A queued operation.
struct Queued {
    /// Its place among those of the caller.
    number: usize,
    partition: u32,
    /// A copy, if it may have to be offered again.
    again: Option<Operation>,
}

/// An operation of an entry whose outcome another server knows.
struct Remote {
    entry: u64,
    operation: u32,
    partition: u32,
    number: usize,
}

/// Operations that were queued.
struct Round {
    /// What is known already.
    known: Vec<(usize, Outcome)>,
    queued: Vec<Queued>,
    answers: Vec<oneshot::Receiver<Outcomes>>,
    /// Those whose outcome depends on that of others.
    later: Vec<Numbered>,
}

/// The operations of a round that come before another one.
#[derive(Default)]
struct Before {
    ids: HashSet<DocumentId>,
    /// The ids of operations that may be offered again, after the others.
    open: HashSet<DocumentId>,
    /// The hashes that the queued ones store.
    stored: Vec<(DocumentId, Hash)>,
}

impl Before {
    /// Whether the outcome of an operation depends on these: they change its document or one that it was
    /// found near to, or store one near to it.
    fn decides(&self, id: &DocumentId, query: Option<&Query>, matches: &[Match]) -> bool {
        let is_near = |query: &Query| {
            let near = |hash: &Hash| query.hash.distance(*hash).is_some_and(|distance| distance <= query.k);
            self.stored.iter().any(|(other, hash)| other != id && near(hash))
        };
        self.open.contains(id)
            || matches.iter().any(|found| self.ids.contains(&found.id))
            || query.is_some_and(is_near)
    }

    fn add_later(&mut self, id: &DocumentId) {
        self.ids.insert(id.clone());
        self.open.insert(id.clone());
    }

    fn add_queued(&mut self, operation: &Operation) {
        let id = id_of(operation);
        self.ids.insert(id.clone());
        if let Operation::Put { document, unless, .. } = operation {
            self.stored.push((id.clone(), document.row.hash));
            if unless.is_some() {
                self.open.insert(id.clone());
            }
        }
    }
}

impl Offering {
    /// Queues operations. The receipt has their outcomes.
    pub(super) async fn offer(self, operations: Vec<Operation>) -> Result<Receipt, EngineError> {
        let mut outcomes: Vec<Option<Outcome>> = vec![None; operations.len()];
        let mut round = self.begin(operations.into_iter().enumerate().collect(), 0).await?;
        Ok(Box::pin(async move {
            let mut attempts = 0;
            loop {
                let left = outcomes.iter().filter(|outcome| outcome.is_none()).count();
                let (again, at_least) = self.finish(round, &mut outcomes).await.map_err(begun(&outcomes))?;
                if again.is_empty() {
                    return Ok(outcomes.into_iter().map(|done| done.unwrap_or(Outcome::Absent)).collect());
                }
                attempts = if again.len() < left { 0 } else { attempts + 1 };
                if attempts > ATTEMPTS {
                    let what = "the log with near-duplicates that other servers store at the same time";
                    return Err(begun(&outcomes)(EngineError::Busy(what)));
                }
                round = self.begin(again, at_least).await.map_err(begun(&outcomes))?;
            }
        }))
    }

    /// Compares the operations with all partitions, which have applied the log up to a position, and queues
    /// those that are no duplicates.
    async fn begin(&self, operations: Vec<Numbered>, at_least: u64) -> Result<Round, EngineError> {
        let partitions = &self.everywhere.partitions;
        let wanted: BTreeSet<u32> = operations.iter().map(|(_, one)| partitions.of(id_of(one))).collect();
        let wanted: BTreeSet<u32> = wanted.difference(partitions.held()).copied().collect();
        if !wanted.is_empty() {
            self.everywhere.elsewhere.check(wanted).await?;
        }
        let asked = operations.iter().filter_map(|(_, operation)| query_of(operation));
        let (mut near, seen) = self.near(asked.collect(), at_least).await?;
        let (mut known, mut queued, mut later) = (Vec::new(), Vec::new(), Vec::new());
        let (mut work, mut before) = (Vec::with_capacity(operations.len()), Before::default());
        let mut near = near.drain(..);
        for (number, mut operation) in operations {
            let (query, mut again) = (query_of(&operation), None);
            let matches = query.as_ref().and_then(|_| near.next()).unwrap_or_default();
            if before.decides(id_of(&operation), query.as_ref(), &matches) {
                before.add_later(id_of(&operation));
                later.push((number, operation));
                continue;
            }
            if query.is_some() {
                if !matches.is_empty() {
                    let refused = self.refused(&operation).await?;
                    known.push((number, refused.unwrap_or(Outcome::Duplicate(matches))));
                    continue;
                }
                if let Operation::Put { unless: Some(rule), .. } = &mut operation {
                    rule.seen = Some(seen);
                }
                again = Some(operation.clone());
            }
            before.add_queued(&operation);
            queued.push(Queued { number, partition: partitions.of(id_of(&operation)), again });
            work.push((operation, None));
        }
        let to = (self.queue.clone(), self.commands.clone());
        let answers = intake::queue(to, &self.collection, work, (self.admission, ENTRY_BYTES)).await?;
        Ok(Round { known, queued, answers, later })
    }

    /// The outcome of a write whose condition does not hold.
    async fn refused(&self, operation: &Operation) -> Result<Option<Outcome>, EngineError> {
        let Operation::Put { document: Document { id, row }, condition, .. } = operation else {
            return Ok(None);
        };
        if *condition == Condition::None {
            return Ok(None);
        }
        let stored = self.everywhere.get(&self.collection, id).await?;
        let of = |row: &Row| Version::of_document(row.place, row.written_ms, row.hash);
        if let (Condition::Repeats, Some(Document { row: stored, .. })) = (condition, stored.as_ref()) {
            let (version, expires_ms) = (of(stored), stored.expires_ms);
            let (made, metadata) = ((stored.hash, stored.characters), stored.metadata.as_deref());
            let is_same = is_same(row, made, metadata, stored.text.as_deref());
            let refused = || Outcome::Refused(Some(version));
            return Ok(Some(if is_same { Outcome::Repeated(version, expires_ms) } else { refused() }));
        }
        let version = stored.map(|Document { row, .. }| of(&row));
        Ok((!condition.holds(version)).then_some(Outcome::Refused(version)))
    }

    /// The near-duplicates of documents in all partitions. Those that are found have existed after this
    /// call; there are no others up to the returned position. The last ones have no metadata if that of the
    /// others takes much memory.
    async fn near(&self, queries: Vec<Query>, at_least: u64) -> Result<(Vec<Vec<Match>>, u64), EngineError> {
        let (mut near, mut seen, mut bytes) = (Vec::with_capacity(queries.len()), u64::MAX, 0);
        for part in queries.chunks(QUERIES) {
            let (matches, up_to) = self.near_some(part, at_least).await?;
            seen = seen.min(up_to);
            for mut matches in matches {
                for found in &mut matches {
                    bytes += found.metadata.as_ref().map_or(0, String::len);
                    found.metadata.take_if(|_| bytes > METADATA_BYTES);
                }
                near.push(matches);
            }
        }
        Ok((near, seen))
    }

    async fn near_some(
        &self,
        queries: &[Query],
        at_least: u64,
    ) -> Result<(Vec<Vec<Match>>, u64), EngineError> {
        let patience = match self.admission {
            Admission::Shed => Patience::Interactive,
            Admission::Wait => Patience::Bulk,
        };
        let queries: Arc<[Query]> = queries.into();
        let (mut answers, mut seen) =
            self.everywhere.near(patience, &self.collection, &queries, at_least).await?;
        let found: Vec<usize> = (0..answers.len()).filter(|at| !answers[*at].matches.is_empty()).collect();
        if !found.is_empty() {
            // A server that is behind may have documents that are deleted already.
            let Position(end) = self.log.end().await?;
            if seen < end {
                let again: Arc<[Query]> = found.iter().map(|at| queries[*at].clone()).collect();
                let (later, to) = self.everywhere.near(patience, &self.collection, &again, end).await?;
                seen = seen.min(to);
                found.into_iter().zip(later).for_each(|(at, answer)| answers[at] = answer);
            }
        }
        Ok((answers.into_iter().map(|answer| answer.matches).collect(), seen))
    }

    /// Waits for the outcomes of a round. Returns what must be offered again, and up to which position others
    /// must have applied the log before.
    async fn finish(
        &self,
        round: Round,
        outcomes: &mut [Option<Outcome>],
    ) -> Result<(Vec<Numbered>, u64), EngineError> {
        let Round { known, queued, answers, later: mut again } = round;
        known.into_iter().for_each(|(number, outcome)| outcomes[number] = Some(outcome));
        let (mut at_least, mut elsewhere) = (0, Vec::new());
        let done = intake::outcomes(answers, &self.everywhere.shared).await?;
        for (Queued { number, partition, again: copy }, outcome) in queued.into_iter().zip(done) {
            match (outcome, copy) {
                (Outcome::Retry { entry }, Some(operation)) => {
                    at_least = at_least.max(entry);
                    again.push((number, operation));
                }
                (Outcome::Elsewhere { entry, operation }, _) => {
                    elsewhere.push(Remote { entry, operation, partition, number });
                }
                (outcome, _) => outcomes[number] = Some(outcome),
            }
        }
        let told = elsewhere.chunk_by(|one, other| one.entry == other.entry);
        let told = futures::future::try_join_all(told.map(|of_entry| self.fetch(of_entry))).await?;
        told.into_iter().flatten().for_each(|(number, outcome)| outcomes[number] = Some(outcome));
        again.sort_by_key(|(number, _)| *number);
        // Those that were left for later must see the others.
        let (applied, _) = *self.everywhere.shared.position.borrow();
        Ok((again, at_least.max(applied)))
    }

    /// Asks the holders of operations of one entry for their outcomes.
    async fn fetch(&self, operations: &[Remote]) -> Result<Vec<(usize, Outcome)>, EngineError> {
        let entry = operations.first().map_or(0, |one| one.entry);
        let asked = operations.iter().map(|one| (one.operation, one.partition)).collect();
        let of = operations.iter().map(|one| one.partition).collect();
        let answers = self.everywhere.elsewhere.ask(PartAsk::Outcomes(entry, asked), of, entry).await;
        let unknown =
            |error| EngineError::Unknown(format!("it is in the log, and nobody knows its outcome: {error}"));
        let mut told = HashMap::new();
        for answer in answers.map_err(unknown)? {
            let PartFound::Outcomes(outcomes) = answer.found else { return Err(unexpected()) };
            told.extend(outcomes);
        }
        let outcome = |one: &Remote| Some((one.number, told.remove(&one.operation)?));
        operations.iter().map(outcome).collect::<Option<Vec<_>>>().ok_or_else(unexpected)
    }
}

/// The error after a part of the operations may have been carried out.
fn begun(outcomes: &[Option<Outcome>]) -> impl Fn(EngineError) -> EngineError {
    let is_begun = outcomes.iter().any(Option::is_some);
    move |error| match error {
        EngineError::Unknown(_) => error,
        error if is_begun => EngineError::Unknown(format!("a part of it is, then: {error}")),
        error => error,
    }
}

fn id_of(operation: &Operation) -> &DocumentId {
    match operation {
        Operation::Put { document, .. } => &document.id,
        Operation::Delete { id, .. } => id,
    }
}

/// The query for the near-duplicates of a document, if it has a duplicate rule.
fn query_of(operation: &Operation) -> Option<Query> {
    let Operation::Put { document: Document { id, row }, unless: Some(DuplicateRule { k, .. }), .. } =
        operation
    else {
        return None;
    };
    Some(Query {
        hash: row.hash,
        signature: None,
        k: *k,
        limit: DUPLICATES_NAMED,
        after: None,
        filter: Some(Box::new(Filter::without(id.clone()))),
        scan: false,
        document: None,
    })
}
