//! Reindexes on the wire.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::collections::CollectionOut;
use super::values::{Bits, PassagesKept, Timestamp};
use crate::error::{Body, Problem};
use lookalike_hash::Passages;
use lookalike_service::{CollectionInfo, Reindexed, WantedReindex, WantedWeights};

/// The settings of the new fingerprints. A setting that is omitted stays, except that `k` is that of a new
/// profile.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Reindex)]
pub struct ReindexIn {
    /// The profile, with or without version. Default: that of the collection.
    #[schema(example = "copies-128")]
    profile: Option<String>,
    /// The distance of queries that name none. Default: that of the profile, if it changes.
    k: Option<Bits>,
    /// In place of k, if the profile makes signatures: the minimum similarity, 0 to 1.
    threshold: Option<f64>,
    /// The bytes of a sketch that is stored with each document, 8 to 1,024; 0 for none.
    sketch_bytes: Option<u16>,
    /// The weights of features in signatures, or in the sketches that decide about near-duplicates. Default:
    /// those that the collection has.
    weights: Option<WeightsIn>,
    /// Whether documents are stored with letter grams of their texts.
    passages: Option<PassagesKept>,
}

/// The weights of features: `none`, `learned` from the kept texts, or those of another collection,
/// `{"of": "laws"}`. What many texts of a collection have, such as the form of a notice, weighs less.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = WantedWeights, example = "learned")]
enum WeightsIn {
    /// All features weigh the same.
    None,
    /// All kept texts of a small collection are counted; of one of 2,000 documents and more, 1,000 to 65,535.
    Learned,
    /// The table of this collection.
    Of(String),
}

impl From<WeightsIn> for WantedWeights {
    fn from(wanted: WeightsIn) -> WantedWeights {
        match wanted {
            WeightsIn::None => WantedWeights::None,
            WeightsIn::Learned => WantedWeights::Learned,
            WeightsIn::Of(name) => WantedWeights::Of(name),
        }
    }
}

impl ReindexIn {
    /// The collection whose weights are wanted.
    pub fn weights_of(&self) -> Option<&str> {
        match &self.weights {
            Some(WeightsIn::Of(name)) => Some(name),
            _ => None,
        }
    }
}

impl From<ReindexIn> for WantedReindex {
    fn from(wanted: ReindexIn) -> WantedReindex {
        let ReindexIn { profile, k, threshold, sketch_bytes, weights, passages } = wanted;
        WantedReindex {
            profile,
            k: k.map(|k| k.0),
            threshold,
            sketch_bytes,
            weights: weights.map(WantedWeights::from),
            passages: passages.map(Passages::from),
        }
    }
}

/// The state of a reindex.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ReindexState)]
pub(super) enum StateOut {
    /// It makes fingerprints; queries are answered with the old ones.
    Running,
    /// It has ended; queries are answered with the new fingerprints.
    Done,
    /// It has ended without effect; `error` has the reason.
    Failed,
    /// A request has ended it, without effect.
    Ended,
}

/// A reindex.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Reindexed)]
pub struct ReindexOut {
    state: StateOut,
    /// The profile of the new fingerprints.
    #[schema(example = "copies-128@1")]
    profile: String,
    /// When it was started.
    #[schema(value_type = Timestamp)]
    started_at: Timestamp,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Timestamp>)]
    ended_at: Option<Timestamp>,
    /// The number of documents read; 0 while weights are learned.
    documents_read: u64,
    /// The number of documents that the collection had at the beginning.
    documents: u64,
    /// The collection right after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    collection: Option<CollectionOut>,
    /// The reason, if it had no effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Body>,
}

impl From<Reindexed> for ReindexOut {
    fn from(job: Reindexed) -> ReindexOut {
        let (state, collection, error) = match job.outcome {
            None if job.is_cancelled => (StateOut::Ended, None, None),
            None => (StateOut::Running, None, None),
            Some(Ok(info)) => (StateOut::Done, Some(CollectionInfo::clone(&info).into()), None),
            Some(Err(error)) => (StateOut::Failed, None, Some(Problem::from(&*error).body())),
        };
        ReindexOut {
            state,
            profile: job.profile,
            started_at: Timestamp(job.started_ms),
            ended_at: job.ended_ms.map(Timestamp),
            documents_read: job.read.0,
            documents: job.read.1,
            collection,
            error,
        }
    }
}
