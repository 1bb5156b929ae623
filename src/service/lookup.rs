//! Looking up: which stored documents are near a hash, a text, a page or another document.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Service;
use super::cursor;
use super::error::ServiceError;
use super::fingerprints::Content;
use crate::engine::{Answer, Filter, Match, Query, Work};
use crate::fingerprint::Status;
use crate::ids::{CollectionName, DocumentId, Hash};

/// What to look around.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum By {
    /// A text, a page, or a hash.
    Content(Content),
    /// A stored document, itself left out of the answer.
    Id(DocumentId),
}

/// A question.
#[derive(Clone, Debug)]
pub struct Ask {
    /// What to look around.
    pub by: By,
    /// The distance; the collection's if there is none.
    pub k: Option<u32>,
    /// How many matches to answer with.
    pub limit: Option<usize>,
    /// Where the page before this one ended.
    pub cursor: Option<String>,
    /// Which documents count.
    pub filter: Filter,
    /// Answer by linear scan.
    pub scan: bool,
    /// Compare the texts of what is found, and answer with those of this similarity or more, 0 to 1.
    pub min_similarity: Option<f64>,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Found {
    /// What was looked around.
    pub hash: Hash,
    /// Whether that fingerprint is to be trusted, if it was made from a text.
    pub status: Option<Status>,
    /// How far.
    pub k: u32,
    /// The documents, by distance, then id.
    pub matches: Vec<Match>,
    /// The similarity of each, if it was asked for; else none.
    pub similarities: Vec<f64>,
    /// Where the next page begins, if there is one.
    pub next: Option<String>,
    /// How the answer was found.
    pub work: Work,
}

/// Counts answered matches by their distance.
pub(super) struct Distances(Vec<AtomicU64>);

impl Default for Distances {
    fn default() -> Distances {
        Distances((0..=128).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Distances {
    fn count(&self, matches: &[Match]) {
        for found in matches {
            self.0[found.distance as usize].fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn counts(&self) -> Vec<u64> {
        self.0.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }
}

impl Service {
    /// Answers a question about a collection.
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

    pub(super) async fn similar_unchecked(
        &self,
        collection: &CollectionName,
        ask: Ask,
    ) -> Result<Found, ServiceError> {
        let (query, status) = self.query(collection, ask).await?;
        let asked = (query.hash, query.k);
        let answer = self.engine()?.similar(collection, query).await?;
        Ok(self.found(answer, asked, status))
    }

    /// Answers questions about one collection, in order.
    ///
    /// # Errors
    /// [`ServiceError`] of the first question that cannot be answered.
    pub async fn similar_batch(
        &self,
        collection: &CollectionName,
        asks: Vec<Ask>,
    ) -> Result<Vec<Found>, ServiceError> {
        if asks.iter().any(|ask| ask.min_similarity.is_some()) {
            let mut found = Vec::with_capacity(asks.len());
            for ask in asks {
                found.push(self.similar(collection, ask).await?);
            }
            return Ok(found);
        }
        let mut queries = Vec::with_capacity(asks.len());
        let mut asked = Vec::with_capacity(asks.len());
        for ask in asks {
            let (query, status) = self.query(collection, ask).await?;
            asked.push(((query.hash, query.k), status));
            queries.push(query);
        }
        let answers = self.engine()?.similar_batch(collection, queries).await?;
        let found = answers.into_iter().zip(asked);
        Ok(found.map(|(answer, (asked, status))| self.found(answer, asked, status)).collect())
    }

    fn found(&self, answer: Answer, (hash, k): (Hash, Option<u32>), status: Option<Status>) -> Found {
        self.distances.count(&answer.matches);
        let next = answer.next.map(|position| cursor::write(&position, hash, k));
        Found {
            hash,
            status,
            k: answer.k,
            matches: answer.matches,
            similarities: Vec::new(),
            next,
            work: answer.work,
        }
    }

    async fn query(
        &self,
        collection: &CollectionName,
        ask: Ask,
    ) -> Result<(Query, Option<Status>), ServiceError> {
        let limit = ask.limit.unwrap_or(self.limits.default_matches);
        if limit == 0 || limit > self.limits.matches {
            let detail = format!(
                "limit is {limit}; it ranges from 1 to {}, and a cursor leads on",
                self.limits.matches
            );
            return Err(ServiceError::invalid("limit", detail));
        }
        let mut filter = ask.filter;
        let (excluded, most) = (filter.exclude.len(), self.limits.batch_items);
        if excluded > most {
            let detail = format!("{excluded} ids are excluded; at most {most} can be (limits.batch_items)");
            return Err(ServiceError::invalid("filter/exclude", detail));
        }
        let (hash, status) = match ask.by {
            By::Content(Content::Hash(hash)) => (hash, None),
            By::Id(id) => {
                let hash = self.document(collection, &id).await?.row.hash;
                filter.exclude.insert(id);
                (hash, None)
            }
            // Boxed: the room that fingerprinting takes in this future would be moved about for every question.
            By::Content(content) => Box::pin(self.hash_in(collection, content)).await?,
        };
        let k = ask.k;
        let after = ask.cursor.map(|cursor| cursor::read(&cursor, hash, k)).transpose()?;
        Ok((Query { hash, k, limit, after, filter, scan: ask.scan }, status))
    }

    async fn hash_in(
        &self,
        collection: &CollectionName,
        content: Content,
    ) -> Result<(Hash, Option<Status>), ServiceError> {
        let profile = self.profile_of(collection).await?;
        self.hash_of(profile, content).await
    }
}
