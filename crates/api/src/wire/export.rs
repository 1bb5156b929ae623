//! Exports on the wire.

use std::borrow::Cow;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde::de::Error;
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use super::exported::ExportedIn;
use super::filter::FilterParam;
use super::hashes::{HashFormat, HashOut};
use super::values::{Arrival, Id, Metadata, PassagesKept, SignatureHex, SketchHex, Timestamp};
use lookalike_hash::Passages;
use lookalike_service::{CollectionInfo, CollectionSettings, Exported, Filter, keeps_texts};

/// The most bytes of a header, which is read where it delays other requests.
const HEADER_BYTES: usize = 16 << 10;

/// Which documents are exported.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ExportParams {
    /// Whether only the documents that represent clusters are exported: of near-duplicates one each.
    #[serde(default)]
    pub representatives: bool,
    /// Only documents that pass this filter, as JSON: `{"metadata": {"source": "rss"}}`.
    #[param(value_type = Option<String>, example = "{}")]
    filter: Option<FilterParam>,
    /// The form of every hash. Default: `hex`.
    pub hash_format: Option<HashFormat>,
}

impl ExportParams {
    /// The filter.
    pub fn filter(&self) -> Option<Box<Filter>> {
        self.filter.as_ref().map(|filter| filter.0.clone())
    }
}

/// The first line of an export: an object with the one member `export`, which no document has. It states
/// what the hashes in the lines after it are. Members that a later version adds are ignored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExportHeader {
    #[serde(default)]
    collection: String,
    /// The profile that made the hashes and signatures, with its version. Of a user's own profile, it ends in
    /// the digest of the definition; then follow `~` and the digest of the weights, if there are any.
    pub profile: String,
    #[serde(default)]
    bits: u32,
    /// Whether documents may have texts in place of hashes; `None` if the header does not state it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    keep_text: Option<bool>,
    /// The size in bytes of the sketches of documents without texts, if they have sketches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sketch_bytes: Option<u16>,
    /// Whether documents have the grams by which passages are found; the line of a text that is not kept has
    /// them.
    #[serde(default)]
    pub passages: PassagesKept,
    /// The number of marks of the collection, which are not in the export.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub marks: u64,
    /// Whether the export has one document of each group of near-duplicates.
    #[serde(default)]
    representatives: bool,
    /// The form of the hashes, if it is not `hex`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash_format: Option<HashFormat>,
    /// The version of the program that wrote it.
    #[serde(default)]
    version: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde requires")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// A header as a line.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HeaderLine<'a> {
    export: Option<Cow<'a, ExportHeader>>,
}

impl ExportHeader {
    /// The only member of a header.
    pub const MEMBER: &str = "export";

