//! Given features and their fingerprints on the wire.

use std::fmt;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use super::few::Few;
use super::hashes::written_wide;
use crate::service::{Counted, GivenFeature};

/// The most features whose votes an explanation lists.
const LISTED: usize = 1_000;

/// A feature: `[text, weight]`, `[text, weight, hash]` or `[{"hash": hash}, weight]`.
#[derive(Clone, Debug)]
pub(in crate::http) struct FeatureIn(pub(in crate::http) GivenFeature);

/// The first element of a feature.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a text, or an object with a hash")]
enum First {
    Text(String),
    Hash(OnlyHash),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OnlyHash {
    hash: String,
}

impl<'de> Deserialize<'de> for FeatureIn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<FeatureIn, D::Error> {
        struct Elements;

        impl<'de> Visitor<'de> for Elements {
            type Value = FeatureIn;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a feature: [text, weight], [text, weight, hash] or [{\"hash\": hash}, weight]")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<FeatureIn, A::Error> {
                let first = elements.next_element()?.ok_or_else(|| A::Error::invalid_length(0, &self))?;
                let weight = elements.next_element()?.ok_or_else(|| A::Error::invalid_length(1, &self))?;
                let third: Option<String> = elements.next_element()?;
                let (text, hash) = match first {
                    First::Text(text) => (text, third),
                    First::Hash(OnlyHash { hash }) if third.is_none() => (String::new(), Some(hash)),
                    First::Hash(_) => return Err(A::Error::invalid_length(3, &self)),
                };
                if elements.next_element::<serde::de::IgnoredAny>()?.is_some() {
                    return Err(A::Error::invalid_length(4, &self));
                }
                Ok(FeatureIn(GivenFeature { text, weight, hash }))
            }
        }

        deserializer.deserialize_seq(Elements)
    }
}

impl Few<FeatureIn> {
    /// The features for the service.
    pub(in crate::http) fn given(self) -> Vec<GivenFeature> {
        self.0.into_iter().map(|feature| feature.0).collect()
    }
}

/// The fingerprint of given features.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FeatureFingerprint)]
pub(in crate::http) struct CountedOut {
    /// The hash in hexadecimal digits, or in the form of `hash_format`.
    #[schema(example = "27")]
    hash: String,
    /// The same hash, binary.
    #[schema(example = "100111")]
    binary: String,
    /// The width of the hash, 4 to 160.
    bits: u32,
    /// The hash function of features whose hash was not given.
    function: &'static str,
    /// The rule for a bit whose votes are even.
    tie: &'static str,
    /// The profile, if its hash function, width and tie rule were used: the hash can be stored with its
    /// hashes.
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<String>,
    /// The number of features.
    features: usize,
    /// The steps, if they were requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<StepsOut>,
}

/// The steps from features to a hash.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FeatureSteps)]
struct StepsOut {
    /// The features in their order, at most 1,000.
    features: Vec<StepOut>,
    /// The sum of the votes on each bit, the most significant bit first. Above 0 the bit is 1, below 0 it is
    /// 0; at 0 the rule for ties decides.
    sums: Vec<f64>,
}

/// A feature and its votes.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FeatureVotes)]
struct StepOut {
    /// Its text.
    text: String,
    /// Its weight.
    weight: f64,
    /// Its hash, binary.
    #[schema(example = "100101")]
    hash: String,
    /// Its vote on each bit, the most significant bit first: its weight for a 1, and minus its weight for a
    /// 0.
    votes: Vec<f64>,
}

impl CountedOut {
    /// The fingerprint, with its steps if `explain`.
    pub(in crate::http) fn new(counted: Counted, explain: bool) -> CountedOut {
        let Counted { profile, ballot, features, voted } = counted;
        let count = features.len();
        let steps = || {
            let step = |(feature, hash): (GivenFeature, &crate::ids::WideHash)| StepOut {
                text: feature.text,
                weight: feature.weight,
                hash: hash.to_binary(),
                votes: hash.bits().map(|bit| if bit { feature.weight } else { -feature.weight }).collect(),
            };
            let features = features.into_iter().zip(&voted.features).take(LISTED).map(step).collect();
            StepsOut { features, sums: voted.sums.clone() }
        };
        CountedOut {
            hash: written_wide(voted.hash),
            binary: voted.hash.to_binary(),
            bits: ballot.width(),
            function: ballot.function(),
            tie: ballot.tie(),
            profile: profile.map(|profile| profile.id().to_string()),
            features: count,
            explanation: explain.then(steps),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feature_has_a_text_or_a_hash_and_a_weight() {
        let parsed = |text: &str| serde_json::from_str::<FeatureIn>(text).map(|feature| feature.0);
        let feature = |text: &str, weight, hash: Option<&str>| GivenFeature {
            text: text.to_owned(),
            weight,
            hash: hash.map(str::to_owned),
        };
        assert_eq!(parsed(r#"["a", 5]"#).unwrap(), feature("a", 5.0, None));
        assert_eq!(parsed(r#"["a", 0.5, "101"]"#).unwrap(), feature("a", 0.5, Some("101")));
        assert_eq!(parsed(r#"[{"hash": "ff"}, 1]"#).unwrap(), feature("", 1.0, Some("ff")));
        for wrong in [
            "{}",
            "[]",
            r#"["a"]"#,
            r#"["a", "b"]"#,
            r"[1, 2]",
            r#"["a", 1, "1", 2]"#,
            r#"[{"hash": "f"}, 1, "f"]"#,
            r#"[{"hush": "f"}, 1]"#,
        ] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }
}
