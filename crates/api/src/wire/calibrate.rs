//! Calibrations on the wire.

use std::fmt;

use serde::de::{Error, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::openapi::schema::{ArrayBuilder, Schema};
use utoipa::openapi::{Ref, RefOr};
use utoipa::{PartialSchema, ToSchema};

use super::few::Few;
use super::values::{Id, Timestamp};
use crate::error::{Body, Problem};
use lookalike_service::{
    CALIBRATION_DOCUMENTS, CALIBRATION_SEED, CALIBRATION_TEXTS, Calibrated, Calibration, Choice,
    DUPLICATE_SHARE, Estimate, Expected, Measured, MeasuredBy, MeasuredSigned, PROMISED, WantedCalibration,
};

/// Two stored documents that are copies of each other: an array of two ids. It is not a tuple, because for an
/// array that is too long serde would report invalid JSON.
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

/// What to measure. All fields are optional.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Calibrate)]
pub struct CalibrateIn {
    /// At most 8 profiles, with or without version, among which to choose. Default: `copies-64`, `copies-128`
    /// and `minhash-copies`; the collection's profile is then measured too, but not recommended.
    #[serde(default)]
    #[schema(example = json!(["copies-64", "copies-128"]))]
    #[schema(value_type = Vec<String>)]
    profiles: Few<String>,
    /// 100 to 20,000 texts to measure. Default: the texts that the collection stores.
    #[schema(min_items = 100, max_items = 20_000)]
    #[schema(value_type = Option<Vec<String>>)]
    texts: Option<Few<String>>,
    /// At most 10,000 pairs of stored documents that are copies of each other. Default: edited copies of the
    /// texts.
    #[serde(default)]
    #[schema(inline, value_type = Vec<CopiesIn>)]
    pairs: Few<CopiesIn>,
    /// The number of texts in the random sample, 100 to 20,000. Default: 5,000.
    #[schema(minimum = 100, maximum = 20_000)]
    sample: Option<usize>,
    /// The number of documents for which precision is computed and k is chosen. Default: that of the
    /// collection, but at least 1,000,000.
    #[schema(minimum = 1, maximum = 1_000_000_000_000_i64)]
    documents: Option<u64>,
    /// The share of the documents that have a copy among them, above 0 and at most 1. Precision depends on
    /// it: the fewer documents have a copy, the more of the found ones are wrong. Default: 0.1.
    #[schema(exclusive_minimum = 0, maximum = 1, example = 0.1)]
    duplicate_share: Option<f64>,
    /// The seed of the sample, the edits and the intervals. Equal seeds give equal results.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 9_007_199_254_740_991_i64)]
    seed: u64,
}

const _: () = assert!(CALIBRATION_TEXTS == 20_000, "the contract says so");
const _: () = assert!(CALIBRATION_DOCUMENTS == 1_000_000_000_000, "the contract says so");
const _: () = assert!(DUPLICATE_SHARE == 0.1, "the contract says so");
const _: () = assert!(PROMISED == 0.97, "the contract says so");
const _: () = assert!(CALIBRATION_SEED == 9_007_199_254_740_991, "the contract says so");

impl From<CalibrateIn> for WantedCalibration {
    fn from(wanted: CalibrateIn) -> WantedCalibration {
        WantedCalibration {
            profiles: wanted.profiles.0,
            texts: wanted.texts.map(|texts| texts.0),
            pairs: wanted.pairs.0.into_iter().map(|CopiesIn(a, b)| (a.0, b.0)).collect(),
            sample: wanted.sample,
            documents: wanted.documents,
            duplicate_share: wanted.duplicate_share,
            seed: wanted.seed,
        }
    }
}

/// The state of a calibration.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = CalibrationState)]
pub(super) enum StateOut {
    /// It reads documents or measures profiles.
    Running,
    /// It has ended, and has a `result`.
    Done,
    /// It has ended without a result; `error` has the reason.
    Failed,
}

/// A calibration.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Calibration)]
pub struct CalibrationOut {
    state: StateOut,
    /// When it was started.
    #[schema(value_type = Timestamp)]
    started_at: Timestamp,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Timestamp>)]
    ended_at: Option<Timestamp>,
    progress: ProgressOut,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<CalibratedOut>,
    /// The reason, if there is no result.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Body>,
}

/// The progress of a calibration.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CalibrationProgress)]
pub(super) struct ProgressOut {
    /// The number of documents read.
    documents_read: u64,
    /// The number of documents to read.
    documents: u64,
    /// The number of profiles measured.
    profiles_measured: usize,
    /// The number of profiles to measure.
    profiles: usize,
}

