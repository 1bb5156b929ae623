//! Collections and their settings on the wire.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::values::{Bits, ExpiresIn, PassagesKept, Timestamp, present};
use lookalike_hash::{ClusterRule, KeepRule, Passages, SignatureShape, SketchCheck};
use lookalike_service::{
    CollectionInfo, DEFAULT_SKETCH, Restored, SettingsChange, WantedCollection, Weights, keeps_texts,
    keeps_thumbnails,
};

const _: () = assert!(DEFAULT_SKETCH == 32, "the contract says so");

/// The settings of a collection. A setting that is omitted keeps its value; in a new collection it has the
/// default.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = CollectionSettings)]
pub struct CollectionIn {
    /// The profile of its fingerprints, with or without version. Only `POST /reindex` of the collection
    /// changes it later. Default: that of the collection `default`, or `copies-128` if there is none.
    #[schema(example = "copies-64")]
    profile: Option<String>,
    /// The distance of queries that name none. Default: that of the profile.
    k: Option<Bits>,
    /// In place of k, if the profile makes signatures: the minimum similarity, 0 to 1. A new collection gets
    /// bands that find 95 % of the documents with exactly this similarity.
    threshold: Option<f64>,
    /// Whether the texts of documents are stored.
    keep_text: Option<bool>,
    /// Whether a thumbnail of each image is stored, a JPEG of at most 4 KB, for profiles of images.
    keep_thumbnail: Option<bool>,
    /// The bytes of a sketch that is stored with each document, 8 to 1,024; 0 for none. `min_similarity` and
    /// `POST /compare` use sketches in place of stored texts. Default: 32, and none if the profile makes
    /// signatures or takes hashes. Only `POST /reindex` of the collection changes it later.
    sketch_bytes: Option<u16>,
    /// Whether documents are stored with letter grams of their texts, by which parts of a text are found
    /// inside another one. Only `POST /reindex` of the collection changes it later.
    passages: Option<PassagesKept>,
    /// With `passages`: what this number of documents have that are otherwise unlike each other is
    /// boilerplate, 1 to 1,000. Default: 5.
    boilerplate_documents: Option<u32>,
    /// With `passages`: the field of the metadata that names the source of a document, such as its site;
    /// `a.b` is the field `b` of the object `a`; 1 to 256 bytes. Boilerplate is then counted by sources: what
    /// `boilerplate_documents` unlike ones of a source have does not count in pairs with a document of it. A
    /// text in a query has no source. Documents in which the field is no string, number or boolean are one
    /// source. `null` for one source of all, the default.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>, example = "site")]
    #[allow(clippy::option_option, reason = "absent, null and a value are three things")]
    source_field: Option<Option<String>>,
    /// Whether and how documents form clusters. To change it later, `POST /clusters` builds them anew.
    clusters: Option<ClustersIn>,
    /// The lifetime of documents that have none of their own; `null` for no expiry. A change applies to
    /// documents written after it.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<ExpiresIn>)]
    #[allow(clippy::option_option, reason = "absent, null and a value are three things")]
    expires_in: Option<Option<ExpiresIn>>,
}

impl From<CollectionIn> for WantedCollection {
    fn from(wanted: CollectionIn) -> WantedCollection {
        WantedCollection {
            profile: wanted.profile,
            keep_thumbnail: wanted.keep_thumbnail,
            settings: SettingsChange {
                k: wanted.k.map(|k| k.0),
                threshold: wanted.threshold,
                sketch_bytes: wanted.sketch_bytes,
                weights: None,
                passages: wanted.passages.map(Passages::from),
                boilerplate: wanted.boilerplate_documents,
                source_field: wanted.source_field,
                clusters: wanted.clusters.map(|rule| (rule.keep, rule.k.map(|k| k.0))),
                keep_text: wanted.keep_text,
                expires_in: wanted.expires_in.map(|span| span.map(|ExpiresIn(seconds)| seconds)),
            },
        }
    }
}

/// How documents form clusters: each is a representative unless one that ranks before it is its duplicate;
/// otherwise it belongs to the nearest of these.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ClusterRule)]
pub struct ClustersIn {
    /// Which documents rank first: `first` (those that arrived first), `longest` (text), or `newest:FIELD`,
    /// `oldest:FIELD`, `max:FIELD`, `min:FIELD` by a field of the metadata; `a.b` is the field `b` of the
    /// object `a`. Among equals the order of arrival decides.
    #[schema(example = "first", value_type = String)]
    pub keep: KeepRule,
    /// The largest distance between a document and its representative. Default: a document belongs to those
    /// of which `on_duplicate` without `k` takes it for a duplicate.
    pub k: Option<Bits>,
}

/// How documents form clusters.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ClusterSettings)]
pub(super) struct ClustersOut {
    /// Which documents rank first.
    #[schema(example = "first", value_type = String)]
    keep: KeepRule,
    /// The largest distance between a document and its representative. With `check`, only of documents
    /// without a sketch.
    k: u32,
    /// What decides about documents with sketches, if it is not `k`.
    #[serde(skip_serializing_if = "Option::is_none")]
    check: Option<CheckOut>,
}

/// A check of documents by their sketches.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ClusterCheck)]
pub(super) struct CheckOut {
    /// The largest distance between a document and its representative.
    k: u32,
    /// Their least similarity, 0 to 1.
    similarity: f64,
}

impl From<ClusterRule> for ClustersOut {
    fn from(rule: ClusterRule) -> ClustersOut {
        let check = rule.check.map(|SketchCheck { k, similarity }| CheckOut { k, similarity });
        ClustersOut { keep: rule.keep, k: rule.k, check }
    }
}

