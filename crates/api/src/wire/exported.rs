//! The members of a document in an export besides its content, on the wire.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use utoipa::openapi::schema::{ObjectBuilder, SchemaType, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::values::{StatusOut, Timestamp, hex_bytes, hex_digits};
use crate::error::{Code, Problem};
use lookalike_hash::Gram;
use lookalike_service::{Exported, Status};

/// The bytes of a gram.
const GRAM: usize = 16;

/// What else an export has of a document, so that an import stores the same document.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Exported)]
pub(super) struct ExportedIn {
    /// When it was last written. A time in the future counts as now. A document that is stored already is
    /// written again, and its time becomes later than before.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Timestamp>)]
    written_at: Option<Timestamp>,
    /// The number of distinct features of a text that is not kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    features: Option<u32>,
    /// Whether the fingerprint of a text that is not kept is reliable: `ok` or `short`.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<StatusOut>,
    /// The sampled grams of a text that is not kept, if the collection has `passages`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Grams>)]
    grams: Option<Grams>,
}

impl From<Exported> for ExportedIn {
    fn from(exported: Exported) -> ExportedIn {
        let status = |_| StatusOut::from(if exported.is_short { Status::Short } else { Status::Ok });
        ExportedIn {
            written_at: exported.written_ms.map(Timestamp),
            features: exported.features,
            status: exported.features.map(status),
            grams: (!exported.grams.is_empty()).then_some(Grams(exported.grams)),
        }
    }
}

impl ExportedIn {
    /// Converts it for the service.
    pub(super) fn exported(self) -> Result<Exported, Problem> {
        let is_short = match (self.features, self.status) {
            (Some(_), Some(StatusOut::Short)) => true,
            (Some(_), Some(StatusOut::Ok)) | (None, None) => false,
            _ => {
                let detail = "features and status are given together, and status is ok or short";
                return Err(Problem::field(Code::InvalidField, "/exported/status", detail));
            }
        };
        Ok(Exported {
            written_ms: self.written_at.map(|at| at.0),
            features: self.features,
            is_short,
            grams: self.grams.map(|grams| grams.0).unwrap_or_default(),
        })
    }
}

/// Grams as hexadecimal digits: 16 for the hash of each, 8 for the number of its first character, and 8 for
/// that of the character after its last one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Grams(Vec<Gram>);

impl Serialize for Grams {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let bytes = |gram: &Gram| {
            [&gram.hash.to_be_bytes()[..], &gram.from.to_be_bytes(), &gram.to.to_be_bytes()].concat()
        };
        let bytes: Vec<u8> = self.0.iter().flat_map(bytes).collect();
        serializer.serialize_str(&hex_digits(&bytes))
    }
}

impl<'de> Deserialize<'de> for Grams {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Grams, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        let bytes =
            hex_bytes(&text, &(2 * GRAM..=usize::MAX)).filter(|bytes| bytes.len().is_multiple_of(GRAM));
        let bytes = bytes.ok_or_else(|| {
            de::Error::custom(
                "grams are a string of 32 hexadecimal digits for each gram; GET /export returns it",
            )
        })?;
        let gram = |&[a, b, c, d, e, f, g, h, from @ .., i, j, k, l]: &[u8; GRAM]| Gram {
            hash: u64::from_be_bytes([a, b, c, d, e, f, g, h]),
            from: u32::from_be_bytes(from),
            to: u32::from_be_bytes([i, j, k, l]),
        };
        Ok(Grams(bytes.as_chunks::<GRAM>().0.iter().map(gram).collect()))
    }
}

impl PartialSchema for Grams {
    fn schema() -> RefOr<Schema> {
        let about = "The sampled grams of a text: for each, 16 hexadecimal digits of its hash, 8 of the \
                     number of its first character and 8 of that after its last one.";
        let schema = ObjectBuilder::new().schema_type(SchemaType::Type(Type::String));
        let schema = schema.pattern(Some("^([0-9a-fA-F]{32})+$")).description(Some(about));
        RefOr::T(schema.into())
    }
}

impl ToSchema for Grams {
    fn name() -> Cow<'static, str> {
        "Grams".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let exported = Exported {
            written_ms: Some(1_800_000_000_123),
            features: Some(7),
            is_short: true,
            grams: vec![
                Gram { hash: 0x40, from: 0, to: 21 },
                Gram { hash: u64::MAX - 63, from: 5, to: u32::MAX },
            ],
        };
        let text = serde_json::to_string(&ExportedIn::from(exported.clone())).unwrap();
        let expected = concat!(
            r#"{"written_at":"2027-01-15T08:00:00.123Z","features":7,"status":"short","grams":""#,
            "00000000000000400000000000000015ffffffffffffffc000000005ffffffff\"}",
        );
        assert_eq!(text, expected);
        let read = serde_json::from_str::<ExportedIn>(&text).unwrap().exported().unwrap();
        assert_eq!(read, exported);
    }

    #[test]
    fn what_no_export_has_is_refused() {
        for text in [r#"{"grams":""}"#, r#"{"grams":"00"}"#, r#"{"grams":"zz"}"#, r#"{"other":1}"#] {
            assert!(serde_json::from_str::<ExportedIn>(text).is_err(), "{text}");
        }
        for text in [r#"{"features":7}"#, r#"{"status":"ok"}"#, r#"{"features":7,"status":"empty"}"#] {
            let read = serde_json::from_str::<ExportedIn>(text).unwrap();
            assert!(read.exported().unwrap_err().body_text().contains("given together"), "{text}");
        }
    }
}
