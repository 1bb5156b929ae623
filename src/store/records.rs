//! What the store records: collections, rows, changes.

use crate::ids::{CollectionId, CollectionName, DocumentId, Hash, Width};

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
    /// The Hamming distance that its queries use unless they name another.
    pub k: u32,
    /// Whether rows keep the text that they were made from.
    pub keep_text: bool,
    /// When it was made, in milliseconds since 1970-01-01 UTC.
    pub created_ms: u64,
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
    /// The JSON object that came with it, as it came.
    pub metadata: Option<String>,
    /// Its text, if the collection keeps texts.
    pub text: Option<String>,
}

/// A document that bears a hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bearer {
    /// Its id.
    pub id: DocumentId,
    /// Whether its row has metadata.
    pub has_metadata: bool,
}

/// Who bears a hash. Most hashes have one bearer, and one point read finds it; those of a million identical
/// pages have a key for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Posting {
    /// This document alone.
    Sole(Bearer),
    /// So many documents, several or one that is left of several.
    Shared(u64),
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
