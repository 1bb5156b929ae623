//! Comparisons on the wire.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::content::{ImageIn, PageIn, check_size, page};
use super::found::RelationOut;
use super::hashes::{HashFormat, HashIn, HashOut};
use super::similar::subject;
use super::values::{Id, SignatureHex, StatusOut};
use crate::error::Problem;
use lookalike_service::{
    AskedSide, By, Change, Compared, ComparedPassages, Comparison, DifferingFeature, FeatureComparison,
    Limits, SharedPassage, Side,
};

/// Maximum number of characters of an equal part or passage. Of a longer one, the middle is omitted.
const EQUAL_CHARS: usize = 200;

/// Two sides to compare.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Compare)]
pub struct CompareIn {
    /// The first side.
    a: SideIn,
    /// The second side.
    b: SideIn,
    /// The profile for texts. Default: the collection's profile.
    pub profile: Option<String>,
    /// The distance up to which they match. Default: that of the collection, or of the profile if one is
    /// named.
    pub k: Option<u32>,
    /// Whether the equal parts of `diff` are whole. Default: false, the middle of a long one is omitted.
    #[serde(default)]
    pub whole_diff: bool,
}

/// One side: exactly one of text, html, image, id, hash and signature.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ComparedSide)]
pub(super) struct SideIn {
    /// A text.
    text: Option<String>,
    /// An HTML page.
    html: Option<String>,
    /// Which text of the page is used. Default: `main`.
    page: Option<PageIn>,
    /// The bytes of a JPEG, PNG, WebP or GIF file in base64, for profiles of images.
    #[schema(value_type = Option<String>, content_encoding = "base64")]
    image: Option<ImageIn>,
    /// The id of a stored document.
    #[schema(value_type = Option<Id>)]
    id: Option<Id>,
    /// A hash.
    #[schema(value_type = Option<HashIn>)]
    hash: Option<HashIn>,
    /// A signature, if the profile makes signatures.
    #[schema(value_type = Option<SignatureHex>)]
    signature: Option<SignatureHex>,
    /// The profile that made the hash or signature, with or without version. If it is not that of the
    /// comparison, the request is refused (409).
    profile: Option<String>,
}

impl CompareIn {
    /// Converts both sides for the service; their hashes are in this form.
    pub fn sides(self, form: Option<HashFormat>, limits: &Limits) -> Result<[AskedSide; 2], Problem> {
        let side = |side: SideIn, at: &str| -> Result<AskedSide, Problem> {
            let hash = side.hash.map(|hash| hash.read(form)).transpose();
            let by = page(side.html, side.page)
                .and_then(|html| subject(side.id, side.text, html, hash?, side.signature, side.image))
                .map_err(|problem| problem.within(at))?;
            if let By::Content(content) = &by {
                check_size(at, content, limits)?;
            }
            Ok(AskedSide { by, profile: side.profile })
        };
        Ok([side(self.a, "/a")?, side(self.b, "/b")?])
    }
}

/// The comparison of two sides.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Comparison)]
pub struct ComparisonOut {
    /// The result in one or two sentences.
    summary: String,
    /// Whether they lie within k.
    #[serde(rename = "match")]
    is_match: bool,
    /// What `a` is to `b`. Parts are found only if both texts are available.
    relation: RelationOut,
    /// The number of bits in which the hashes differ, or of cells in which the signatures differ.
    distance: u32,
    /// What was compared: of a document by `id`, what the collection stores.
    compared: ComparedOut,
    /// The similarity of the texts as estimated by their signatures or sketches, 0 to 1, if both sides have
    /// one. With both texts and no signatures it is that of their features by the weights of the
    /// collection, if it has any, and `features.jaccard` is the exact similarity without weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    similarity: Option<f64>,
    /// The cosine of the angle between the counts of all words, 0 to 1, if both texts are available and have
    /// together at most 1 MiB: the measure `cosine` of `min_similarity`. It is the same for all profiles.
    #[serde(skip_serializing_if = "Option::is_none")]
    cosine: Option<f64>,
    /// The distance up to which they match.
    k: u32,
    /// The profile of the hashes.
    profile: String,
    /// The first side.
    a: SideOut,
    /// The second side.
    b: SideOut,
    /// The bits that differ; empty for signatures.
    bits: Vec<BitOut>,
    /// For each block of 16 bits, the least significant first, whether the hashes are equal in it. The index
    /// finds neighbours by such blocks. For signatures: for each band, whether they are equal in it.
    blocks: Vec<bool>,
    /// The comparison of the features, if both texts are available.
    #[serde(skip_serializing_if = "Option::is_none")]
    features: Option<FeaturesOut>,
    /// The word-by-word comparison, if both texts are available: the equal and removed parts are the text
    /// of `a`, the equal and added ones that of `b`. If both have up to 8,000 words, marks and spaces, the
    /// fewest possible are removed and added.
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<Vec<ChangeOut>>,
    /// How much of each text is in the other one, if both texts are available.
    #[serde(skip_serializing_if = "Option::is_none")]
    containment: Option<ContainmentOut>,
}

