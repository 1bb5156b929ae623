//! The records of the store: collections, rows, postings, changes.
//!
//! *Absent*: their bytes (`codec`).

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::codec;
use super::error::StoreError;
use super::lifetime::Lifetime;
use super::weights::{Weights, made_by};
use lookalike_hash::{
    ClusterRule, CollectionId, CollectionName, DocumentId, Frequencies, Gram, GramRule, Hash, SignatureShape,
    Width,
};

/// The settings of a collection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CollectionSettings {
    /// The profile of its fingerprints, `name@version`. Only a reindex changes it: hashes of two profiles are
    /// not comparable.
    pub profile: String,
    /// The width of its hashes. The profile determines it.
    #[serde(rename = "bits")]
    pub width: Width,
    /// The shape of its signatures if its hashes identify signatures. The profile and the threshold at
    /// creation determine it. Only a reindex changes it.
    pub signatures: Option<SignatureShape>,
    /// The distance that queries use by default, 0 to [`CollectionSettings::most`]: in bits, or for
    /// signatures in cells that differ.
    pub k: u32,
    /// The similarity that set `k`, 0 to 1, exactly as it was given; `None` if `k` was given or is a default.
    pub threshold: Option<f64>,
    /// The size in bytes of the sketch that rows keep for a second check, if they keep one. Only a reindex
    /// changes it.
    pub sketch_bytes: Option<u16>,
    /// The weights of features in signatures, or in sketches if there are no signatures; `None` if all weigh
    /// the same. Only a reindex changes them.
    pub weights: Option<Weights>,
    /// How documents keep the grams of their texts, if they do. Only a reindex changes which they keep.
    pub grams: Option<GramRule>,
    /// The field of the metadata that names the source of a document: boilerplate is counted by sources.
    /// Without it all documents are of one source.
    pub source_field: Option<String>,
    /// How documents form clusters, if they do.
    pub clusters: Option<ClusterRule>,
    /// Whether documents keep their original text, or of an image a thumbnail.
    pub keep_text: bool,
    /// The default lifetime of documents in seconds; `None` means that they do not expire. The caller that
    /// writes a document applies it, so a change affects only documents written later.
    pub expires_in: Option<u64>,
}

impl CollectionSettings {
    /// Settings with this profile, and nothing kept but hashes: no signatures, no sketches, no texts.
    pub fn of(profile: String, width: Width) -> CollectionSettings {
        CollectionSettings {
            profile,
            width,
            signatures: None,
            k: 0,
            threshold: None,
            sketch_bytes: None,
            weights: None,
            grams: None,
            source_field: None,
            clusters: None,
            keep_text: false,
            expires_in: None,
        }
    }

    /// The table of its weights, if it has any.
    pub fn table(&self) -> Option<&Frequencies> {
        self.weights.as_ref().map(Weights::table)
    }

    /// What made its signatures and sketches ([`made_by`]).
    pub fn made_by(&self) -> String {
        made_by(&self.profile, self.weights.as_ref())
    }

    /// The maximum distance between two documents.
    pub fn most(&self) -> u32 {
        self.signatures.map_or(self.width.bits(), |shape| u32::from(shape.cells))
    }
}

/// A collection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CollectionRecord {
    /// Its number, which is never assigned twice.
    pub id: CollectionId,
    /// Its name, unique among existing collections.
    pub name: CollectionName,
    /// Its settings.
    pub settings: CollectionSettings,
    /// The creation time, in milliseconds since 1970-01-01 UTC.
    pub created_ms: u64,
}

impl CollectionRecord {
    /// The XXH3 checksum of the record as it is stored. It covers every field.
    pub fn checksum(&self) -> u64 {
        xxh3_64(&codec::write(self))
    }
}

/// The stored data of a document.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "(RowHead, Option<String>, codec::Beside)")]
pub struct Row {
    /// Its fingerprint.
    pub hash: Hash,
    /// The number of distinct features in the fingerprint; `None` if the document was given as a hash.
    pub features: Option<u32>,
    /// Whether a copy with one changed word may be missed.
    pub short: bool,
    /// The number of characters of its text; `None` if the document was given as a hash.
    pub characters: Option<u32>,
    /// Its place in the order in which documents arrived, smaller numbers first: the milliseconds since
    /// 1970-01-01 UTC, times 2^20, and a count. A document that is overwritten keeps its place.
    pub place: u64,
    /// The time of the last write, in milliseconds since 1970-01-01 UTC.
    pub written_ms: u64,
    /// How long it is stored.
    pub lifetime: Lifetime,
    /// The JSON object of the document, exactly as it was received.
    pub metadata: Option<String>,
    /// The sampled grams of its text in the order of the text, each hash once, if the collection keeps grams.
    pub grams: Vec<Gram>,
    /// Its text, if the collection keeps texts.
    pub text: Option<String>,
    /// The signature, if the hash identifies one; otherwise a sketch of the features for a second check of
    /// similarity, if the collection keeps sketches.
    pub sketch: Option<Vec<u8>>,
    /// The thumbnail of its image, a JPEG, if the collection keeps thumbnails. It then has no sketch.
    pub thumbnail: Option<Vec<u8>>,
}

