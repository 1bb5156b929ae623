//! Fingerprints on the wire.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::content::{ImageIn, PageIn};
use super::features::FeatureIn;
use super::few::Few;
use super::hashes::{HashFormat, form_of};
use super::values::{SignatureHex, StatusOut};
use lookalike_hash::WideHash;
use lookalike_service::{CharsetOf, Counted, Explained, Fingerprinted, GivenFeature};

/// The most given features whose votes an explanation lists.
const LISTED: usize = 1_000;

/// What to fingerprint: one of text, html, image, features with their weights, and sums of votes.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = FingerprintRequest)]
pub struct FingerprintIn {
    /// A text.
    pub text: Option<String>,
    /// An HTML page.
    pub html: Option<String>,
    /// Which text of the page is used. Default: `main`.
    pub page: Option<PageIn>,
    /// The bytes of a JPEG, PNG, WebP or GIF file in base64, for profiles of images.
    #[schema(value_type = Option<String>, content_encoding = "base64")]
    pub image: Option<ImageIn>,
    /// The profile, with or without version. Default: that of the collection `default`.
    #[schema(example = "copies-64")]
    pub profile: Option<String>,
    /// Features with their weights, hashed by the rules of the profile unless others are given: `[text,
    /// weight]`, `[text, weight, hash]` or `[{"hash": hash}, weight]`, at most 10,000. A text is hashed
    /// unchanged. A hash has as many binary digits as bits, or hexadecimal digits.
    #[schema(value_type = Option<Vec<Vec<Value>>>, example = json!([["美国", 5], ["51区", 2]]))]
    pub features: Option<Few<FeatureIn>>,
    /// Sums of votes in place of features, the most significant bit first: one for each bit.
    #[schema(value_type = Option<Vec<f64>>)]
    pub sums: Option<Few<f64>>,
    /// The width of the fingerprint of features, 4 to 160. Default: that of the profile.
    pub bits: Option<u32>,
    /// The hash function of features: `xxh3`, `md5`, `sha-1`, `sha-256`, `fnv-1a`, `fnv-1a-utf16` or
    /// `lookup3`. Default: that of the profile.
    #[schema(example = "md5")]
    pub function: Option<String>,
    /// The value of a bit whose votes are even, for features: `smallest`, `zero` or `one`. Default: that of
    /// the profile.
    pub tie: Option<String>,
    /// Whether to add the weighted features and the votes on each bit.
    #[serde(default)]
    pub explain: bool,
}

/// Several texts or several images to fingerprint.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = FingerprintBatch)]
pub struct TextsIn {
    /// The texts, at most 1,000.
    #[schema(value_type = Option<Vec<String>>)]
    pub texts: Option<Few<String>>,
    /// In place of texts, the bytes of JPEG, PNG, WebP or GIF files in base64, at most 1,000.
    #[schema(value_type = Option<Vec<String>>)]
    pub images: Option<Few<ImageIn>>,
    /// The profile, with or without version. Default: that of the collection `default`; of images `pdq`,
    /// unless that takes images.
    #[schema(example = "copies-64")]
    pub profile: Option<String>,
}

/// A fingerprint.
#[derive(Debug, Default, Serialize, ToSchema)]
#[schema(as = Fingerprint)]
pub struct FingerprintOut {
    /// The hash in hexadecimal digits, or in the form of `hash_format`.
    #[schema(example = "f776119227163845")]
    hash: String,
    /// The hash in binary digits, for given features and sums.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "100111")]
    binary: Option<String>,
    /// The signature, if the profile makes signatures. The hash is the name of the signature.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<SignatureHex>)]
    signature: Option<SignatureHex>,
    /// The width of the hash: 64 or 128 for texts, 4 to 160 for given features.
    bits: u32,
    /// The profile. For given features, if its hash function, width and tie rule were used: the hash can be
    /// stored with its hashes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "copies-128@1")]
    profile: Option<String>,
    /// The number of distinct features of the text, or of given features.
    features: usize,
    /// The hash function of given features whose hash was not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    function: Option<&'static str>,
    /// The rule for a bit whose votes are even, for given features.
    #[serde(skip_serializing_if = "Option::is_none")]
    tie: Option<&'static str>,
    /// Whether the fingerprint of a text is reliable.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<StatusOut>,
    /// The distance up to which another hash is that of a near-duplicate, unless a request or a collection
    /// has another one. For most profiles it is the same for all texts.
    #[serde(skip_serializing_if = "Option::is_none")]
    k: Option<u32>,
    /// The probability that a copy of the text with one changed word is within this k. Below 0.9 the status
    /// is `short`.
    #[serde(skip_serializing_if = "Option::is_none")]
    sensitivity: Option<f64>,
    /// How much there is to see in an image, 0 to 100. Below 50 unlike images have near hashes, and the
    /// status is `short`.
    #[serde(skip_serializing_if = "Option::is_none")]
    quality: Option<u8>,
    /// Which text of a page was used.
    #[serde(skip_serializing_if = "Option::is_none")]
    page: Option<PageIn>,
    /// The charset of a body of text or HTML.
    #[serde(skip_serializing_if = "Option::is_none")]
    charset: Option<CharsetOut>,
    /// The features and votes, if they were requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<ExplainedOut>,
}

