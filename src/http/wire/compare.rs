//! Comparisons on the wire.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::similar::subject;
use super::values::{Hex, Id, SignatureHex, StatusOut};
use crate::http::error::{Code, Problem};
use crate::service::{By, Change, Comparison, Content, FeatureComparison, Side};

/// The longest equal stretch in an answer that is given whole, in characters; of longer ones both ends are
/// given.
const EQUAL: usize = 200;

/// Two sides to be compared.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Compare)]
pub(in crate::http) struct CompareIn {
    /// One side.
    a: SideIn,
    /// The other.
    b: SideIn,
    /// The profile for texts; the collection's if there is none.
    pub(in crate::http) profile: Option<String>,
    /// The distance up to which they match; the collection's if there is none.
    pub(in crate::http) k: Option<u32>,
}

/// A side: exactly one of text, html, id, hash and signature.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ComparedSide)]
pub(in crate::http) struct SideIn {
    /// A text.
    text: Option<String>,
    /// A page, whose main text counts.
    html: Option<String>,
    /// A stored document.
    #[schema(value_type = Option<Id>)]
    id: Option<Id>,
    /// A hash.
    #[schema(value_type = Option<Hex>)]
    hash: Option<Hex>,
    /// A signature, if the profile makes signatures.
    #[schema(value_type = Option<SignatureHex>)]
    signature: Option<SignatureHex>,
}

impl CompareIn {
    /// Both sides as the service takes them.
    pub(in crate::http) fn sides(self, text_limit: usize) -> Result<[By; 2], Problem> {
        let side = |side: SideIn, at: &str| {
            let by = subject(side.id, side.text, side.html, side.hash, side.signature)
                .map_err(|problem| problem.within(at))?;
            match &by {
                By::Content(Content::Text(text) | Content::Html(text)) if text.len() > text_limit => {
                    let bytes = text.len();
                    let detail = format!(
                        "{at} has {bytes} bytes; at most {text_limit} are taken (limits.document_bytes)"
                    );
                    Err(Problem::new(Code::TooLarge, detail))
                }
                _ => Ok(by),
            }
        };
        Ok([side(self.a, "/a")?, side(self.b, "/b")?])
    }
}

/// Two sides compared.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Comparison)]
pub(in crate::http) struct ComparisonOut {
    /// All of it in a sentence or two.
    summary: String,
    /// Whether they lie within k.
    #[serde(rename = "match")]
    is_match: bool,
    /// The bits in which the hashes differ, or the cells of the signatures.
    distance: u32,
    /// How similar the signatures say the texts are, 0 to 1, if the profile makes signatures.
    #[serde(skip_serializing_if = "Option::is_none")]
    similarity: Option<f64>,
    /// The distance up to which they match.
    k: u32,
    /// The profile by which texts were hashed.
    profile: String,
    /// One side.
    a: SideOut,
    /// The other.
    b: SideOut,
    /// Each bit that differs; none of signatures.
    bits: Vec<BitOut>,
    /// For each 16 bits of the hashes, the least significant first, whether they agree: the index finds
    /// neighbours by such blocks. Of signatures, for each band whether they agree in it.
    blocks: Vec<bool>,
    /// The features side by side, if both texts are at hand.
    #[serde(skip_serializing_if = "Option::is_none")]
    features: Option<FeaturesOut>,
    /// The texts word by word, if both are at hand and neither has more than 5,000 words, marks and spaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<Vec<ChangeOut>>,
}

/// One side of a comparison.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ComparedSideOut)]
pub(in crate::http) struct SideOut {
    /// Its hash.
    #[schema(value_type = Hex)]
    hash: Hex,
    /// How many distinct features it was made from, if its text is at hand.
    #[serde(skip_serializing_if = "Option::is_none")]
    features: Option<usize>,
    /// Whether it is to be trusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<StatusOut>,
}