/// The part of a [`Row`] that does not grow with the text.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct RowHead {
    /// Its fingerprint.
    pub hash: Hash,
    /// The number of distinct features in the fingerprint; `None` if the document was given as a hash.
    pub features: Option<u32>,
    /// Whether a copy with one changed word may be missed.
    pub short: bool,
    /// The number of characters of its text; `None` if the document was given as a hash.
    pub characters: Option<u32>,
    /// Its place in the order in which documents arrived.
    pub place: u64,
    /// The time of the last write, in milliseconds since 1970-01-01 UTC.
    pub written_ms: u64,
    /// How long it is stored.
    pub lifetime: Lifetime,
    /// The JSON object of the document, exactly as it was received.
    pub metadata: Option<String>,
    /// The sampled grams of its text.
    #[serde(with = "codec::grams")]
    pub grams: Vec<Gram>,
}

impl Row {
    /// Its bytes, as in the tree of rows.
    pub fn to_bytes(&self) -> Vec<u8> {
        codec::write(self)
    }

    /// Reads the bytes of [`Row::to_bytes`].
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if they are not a row, or one of a later layout.
    pub fn from_bytes(bytes: &[u8]) -> Result<Row, StoreError> {
        codec::read(bytes, "document row")
    }

    /// The bytes of its fields of variable length.
    pub fn held_bytes(&self) -> usize {
        let text = |field: &Option<String>| field.as_ref().map_or(0, String::len);
        let sketch = self.sketch.as_ref().map_or(0, Vec::len);
        let thumbnail = self.thumbnail.as_ref().map_or(0, Vec::len);
        text(&self.metadata) + text(&self.text) + sketch + thumbnail + size_of_val(&self.grams[..])
    }

    /// Whether it is expired at this time.
    pub fn has_lapsed(&self, now_ms: u64) -> bool {
        self.lifetime.is_over(now_ms)
    }
}

impl RowHead {
    /// Whether it is expired at this time.
    pub fn has_lapsed(&self, now_ms: u64) -> bool {
        self.lifetime.is_over(now_ms)
    }
}

/// Which posting lists: of the documents by their fingerprints, or by the grams of their texts. A gram is the
/// key of its list as a hash of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lists {
    /// The documents that have a fingerprint.
    Hashes,
    /// The documents whose texts have a gram.
    Grams,
}

/// A document that has a certain hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Posting {
    /// Its id.
    pub id: DocumentId,
    /// Whether its row has metadata.
    pub has_metadata: bool,
    /// The expiry time of its row. Expired postings are skipped without a read of the row.
    pub expires_ms: Option<u64>,
}

impl Posting {
    /// Whether it is expired at this time.
    pub fn has_lapsed(&self, now_ms: u64) -> bool {
        Lifetime::from(self.expires_ms).is_over(now_ms)
    }
}

/// An entry in the order of expiry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// The expiry time, in milliseconds since 1970-01-01 UTC.
    pub at_ms: u64,
    /// The collection of the document.
    pub collection: CollectionId,
    /// The document.
    pub id: DocumentId,
}

/// The posting list of a hash. Most hashes have one document, which a single point read finds. With several
/// documents each posting has its own key, so a hash of a million identical pages has no huge value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PostingList {
    /// The only document.
    One(Posting),
    /// The number of documents: several, or one that remains of several.
    Many(u64),
}

/// One acknowledged operation, with the fields that the index needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// A document was written or deleted. A hash is `added` by the first document that has it, and
    /// `removed` with the last one; often both are absent.
    Document {
        /// The collection of the document.
        collection: CollectionId,
        /// A hash that no document had before.
        added: Option<Hash>,
        /// A hash that no document has any more.
        removed: Option<Hash>,
    },
    /// A collection was created.
    CollectionCreated(CollectionId),
    /// The settings or the marks of a collection were changed.
    CollectionChanged(CollectionId),
    /// A collection was deleted with all its documents.
    CollectionDeleted(CollectionId),
}
