//! The neighbours of added documents.
//!
//! Storing a document and searching for its neighbours are two calls. The first returns when the document is
//! durable, and a failure of the second must not be reported as a failure of the first.

use std::sync::Arc;

use super::Service;
use super::documents::Added;
use super::error::ServiceError;
use lookalike_engine::{Answer, Filter, Match, Outcome, Query, WorkBudget};
use lookalike_run::pool::{Cancel, Patience, Turns};

/// The neighbours of an added document.
#[derive(Clone, Debug)]
pub struct Neighbours {
    /// The documents within k, nearest first.
    pub matches: Vec<Match>,
    /// The number of those that were left out because of marks.
    pub marked: u64,
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
        let Answer { matches, marked, .. } = self.answer(&added.written_to, query).await?;
        Ok(Neighbours { matches, marked })
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
                let (mut budget, mut found) = (WorkBudget::unlimited(cancel), None);
                service.engine()?.answer(&added.written_to, &[query], &mut budget, &mut |answer| {
                    let Answer { matches, marked, .. } = answer;
                    found = Some(Neighbours { matches, marked });
                })?;
                Ok(found.unwrap_or(Neighbours { matches: Vec::new(), marked: 0 }))
            };
            added.iter().map(one).collect()
        };
        Ok(self.pool.run(Patience::Bulk, look).await?)
    }

    /// The documents that the writer named for a duplicate or a replacement, with their metadata.
    fn named(&self, added: &Added, limit: usize) -> Result<Option<Neighbours>, ServiceError> {
        let (Outcome::Duplicate(of) | Outcome::Replaced(_, of)) = &added.outcome else { return Ok(None) };
        let mut matches: Vec<Match> = of.iter().take(limit.max(1)).cloned().collect();
        // The ids matter more than the metadata: they are returned even if the disk fails.
        if let Err(error) = self.engine()?.add_metadata(&added.written_to, &mut matches) {
            tracing::warn!(%error, "a duplicate is reported without metadata: it cannot be read");
        }
        Ok(Some(Neighbours { matches, marked: 0 }))
    }
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