/// A collection.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Collection)]
pub struct CollectionOut {
    /// Its name.
    name: String,
    /// The profile of its fingerprints.
    #[schema(example = "copies-128@1")]
    profile: String,
    /// The width of its hashes: 64, 128 or 256.
    bits: u32,
    /// The distance of queries that name none.
    k: u32,
    /// The distance as a similarity, if the collection has signatures: exactly what was set, or the
    /// similarity at `k`, rounded down to as few decimals as mean the same distance.
    #[serde(skip_serializing_if = "Option::is_none")]
    threshold: Option<f64>,
    /// The shape of its signatures, if it has signatures.
    #[serde(skip_serializing_if = "Option::is_none")]
    signatures: Option<SignaturesOut>,
    /// Whether the texts of documents are stored.
    keep_text: bool,
    /// Whether a thumbnail of each image is stored, if its profile takes images.
    #[serde(skip_serializing_if = "Option::is_none")]
    keep_thumbnail: Option<bool>,
    /// The bytes of the sketch that is stored with each document, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    sketch_bytes: Option<u16>,
    /// The weights of features in its signatures or sketches, if it has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    weights: Option<WeightsOut>,
    /// Whether documents are stored with the grams by which passages are found.
    passages: PassagesKept,
    /// The number of documents, otherwise unlike each other, that make what they share boilerplate, if the
    /// collection keeps passages.
    #[serde(skip_serializing_if = "Option::is_none")]
    boilerplate_documents: Option<u32>,
    /// The field of the metadata by which boilerplate is counted, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    source_field: Option<String>,
    /// How documents form clusters, if they do.
    #[serde(skip_serializing_if = "Option::is_none")]
    clusters: Option<ClustersOut>,
    /// The lifetime in seconds of documents that have none of their own; `null` for no expiry.
    expires_in: Option<u64>,
    /// When it was created.
    #[schema(value_type = Timestamp)]
    created_at: Timestamp,
    /// The number of documents.
    documents: u64,
    /// The number of distinct hashes.
    distinct_hashes: u64,
    /// The memory of the index in bytes.
    index_bytes: u64,
    /// The number of marks of pairs and documents as no duplicates, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    marks: Option<u64>,
}

impl From<CollectionInfo> for CollectionOut {
    fn from(info: CollectionInfo) -> CollectionOut {
        let (keeps_texts, keep_thumbnail) = (keeps_texts(&info.settings), keeps_thumbnails(&info.settings));
        CollectionOut {
            name: info.name.to_string(),
            profile: info.settings.profile,
            bits: info.settings.width.bits(),
            k: info.settings.k,
            threshold: info
                .settings
                .signatures
                .map(|shape| info.settings.threshold.unwrap_or_else(|| shape.threshold_of(info.settings.k))),
            signatures: info.settings.signatures.map(SignaturesOut::from),
            sketch_bytes: info.settings.sketch_bytes,
            weights: info.settings.weights.as_ref().map(WeightsOut::from),
            passages: Passages::of(info.settings.grams).into(),
            boilerplate_documents: info.settings.grams.map(|rule| rule.boilerplate),
            source_field: info.settings.source_field,
            clusters: info.settings.clusters.map(ClustersOut::from),
            keep_text: keeps_texts,
            keep_thumbnail,
            expires_in: info.settings.expires_in,
            created_at: Timestamp(info.created_ms),
            documents: info.documents,
            distinct_hashes: info.distinct_hashes,
            index_bytes: info.index_bytes,
            marks: Some(info.marks).filter(|marks| *marks > 0),
        }
    }
}

/// A table of weights.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Weights)]
pub(super) struct WeightsOut {
    /// The digest of the table. Signatures and sketches of one table can be compared.
    #[schema(example = "2f6c0ad5c4e71b83")]
    digest: String,
    /// The number of texts that it counts.
    documents: u32,
}

impl From<&Weights> for WeightsOut {
    fn from(weights: &Weights) -> WeightsOut {
        WeightsOut { digest: weights.name(), documents: weights.table().documents() }
    }
}

/// The shape of signatures, and the bands by which they are found.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Signatures)]
pub(super) struct SignaturesOut {
    /// The number of cells of a signature, which is the maximum distance.
    cells: u16,
    /// The number of bands. A document is found if it is equal in all cells of a band.
    bands: u16,
    /// The number of cells of a band.
    rows: u16,
    /// The size of a signature in bytes.
    bytes: usize,
}

impl From<SignatureShape> for SignaturesOut {
    fn from(shape: SignatureShape) -> SignaturesOut {
        SignaturesOut { cells: shape.cells, bands: shape.bands, rows: shape.rows, bytes: shape.bytes() }
    }
}

/// All collections.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Collections)]
pub struct CollectionsOut {
    /// The collections, by name.
    pub collections: Vec<CollectionOut>,
}

/// The result of a restore.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Restored)]
pub struct RestoredOut {
    /// The collection after the restore.
    collection: CollectionOut,
    /// The number of restored documents.
    documents: u64,
    /// The number of documents in the backup that have expired and were not restored.
    expired: u64,
    /// The name of the collection in the backup.
    from: String,
    /// The number of the last change in the backup.
    sequence: u64,
    /// When the backup was taken.
    #[schema(value_type = Timestamp)]
    taken_at: Timestamp,
}

impl From<Restored> for RestoredOut {
    fn from(restored: Restored) -> RestoredOut {
        let Restored { collection, from, documents, expired } = restored;
        RestoredOut {
            collection: collection.into(),
            documents,
            expired,
            sequence: from.sequence,
            taken_at: Timestamp(from.taken_ms),
            from: from.collection,
        }
    }
}