/// The charset that a text or a page was read in.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[schema(as = Charset)]
pub struct CharsetOut {
    /// Its name.
    #[schema(example = "GBK")]
    name: &'static str,
    /// Whether nothing declares it, or what declares another one is wrong.
    guessed: bool,
    /// The number of U+FFFD in place of invalid bytes.
    replaced: usize,
}

impl From<CharsetOf> for CharsetOut {
    fn from(charset: CharsetOf) -> CharsetOut {
        CharsetOut { name: charset.encoding.name(), guessed: charset.is_guessed, replaced: charset.replaced }
    }
}

/// Fingerprints, in the order of the texts.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Fingerprints)]
pub struct FingerprintsOut {
    /// The fingerprint of each text.
    pub fingerprints: Vec<FingerprintOut>,
}

/// The features of a fingerprint, and their votes.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Explanation)]
pub(super) struct ExplainedOut {
    /// The distinct features of a text, heaviest first, at most 10,000; or given features in their order, at
    /// most 1,000. `features` of the fingerprint is their number.
    features: Vec<FeatureOut>,
    /// For a text: the sum of the votes on each bit, the least significant bit first. Above 0 the bit is 1,
    /// below 0 it is 0. At 0 the profile's rule for ties decides: `zero`, `one`, or by default the bit of the
    /// smallest hash of the features. Empty for a signature.
    #[serde(skip_serializing_if = "Option::is_none")]
    votes: Option<Vec<f64>>,
    /// For given features: the same sums, the most significant bit first.
    #[serde(skip_serializing_if = "Option::is_none")]
    sums: Option<Vec<f64>>,
}

/// A feature.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Feature)]
pub(super) struct FeatureOut {
    /// Its text: normalised, or as it was given.
    text: String,
    /// If it is a letter gram of words with spaces: the words that it comes from, at most 3.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    words: Vec<String>,
    /// Its weight in the vote.
    weight: f64,
    /// Its hash; that of a given feature is binary.
    #[schema(example = "100101")]
    hash: String,
    /// The votes of a given feature on each bit, the most significant bit first: its weight for a 1, and
    /// minus its weight for a 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    votes: Option<Vec<f64>>,
}

impl FingerprintOut {
    /// A fingerprint with its hash in this form.
    pub fn new(made: Fingerprinted, form: Option<HashFormat>) -> FingerprintOut {
        let fingerprint = made.fingerprint;
        FingerprintOut {
            hash: form_of(form).write(fingerprint.hash),
            signature: made.signature.map(SignatureHex),
            bits: made.profile.width().bits(),
            profile: Some(made.profile.id().to_string()),
            features: fingerprint.features,
            status: Some(fingerprint.status.into()),
            k: Some(fingerprint.k),
            sensitivity: made.quality.is_none().then(|| fingerprint.moved.within(fingerprint.k)),
            quality: made.quality,
            page: made.page.map(PageIn::from),
            ..FingerprintOut::default()
        }
    }

    /// The answer with the steps of the fingerprint.
    pub fn explained(explained: Explained, form: Option<HashFormat>) -> FingerprintOut {
        let Explained { profile, explanation, page } = explained;
        let (fingerprint, signature) = (explanation.fingerprint, explanation.signature);
        let features = explanation.features.into_iter().map(|feature| FeatureOut {
            text: feature.text,
            words: feature.words,
            weight: feature.weight,
            hash: form_of(form).write(feature.hash),
            votes: None,
        });
        let (features, votes) = (features.collect(), Some(explanation.votes));
        let made = Fingerprinted { profile, fingerprint, signature, page, quality: None };
        let explanation = Some(ExplainedOut { features, votes, sums: None });
        FingerprintOut { explanation, ..FingerprintOut::new(made, form) }
    }

    /// The answer with the charset of the body.
    #[must_use]
    pub fn read_in(self, charset: Option<CharsetOf>) -> FingerprintOut {
        FingerprintOut { charset: charset.map(CharsetOut::from), ..self }
    }

    /// The fingerprint of given features, with its steps if `explain`.
    pub fn counted(counted: Counted, explain: bool, form: Option<HashFormat>) -> FingerprintOut {
        let Counted { profile, ballot, features, voted } = counted;
        let count = features.len();
        let steps = || {
            let step = |(feature, hash): (GivenFeature, &WideHash)| FeatureOut {
                text: feature.text,
                weight: feature.weight,
                hash: hash.to_binary(),
                words: Vec::new(),
                votes: Some(votes(hash, feature.weight)),
            };
            let features = features.into_iter().zip(&voted.features).take(LISTED).map(step).collect();
            ExplainedOut { features, votes: None, sums: Some(voted.sums.clone()) }
        };
        FingerprintOut {
            hash: form_of(form).write_wide(voted.hash),
            binary: Some(voted.hash.to_binary()),
            bits: ballot.width(),
            function: Some(ballot.function()),
            tie: Some(ballot.tie()),
            profile: profile.map(|profile| profile.id().to_string()),
            features: count,
            explanation: explain.then(steps),
            ..FingerprintOut::default()
        }
    }
}

/// The votes of a feature on each bit.
fn votes(hash: &WideHash, weight: f64) -> Vec<f64> {
    hash.bits().map(|bit| if bit { weight } else { -weight }).collect()
}
