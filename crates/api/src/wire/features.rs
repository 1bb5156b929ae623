//! Given features on the wire.

use std::fmt;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::few::Few;
use lookalike_service::GivenFeature;

/// A feature: `[text, weight]`, `[text, weight, hash]` or `[{"hash": hash}, weight]`.
#[derive(Clone, Debug)]
pub struct FeatureIn(pub GivenFeature);

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
    pub fn given(self) -> Vec<GivenFeature> {
        self.0.into_iter().map(|feature| feature.0).collect()
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
