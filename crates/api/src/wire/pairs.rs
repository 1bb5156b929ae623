//! Pairs of near documents on the wire.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::values::{Bits, Id};
use lookalike_hash::SignatureShape;
use lookalike_service::DocumentPair;

/// Which pairs are listed.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct PairsParams {
    /// The distance, 0 to the width. Default: that of the collection.
    pub k: Option<Bits>,
    /// In place of k, in a collection of signatures: the minimum similarity, 0 to 1.
    pub threshold: Option<f64>,
    /// The most pairs in the answer. Default: all.
    #[param(minimum = 1, maximum = 4_294_967_295_u32)]
    pub limit: Option<u32>,
    /// A line of an earlier answer: only the pairs after it are listed.
    pub cursor: Option<String>,
}

/// A pair of near documents.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Pair)]
pub struct PairOut {
    /// The distance.
    distance: u32,
    /// The estimated similarity, 0 to 1, in a collection of signatures.
    #[serde(skip_serializing_if = "Option::is_none")]
    similarity: Option<f64>,
    /// The id that is smaller in the order of bytes.
    #[schema(value_type = Id)]
    first: Id,
    /// The larger id.
    #[schema(value_type = Id)]
    second: Id,
}

impl PairOut {
    /// A pair of a collection, which may be one of signatures.
    pub fn new(pair: DocumentPair, signatures: Option<SignatureShape>) -> PairOut {
        PairOut {
            distance: pair.distance,
            similarity: signatures.map(|shape| shape.similarity(pair.distance)),
            first: Id(pair.first),
            second: Id(pair.second),
        }
    }
}

/// A line of an earlier answer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PairIn {
    distance: u32,
    #[serde(rename = "similarity")]
    _similarity: Option<f64>,
    first: Id,
    second: Id,
}

/// The pair in a line of an earlier answer; `None` if it is not one.
pub fn read_pair(line: &str) -> Option<DocumentPair> {
    let PairIn { distance, first, second, .. } = serde_json::from_str(line).ok()?;
    (first.0 < second.0).then_some(DocumentPair { distance, first: first.0, second: second.0 })
}