/// What was compared.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Compared)]
pub(super) enum ComparedOut {
    /// Both texts, besides their hashes or signatures.
    Texts,
    /// Two signatures.
    Signatures,
    /// Two sketches of texts, besides their hashes.
    Sketches,
    /// Two images.
    Images,
    /// Two hashes alone.
    Hashes,
}

impl From<Compared> for ComparedOut {
    fn from(compared: Compared) -> ComparedOut {
        match compared {
            Compared::Texts => ComparedOut::Texts,
            Compared::Signatures => ComparedOut::Signatures,
            Compared::Sketches => ComparedOut::Sketches,
            Compared::Images => ComparedOut::Images,
            Compared::Hashes => ComparedOut::Hashes,
        }
    }
}

/// How much of two texts is in the other one. Passages are compared by their letters and
/// digits: punctuation, spaces, case and the Chinese script have no effect.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Containment)]
pub(super) struct ContainmentOut {
    /// The share of `a` that is in `b`, 0 to 1, by letters and digits.
    a_in_b: f64,
    /// The share of `b` that is in `a`, 0 to 1, by letters and digits.
    b_in_a: f64,
    /// The number of passages of `a` that are in `b`.
    count: usize,
    /// These passages in the order of `a`, at most 100. A passage has 40 letters or more, or 20
    /// Chinese characters; up to 24 letters in a row may differ.
    passages: Vec<SharedPassageOut>,
}

/// Two passages that match.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SharedPassage)]
pub(super) struct SharedPassageOut {
    /// The passage in `a`.
    a: PassageOut,
    /// The passage in `b`.
    b: PassageOut,
    /// The share of the letters of the passage in `a` that `b` has too, 0 to 1.
    equal: f64,
}

/// A passage of a text.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Passage)]
pub(super) struct PassageOut {
    /// Its first character, counted from 0 in the text, or in the main text of a page.
    start: usize,
    /// The character after its last one.
    end: usize,
    /// Its text; the middle of a long one is omitted.
    text: String,
}

impl From<ComparedPassages> for ContainmentOut {
    fn from(compared: ComparedPassages) -> ContainmentOut {
        let passage = |chars: Range<usize>, text: String| PassageOut {
            start: chars.start,
            end: chars.end,
            text: without_middle(text),
        };
        let shared = |(SharedPassage { a, b, equal }, [of_a, of_b]): (_, [String; 2])| SharedPassageOut {
            a: passage(a, of_a),
            b: passage(b, of_b),
            equal,
        };
        let found = compared.found;
        ContainmentOut {
            a_in_b: found.a_in_b,
            b_in_a: found.b_in_a,
            count: found.shared.len(),
            passages: found.shared.into_iter().zip(compared.texts).map(shared).collect(),
        }
    }
}

/// One side of a comparison.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ComparedSideOut)]
pub(super) struct SideOut {
    /// Its hash.
    #[schema(value_type = HashOut)]
    hash: HashOut,
    /// The number of distinct features of its text, if the text is available.
    #[serde(skip_serializing_if = "Option::is_none")]
    features: Option<usize>,
    /// Whether its fingerprint is reliable, if its text is available.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<StatusOut>,
    /// The probability that a copy of its text with one changed word is within k, if its text is available.
    #[serde(skip_serializing_if = "Option::is_none")]
    sensitivity: Option<f64>,
    /// How much there is to see in its image, 0 to 100. Below 50 unlike images have near hashes.
    #[serde(skip_serializing_if = "Option::is_none")]
    quality: Option<u8>,
}

/// A bit that differs.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DifferingBit)]
pub(super) struct BitOut {
    /// Its number; the least significant bit is 0. Of PDQ, bit 16 u + v is the sign of the frequency u + 1
    /// down and v + 1 across.
    bit: u32,
    /// The sums of its votes on both sides. Above 0 the bit is 1, below 0 it is 0; at 0 the profile's rule
    /// for ties decides. A small sum depends on few features.
    #[serde(skip_serializing_if = "Option::is_none")]
    margins: Option<[f64; 2]>,
    /// The features whose difference changed the sum most.
    #[serde(skip_serializing_if = "Option::is_none")]
    moved_by: Option<Vec<DifferingFeatureOut>>,
}

/// The comparison of the features.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ComparedFeatures)]
pub(super) struct FeaturesOut {
    /// The number of features that both sides have.
    shared: usize,
    /// The number of features that differ in number or weight.
    differing: usize,
    /// Shared features ÷ all distinct features, 0 to 1.
    jaccard: f64,
    /// The cosine of the angle between the weights, 0 to 1. What the profile drops, such as stop words, does
    /// not count.
    cosine: f64,
    /// The features that differ most, at most 100.
    greatest: Vec<DifferingFeatureOut>,
}

