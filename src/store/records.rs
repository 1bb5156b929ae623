//! What the store records: collections, rows, changes.

use xxhash_rust::xxh3::xxh3_64;

use super::codec;
use crate::ids::{CollectionId, CollectionName, DocumentId, Hash, SignatureShape, Width};

/// A collection and its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectionRecord {
    /// Its number, never given twice.
    pub id: CollectionId,
    /// Its name, unique among those that exist.
    pub name: CollectionName,
    /// The profile of its fingerprints, `name@version`.
    pub profile: String,
    /// The width of its hashes.
    pub width: Width,
    /// The shape of the signatures that its hashes are the names of, if they are such. Rows have them as sketches.
    pub signatures: Option<SignatureShape>,
    /// The distance that its queries use unless they name another.
    pub k: u32,
    /// The bytes of the sketch that rows keep for a second check, if they do.
    pub sketch_bytes: Option<u16>,
    /// Whether rows keep the text that they were made from.
    pub keep_text: bool,
    /// After how many seconds its documents expire unless they say otherwise; `None` is never.
    pub expires_in: Option<u64>,
    /// When it was made, in milliseconds since 1970-01-01 UTC.
    pub created_ms: u64,
}

impl CollectionRecord {
    /// The XXH3 checksum of the record as it is stored. Records that differ in anything differ in it.
    pub fn checksum(&self) -> u64 {
        xxh3_64(&codec::write_collection(self))
    }
}

/// What is kept of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its fingerprint.
    pub hash: Hash,
    /// How many distinct features the fingerprint was made from; `None` if it was given as a hash.
    pub features: Option<u32>,
    /// Whether the profile trusts that many features to find near-duplicates.
    pub short: bool,
    /// When it was last written, in milliseconds since 1970-01-01 UTC.
    pub written_ms: u64,
    /// From when on it counts as gone, in milliseconds since 1970-01-01 UTC; `None` is never.
    pub expires_ms: Option<u64>,
    /// The JSON object that came with it, as it came.
    pub metadata: Option<String>,
    /// Its text, if the collection keeps texts.
    pub text: Option<String>,
    /// Its signature, if its hash is the name of one; else a sketch of its features for a second check of similarity,
    /// if one was made.
    pub sketch: Option<Vec<u8>>,
}

impl Row {
    /// The bytes of its fields of any length.
    pub fn held_bytes(&self) -> usize {
        let text = |field: &Option<String>| field.as_ref().map_or(0, String::len);
        text(&self.metadata) + text(&self.text) + self.sketch.as_ref().map_or(0, Vec::len)
    }

    /// Whether it counts as gone at this time.
    pub fn has_lapsed(&self, now_ms: u64) -> bool {
        has_lapsed(self.expires_ms, now_ms)
    }
}

fn has_lapsed(expires_ms: Option<u64>, now_ms: u64) -> bool {
    expires_ms.is_some_and(|at| at <= now_ms)
}

/// A document that has a certain hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Posting {
    /// Its id.
    pub id: DocumentId,
    /// Whether its row has metadata.
    pub has_metadata: bool,
    /// When its row expires: what has lapsed is passed over without reading it.
    pub expires_ms: Option<u64>,
}

impl Posting {
    /// Whether it counts as gone at this time.
    pub fn has_lapsed(&self, now_ms: u64) -> bool {
        has_lapsed(self.expires_ms, now_ms)
    }
}

/// The place of a document in the order of expiry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// From when on it counts as gone, in milliseconds since 1970-01-01 UTC.
    pub at_ms: u64,
    /// In which collection.
    pub collection: CollectionId,
    /// The document.
    pub id: DocumentId,
}

/// The posting list of a hash. Most hashes have one document, and one point read finds it; each of a million identical
/// pages has a key of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PostingList {
    /// This document alone.
    One(Posting),
    /// The number of documents: several, or the one that is left of several.
    Many(u64),
}

/// One acknowledged operation, as the index has to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A document was written or deleted. A hash is `added` when it is the first document to bear it
    /// and `removed` when it was the last; often both are absent.
    Document {
        /// In which collection.
        collection: CollectionId,
        /// A hash that no document bore before.
        added: Option<Hash>,
        /// A hash that no document bears any more.
        removed: Option<Hash>,
    },
    /// A collection was made.
    CollectionCreated(CollectionId),
    /// The settings of a collection were changed.
    CollectionChanged(CollectionId),
    /// A collection was deleted with all its documents.
    CollectionDeleted(CollectionId),
}
