//! The change of a document on the wire.

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::values::{ExpiresIn, Metadata, Timestamp, present};
use crate::error::{Code, Problem};
use lookalike_service::{Expires, Patch};

/// The change of a document.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = DocumentChange)]
pub struct PatchIn {
    /// The changes of its metadata by the rules of JSON merge patch (RFC 7396): members that are named
    /// replace those that are stored, objects are merged, and `null` removes a member, or all metadata.
    #[serde(default, deserialize_with = "raw")]
    #[schema(value_type = Option<Metadata>, example = json!({"source": "web", "draft": null}))]
    metadata: Option<Box<RawValue>>,
    /// Its lifetime from now on; `null` for no expiry.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<ExpiresIn>)]
    #[allow(clippy::option_option, reason = "absent, null and a value are three things")]
    expires_in: Option<Option<ExpiresIn>>,
    /// When it expires, in place of `expires_in`; `null` for no expiry.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<Timestamp>, example = "2100-01-01T00:00:00Z")]
    #[allow(clippy::option_option, reason = "absent, null and a value are three things")]
    expires_at: Option<Option<Timestamp>>,
}

/// Reads a value that is present, also `null`.
fn raw<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

impl PatchIn {
    /// Converts it for the service.
    pub fn patch(self) -> Result<Patch, Problem> {
        let expires = match (self.expires_in, self.expires_at) {
            (Some(_), Some(_)) => {
                let detail = "expires_in and expires_at both set when the document expires; leave one out";
                return Err(Problem::field(Code::InvalidField, "/expires_at", detail));
            }
            (Some(Some(span)), None) => Some(Expires::In(span.0)),
            (None, Some(Some(at))) => Some(Expires::At(at.0)),
            (Some(None), None) | (None, Some(None)) => Some(Expires::Never),
            (None, None) => None,
        };
        if self.metadata.is_none() && expires.is_none() {
            let detail = "there is nothing to change: name metadata, expires_in or expires_at. PUT replaces \
                          a text, a hash or features";
            return Err(Problem::new(Code::InvalidField, detail));
        }
        Ok(Patch { metadata: self.metadata, expires })
    }
}