/// The result of a calibration.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Calibrated)]
pub(super) struct CalibratedOut {
    /// The result in a few sentences.
    summary: String,
    /// The profile and k that find most, with a precision whose interval begins at 0.97 or above; absent if
    /// there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    recommended: Option<RecommendationOut>,
    /// What is recommended with the collection's profile, if that was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    recommended_with_this_profile: Option<RecommendationOut>,
    assumptions: AssumptionsOut,
    /// The source of the pairs to find.
    labels: LabelsOut,
    /// The number of texts, including edited copies.
    texts: usize,
    /// The size of the texts in bytes.
    bytes: usize,
    /// The number of pairs to find.
    pairs: usize,
    /// The number of unmarked pairs that look like copies. They are ignored.
    unmarked_copies: usize,
    /// The number of unmarked pairs that may be copies. They are ignored, except that they count as wrong at
    /// the ends of intervals on the side of caution.
    doubtful_pairs: usize,
    /// The number of stored marks "not a duplicate" that are labels: those of documents with texts, the first
    /// ones in the order of ids, of at most half as many documents as the sample has.
    marks: usize,
    /// The results of profiles that make hashes.
    profiles: Vec<MeasuredOut>,
    /// The results of profiles that make signatures.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    signatures: Vec<SignedOut>,
}

/// What a calibration assumes. Intervals do not cover errors of these assumptions.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CalibrationAssumptions)]
pub(super) struct AssumptionsOut {
    /// The number of documents for which precision is computed and k is chosen.
    documents: u64,
    /// The share of the documents that have a copy among them.
    duplicate_share: f64,
    /// The edits by which copies were made, all equally frequent. Absent if the pairs are marked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    edits: Vec<String>,
    /// The number of texts, including edited copies, which the other documents are assumed to resemble.
    texts: usize,
}

/// An interval that covers the figure in 95 of 100 samples of the texts. Its end on the side of caution
/// counts doubtful pairs as wrong.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[schema(as = Interval)]
pub(super) struct IntervalOut {
    /// The lower end.
    low: f64,
    /// The upper end.
    high: f64,
}

impl From<Estimate> for IntervalOut {
    fn from(estimate: Estimate) -> IntervalOut {
        IntervalOut { low: estimate.low, high: estimate.high }
    }
}

/// The source of the pairs to find.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = CalibrationLabels)]
pub(super) enum LabelsOut {
    /// Each text and an edited copy of it.
    Edits,
    /// The pairs of the request.
    Pairs,
}

/// A profile and a k.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Recommendation)]
pub(super) struct RecommendationOut {
    #[schema(example = "copies-128@1")]
    profile: String,
    /// Of signatures: the similarity at `k`, which is the setting `threshold` of a collection.
    #[serde(skip_serializing_if = "Option::is_none")]
    threshold: Option<f64>,
    #[serde(flatten)]
    expected: PointOut,
}

/// The measurements of a profile.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = MeasuredProfile)]
pub(super) struct MeasuredOut {
    #[schema(example = "copies-64@1")]
    profile: String,
    bits: u32,
    /// Precision and recall at each k, up to a quarter of the bits.
    points: Vec<PointOut>,
    /// The number of short texts, whose fingerprints are unreliable.
    short: usize,
    /// The number of texts without a feature. They are not counted.
    empty: usize,
    /// The probability that two hashes are equal in a block of 16 bits, times 65,536; 1 if the hashes are
    /// distributed uniformly.
    collision_factor: f64,
    /// The share of the hashes in the largest bucket of 16 bits, 0 to 1.
    fullest_bucket: f64,
    /// Bytes of text per second on one core, next to the other work of the server.
    bytes_per_second: f64,
    /// Bytes of the index per document, in an index of these hashes.
    index_bytes_per_document: f64,
    /// For each kind of edit, the share of the pairs that is found at the profile's default k.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    edits: Vec<EditOut>,
}

/// Precision and recall at one k, under the assumptions.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CurvePoint)]
pub(super) struct PointOut {
    k: u32,
    /// The share of the found documents that are copies, 0 to 1.
    precision: f64,
    precision_interval: IntervalOut,
    /// The share of the copies that are found, 0 to 1.
    recall: f64,
    recall_interval: IntervalOut,
    f1: f64,
    /// The expected number of wrong neighbours of a query.
    false_neighbours: f64,
    false_neighbours_interval: IntervalOut,
    /// Whether too few wrong pairs lie within k to be counted. Then the number of wrong neighbours is
    /// extrapolated from larger distances.
    extrapolated: bool,
}

/// The measurements of one kind of edit.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = MeasuredEdit)]
pub(super) struct EditOut {
    #[schema(example = "cut by 10 %")]
    edit: String,
    pairs: usize,
    /// The share of the pairs that is found, 0 to 1.
    found: f64,
}

