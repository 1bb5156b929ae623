//! Fingerprints on the wire.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::content::PageIn;
use super::features::{CountedOut, FeatureIn};
use super::few::Few;
use super::hashes::Hex;
use super::values::{SignatureHex, StatusOut};
use crate::service::{Explained, Fingerprinted};

/// The answer to one text, to several texts, or to features.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = FingerprintOrFingerprints)]
#[allow(dead_code, reason = "a shape for the contract")]
pub(in crate::http) enum FingerprintedOneOrSeveral {
    One(FingerprintOut),
    Several(FingerprintsOut),
    Counted(CountedOut),
}

/// What to fingerprint: one of text and html, several texts, or features with their weights.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = FingerprintRequest)]
pub(in crate::http) struct FingerprintIn {
    /// A text.
    pub(in crate::http) text: Option<String>,
    /// An HTML page.
    pub(in crate::http) html: Option<String>,
    /// Which text of the page is used. Default: `main`.
    pub(in crate::http) page: Option<PageIn>,
    /// Several texts.
    #[schema(value_type = Option<Vec<String>>)]
    pub(in crate::http) texts: Option<Few<String>>,
    /// The profile, with or without version. Default: that of the collection `default`.
    #[schema(example = "copies-64")]
    pub(in crate::http) profile: Option<String>,
    /// Features with their weights, hashed by the rules of the profile unless others are given: `[text,
    /// weight]`, `[text, weight, hash]` or `[{"hash": hash}, weight]`, at most 10,000. A text is hashed
    /// unchanged. A hash has as many binary digits as bits, or hexadecimal digits.
    #[schema(value_type = Option<Vec<Vec<Value>>>, example = json!([["美国", 5], ["51区", 2]]))]
    pub(in crate::http) features: Option<Few<FeatureIn>>,
    /// Sums of votes in place of features, the most significant bit first: one for each bit.
    #[schema(value_type = Option<Vec<f64>>)]
    pub(in crate::http) sums: Option<Few<f64>>,
    /// The width of the fingerprint of features, 4 to 160. Default: that of the profile.
    pub(in crate::http) bits: Option<u32>,
    /// The hash function of features: `xxh3`, `md5`, `sha-1`, `sha-256`, `fnv-1a`, `fnv-1a-utf16` or
    /// `lookup3`. Default: that of the profile.
    #[schema(example = "md5")]
    pub(in crate::http) function: Option<String>,
    /// The value of a bit whose votes are even, for features: `smallest`, `zero` or `one`. Default: that of
    /// the profile.
    pub(in crate::http) tie: Option<String>,
    /// Whether to add the weighted features and the votes on each bit. Not allowed with `texts`.
    #[serde(default)]
    pub(in crate::http) explain: bool,
}

/// A fingerprint.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Fingerprint)]
pub(in crate::http) struct FingerprintOut {
    /// The hash.
    #[schema(value_type = Hex)]
    hash: Hex,
    /// The signature, if the profile makes signatures. The hash is the name of the signature.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<SignatureHex>)]
    signature: Option<SignatureHex>,
    /// The width of the hash: 64 or 128.
    bits: u32,
    /// The profile.
    #[schema(example = "copies-128@1")]
    profile: String,
    /// The number of distinct features of the text.
    features: usize,
    /// Whether the fingerprint is reliable.
    status: StatusOut,
    /// The distance up to which another hash is that of a near-duplicate, unless a request or a collection
    /// has another one. For most profiles it is the same for all texts.
    k: u32,
    /// The probability that a copy of the text with one changed word is within this k. Below 0.9 the status
    /// is `short`.
    sensitivity: f64,
    /// The features and votes, if they were requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<ExplainedOut>,
}

/// Fingerprints, in the order of the texts.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Fingerprints)]
pub(in crate::http) struct FingerprintsOut {
    /// The fingerprint of each text.
    pub(in crate::http) fingerprints: Vec<FingerprintOut>,
}

/// The features of a fingerprint, and their votes.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Explanation)]
pub(in crate::http) struct ExplainedOut {
    /// The distinct features, heaviest first, at most 10,000. `features` of the fingerprint is their number.
    features: Vec<FeatureOut>,
    /// The sum of the votes on each bit, the least significant bit first. Above 0 the bit is 1, below 0 it is
    /// 0. At 0 the profile's rule for ties decides: `zero`, `one`, or by default the bit of the smallest hash
    /// of the features. Empty for a signature.
    votes: Vec<f64>,
}

/// A feature.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Feature)]
pub(in crate::http) struct FeatureOut {
    /// Its normalised text.
    text: String,
    /// Its weight in the vote.
    weight: f64,
    /// Its hash.
    #[schema(value_type = Hex)]
    hash: Hex,
}

impl From<Fingerprinted> for FingerprintOut {
    fn from(made: Fingerprinted) -> FingerprintOut {
        FingerprintOut {
            hash: Hex(made.fingerprint.hash),
            signature: made.signature.map(SignatureHex),
            bits: made.profile.width().bits(),
            profile: made.profile.id().to_string(),
            features: made.fingerprint.features,
            status: made.fingerprint.status.into(),
            k: made.fingerprint.k,
            sensitivity: made.fingerprint.moved.within(made.fingerprint.k),
            explanation: None,
        }
    }
}

impl From<Explained> for FingerprintOut {
    fn from(explained: Explained) -> FingerprintOut {
        let Explained { profile, explanation } = explained;
        let (fingerprint, signature) = (explanation.fingerprint, explanation.signature);
        let features = explanation.features.into_iter().map(|feature| FeatureOut {
            text: feature.text,
            weight: feature.weight,
            hash: Hex(feature.hash),
        });
        let explanation = ExplainedOut { features: features.collect(), votes: explanation.votes };
        let made = Fingerprinted { profile, fingerprint, signature };
        FingerprintOut { explanation: Some(explanation), ..FingerprintOut::from(made) }
    }
}
