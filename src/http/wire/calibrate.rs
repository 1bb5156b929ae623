//! Calibrations on the wire.

use std::fmt;

use serde::de::{Error, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::openapi::schema::{ArrayBuilder, Schema};
use utoipa::openapi::{Ref, RefOr};
use utoipa::{PartialSchema, ToSchema};

use super::few::Few;
use super::values::{Id, Timestamp};
use crate::http::error::{Body, Problem};
use crate::service::{
    Banded, CALIBRATION_DOCUMENTS, CALIBRATION_SEED, CALIBRATION_TEXTS, Calibrated, Calibration, Judged,
    Measured, Recommendation, WantedCalibration,
};

/// Two stored documents that are copies of each other: an array of two ids. A tuple would do, but of an array
/// that is too long the reader of JSON says that it is no JSON.
#[derive(Debug)]
struct CopiesIn(Id, Id);

impl<'de> Deserialize<'de> for CopiesIn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<CopiesIn, D::Error> {
        struct Two;

        impl<'de> Visitor<'de> for Two {
            type Value = CopiesIn;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of two ids")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut ids: A) -> Result<CopiesIn, A::Error> {
                let first = ids.next_element()?.ok_or_else(|| Error::invalid_length(0, &self))?;
                let second = ids.next_element()?.ok_or_else(|| Error::invalid_length(1, &self))?;
                let mut more = 0;
                while ids.next_element::<IgnoredAny>()?.is_some() {
                    more += 1;
                }
                if more > 0 {
                    return Err(Error::invalid_length(2 + more, &self));
                }
                Ok(CopiesIn(first, second))
            }
        }

        deserializer.deserialize_seq(Two)
    }
}

impl PartialSchema for CopiesIn {
    fn schema() -> RefOr<Schema> {
        let two = ArrayBuilder::new()
            .items(Ref::from_schema_name(Id::name()))
            .min_items(Some(2))
            .max_items(Some(2));
        RefOr::T(two.into())
    }
}

impl ToSchema for CopiesIn {}

/// What to measure. All of it may be left out.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Calibrate)]
pub(in crate::http) struct CalibrateIn {
    /// Up to 8 profiles, with or without version; that of the collection, `copies-64` and `copies-128` if
    /// there are none.
    #[serde(default)]
    #[schema(example = json!(["copies-64", "copies-128"]))]
    #[schema(value_type = Vec<String>)]
    profiles: Few<String>,
    /// 100 to 20,000 texts in place of those that the collection keeps.
    #[schema(min_items = 100, max_items = 20_000)]
    #[schema(value_type = Option<Vec<String>>)]
    texts: Option<Few<String>>,
    /// Up to 10,000 pairs of stored documents that are copies of each other, in place of edited copies.
    #[serde(default)]
    #[schema(inline, value_type = Vec<CopiesIn>)]
    pairs: Few<CopiesIn>,
    /// How many texts are taken at random, 100 to 20,000; 5,000 if it is left out.
    #[schema(minimum = 100, maximum = 20_000)]
    sample: Option<usize>,
    /// For how many documents wrong neighbours are told; as many as the collection has, or 1,000,000 if that
    /// is more.
    #[schema(minimum = 1, maximum = 1_000_000_000_000_i64)]
    documents: Option<u64>,
    /// The seed of sample and edits: the same one gives the same.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 9_007_199_254_740_991_i64)]
    seed: u64,
}

const _: () = assert!(CALIBRATION_TEXTS == 20_000, "the contract says so");
const _: () = assert!(CALIBRATION_DOCUMENTS == 1_000_000_000_000, "the contract says so");
const _: () = assert!(CALIBRATION_SEED == 9_007_199_254_740_991, "the contract says so");

impl From<CalibrateIn> for WantedCalibration {
    fn from(wanted: CalibrateIn) -> WantedCalibration {
        WantedCalibration {
            profiles: wanted.profiles.0,
            texts: wanted.texts.map(|texts| texts.0),
            pairs: wanted.pairs.0.into_iter().map(|CopiesIn(a, b)| (a.0, b.0)).collect(),
            sample: wanted.sample,
            documents: wanted.documents,
            seed: wanted.seed,
        }
    }
}

