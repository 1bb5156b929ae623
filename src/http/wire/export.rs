//! Exports on the wire.

use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use super::values::{Hex, Id, Metadata, SignatureHex, Timestamp};

/// Which documents are exported.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct ExportParams {
    /// Whether only the documents that represent clusters are exported: of near-duplicates one each.
    #[serde(default)]
    pub(in crate::http) representatives: bool,
}

/// A line of an export: a document that `POST /documents` accepts. It has the text if the collection stores
/// texts, otherwise the hash or the signature.
#[derive(Debug, Serialize)]
pub(in crate::http) struct ExportOut {
    id: Id,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hash: Option<Hex>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signature: Option<SignatureHex>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Metadata>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
}

impl ExportOut {
    /// A document of a collection, which may be one of signatures.
    pub(in crate::http) fn new(document: crate::service::Document, is_signed: bool) -> ExportOut {
        let row = document.row;
        let has_no_text = row.text.is_none();
        ExportOut {
            id: Id(document.id),
            hash: (has_no_text && !is_signed).then_some(Hex(row.hash)),
            signature: row.sketch.filter(|_| has_no_text && is_signed).map(SignatureHex),
            text: row.text,
            metadata: row.metadata.and_then(Metadata::stored),
            expires_at: row.expires_ms.map(Timestamp),
        }
    }
}
