//! Lookups: which stored documents are near a hash, a text, a page or another document.
//!
//! A lookup is resolved once (`ask`) and answered once: on the caller's thread if that is cheaper than
//! handing it to another, otherwise by the CPU pool.

use std::ops::Range;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};

use super::Service;
use super::ask::{Ask, By, Resolved};
use super::counts::Tally;
use super::cursor;
use super::error::ServiceError;
use super::fingerprints::Content;
use super::passages::Passages;
use lookalike_engine::{Answer, Collection, Engine, EngineError, Match, Query, Work, WorkBudget};
use lookalike_hash::{CollectionName, Hash, SignatureShape};
use lookalike_run::pool::{Cancel, Patience};
use lookalike_text::fingerprint::Fingerprint;
use lookalike_wording::milliseconds;

/// Maximum number of matches of the queries in one part of a batch. One thread answers a part and holds all
/// its matches, with up to 16 KiB of metadata each.
const PART_MATCHES: usize = 2_500;
/// Maximum bytes of metadata in the answers to a batch.
const ANSWER_BYTES: usize = 8 << 20;
/// Number of queries that are resolved and answered together on one thread. That many stay in the
/// processor's cache.
const GROUP_SIZE: usize = 64;

/// An answer.
#[derive(Clone, Debug)]
pub struct Found {
    /// The hash of the subject.
    pub hash: Hash,
    /// The fingerprint of the subject, if it was made from a text.
    pub made: Option<Fingerprint>,
    /// The distance of the query.
    pub k: u32,
    /// The shape of the compared signatures; `None` for hashes.
    pub signatures: Option<SignatureShape>,
    /// The signature that the hash identifies, if signatures were compared.
    pub signature: Option<Arc<[u8]>>,
    /// The matches in the order of distance, then id.
    pub matches: Vec<Match>,
    /// The documents that share passages with the text, if the collection keeps passages.
    pub passages: Option<Box<Passages>>,
    /// The cursor of the next page, if there is one.
    pub next: Option<String>,
    /// The number of matches that were left out because of marks.
    pub marked: u64,
    /// The cost of the answer.
    pub work: Work,
}

/// The lookup of one query that was begun.
#[derive(Debug)]
pub enum Lookup {
    /// It is answered.
    Found(Found),
    /// [`Service::finish_one`] answers it.
    Pending(Pending),
}

/// A lookup that the CPU pool must answer.
#[derive(Debug)]
pub struct Pending {
    collection: Arc<Collection>,
    /// The next queries, which are resolved.
    queries: Vec<Query>,
    /// The queries after them.
    asks: Vec<Ask>,
    /// The bytes of metadata in the earlier answers.
    bytes: usize,
}

impl Service {
    /// Begins to answer queries on one collection, in order. Queries for hashes are answered on the caller's
    /// thread while the budget lasts, and `each` receives the answers, or the error of a query that cannot be
    /// answered. Returns the remaining work, if there is any.
    ///
    /// # Errors
    /// [`ServiceError`] if no query can be answered.
    pub fn begin(
        &self,
        collection: &CollectionName,
        mut asks: Vec<Ask>,
        mut budget: WorkBudget<'_>,
        mut each: impl FnMut(Result<Found, ServiceError>),
    ) -> Result<Option<Pending>, ServiceError> {
        let engine = self.engine()?;
        let collection = engine.find(collection)?;
        let mut queries = Vec::with_capacity(GROUP_SIZE);
        let (mut answered, mut bytes, mut tally) = (0, 0, Tally::default());
        while answered < asks.len() {
            let mut failed = None;
            for ask in asks.iter().skip(answered).take(GROUP_SIZE) {
                match alone(self.resolve_hash(&collection, ask))? {
                    Ok(Some(query)) => queries.push(query),
                    Ok(None) => break,
                    Err(error) => {
                        failed = Some(error);
                        break;
                    }
                }
            }
            let mut at = 0;
            let count = engine.answer(&collection, &queries, &mut budget, &mut |answer| {
                each(within(self.found(&collection, &queries[at], None, answer, &mut tally), &mut bytes));
                at += 1;
            })?;
            answered += count;
            queries.drain(..count);
            match failed.filter(|_| queries.is_empty()) {
                Some(error) => {
                    each(Err(error));
                    answered += 1;
                }
                None if count == 0 || !queries.is_empty() => break,
                None => {}
            }
        }
        self.count(&collection, &tally);
        let asks = asks.split_off(answered + queries.len());
        let is_answered = queries.is_empty() && asks.is_empty();
        Ok((!is_answered).then_some(Pending { collection, queries, asks, bytes }))
    }