/// How far a calibration has come.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = CalibrationState)]
pub(in crate::http) enum StateOut {
    /// It reads or measures.
    Running,
    /// It has ended, and `result` is there.
    Done,
    /// It has ended without a result; `error` says why.
    Failed,
}

/// A calibration.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Calibration)]
pub(in crate::http) struct CalibrationOut {
    state: StateOut,
    /// When it was begun.
    #[schema(value_type = Timestamp)]
    started_at: Timestamp,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Timestamp>)]
    ended_at: Option<Timestamp>,
    progress: ProgressOut,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<CalibratedOut>,
    /// Why there is no result.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Body>,
}

/// How far it has come.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CalibrationProgress)]
pub(in crate::http) struct ProgressOut {
    /// The documents that were read.
    documents_read: u64,
    /// All there are to read.
    documents: u64,
    /// The profiles that were measured.
    profiles_measured: usize,
    /// All there are to measure.
    profiles: usize,
}

/// What was found.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Calibrated)]
pub(in crate::http) struct CalibratedOut {
    /// All of it in a few sentences.
    summary: String,
    /// What is recommended among what was measured; absent if nothing is good enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    recommended: Option<RecommendationOut>,
    /// What is recommended with the profile that the collection has.
    #[serde(skip_serializing_if = "Option::is_none")]
    recommended_with_this_profile: Option<RecommendationOut>,
    /// For how many documents wrong neighbours are told.
    documents: u64,
    /// Where the pairs to be found come from.
    labels: LabelsOut,
    /// The texts, edited copies among them.
    texts: usize,
    /// Their bytes.
    bytes: usize,
    /// The pairs to be found.
    pairs: usize,
    /// Pairs that look like copies and are not marked: they do not count.
    unmarked_copies: usize,
    /// The profiles that make hashes.
    profiles: Vec<MeasuredOut>,
    /// The profiles that make signatures.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    signatures: Vec<BandedOut>,
}

/// Where the pairs to be found come from.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = CalibrationLabels)]
pub(in crate::http) enum LabelsOut {
    /// Each text and an edited copy of it.
    Edits,
    /// The pairs of the request.
    Pairs,
}

/// A profile and a k.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Recommendation)]
pub(in crate::http) struct RecommendationOut {
    #[schema(example = "copies-128@1")]
    profile: String,
    k: u32,
    /// The share of the pairs that it finds, 0 to 1.
    recall: f64,
    /// Whether too few wrong pairs lie within k to be counted, so that how many a query gets is reckoned from
    /// how their number falls off towards smaller distances.
    reckoned: bool,
}

/// What a profile does with the texts.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = MeasuredProfile)]
pub(in crate::http) struct MeasuredOut {
    #[schema(example = "copies-64@1")]
    profile: String,
    bits: u32,
    /// What is found at each k, up to a quarter of the bits.
    points: Vec<PointOut>,
    /// Texts that are short.
    short: usize,
    /// Texts without a feature, which are not counted.
    empty: usize,
    /// The chance that two hashes share a block of 16 bits, times 65,536: 1 if they are spread evenly.
    collision_factor: f64,
    /// The share of the hashes in the fullest bucket of 16 bits, 0 to 1.
    fullest_bucket: f64,
    /// Bytes of text a second on one core, beside the other work of the server.
    bytes_per_second: f64,
    /// The bytes of the index a document, in an index of these hashes.
    index_bytes_per_document: f64,
    /// The share that is found of each kind of edit at the profile's usual k.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    edits: Vec<EditOut>,
}

/// What is found within k.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CurvePoint)]
pub(in crate::http) struct PointOut {
    k: u32,
    /// Right ÷ found, 0 to 1.
    precision: f64,
    /// Found ÷ all pairs, 0 to 1.
    recall: f64,
    f1: f64,
    /// Wrong neighbours that a query is to expect among so many documents.
    false_neighbours: f64,
    /// Whether that is only a bound, since fewer than three wrong pairs were seen.
    is_bound: bool,
}

/// A kind of edit.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = MeasuredEdit)]
pub(in crate::http) struct EditOut {
    #[schema(example = "cut by 10 %")]
    edit: String,
    pairs: usize,
    /// The share that is found, 0 to 1.
    found: f64,
}

