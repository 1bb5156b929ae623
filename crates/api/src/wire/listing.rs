//! Lists of documents and deletions of many on the wire.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::documents::DocumentOut;
use super::few::Few;
use super::filter::{FilterIn, FilterParam};
use super::hashes::HashFormat;
use super::values::{Count, ExpiresIn, Id, Timestamp, present};
use crate::error::{Body, Code, Problem};
use lookalike_hash::DocumentId;
use lookalike_service::{Deed, Deletion, Filter, Listed, WantedList};

/// Which documents are listed.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListParams {
    /// Only documents that pass this filter, as JSON: `{"metadata": {"source": "rss"}}`.
    #[param(value_type = Option<String>, example = "{}")]
    filter: Option<FilterParam>,
    /// The most documents in the answer, 1 to 1,000. Default: 10.
    limit: Option<Count>,
    /// The `next` of the previous page.
    cursor: Option<String>,
    /// The form of every hash in the answer. Default: `hex`.
    pub hash_format: Option<HashFormat>,
}

impl ListParams {
    /// Converts them for the service.
    pub fn wanted(self) -> WantedList {
        WantedList {
            cursor: self.cursor,
            limit: self.limit.map(|limit| limit.0),
            filter: self.filter.map(|filter| filter.0),
        }
    }
}

/// A page of documents.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DocumentPage)]
pub struct DocumentsOut {
    /// The documents, without their texts.
    documents: Vec<DocumentOut>,
    /// The cursor of the next page, if more documents may follow.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

impl DocumentsOut {
    /// A page of a collection, which may be one of signatures.
    pub fn new(listed: Listed, is_signed: bool, form: Option<HashFormat>) -> DocumentsOut {
        let out = |(document, cluster)| DocumentOut::new(document, is_signed, cluster, form);
        DocumentsOut { documents: listed.documents.into_iter().map(out).collect(), next: listed.next }
    }
}

/// Which documents are deleted: exactly one of `ids` and `filter`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = DeletionRequest)]
pub struct DeletionIn {
    /// The documents with these ids, at most 1,000.
    #[schema(value_type = Option<Vec<Id>>)]
    ids: Option<Few<Id>>,
    /// The documents that pass this filter, which has at least one condition.
    filter: Option<Box<FilterIn>>,
    /// Whether the documents are only counted.
    #[serde(default)]
    dry_run: bool,
    /// Plan the deletion: each document expires after this time, and is found until then, unless `cancel`
    /// keeps it or it is stored again.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<ExpiresIn>)]
    #[allow(clippy::option_option, reason = "null must not mean that documents are deleted at once")]
    expires_in: Option<Option<ExpiresIn>>,
    /// Plan the deletion for after the time that the server states in `server.deletion_seconds`.
    #[serde(default)]
    plan: bool,
    /// Cancel planned deletions of the documents instead.
    #[serde(default)]
    cancel: bool,
}

/// Which documents a request means.
pub enum Matching {
    /// Those with these ids.
    Ids(Vec<DocumentId>),
    /// Those that pass this filter.
    Filter(Box<Filter>),
}

impl DeletionIn {
    /// Which documents are meant, and what is done to them at this time. `delay` is that of a plan without
    /// one.
    pub fn matching(self, now_ms: u64, delay: Duration) -> Result<(Matching, Deed), Problem> {
        let deed = match (self.dry_run, self.expires_in, self.plan, self.cancel) {
            (true, None, false, false) => Deed::Count,
            (false, None, false, false) => Deed::Delete,
            (false, Some(Some(ExpiresIn(seconds))), false, false) => Deed::Plan(now_ms + seconds * 1_000),
            (false, None, true, false) => Deed::Plan(now_ms + delay.as_secs() * 1_000),
            (false, None, false, true) => Deed::Cancel,
            _ => {
                let detail = "dry_run counts, expires_in (such as \"10m\") and plan plan a deletion, and \
                              cancel ends such a plan; send one of them";
                return Err(Problem::new(Code::InvalidField, detail));
            }
        };
        let matching = match (self.ids, self.filter) {
            (Some(Few(ids)), None) => Matching::Ids(ids.into_iter().map(|id| id.0).collect()),
            (None, Some(filter)) => Matching::Filter(Box::new(Filter::from(*filter))),
            _ => return Err(Problem::new(Code::InvalidField, "exactly one of ids and filter is needed")),
        };
        Ok((matching, deed))
    }
}

/// The state of a deletion.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Deletion)]
pub struct DeletionOut {
    /// When it was requested.
    #[schema(value_type = Timestamp)]
    started_at: Timestamp,
    /// When it ended; absent while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Timestamp>)]
    ended_at: Option<Timestamp>,
    /// Whether the documents are only counted.
    dry_run: bool,
    /// The number of documents that were read so far.
    examined: u64,
    /// About how many are to be read.
    to_examine: u64,
    /// The number of documents that the filter admits so far, or with the given ids.
    matched: u64,
    /// The number of documents that were deleted so far.
    deleted: u64,
    /// The number of documents whose deletion was planned so far, if the request plans one.
    #[serde(skip_serializing_if = "Option::is_none")]
    planned: Option<u64>,
    /// When these documents are deleted; one that had a plan before keeps its earlier time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Timestamp>)]
    deletion_at: Option<Timestamp>,
    /// The number of documents that are kept after all so far, if the request has `cancel`.
    #[serde(skip_serializing_if = "Option::is_none")]
    cancelled: Option<u64>,
    /// Why it ended early.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Box<Body>>,
}

impl From<Deletion> for DeletionOut {
    fn from(deletion: Deletion) -> DeletionOut {
        let (deed, done) = (deletion.deed, deletion.done);
        let error = deletion.error.map(|error| Box::new(Problem::from(&*error).body()));
        DeletionOut {
            started_at: Timestamp(deletion.started_ms),
            ended_at: deletion.ended_ms.map(Timestamp),
            dry_run: deed == Deed::Count,
            examined: deletion.examined.0,
            to_examine: deletion.examined.1,
            matched: deletion.matched,
            deleted: if deed == Deed::Delete { done } else { 0 },
            planned: matches!(deed, Deed::Plan(_)).then_some(done),
            deletion_at: if let Deed::Plan(at) = deed { Some(Timestamp(at)) } else { None },
            cancelled: (deed == Deed::Cancel).then_some(done),
            error,
        }
    }
}