    /// Begins to answer one query.
    ///
    /// # Errors
    /// [`ServiceError`] if it cannot be answered.
    pub fn begin_one(&self, collection: &CollectionName, ask: Ask) -> Result<Lookup, ServiceError> {
        let engine = self.engine()?;
        let collection = engine.find(collection)?;
        let pending =
            |collection, queries, asks| Lookup::Pending(Pending { collection, queries, asks, bytes: 0 });
        let Some(query) = self.resolve_hash(&collection, &ask)? else {
            return Ok(pending(collection, Vec::new(), vec![ask]));
        };
        let (mut budget, mut found) = (WorkBudget::INLINE, None);
        engine.answer(&collection, std::slice::from_ref(&query), &mut budget, &mut |answer| {
            found = Some(self.counted(&collection, &query, None, answer));
        })?;
        Ok(found.map_or_else(|| pending(collection, vec![query], Vec::new()), Lookup::Found))
    }

    /// Answers the remaining queries of a lookup that was begun, in order. A query that cannot be answered
    /// has an error of its own.
    ///
    /// # Errors
    /// [`ServiceError`] if no query can be answered.
    #[tracing::instrument(level = "trace", skip_all)]
    pub async fn finish(&self, pending: Pending) -> Result<Vec<Result<Found, ServiceError>>, ServiceError> {
        let Pending { collection, queries, mut asks, mut bytes } = pending;
        let mut resolved: Vec<Result<Resolved, ServiceError>> =
            queries.into_iter().map(|query| Ok((query, None))).collect();
        // Most batches have only hashes, which need no futures.
        let plain = asks.iter().map(|ask| self.resolve_hash(&collection, ask).transpose());
        if let Some(plain) = plain.collect::<Option<Vec<Result<Query, ServiceError>>>>() {
            asks.clear();
            for query in plain {
                resolved.push(alone(query)?.map(|query| (query, None)));
            }
        } else if !collection.keeps_grams() && asks.iter().all(Ask::is_for_engine) {
            let resolve = async |ask: Ask| alone(self.resolve(&collection, &ask).await);
            let asks = stream::iter(std::mem::take(&mut asks)).map(resolve);
            let rest: Vec<Result<Resolved, ServiceError>> =
                asks.buffered(self.pool.permits()).try_collect().await?;
            resolved.extend(rest);
        }
        let mut found = self.answer_resolved(&collection, resolved, &mut bytes).await?;
        for ask in asks {
            let answer = alone(self.answer_checked(&collection, ask).await)?;
            found.push(answer.and_then(|answer| within(answer, &mut bytes)));
        }
        Ok(found)
    }

