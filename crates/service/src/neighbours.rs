//! The neighbours of added documents.
//!
//! Storing a document and searching for its neighbours are two calls. The first returns when the document is
//! durable, and a failure of the second must not be reported as a failure of the first.

use std::sync::Arc;

use super::Service;
use super::documents::Added;
use super::error::ServiceError;
use super::passages::containing;
use lookalike_engine::{Answer, Engine, Filter, Match, Outcome, Query, WorkBudget};
use lookalike_hash::DocumentId;
use lookalike_run::pool::{Cancel, Patience, Turns};
use lookalike_text::fingerprint::Containment;

/// The number of neighbours whose rows are read on the thread of the request.
const COMPLETED_AT_ONCE: usize = 16;

/// The neighbours of an added document.
#[derive(Clone, Debug)]
pub struct Neighbours {
    /// The documents within k, nearest first.
    pub matches: Vec<Match>,
    /// The number of those that were left out because of marks.
    pub marked: u64,
    /// The document that contains most of a text that was stored, of those beyond k that contain
    /// [`Containment::PART`] of it, in a collection that keeps passages; and the share that it contains.
    pub contained_in: Option<(DocumentId, f64)>,
}

impl Service {
    /// The stored documents within the collection's k of an added document, at most `limit`, nearest first;
    /// the document itself is excluded. For a duplicate, which was not stored: the documents that it
    /// duplicates, and for one that replaced others, these.
    ///
    /// # Errors
    /// [`ServiceError`] if they could not be looked up, for example because the CPU pool is full. The
    /// document is stored nevertheless.
    #[tracing::instrument(level = "trace", skip_all)]
    pub async fn neighbours(&self, added: &Added, limit: usize) -> Result<Neighbours, ServiceError> {
        if let Some(named) = self.named(added, limit)? {
            return Ok(named);
        }
        let query = query_of(added, limit)?;
        let answer = self.answer(&added.written_to, query).await?;
        let engine = self.engine()?;
        let is_quick = !added.written_to.keeps_grams() && answer.matches.len() <= COMPLETED_AT_ONCE;
        if is_quick || !has_more(added, &answer) {
            return completed(engine, added, answer, &Cancel::default());
        }
        let (engine, added) = (Arc::clone(engine), added.clone());
        let complete = move |cancel: &Cancel| completed(&engine, &added, answer, cancel);
        self.pool.run(Patience::Interactive, complete).await?
    }

    /// The neighbours of several added documents, in their order. They are looked up on the CPU pool.
    ///
    /// # Errors
    /// [`ServiceError`] if none could be looked up.
    pub async fn neighbours_of_all(
        self: &Arc<Self>,
        added: Vec<Added>,
        limit: usize,
    ) -> Result<Vec<Result<Neighbours, ServiceError>>, ServiceError> {
        let service = Arc::clone(self);
        let look = move |cancel: &Cancel| {
            let mut turns = Turns::new(Patience::Bulk);
            let one = |added: &Added| {
                turns.pause();
                cancel.check()?;
                if let Some(named) = service.named(added, limit)? {
                    return Ok(named);
                }
                let query = query_of(added, limit)?;
                let (mut budget, mut found) = (WorkBudget::unlimited(cancel), Answer::default());
                let engine = service.engine()?;
                engine.answer(&added.written_to, &[query], &mut budget, &mut |answer| found = answer)?;
                completed(engine, added, found, cancel)
            };
            added.iter().map(one).collect()
        };
        Ok(self.pool.run(Patience::Bulk, look).await?)
    }

    /// The documents that the writer named for a duplicate or a replacement, with their metadata, and what
    /// the text is to them.
    fn named(&self, added: &Added, limit: usize) -> Result<Option<Neighbours>, ServiceError> {
        let (Outcome::Duplicate(of) | Outcome::Replaced(_, of)) = &added.outcome else { return Ok(None) };
        let mut matches: Vec<Match> = of.iter().take(limit.max(1)).cloned().collect();
        // The ids matter more than the metadata: they are returned even if the disk fails.
        if let Err(error) = self.engine()?.complete(&added.written_to, &added.outline, &mut matches) {
            tracing::warn!(%error, "a duplicate is reported without metadata: it cannot be read");
        }
        Ok(Some(Neighbours { matches, marked: 0, contained_in: None }))
    }
}

impl From<Answer> for Neighbours {
    fn from(answer: Answer) -> Neighbours {
        Neighbours { matches: answer.matches, marked: answer.marked, contained_in: None }
    }
}

/// Whether more can be said of a stored document than its neighbours: it has a text, and there are other
/// texts to compare it with.
fn has_more(added: &Added, answer: &Answer) -> bool {
    let is_text = added.outline.characters.is_some();
    is_text && (added.written_to.keeps_grams() || !answer.matches.is_empty())
}

/// Says what a stored text is to its neighbours, and which document contains it.
fn completed(
    engine: &Engine,
    added: &Added,
    answer: Answer,
    cancel: &Cancel,
) -> Result<Neighbours, ServiceError> {
    let (collection, has_more) = (&added.written_to, has_more(added, &answer));
    let mut found = Neighbours::from(answer);
    if has_more {
        engine.complete(collection, &added.outline, &mut found.matches)?;
        if collection.keeps_grams()
            && let Some(stored) = engine.get(collection, &added.id)?
        {
            let mut others = Filter::without(stored.id.clone());
            found.matches.iter().for_each(|near| others.exclude(near.id.clone()));
            let whole = containing(engine, collection, stored, Containment::PART, others, cancel)?;
            let share = |found: Match| Some((found.id, found.shared?.a_in_b));
            found.contained_in = whole.and_then(share);
        }
    }
    Ok(found)
}

/// The query for the neighbours of an added document.
fn query_of(added: &Added, limit: usize) -> Result<Query, ServiceError> {
    let collection = &added.written_to;
    let query = Query {
        hash: added.hash,
        signature: added.signature.clone(),
        k: collection.settings().k,
        limit,
        after: None,
        filter: Some(Box::new(Filter::without(added.id.clone()))),
        scan: false,
        document: Some(added.id.clone()),
    };
    collection.check(&query)?;
    Ok(query)
}