/// The measurements of a profile that makes signatures.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = MeasuredSignatures)]
pub(super) struct SignedOut {
    #[schema(example = "minhash-copies@1")]
    profile: String,
    bands: u16,
    rows: u16,
    /// Bytes of the signature and the index per document.
    index_bytes_per_document: f64,
    /// Bytes of text per second on one core, next to the other work of the server.
    bytes_per_second: f64,
    /// The number of short texts, whose signatures are unreliable.
    short: usize,
    /// The number of texts without a feature. They are not counted.
    empty: usize,
    /// Precision and recall at some thresholds, by ascending k.
    thresholds: Vec<ThresholdOut>,
}

/// Precision and recall at one threshold.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ThresholdPoint)]
pub(super) struct ThresholdOut {
    threshold: f64,
    #[serde(flatten)]
    expected: PointOut,
}

impl From<Calibration> for CalibrationOut {
    fn from(calibration: Calibration) -> CalibrationOut {
        let (state, result, error) = match calibration.outcome {
            None => (StateOut::Running, None, None),
            Some(Ok(found)) => (StateOut::Done, Some(CalibratedOut::from(&*found)), None),
            Some(Err(error)) => (StateOut::Failed, None, Some(Problem::from(&*error).body())),
        };
        CalibrationOut {
            state,
            started_at: Timestamp(calibration.started_ms),
            ended_at: calibration.ended_ms.map(Timestamp),
            progress: ProgressOut {
                documents_read: calibration.read.0,
                documents: calibration.read.1,
                profiles_measured: calibration.measured.0,
                profiles: calibration.measured.1,
            },
            result,
            error,
        }
    }
}

impl From<&Calibrated> for CalibratedOut {
    fn from(found: &Calibrated) -> CalibratedOut {
        let (mut profiles, mut signatures) = (Vec::new(), Vec::new());
        for one in &found.candidates {
            match &one.by {
                MeasuredBy::Hashes(measured) => profiles.push(MeasuredOut::of(measured, &one.expected)),
                MeasuredBy::Signatures(measured) => signatures.push(SignedOut::of(measured, &one.expected)),
            }
        }
        CalibratedOut {
            summary: found.summary(),
            recommended: found.recommended.as_ref().map(RecommendationOut::from),
            recommended_with_this_profile: found.recommended_here.as_ref().map(RecommendationOut::from),
            assumptions: AssumptionsOut {
                documents: found.assumed.documents,
                duplicate_share: found.assumed.duplicate_share,
                edits: found.edits.clone(),
                texts: found.texts,
            },
            labels: if found.is_marked { LabelsOut::Pairs } else { LabelsOut::Edits },
            texts: found.texts,
            bytes: found.bytes,
            pairs: found.pairs,
            unmarked_copies: found.aside,
            doubtful_pairs: found.doubtful,
            marks: found.marks,
            profiles,
            signatures,
        }
    }
}

impl From<&Choice> for RecommendationOut {
    fn from(best: &Choice) -> RecommendationOut {
        RecommendationOut {
            profile: best.profile.clone(),
            threshold: best.threshold,
            expected: PointOut::from(&best.expected),
        }
    }
}

impl From<&Expected> for PointOut {
    fn from(point: &Expected) -> PointOut {
        PointOut {
            k: point.k,
            precision: point.precision.value,
            precision_interval: point.precision.into(),
            recall: point.recall.value,
            recall_interval: point.recall.into(),
            f1: point.f1(),
            false_neighbours: point.wrong.value,
            false_neighbours_interval: point.wrong.into(),
            extrapolated: point.is_extrapolated,
        }
    }
}

impl MeasuredOut {
    fn of(one: &Measured, expected: &[Expected]) -> MeasuredOut {
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
            points: expected.iter().take(one.curve.width() as usize / 4 + 1).map(PointOut::from).collect(),
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

impl SignedOut {
    fn of(one: &MeasuredSigned, expected: &[Expected]) -> SignedOut {
        let step = (usize::from(one.shape.cells) / 20).max(1);
        let point = |point: &Expected| ThresholdOut {
            threshold: one.shape.threshold_of(point.k),
            expected: PointOut::from(point),
        };
        SignedOut {
            profile: one.profile.id().to_string(),
            bands: one.shape.bands,
            rows: one.shape.rows,
            index_bytes_per_document: one.index_bytes,
            bytes_per_second: one.bytes_a_second,
            short: one.short,
            empty: one.empty,
            thresholds: expected.iter().step_by(step).map(point).collect(),
        }
    }
}