    /// Answers queries on the CPU pool, in order. Adds their metadata to `bytes`.
    async fn answer_resolved(
        &self,
        collection: &Arc<Collection>,
        resolved: Vec<Result<Resolved, ServiceError>>,
        bytes: &mut usize,
    ) -> Result<Vec<Result<Found, ServiceError>>, ServiceError> {
        let (mut queries, mut fingerprints) = (Vec::with_capacity(resolved.len()), Vec::new());
        let mut errors = Vec::with_capacity(resolved.len());
        for one in resolved {
            errors.push(one.map(|(query, fingerprint)| {
                queries.push(query);
                fingerprints.push(fingerprint);
            }));
        }
        let queries: Arc<[Query]> = queries.into();
        let answers = |part| self.answers_of_pool(collection, &queries, part);
        let parts = stream::iter(parts(&queries)).map(answers);
        let mut parts = parts.buffered(self.pool.permits());
        let (mut found, mut tally) = (Vec::with_capacity(queries.len()), Tally::default());
        while let Some(answers) = parts.next().await {
            for answer in answers? {
                let at = found.len();
                let one = self.found(collection, &queries[at], fingerprints[at], answer, &mut tally);
                found.push(within(one, bytes));
            }
        }
        self.count(collection, &tally);
        let mut found = found.into_iter();
        let mut answered = || found.next().unwrap_or(Err(ServiceError::Engine(EngineError::Closed)));
        Ok(errors.into_iter().map(|error| error.and_then(|()| answered())).collect())
    }

    /// Answers one query that was begun.
    ///
    /// # Errors
    /// [`ServiceError`] if it cannot be answered.
    pub async fn finish_one(&self, pending: Pending) -> Result<Found, ServiceError> {
        let found = self.finish(pending).await?.into_iter().next();
        found.unwrap_or(Err(ServiceError::Engine(EngineError::Closed)))
    }

    /// Answers one query.
    ///
    /// # Errors
    /// [`ServiceError`] if it cannot be answered.
    pub async fn similar(&self, collection: &CollectionName, ask: Ask) -> Result<Found, ServiceError> {
        match self.begin_one(collection, ask)? {
            Lookup::Found(found) => Ok(found),
            Lookup::Pending(pending) => self.finish_one(pending).await,
        }
    }

    /// Answers a query of several steps: with a minimum similarity, or with passages.
    async fn answer_checked(
        &self,
        collection: &Arc<Collection>,
        mut ask: Ask,
    ) -> Result<Found, ServiceError> {
        let By::Content(page @ Content::Html(..)) = ask.by else {
            return self.answer_of_text(collection, ask).await;
        };
        ask.by = By::Content(self.text_of_page(page).await?);
        self.answer_of_text(collection, ask).await.map_err(|error| match error {
            ServiceError::EmptyText { .. } => ServiceError::EmptyText { field: "html" },
            other => other,
        })
    }

    /// [`Service::answer_checked`] for a query that is not for a page.
    async fn answer_of_text(&self, collection: &Arc<Collection>, ask: Ask) -> Result<Found, ServiceError> {
        if ask.dihedral {
            return Box::pin(self.similar_turned(collection, ask)).await;
        }
        // Boxed for the same reason as fingerprinting in `resolve`.
        let mut found = if let Some(least) = ask.min_similarity {
            Box::pin(self.similar_checked(collection, ask.clone(), least)).await?
        } else {
            let (query, made) = self.resolve(collection, &ask).await?;
            let answer = self.answer(collection, query.clone()).await?;
            self.counted(collection, &query, made, answer)
        };
        Box::pin(self.add_passages(collection, &ask, &mut found)).await?;
        Ok(found)
    }

    /// Answers a query on the caller's thread if that is cheaper, otherwise on the CPU pool.
    pub(super) async fn answer(
        &self,
        collection: &Arc<Collection>,
        query: Query,
    ) -> Result<Answer, ServiceError> {
        let query = [query];
        let mut answers = match answered(self.engine()?, collection, &query, WorkBudget::INLINE)? {
            Some(answers) => answers,
            None => self.answers_of_pool(collection, &query.into(), 0..1).await?,
        };
        answers.pop().ok_or(ServiceError::Engine(EngineError::Closed))
    }