/// What a profile of MinHash does with the texts.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = MeasuredSignatures)]
pub(in crate::http) struct BandedOut {
    #[schema(example = "minhash-copies@1")]
    profile: String,
    bands: usize,
    rows: usize,
    /// The bytes of signature and index a document.
    index_bytes_per_document: f64,
    /// Bytes of text a second on one core, beside the other work of the server.
    bytes_per_second: f64,
    /// The error of the estimated similarities: the root of their mean squared difference from the exact
    /// ones.
    error: f64,
    /// What is found from each threshold on.
    thresholds: Vec<ThresholdOut>,
}

/// What is found from a similarity on.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ThresholdPoint)]
pub(in crate::http) struct ThresholdOut {
    threshold: f64,
    precision: f64,
    recall: f64,
    f1: f64,
}

impl From<Calibration> for CalibrationOut {
    fn from(told: Calibration) -> CalibrationOut {
        let (state, result, error) = match told.outcome {
            None => (StateOut::Running, None, None),
            Some(Ok(found)) => (StateOut::Done, Some(CalibratedOut::from(&*found)), None),
            Some(Err(error)) => (StateOut::Failed, None, Some(Problem::from(&*error).body())),
        };
        CalibrationOut {
            state,
            started_at: Timestamp(told.started_ms),
            ended_at: told.ended_ms.map(Timestamp),
            progress: ProgressOut {
                documents_read: told.read.0,
                documents: told.read.1,
                profiles_measured: told.measured.0,
                profiles: told.measured.1,
            },
            result,
            error,
        }
    }
}

impl From<&Calibrated> for CalibratedOut {
    fn from(found: &Calibrated) -> CalibratedOut {
        let measured = |one| MeasuredOut::of(one, found.documents as f64);
        CalibratedOut {
            summary: found.summary(),
            recommended: found.recommended.as_ref().map(RecommendationOut::from),
            recommended_with_this_profile: found.recommended_here.as_ref().map(RecommendationOut::from),
            documents: found.documents,
            labels: if found.is_marked { LabelsOut::Pairs } else { LabelsOut::Edits },
            texts: found.texts,
            bytes: found.bytes,
            pairs: found.pairs,
            unmarked_copies: found.aside,
            profiles: found.measured.iter().map(measured).collect(),
            signatures: found.banded.iter().map(BandedOut::from).collect(),
        }
    }
}

impl From<&Recommendation> for RecommendationOut {
    fn from(best: &Recommendation) -> RecommendationOut {
        RecommendationOut {
            profile: best.profile.clone(),
            k: best.k,
            recall: best.recall,
            reckoned: best.is_reckoned,
        }
    }
}

impl MeasuredOut {
    fn of(one: &Measured, documents: f64) -> MeasuredOut {
        let point = |k| {
            let point = one.curve.at(k);
            let (false_neighbours, is_bound) = one.curve.false_neighbours(k, documents);
            let (precision, recall, f1) = (point.precision, point.recall, point.f1());
            PointOut { k, precision, recall, f1, false_neighbours, is_bound }
        };
        let k = one.profile.default_k();
        let edit = |(edit, distances): &(String, Vec<u32>)| {
            let found = distances.iter().filter(|distance| **distance <= k).count();
            EditOut {
                edit: edit.clone(),
                pairs: distances.len(),
                found: found as f64 / distances.len().max(1) as f64,
            }
        };
        MeasuredOut {
            profile: one.profile.id().to_string(),
            bits: one.profile.width().bits(),
            points: (0..=one.curve.width() / 4).map(point).collect(),
            short: one.short,
            empty: one.empty,
            collision_factor: one.skew.collision_factor,
            fullest_bucket: one.skew.fullest,
            bytes_per_second: one.bytes_a_second,
            index_bytes_per_document: one.index_bytes,
            edits: one.edits.iter().map(edit).collect(),
        }
    }
}

impl From<&Banded> for BandedOut {
    fn from(one: &Banded) -> BandedOut {
        let point = |&(threshold, found): &(f64, Judged)| {
            let (precision, recall, f1) = (found.precision, found.recall, found.f1());
            ThresholdOut { threshold, precision, recall, f1 }
        };
        BandedOut {
            profile: one.recipe.clone(),
            bands: one.banding.bands,
            rows: one.banding.rows,
            index_bytes_per_document: one.bytes,
            bytes_per_second: one.bytes_a_second,
            error: one.error,
            thresholds: one.thresholds.iter().map(point).collect(),
        }
    }
}
