//! The members of a backup and their content.
//!
//! *Absent*: the tar around them (`reader`, `writer`).

use std::borrow::Cow;
use std::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::{CollectionSettings, Lifetime, Row};
use lookalike_hash::{CollectionName, DocumentId, Gram, Hash, Mark, Width};

/// The format that is written, and the latest one that can be read.
pub(super) const VERSION: u64 = 1;
/// The manifest contains this text as `format`.
pub(super) const FORMAT: &str = "lookalike backup";
/// The first member.
pub(super) const MANIFEST: &str = "manifest.json";
/// The last member.
pub(super) const END: &str = "end.json";

/// Approximate bytes of documents in a part, before compression: a part ends with the document that reaches
/// them.
pub(super) const PART_BYTES: usize = 8 << 20;
/// The most bytes of one document as a line, since a reader has to hold one in memory.
pub const LINE_BYTES: usize = 256 << 20;
/// The most bytes of the manifest.
pub(super) const MANIFEST_BYTES: u64 = 8 << 20;
/// The most bytes of the last member: half a million parts.
pub(super) const END_BYTES: u64 = 64 << 20;

/// The kind of the lines of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Documents,
    Marks,
}

/// The name of a part. The parts of each kind are numbered from 1.
pub(super) fn part_name(kind: Kind, number: u64) -> String {
    let folder = match kind {
        Kind::Documents => "documents",
        Kind::Marks => "marks",
    };
    format!("{folder}/{number:08}.ndjson.gz")
}

/// The manifest: what the backup contains.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Identifies a backup: always the same text.
    pub format: String,
    /// The format of the backup.
    pub version: u64,
    /// The version of the program that made it.
    pub software: String,
    /// The collection.
    pub collection: String,
    /// Its settings.
    pub settings: CollectionSettings,
    /// When the collection was created, in milliseconds since 1970-01-01 UTC.
    pub created_ms: u64,
    /// The number of the last change that the backup contains.
    pub sequence: u64,
    /// When the backup was made, in milliseconds since 1970-01-01 UTC.
    pub taken_ms: u64,
}

/// The fields that a manifest of every version has.
#[derive(Deserialize)]
pub(super) struct Marker {
    pub format: String,
    pub version: u64,
}

impl Manifest {
    /// The manifest of a backup of `collection`, with the numbers at 0.
    pub fn of(collection: &CollectionName, settings: CollectionSettings) -> Manifest {
        Manifest {
            format: FORMAT.into(),
            version: VERSION,
            software: env!("CARGO_PKG_VERSION").into(),
            collection: collection.to_string(),
            settings,
            created_ms: 0,
            sequence: 0,
            taken_ms: 0,
        }
    }
}

/// The description of a part in the last member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Part {
    pub name: String,
    pub bytes: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub documents: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub marks: u64,
    pub xxh3: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde requires")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The content of the last member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct End {
    pub manifest_xxh3: String,
    pub documents: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub marks: u64,
    pub parts: Vec<Part>,
}

impl End {
    /// Adds a part with this number of lines.
    pub(super) fn add(&mut self, kind: Kind, lines: u64, part: Part) {
        let (all, of_part) = match kind {
            Kind::Documents => (&mut self.documents, Part { documents: lines, ..part }),
            Kind::Marks => (&mut self.marks, Part { marks: lines, ..part }),
        };
        *all += lines;
        self.parts.push(of_part);
    }
}

/// A checksum as 16 hexadecimal digits.
pub(super) fn digits(checksum: u64) -> String {
    format!("{checksum:016x}")
}

/// The result of reading a whole backup.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Its manifest.
    pub manifest: Manifest,
    /// The number of its documents.
    pub documents: u64,
    /// The number of its marks.
    pub marks: u64,
    /// Its size in bytes.
    pub bytes: u64,
}

/// A line of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A document.
    Document(DocumentId, Row),
    /// A mark, and the time at which it was made, in milliseconds since 1970-01-01 UTC.
    Mark(Mark, u64),
}

/// A mark as a line.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MarkLine<'a> {
    #[serde(borrow)]
    ids: Vec<Cow<'a, str>>,
    marked_ms: u64,
}