/// A feature that differs.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DifferingFeature)]
pub(super) struct DifferingFeatureOut {
    /// The normalised text of the feature.
    text: String,
    /// If it is a letter gram of words with spaces: the words that it comes from, at most 3.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    words: Vec<String>,
    /// Its weights on both sides; 0 on a side that does not have it.
    weights: [f64; 2],
}

/// A part of a word-by-word comparison.
#[derive(Debug, Serialize, ToSchema)]
#[serde(tag = "change", rename_all = "lowercase")]
#[schema(as = Change)]
pub(super) enum ChangeOut {
    /// Both texts have it.
    Equal {
        /// The part; if it has more than 200 characters, its first and last 100, unless `whole_diff` is
        /// true.
        text: String,
        /// The number of characters that are omitted between these, if there are any.
        #[serde(skip_serializing_if = "Option::is_none")]
        omitted: Option<usize>,
    },
    /// Only `a` has it.
    Removed {
        /// The part.
        text: String,
    },
    /// Only `b` has it.
    Added {
        /// The part.
        text: String,
    },
}

impl ComparisonOut {
    /// The comparison on the wire. `is_whole` tells whether equal parts are whole.
    pub fn new(compared: Comparison, is_whole: bool, form: Option<HashFormat>) -> ComparisonOut {
        let change = |change| ChangeOut::new(change, is_whole);
        let (is_match, relation) =
            (compared.matches(), compared.relation().map_or(RelationOut::Unlike, RelationOut::from));
        let bits = match &compared.features {
            Some(features) => features
                .flips
                .iter()
                .map(|flip| BitOut {
                    bit: flip.bit,
                    margins: Some(flip.margins),
                    moved_by: Some(flip.moved_by.iter().cloned().map(DifferingFeatureOut::from).collect()),
                })
                .collect(),
            None => compared
                .hashes
                .bits
                .iter()
                .map(|&bit| BitOut { bit, margins: None, moved_by: None })
                .collect(),
        };
        let [a, b] = compared.sides.map(|side| SideOut::new(side, compared.k, form));
        ComparisonOut {
            summary: compared.summary,
            compared: compared.compared.into(),
            is_match,
            relation,
            distance: compared.hashes.distance,
            similarity: compared.similarity,
            cosine: compared.cosine,
            k: compared.k,
            profile: compared.profile,
            a,
            b,
            bits,
            blocks: compared.hashes.blocks,
            features: compared.features.map(FeaturesOut::from),
            diff: compared.diff.map(|changes| changes.into_iter().map(change).collect()),
            containment: compared.containment.map(ContainmentOut::from),
        }
    }
}

impl SideOut {
    fn new(side: Side, k: u32, form: Option<HashFormat>) -> SideOut {
        let made = side.explanation.map(|explanation| explanation.fingerprint);
        SideOut {
            hash: HashOut::new(side.hash, form),
            features: made.map(|made| made.features),
            status: made.map(|made| made.status.into()),
            sensitivity: made.map(|made| made.moved.within(k)),
            quality: side.quality,
        }
    }
}

impl From<FeatureComparison> for FeaturesOut {
    fn from(features: FeatureComparison) -> FeaturesOut {
        let greatest = features.greatest.into_iter().map(DifferingFeatureOut::from);
        FeaturesOut {
            shared: features.shared,
            differing: features.differing,
            jaccard: features.jaccard,
            cosine: features.cosine,
            greatest: greatest.collect(),
        }
    }
}

impl From<DifferingFeature> for DifferingFeatureOut {
    fn from(feature: DifferingFeature) -> DifferingFeatureOut {
        let DifferingFeature { text, words, weights } = feature;
        DifferingFeatureOut { text, words, weights }
    }
}

impl ChangeOut {
    fn new(change: Change, is_whole: bool) -> ChangeOut {
        match change {
            Change::Equal(text) if is_whole => ChangeOut::Equal { text, omitted: None },
            Change::Equal(text) => {
                let omitted = text.chars().count().checked_sub(EQUAL_CHARS).filter(|count| *count > 0);
                ChangeOut::Equal { text: without_middle(text), omitted }
            }
            Change::Removed(text) => ChangeOut::Removed { text },
            Change::Added(text) => ChangeOut::Added { text },
        }
    }
}

fn without_middle(text: String) -> String {
    let count = text.chars().count();
    if count <= EQUAL_CHARS {
        return text;
    }
    let start: String = text.chars().take(EQUAL_CHARS / 2).collect();
    let end: String = text.chars().skip(count - EQUAL_CHARS / 2).collect();
    format!("{start}…{end}")
}