    /// The header of an export of a collection.
    pub fn new(info: CollectionInfo, params: &ExportParams) -> ExportHeader {
        let settings = info.settings;
        ExportHeader {
            collection: info.name.to_string(),
            keep_text: Some(keeps_texts(&settings)),
            profile: settings.made_by(),
            bits: settings.width.bits(),
            sketch_bytes: settings.sketch_bytes,
            passages: Passages::of(settings.grams).into(),
            marks: info.marks,
            representatives: params.representatives,
            hash_format: params.hash_format,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    /// The header as a line.
    pub fn line(&self) -> Vec<u8> {
        let mut line = Vec::new();
        crate::body::write_json(&mut line, &HeaderLine { export: Some(Cow::Borrowed(self)) });
        line.push(b'\n');
        line
    }

    /// The header in a line; `None` for any other line. `{"export": null}` is a header that states nothing,
    /// and so ends what an earlier one states.
    ///
    /// # Errors
    /// If the line has a member `export` first and is no header.
    pub fn of(line: &[u8]) -> Option<serde_json::Result<Option<ExportHeader>>> {
        let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        let first = line.trim_ascii_start().strip_prefix(b"{")?;
        let rest = first.trim_ascii_start().strip_prefix(b"\"export\"")?.trim_ascii_start();
        rest.starts_with(b":").then(|| {
            if line.len() > HEADER_BYTES {
                return Err(Error::custom(format!("a header has at most {HEADER_BYTES} bytes")));
            }
            let HeaderLine { export } = serde_json::from_slice(line)?;
            Ok(export.map(Cow::into_owned))
        })
    }

    /// Whether documents may have texts.
    pub fn may_have_texts(&self) -> bool {
        self.keep_text != Some(false)
    }
}

/// A line of an export: a document that `POST /documents` accepts. It has the text if the collection stores
/// texts, otherwise the hash with the sketch, or the signature; and all else that is stored of it.
#[derive(Debug, Serialize)]
pub struct ExportOut {
    id: Id,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hash: Option<HashOut>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signature: Option<SignatureHex>,
    /// The number of characters of a text that is not kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    characters: Option<u32>,
    /// The sketch of a text that is not kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    sketch: Option<SketchHex>,
    /// The thumbnail of its image.
    #[serde(skip_serializing_if = "Option::is_none")]
    thumbnail: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Metadata>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
    /// Its place in the order of arrival.
    arrival: Arrival,
    exported: ExportedIn,
}

impl ExportOut {
    /// A document of a collection with these settings; its hash in this form.
    pub fn new(
        document: lookalike_service::Document,
        settings: &CollectionSettings,
        form: Option<HashFormat>,
    ) -> ExportOut {
        let is_signed = settings.signatures.is_some();
        let mut row = document.row;
        let exported = Exported::of(&mut row).into();
        let has_no_text = row.text.is_none();
        let kept = row.sketch.filter(|_| has_no_text);
        let (signature, sketch) = if is_signed { (kept, None) } else { (None, kept) };
        ExportOut {
            id: Id(document.id),
            hash: (has_no_text && !is_signed).then_some(HashOut::new(row.hash, form)),
            signature: signature.map(SignatureHex),
            characters: row.characters.filter(|_| has_no_text),
            sketch: sketch.map(SketchHex),
            thumbnail: row.thumbnail.map(|jpeg| BASE64_STANDARD.encode(jpeg)),
            text: row.text,
            metadata: row.metadata.and_then(Metadata::stored),
            expires_at: row.lifetime.cancelled().end_ms().map(Timestamp),
            arrival: Arrival(row.place),
            exported,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_no_document_and_is_read_with_members_of_later_versions() {
        let read = |line: &str| ExportHeader::of(line.as_bytes());
        for line in [
            r#"{"export":{"profile":"copies-64@1"}}"#,
            "\u{feff} { \"export\" : {\"profile\":\"copies-64@1\",\"later\":[1]} }\r\n",
            r#"{"export":{"profile":"copies-64@1","hash_format":"decimal","keep_text":false}}"#,
        ] {
            let header = read(line).unwrap().unwrap().unwrap();
            assert_eq!(header.profile, "copies-64@1", "{line}");
            assert_eq!(header.may_have_texts(), !line.contains("keep_text"), "{line}");
            let form = header.hash_format.map(|form| form.0);
            assert_eq!(form, line.contains("decimal").then_some(lookalike_hash::HashForm::Decimal));
            let again = ExportHeader::of(&header.line()).unwrap().unwrap().unwrap();
            assert_eq!(format!("{again:?}"), format!("{header:?}"));
        }
        for line in [r#"{"id":"a","export":{}}"#, "", "{", r#"{"exports":1}"#, r#"{"export"}"#, "[1]"] {
            assert!(read(line).is_none(), "{line}");
        }
        assert!(read(r#"{"export":null}"#).unwrap().unwrap().is_none());
        let long = format!(r#"{{"export":{{"profile":"a","later":"{}"}}}}"#, "x".repeat(HEADER_BYTES));
        assert!(read(&long).unwrap().is_err());
        for line in [
            r#"{"export":{}}"#,
            r#"{"export":7}"#,
            r#"{"export":{"profile":"a"},"id":"b"}"#,
            r#"{"export":{"profile":"a","hash_format":"octal"}}"#,
        ] {
            assert!(read(line).unwrap().is_err(), "{line}");
        }
    }
}