impl<'a> MarkLine<'a> {
    pub(super) fn of(mark: &'a Mark, marked_ms: u64) -> MarkLine<'a> {
        let ids = std::iter::once(mark.id()).chain(mark.other());
        MarkLine { ids: ids.map(|id| id.as_str().into()).collect(), marked_ms }
    }

    /// The mark and its time, if every field is valid.
    ///
    /// # Errors
    /// A text that names the invalid field.
    pub(super) fn mark(self) -> Result<(Mark, u64), String> {
        let id = |text: &str| DocumentId::new(text).map_err(|error| error.to_string());
        let mark = match &self.ids[..] {
            [only] => Some(Mark::of(id(only)?)),
            // The smaller id comes first.
            [a, b] if a < b => Mark::pair(id(a)?, id(b)?),
            _ => None,
        };
        let mark = mark.ok_or_else(|| "ids that are no pair in order".to_owned())?;
        Ok((mark, self.marked_ms))
    }
}

/// A document as a line. Metadata are a string, because every byte of them is kept, including line feeds.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Line<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    hash: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    features: Option<u32>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    short: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    characters: Option<u32>,
    place: u64,
    written_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_ms: Option<u64>,
    /// When it is deleted, if that is planned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deletion_ms: Option<u64>,
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    metadata: Option<Cow<'a, str>>,
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    text: Option<Cow<'a, str>>,
    /// Hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sketch: Option<String>,
    /// Hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    thumbnail: Option<String>,
    /// For each gram its hash and the numbers of the first character and of the one after the last, as bytes
    /// from the least significant on, hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    grams: Option<String>,
}

impl<'a> Line<'a> {
    pub(super) fn of(id: &'a DocumentId, row: &'a Row) -> Line<'a> {
        Line {
            id: id.as_str().into(),
            hash: row.hash.to_string().into(),
            features: row.features,
            short: row.short,
            characters: row.characters,
            place: row.place,
            written_ms: row.written_ms,
            expires_ms: row.lifetime.cancelled().end_ms(),
            deletion_ms: row.lifetime.deletion_ms(),
            metadata: row.metadata.as_deref().map(Cow::from),
            text: row.text.as_deref().map(Cow::from),
            sketch: row.sketch.as_deref().map(hexadecimal),
            thumbnail: row.thumbnail.as_deref().map(hexadecimal),
            grams: (!row.grams.is_empty()).then(|| hexadecimal(&gram_bytes(&row.grams))),
        }
    }

    /// The document, if every field is valid.
    ///
    /// # Errors
    /// A text that names the invalid field.
    pub(super) fn document(self, width: Width) -> Result<(DocumentId, Row), String> {
        let id = DocumentId::new(&self.id).map_err(|error| error.to_string())?;
        let hash: Hash = self.hash.parse().map_err(|error| format!("{error}"))?;
        if hash.width() != width {
            return Err(format!("a hash of {} bits instead of {}", hash.width().bits(), width.bits()));
        }
        let is_object = |text: &str| matches!(serde_json::from_str(text), Ok(serde_json::Value::Object(_)));
        if self.metadata.as_ref().is_some_and(|text| !is_object(text)) {
            return Err("metadata that are not a JSON object".into());
        }
        let expiring = Lifetime::from(self.expires_ms);
        let row = Row {
            hash,
            features: self.features,
            short: self.short,
            characters: self.characters,
            place: self.place,
            written_ms: self.written_ms,
            lifetime: self.deletion_ms.map_or(expiring, |at_ms| expiring.planned(at_ms)),
            metadata: self.metadata.map(Cow::into_owned),
            text: self.text.map(Cow::into_owned),
            grams: self.grams.as_deref().map_or(Ok(Vec::new()), grams)?,
            sketch: self.sketch.as_deref().map(|digits| bytes("sketch", digits)).transpose()?,
            thumbnail: self.thumbnail.as_deref().map(|digits| bytes("thumbnail", digits)).transpose()?,
        };
        Ok((id, row))
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    let mut digits = String::with_capacity(2 * bytes.len());
    bytes.iter().for_each(|byte| _ = write!(digits, "{byte:02x}"));
    digits
}

fn gram_bytes(grams: &[Gram]) -> Vec<u8> {
    let bytes = |gram: &Gram| {
        [&gram.hash.to_le_bytes()[..], &gram.from.to_le_bytes(), &gram.to.to_le_bytes()].concat()
    };
    grams.iter().flat_map(bytes).collect()
}

fn grams(digits: &str) -> Result<Vec<Gram>, String> {
    let bytes = bytes("list of grams", digits)?;
    let (grams, rest) = bytes.as_chunks::<16>();
    let gram = |&[a, b, c, d, e, f, g, h, from @ .., i, j, k, l]: &[u8; 16]| Gram {
        hash: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
        from: u32::from_le_bytes(from),
        to: u32::from_le_bytes([i, j, k, l]),
    };
    let grams: Vec<Gram> = grams.iter().map(gram).collect();
    let is_ordered = grams.is_sorted_by_key(|gram| gram.from) && grams.iter().all(|gram| gram.from < gram.to);
    if rest.is_empty() && is_ordered { Ok(grams) } else { Err("grams that are not in order".to_owned()) }
}

fn bytes(what: &str, digits: &str) -> Result<Vec<u8>, String> {
    let wrong = || format!("a {what} that is not hexadecimal");
    if !digits.len().is_multiple_of(2) || !digits.is_ascii() {
        return Err(wrong());
    }
    let pair = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).map_err(|_| wrong());
    (0..digits.len()).step_by(2).map(pair).collect()
}
