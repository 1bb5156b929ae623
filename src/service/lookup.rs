//! Queries: which stored documents are near a hash, a text, a page or another document.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::{StreamExt, TryStreamExt, stream};
use metrics::Counter;

use super::Service;
use super::cursor;
use super::error::ServiceError;
use super::fingerprints::{Content, Located};
use super::second_check::Measure;
use crate::engine::{Answer, Filter, Judge, Match, Query, Work};
use crate::fingerprint::Status;
use crate::ids::{CollectionName, DocumentId, Hash, SignatureShape};

/// Maximum number of matches of the queries in one part of a batch. One thread answers a part and holds all
/// its matches, with up to 16 KiB of metadata each.
const PART_MATCHES: usize = 2_500;
/// Maximum bytes of metadata in the answers to a batch.
const ANSWER_BYTES: usize = 8 << 20;
/// Number of queries that are passed to the engine together when a batch is answered on one thread. That
/// many remain in the processor's cache.
const GROUP_SIZE: usize = 64;
/// Maximum estimated cost, in ns, of the queries that are answered on such a thread.
const MAX_INLINE_NS: u64 = 5_000_000;

/// The subject of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum By {
    /// A text, a page, or a hash.
    Content(Content),
    /// A stored document. It is excluded from the answer.
    Id(DocumentId),
}

/// A query as the client sends it.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The subject.
    pub by: By,
    /// The distance; `None` for the collection's.
    pub k: Option<u32>,
    /// The same as a similarity of signatures, from 0 to 1.
    pub threshold: Option<f64>,
    /// The maximum number of matches.
    pub limit: Option<usize>,
    /// The `next` cursor of the previous page.
    pub cursor: Option<String>,
    /// Which documents may match; `None` for all.
    pub filter: Option<Box<Filter>>,
    /// Answer by linear scan.
    pub scan: bool,
    /// Compare the texts or sketches of the matches, and return only those with at least this similarity, 0
    /// to 1.
    pub min_similarity: Option<f64>,
    /// The measure of this similarity.
    pub measure: Measure,
}

impl Ask {
    /// A query for a hash, with the collection's defaults.
    pub fn of_hash(hash: Hash, k: Option<u32>, limit: Option<usize>) -> Ask {
        Ask {
            by: By::Content(Content::Hash(hash)),
            k,
            threshold: None,
            limit,
            cursor: None,
            filter: None,
            scan: false,
            min_similarity: None,
            measure: Measure::default(),
        }
    }

    /// The hash of the subject, if the subject is a hash.
    fn hash(&self) -> Option<Hash> {
        match self.by {
            By::Content(Content::Hash(hash)) => Some(hash),
            _ => None,
        }
    }