/// A bit that differs.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DifferingBit)]
pub(in crate::http) struct BitOut {
    /// Which, the least significant being 0.
    bit: u32,
    /// The sums of its votes on both sides: above 0 it is one, below 0 it is not, and at 0 it is as the
    /// profile has it for ties. Small ones hang by few features.
    #[serde(skip_serializing_if = "Option::is_none")]
    margins: Option<[f64; 2]>,
    /// The features whose difference moved it most.
    #[serde(skip_serializing_if = "Option::is_none")]
    moved_by: Option<Vec<String>>,
}

/// Features side by side.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ComparedFeatures)]
pub(in crate::http) struct FeaturesOut {
    /// How many features both have.
    shared: usize,
    /// How many differ in number or weight.
    differing: usize,
    /// Shared ÷ all distinct features, 0 to 1.
    jaccard: f64,
    /// The cosine of the angle between the weights, 0 to 1.
    cosine: f64,
    /// Those that differ most, at most 100.
    greatest: Vec<DifferingFeatureOut>,
}

/// A feature that differs.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DifferingFeature)]
pub(in crate::http) struct DifferingFeatureOut {
    /// The feature, normalised.
    text: String,
    /// Its weights on both sides, 0 where it is not.
    weights: [f64; 2],
}

/// A stretch of a word-by-word comparison.
#[derive(Debug, Serialize, ToSchema)]
#[serde(tag = "change", rename_all = "lowercase")]
#[schema(as = Change)]
pub(in crate::http) enum ChangeOut {
    /// Both have it.
    Equal {
        /// The stretch; the middle of a long one is left out.
        text: String,
    },
    /// Only `a` has it.
    Removed {
        /// The stretch.
        text: String,
    },
    /// Only `b` has it.
    Added {
        /// The stretch.
        text: String,
    },
}

impl From<Comparison> for ComparisonOut {
    fn from(compared: Comparison) -> ComparisonOut {
        let is_match = compared.matches();
        let bits = match &compared.features {
            Some(features) => features
                .flips
                .iter()
                .map(|flip| BitOut {
                    bit: flip.bit,
                    margins: Some(flip.margins),
                    moved_by: Some(flip.moved_by.clone()),
                })
                .collect(),
            None => compared
                .hashes
                .bits
                .iter()
                .map(|&bit| BitOut { bit, margins: None, moved_by: None })
                .collect(),
        };
        let [a, b] = compared.sides.map(SideOut::from);
        ComparisonOut {
            summary: compared.summary,
            is_match,
            distance: compared.hashes.distance,
            similarity: compared.similarity,
            k: compared.k,
            profile: compared.profile.id().to_string(),
            a,
            b,
            bits,
            blocks: compared.hashes.blocks,
            features: compared.features.map(FeaturesOut::from),
            diff: compared.diff.map(|changes| changes.into_iter().map(ChangeOut::from).collect()),
        }
    }
}

impl From<Side> for SideOut {
    fn from(side: Side) -> SideOut {
        let made = side.explanation.map(|explanation| explanation.fingerprint);
        SideOut {
            hash: Hex(side.hash),
            features: made.map(|made| made.features),
            status: made.map(|made| made.status.into()),
        }
    }
}

impl From<FeatureComparison> for FeaturesOut {
    fn from(features: FeatureComparison) -> FeaturesOut {
        let greatest = features
            .greatest
            .into_iter()
            .map(|feature| DifferingFeatureOut { text: feature.text, weights: feature.weights });
        FeaturesOut {
            shared: features.shared,
            differing: features.differing,
            jaccard: features.jaccard,
            cosine: features.cosine,
            greatest: greatest.collect(),
        }
    }
}

impl From<Change> for ChangeOut {
    fn from(change: Change) -> ChangeOut {
        match change {
            Change::Equal(text) => ChangeOut::Equal { text: without_middle(text) },
            Change::Removed(text) => ChangeOut::Removed { text },
            Change::Added(text) => ChangeOut::Added { text },
        }
    }
}

fn without_middle(text: String) -> String {
    let count = text.chars().count();
    if count <= EQUAL {
        return text;
    }
    let start: String = text.chars().take(EQUAL / 2).collect();
    let end: String = text.chars().skip(count - EQUAL / 2).collect();
    format!("{start}…{end}")
}
