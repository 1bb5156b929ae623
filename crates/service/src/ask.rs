//! Queries as clients send them, and their resolution: the hash, k, limit, cursor and filter that the engine
//! gets.

use std::sync::Arc;

use super::cursor;
use super::error::ServiceError;
use super::fingerprints::{Content, Located, check_profile, check_signed_by};
use super::second_check::Measure;
use super::{Limits, Service};
use lookalike_engine::{Collection, Filter, Query};
use lookalike_hash::{DocumentId, Hash};
use lookalike_text::fingerprint::Fingerprint;

/// The subject of a query.
#[derive(Clone, Debug, PartialEq)]
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
    /// The profile that made the hash or signature, as the client says.
    pub profile: Option<Box<str>>,
    /// The distance; `None` for the collection's. If that is the profile's default, it is the one for the
    /// text.
    pub k: Option<u32>,
    /// The distance as a similarity of signatures, from 0 to 1.
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
    /// The minimum share of the text that is in a document, or the other way round, above 0 to 1, for
    /// documents that share passages; `None` for the default.
    pub min_containment: Option<f64>,
    /// Whether an image is looked up in its eight turns and mirrors.
    pub dihedral: bool,
}

impl Ask {
    /// A query for a hash, with the collection's defaults.
    pub fn of_hash(hash: Hash, k: Option<u32>, limit: Option<usize>) -> Ask {
        Ask {
            by: By::Content(Content::Hash(hash)),
            profile: None,
            k,
            threshold: None,
            limit,
            cursor: None,
            filter: None,
            scan: false,
            min_similarity: None,
            measure: Measure::default(),
            min_containment: None,
            dihedral: false,
        }
    }

    /// The maximum number of matches: its own, or the default.
    pub fn matches(&self, limits: &Limits) -> usize {
        self.limit.unwrap_or(limits.default_matches)
    }

    /// Whether the engine alone can answer the query for any subject, in a collection without grams.
    pub(super) fn is_for_engine(&self) -> bool {
        self.is_alone() && !self.dihedral
    }

    /// Whether no second check is wanted.
    pub(super) fn is_alone(&self) -> bool {
        self.min_similarity.is_none() && self.min_containment.is_none()
    }

    /// The hash, if the query is for a hash and the engine alone can answer it.
    fn plain_hash(&self) -> Option<Hash> {
        match self.by {
            By::Content(Content::Hash(hash)) if self.is_for_engine() => Some(hash),
            _ => None,
        }
    }
}

/// A query for the engine, and the fingerprint of its text, if it is one for a text.
pub(super) type Resolved = (Query, Option<Fingerprint>);

impl Service {
    /// Resolves a query for a hash, which takes no work; `None` for any other query.
    pub(super) fn resolve_hash(
        &self,
        collection: &Collection,
        ask: &Ask,
    ) -> Result<Option<Query>, ServiceError> {
        let Some(hash) = ask.plain_hash() else { return Ok(None) };
        self.check(collection, ask)?;
        let located = Located { hash, signature: None, made: None };
        self.query(collection, ask, ask.k, located).map(Some)
    }

    /// Resolves any query: reads the document, or fingerprints the text.
    pub(super) async fn resolve(
        &self,
        collection: &Arc<Collection>,
        ask: &Ask,
    ) -> Result<Resolved, ServiceError> {
        self.check(collection, ask)?;
        let mut k = ask.k;
        let (located, itself) = match &ask.by {
            By::Content(Content::Hash(hash)) => (Located { hash: *hash, signature: None, made: None }, None),
            By::Id(id) => {
                let row = self.document_in(collection, id).await?.row;
                let is_signed = collection.settings().signatures.is_some();
                let signature = row.sketch.filter(|_| is_signed).map(Arc::from);
                (Located { hash: row.hash, signature, made: None }, Some(id.clone()))
            }
            // Boxed: otherwise the state of fingerprinting would enlarge this future, and be moved, for
            // every query.
            By::Content(content) => {
                let profile = self.profile_in(collection)?;
                let weights = collection.settings().weights.clone();
                let located = Box::pin(self.locate(profile, weights, content.clone())).await?;
                if ask.threshold.is_none() && collection.settings().k == profile.default_k() {
                    // The k of the profile may depend on the text; a k that the client chose does not.
                    k = k.or(located.made.map(|made| made.k));
                }
                (located, None)
            }
        };
        let made = located.made;
        let mut query = self.query(collection, ask, k, located)?;
        if let Some(itself) = itself {
            query.filter.get_or_insert_default().exclude(itself);
        }
        Ok((query, made))
    }

    /// Rejects a query of another profile, or one that exceeds the limits, before any work is done.
    fn check(&self, collection: &Collection, ask: &Ask) -> Result<(), ServiceError> {
        if matches!(ask.by, By::Content(Content::Signature(_))) {
            check_signed_by(ask.profile.as_deref(), &collection.settings())?;
        }
        if let Some(given) = ask.profile.as_deref() {
            check_profile(self.profiles(), given, &collection.settings().made_by(), "profile")?;
        }
        let limit = ask.matches(&self.limits);
        if limit == 0 || limit > self.limits.matches {
            let detail = format!(
                "limit is {limit}; it ranges from 1 to {}, and a cursor returns the next page",
                self.limits.matches
            );
            return Err(ServiceError::invalid("limit", detail));
        }
        self.check_filter(ask.filter.as_deref())
    }

    /// Rejects a filter that exceeds the limits.
    pub(super) fn check_filter(&self, filter: Option<&Filter>) -> Result<(), ServiceError> {
        let (excluded, most) = (filter.map_or(0, |filter| filter.exclude.len()), self.limits.batch_items);
        if excluded > most {
            let detail = format!("{excluded} ids are excluded; at most {most} can be (limits.batch_items)");
            return Err(ServiceError::invalid("filter/exclude", detail));
        }
        Ok(())
    }

    /// The query for the engine, once the hash is known. If `k` is `None`, the threshold of the query or the
    /// collection gives the distance.
    fn query(
        &self,
        collection: &Collection,
        ask: &Ask,
        k: Option<u32>,
        located: Located,
    ) -> Result<Query, ServiceError> {
        let Located { hash, signature, .. } = located;
        let k = collection.reach(k, ask.threshold)?;
        let limit = ask.matches(&self.limits);
        let after = ask.cursor.as_deref().map(|cursor| cursor::read(cursor, hash, k)).transpose()?;
        let filter = ask.filter.clone();
        let document = match &ask.by {
            By::Id(id) => Some(id.clone()),
            By::Content(_) => None,
        };
        let query = Query { hash, signature, k, limit, after, filter, scan: ask.scan, document };
        collection.check(&query)?;
        Ok(query)
    }
}