    /// Whether the subject is a hash and the engine alone can answer.
    fn is_plain(&self) -> bool {
        self.hash().is_some() && self.threshold.is_none() && self.min_similarity.is_none()
    }
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Found {
    /// The hash of the subject.
    pub hash: Hash,
    /// Whether the fingerprint is reliable; `None` if it was not made from a text.
    pub status: Option<Status>,
    /// The distance of the query.
    pub k: u32,
    /// The shape of the compared signatures; `None` for hashes.
    pub signatures: Option<SignatureShape>,
    /// The matches in the order of distance, then id.
    pub matches: Vec<Match>,
    /// The cursor of the next page, if there is one.
    pub next: Option<String>,
    /// The cost of the answer.
    pub work: Work,
}

/// Counts answered matches by their distance.
pub(super) struct Distances(Vec<AtomicU64>);

impl Default for Distances {
    fn default() -> Distances {
        Distances((0..=SignatureShape::MAX_CELLS).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Distances {
    fn count(&self, distance: usize, more: u64) {
        if let Some(count) = self.0.get(distance) {
            count.fetch_add(more, Ordering::Relaxed);
        }
    }

    pub(super) fn counts(&self) -> Vec<u64> {
        self.0.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }
}

/// Metrics of the cost of queries. The handles are cached, because a lookup by name costs more than
/// counting.
pub(super) struct Counters {
    by_index: Counter,
    by_scan: Counter,
    probes: Counter,
    candidates: Counter,
}

impl Default for Counters {
    fn default() -> Counters {
        Counters {
            by_index: metrics::counter!("lookalike_queries_total", "method" => "index"),
            by_scan: metrics::counter!("lookalike_queries_total", "method" => "scan"),
            probes: metrics::counter!("lookalike_query_probes_total"),
            candidates: metrics::counter!("lookalike_query_candidates_total"),
        }
    }
}

/// Counts of several queries. Counting each query in shared memory would cause contention between the
/// processors.
#[derive(Default)]
pub(super) struct Tally {
    by_index: u64,
    by_scan: u64,
    probes: u64,
    candidates: u64,
    /// The number of matches at each small distance, which are the most frequent.
    near: [u64; 16],
    /// The distances of the other matches.
    far: Vec<u32>,
}

impl Tally {
    fn add(&mut self, answer: &Answer) {
        let work = &answer.work;
        *if work.scanned { &mut self.by_scan } else { &mut self.by_index } += 1;
        self.probes += work.probes;
        self.candidates += work.candidates;
        for found in &answer.matches {
            match self.near.get_mut(found.distance as usize) {
                Some(count) => *count += 1,
                None => self.far.push(found.distance),
            }
        }
    }

    /// Adds the counts of another tally, except `far`.
    fn join(&mut self, other: &Tally) {
        self.by_index += other.by_index;
        self.by_scan += other.by_scan;
        self.probes += other.probes;
        self.candidates += other.candidates;
        self.near.iter_mut().zip(&other.near).for_each(|(own, more)| *own += more);
    }
}

impl Counters {
    fn count(&self, tally: &Tally) {
        let &Tally { by_index, by_scan, probes, candidates, .. } = tally;
        for (counter, more) in [(&self.by_index, by_index), (&self.by_scan, by_scan)] {
            if more > 0 {
                counter.increment(more);
            }
        }
        self.probes.increment(probes);
        self.candidates.increment(candidates);
    }
}

impl Service {
    /// Adds to the counts of this thread. [`Service::hand_on_counts`] flushes them.
    fn count(&self, tally: &Tally) {
        tally.far.iter().for_each(|&distance| self.distances.count(distance as usize, 1));
        self.tallies.get_or_default().lock().join(tally);
    }

    /// Flushes the counts of all threads. Call it before the metrics are read.
    pub fn hand_on_counts(&self) {
        for tally in &self.tallies {
            let tally = std::mem::take(&mut *tally.lock());
            self.counters.count(&tally);
            for (distance, &more) in tally.near.iter().enumerate().filter(|(_, more)| **more > 0) {
                self.distances.count(distance, more);
            }
        }
    }

    /// Answers a query on a collection.
    ///
    /// # Errors
    /// [`ServiceError`] if it cannot be answered.
    pub async fn similar(&self, collection: &CollectionName, ask: Ask) -> Result<Found, ServiceError> {
        match ask.min_similarity {
            None => self.similar_unchecked(collection, ask).await,
            // Boxed for the same reason as fingerprinting below.
            Some(least) => Box::pin(self.similar_checked(collection, ask, least)).await,
        }
    }

    /// Answers a query for a hash on the caller's thread. Returns `None` if it is another query, or if it
    /// takes more than a few microseconds.
    ///
    /// # Errors
    /// [`ServiceError`] if it cannot be answered.
    pub fn similar_at_once(
        &self,
        collection: &CollectionName,
        ask: &Ask,
    ) -> Result<Option<Found>, ServiceError> {
        if !ask.is_plain() {
            return Ok(None);
        }
        let query = self.query_of_hash(ask)?;
        let Some(answer) = self.engine()?.similar_at_once(collection, &query)? else {
            return Ok(None);
        };
        let mut tally = Tally::default();
        let found = self.found(answer, (query.hash, query.k), None, &mut tally);
        self.count(&tally);
        Ok(Some(found))
    }

    pub(super) async fn similar_unchecked(
        &self,
        collection: &CollectionName,
        ask: Ask,
    ) -> Result<Found, ServiceError> {
        let (query, status) = self.query(collection, ask).await?;
        let requested = (query.hash, query.k);
        let answer = self.engine()?.similar(collection, query).await?;
        Ok(self.counted(answer, requested, status))
    }

    /// The same, with the matches for which `judge` returns a similarity.
    pub(super) async fn similar_judged(
        &self,
        collection: &CollectionName,
        ask: Ask,
        judge: Judge,
    ) -> Result<Found, ServiceError> {
        let (query, status) = self.query(collection, ask).await?;
        let requested = (query.hash, query.k);
        let answer = self.engine()?.similar_judged(collection, query, judge).await?;
        Ok(self.counted(answer, requested, status))
    }

    /// Converts and counts an answer.
    fn counted(&self, answer: Answer, requested: (Hash, Option<u32>), status: Option<Status>) -> Found {
        let mut tally = Tally::default();
        let found = self.found(answer, requested, status, &mut tally);
        self.count(&tally);
        found
    }

    /// Answers queries on one collection, in order.
    ///
    /// # Errors
    /// [`ServiceError`] of the first query that cannot be answered.
    #[tracing::instrument(level = "trace", skip_all)]
    pub async fn similar_batch(
        &self,
        collection: &CollectionName,
        asks: Vec<Ask>,
    ) -> Result<Vec<Found>, ServiceError> {
        if asks.iter().any(|ask| ask.min_similarity.is_some()) {
            let mut found = Vec::with_capacity(asks.len());
            for (at, ask) in asks.into_iter().enumerate() {
                let answered = self.similar(collection, ask).await;
                found.push(answered.map_err(|error| error.of_question(at))?);
            }
            return Ok(found);
        }
        let engine = self.engine()?;
        let queries = self.queries(collection, asks).await?;
        let requested: Vec<_> =
            queries.iter().map(|(query, status)| ((query.hash, query.k), *status)).collect();
        let parts = cut(queries.into_iter().map(|(query, _)| query));
        let answers = stream::iter(parts).map(|queries| engine.similar_batch(collection, queries));
        let mut answers = answers.buffered(self.pool.permits());
        let (mut found, mut bytes, mut tally) = (Vec::with_capacity(requested.len()), 0, Tally::default());
        while let Some(answers) = answers.next().await {
            let before = found.len();
            for answer in answers.map_err(|error| ServiceError::from(error).after(before))? {
                bytes += metadata_bytes(&answer);
                let (requested, status) = requested[found.len()];
                found.push(self.found(answer, requested, status, &mut tally));
            }
            if bytes > ANSWER_BYTES {
                return Err(too_much_metadata());
            }
        }
        self.count(&tally);
        Ok(found)
    }

    /// Answers queries for hashes in order on the caller's thread, which should belong to the CPU pool,
    /// while their estimated cost is low. Returns the queries that remain.
    ///
    /// # Errors
    /// [`ServiceError`] of the first query that cannot be answered.
    pub fn similar_here(
        &self,
        collection: &CollectionName,
        asks: Vec<Ask>,
        mut each: impl FnMut(Found),
    ) -> Result<Vec<Ask>, ServiceError> {
        let engine = self.engine()?;
        let (mut left, mut bytes, mut answered) = (MAX_INLINE_NS, 0, 0);
        while answered < asks.len() {
            let mut queries: Vec<Query> = Vec::with_capacity(GROUP_SIZE);
            let mut matches = 0;
            let requested = asks.iter().enumerate().skip(answered).take(GROUP_SIZE);
            for (at, ask) in requested.take_while(|(_, ask)| ask.is_plain()) {
                let query = self.query_of_hash(ask).map_err(|error| error.of_question(at))?;
                matches += query.limit;
                if matches > PART_MATCHES && !queries.is_empty() {
                    break;
                }
                queries.push(query);
            }
            if queries.is_empty() {
                break;
            }
            let (mut at, mut tally) = (0, Tally::default());
            let taken = engine.similar_here(collection, &queries, left, &mut |answer| {
                bytes += metadata_bytes(&answer);
                each(self.found(answer, (queries[at].hash, queries[at].k), None, &mut tally));
                at += 1;
            });
            let taken = taken.map_err(|error| ServiceError::from(error).after(answered))?;
            self.count(&tally);
            let Some(taken) = taken else { break };
            left -= taken;
            answered += queries.len();
            if bytes > ANSWER_BYTES {
                return Err(too_much_metadata());
            }
        }
        let mut asks = asks;
        Ok(asks.split_off(answered))
    }

    /// The queries for the engine. Texts are fingerprinted on the CPU pool; hashes need no work.
    async fn queries(
        &self,
        collection: &CollectionName,
        asks: Vec<Ask>,
    ) -> Result<Vec<(Query, Option<Status>)>, ServiceError> {
        if asks.iter().all(Ask::is_plain) {
            let query =
                |(at, ask)| Ok((self.query_of_hash(ask).map_err(|error| error.of_question(at))?, None));
            return asks.iter().enumerate().map(query).collect();
        }
        let query = async |(at, ask)| {
            let query = self.query(collection, ask).await;
            query.map_err(|error: ServiceError| error.of_question(at))
        };
        let asks = stream::iter(asks.into_iter().enumerate()).map(query);
        asks.buffered(self.pool.permits()).try_collect().await
    }

    /// The query for the engine, for a plain query.
    fn query_of_hash(&self, ask: &Ask) -> Result<Query, ServiceError> {
        self.check(ask)?;
        let hash = ask.hash().unwrap_or(Hash::from_u64(0));
        self.query_about(Located { hash, signature: None, status: None }, ask)
    }

    fn found(
        &self,
        answer: Answer,
        (hash, k): (Hash, Option<u32>),
        status: Option<Status>,
        tally: &mut Tally,
    ) -> Found {
        tally.add(&answer);
        if answer.work.elapsed >= self.limits.slow_query {
            let Work { scanned, probes, candidates, verified, elapsed, .. } = answer.work;
            let elapsed_ms = elapsed.as_secs_f64() * 1e3;
            let k = answer.k;
            tracing::warn!(%hash, k, scanned, probes, candidates, verified, elapsed_ms, "a slow query");
        }
        let next = answer.next.map(|position| cursor::write(&position, hash, k));
        Found {
            hash,
            status,
            k: answer.k,
            signatures: answer.signatures,
            matches: answer.matches,
            next,
            work: answer.work,
        }
    }

    async fn query(
        &self,
        collection: &CollectionName,
        ask: Ask,
    ) -> Result<(Query, Option<Status>), ServiceError> {
        self.check(&ask)?;
        let mut ask = ask;
        if let Some(threshold) = ask.threshold.take() {
            let settings = self.engine()?.settings(collection).await?;
            ask.k = Some(settings.reach(ask.k, Some(threshold))?);
        }
        let (located, itself) = match &ask.by {
            By::Content(Content::Hash(hash)) => {
                (Located { hash: *hash, signature: None, status: None }, None)
            }
            By::Id(id) => {
                let row = self.document(collection, id).await?.row;
                let is_signed = self.engine()?.settings(collection).await?.signatures.is_some();
                let signature = row.sketch.filter(|_| is_signed).map(Arc::from);
                (Located { hash: row.hash, signature, status: None }, Some(id.clone()))
            }
            // Boxed: otherwise the state of fingerprinting would enlarge this future, and be moved, for
            // every query.
            By::Content(content) => (Box::pin(self.located_in(collection, content.clone())).await?, None),
        };
        let status = located.status;
        let mut query = self.query_about(located, &ask)?;
        if let Some(itself) = itself {
            query.filter.get_or_insert_default().exclude.insert(itself);
        }
        Ok((query, status))
    }

    /// Rejects a query that exceeds the limits, before any work is done.
    fn check(&self, ask: &Ask) -> Result<(), ServiceError> {
        let limit = ask.limit.unwrap_or(self.limits.default_matches);
        if limit == 0 || limit > self.limits.matches {
            let detail = format!(
                "limit is {limit}; it ranges from 1 to {}, and a cursor returns the next page",
                self.limits.matches
            );
            return Err(ServiceError::invalid("limit", detail));
        }
        let excluded = ask.filter.as_ref().map_or(0, |filter| filter.exclude.len());
        let most = self.limits.batch_items;
        if excluded > most {
            let detail = format!("{excluded} ids are excluded; at most {most} can be (limits.batch_items)");
            return Err(ServiceError::invalid("filter/exclude", detail));
        }
        Ok(())
    }

    /// The query for the engine, after the checks and once the hash is known.
    fn query_about(&self, located: Located, ask: &Ask) -> Result<Query, ServiceError> {
        let Located { hash, signature, .. } = located;
        let limit = ask.limit.unwrap_or(self.limits.default_matches);
        let after = ask.cursor.as_deref().map(|cursor| cursor::read(cursor, hash, ask.k)).transpose()?;
        Ok(Query { hash, signature, k: ask.k, limit, after, filter: ask.filter.clone(), scan: ask.scan })
    }

    async fn located_in(
        &self,
        collection: &CollectionName,
        content: Content,
    ) -> Result<Located, ServiceError> {
        let profile = self.profile_of(collection).await?;
        self.locate(profile, content).await
    }
}

/// The bytes of metadata in an answer.
fn metadata_bytes(answer: &Answer) -> usize {
    answer.matches.iter().map(|found| found.metadata.as_ref().map_or(0, String::len)).sum()
}

fn too_much_metadata() -> ServiceError {
    let detail = format!(
        "the metadata of all matches has more than {ANSWER_BYTES} bytes; send fewer queries at a time, or \
         request fewer matches (limit)"
    );
    ServiceError::invalid("queries", detail)
}

/// Splits queries into parts of at most [`PART_MATCHES`] matches.
fn cut(queries: impl Iterator<Item = Query>) -> Vec<Vec<Query>> {
    let (mut parts, mut part, mut matches) = (Vec::new(), Vec::new(), 0);
    for query in queries {
        if matches + query.limit > PART_MATCHES && !part.is_empty() {
            parts.push(std::mem::take(&mut part));
            matches = 0;
        }
        matches += query.limit;
        part.push(query);
    }
    parts.push(part);
    parts
}