    /// Answers some of these queries on the CPU pool.
    async fn answers_of_pool(
        &self,
        collection: &Arc<Collection>,
        queries: &Arc<[Query]>,
        part: Range<usize>,
    ) -> Result<Vec<Answer>, ServiceError> {
        let engine = self.engine()?;
        let (engine, collection, queries) = (Arc::clone(engine), Arc::clone(collection), Arc::clone(queries));
        let answer = move |cancel: &Cancel| {
            answered(&engine, &collection, &queries[part], WorkBudget::unlimited(cancel))
        };
        let answers = self.pool.run(Patience::Interactive, answer).await??;
        Ok(answers.unwrap_or_default())
    }

    /// Converts and counts an answer.
    pub(super) fn counted(
        &self,
        collection: &Collection,
        query: &Query,
        made: Option<Fingerprint>,
        answer: Answer,
    ) -> Found {
        let mut tally = Tally::default();
        let found = self.found(collection, query, made, answer, &mut tally);
        self.count(collection, &tally);
        found
    }

    fn found(
        &self,
        collection: &Collection,
        query: &Query,
        made: Option<Fingerprint>,
        answer: Answer,
        tally: &mut Tally,
    ) -> Found {
        tally.add(&answer);
        let &Query { hash, k, .. } = query;
        if answer.work.elapsed >= self.limits.slow_query {
            let Work { scanned, probes, candidates, verified, elapsed, .. } = answer.work;
            let elapsed_ms = milliseconds(elapsed);
            tracing::warn!(%hash, k, scanned, probes, candidates, verified, elapsed_ms, "a slow query");
        }
        Found {
            hash,
            made,
            k,
            signatures: collection.signatures(),
            signature: query.signature.clone(),
            matches: answer.matches,
            passages: None,
            next: answer.next.map(|position| cursor::write(&position, hash, k)),
            marked: answer.marked,
            work: answer.work,
        }
    }
}

/// Separates an error of the query itself from one of the whole request.
fn alone<T>(result: Result<T, ServiceError>) -> Result<Result<T, ServiceError>, ServiceError> {
    match result {
        Err(error) if !error.is_of_query() => Err(error),
        other => Ok(other),
    }
}

/// The answers to queries within a budget; `None` if it is too small.
fn answered(
    engine: &Engine,
    collection: &Collection,
    queries: &[Query],
    mut budget: WorkBudget<'_>,
) -> Result<Option<Vec<Answer>>, EngineError> {
    let mut answers = Vec::with_capacity(queries.len());
    let count = engine.answer(collection, queries, &mut budget, &mut |answer| answers.push(answer))?;
    Ok((count == queries.len()).then_some(answers))
}

fn metadata_bytes(matches: &[Match]) -> usize {
    matches.iter().map(|found| found.metadata.as_ref().map_or(0, String::len)).sum()
}

/// Adds the metadata of an answer to that of the earlier ones; an error if that is too much.
fn within(found: Found, bytes: &mut usize) -> Result<Found, ServiceError> {
    let passages = found.passages.as_ref().map_or(&[][..], |passages| &passages.documents);
    let more = metadata_bytes(&found.matches) + metadata_bytes(passages);
    if *bytes + more <= ANSWER_BYTES {
        *bytes += more;
        return Ok(found);
    }
    let detail = format!(
        "the metadata of all matches has more than {ANSWER_BYTES} bytes; send fewer queries at a time, or \
         request fewer matches (limit)"
    );
    Err(ServiceError::invalid("limit", detail))
}

/// Splits queries into parts of at most [`PART_MATCHES`] matches, or of one query.
fn parts(queries: &[Query]) -> Vec<Range<usize>> {
    let (mut parts, mut start, mut matches) = (Vec::new(), 0, 0);
    for (at, query) in queries.iter().enumerate() {
        if matches + query.limit > PART_MATCHES && at > start {
            parts.push(start..at);
            (start, matches) = (at, 0);
        }
        matches += query.limit;
    }
    if start < queries.len() {
        parts.push(start..queries.len());
    }
    parts
}
