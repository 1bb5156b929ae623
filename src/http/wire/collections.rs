//! Collections, numbers and snapshots on the wire.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::values::{Bits, ExpiresIn, Timestamp, present};
use crate::ids::SignatureShape;
use crate::service::WantedCollection;
use crate::service::{BucketSizes, CollectionInfo, EngineStats, Memory, MemoryState, Restored, Snapshot};

/// The settings of a collection; what is left out keeps its value or gets the default.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = CollectionSettings)]
pub(in crate::http) struct CollectionIn {
    /// The profile of its fingerprints, with or without version. Cannot be changed later.
    #[schema(example = "copies-128")]
    profile: Option<String>,
    /// The distance that queries use unless they name another; the profile's own if there is none.
    k: Option<Bits>,
    /// In place of k, if the profile makes signatures: the least similarity, 0 to 1. A new collection gets
    /// bands that catch 95 % of what is just as similar.
    threshold: Option<f64>,
    /// Whether documents keep the text that they were made from.
    keep_text: Option<bool>,
    /// The bytes of a sketch that documents keep for a second check without their texts, 8 to 1,024; 0 is
    /// none. Cannot be changed later.
    sketch_bytes: Option<u16>,
    /// After how long documents expire that do not say so themselves; `null` is never. A change is for
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
            k: wanted.k.map(|k| k.0),
            threshold: wanted.threshold,
            sketch_bytes: wanted.sketch_bytes,
            keep_text: wanted.keep_text,
            expires_in: wanted.expires_in.map(|span| span.map(|ExpiresIn(seconds)| seconds)),
        }
    }
}

/// A collection.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Collection)]
pub(in crate::http) struct CollectionOut {
    /// Its name.
    name: String,
    /// The profile of its fingerprints.
    #[schema(example = "copies-64@1")]
    profile: String,
    /// The width of its hashes: 64 or 128.
    bits: u32,
    /// The distance that queries use unless they name another.
    k: u32,
    /// The same as a similarity, if the collection has signatures.
    #[serde(skip_serializing_if = "Option::is_none")]
    threshold: Option<f64>,
    /// How its signatures are found, if it has such.
    #[serde(skip_serializing_if = "Option::is_none")]
    signatures: Option<SignaturesOut>,
    /// Whether documents keep the text that they were made from.
    keep_text: bool,
    /// The bytes of the sketch that documents keep, if they do.
    #[serde(skip_serializing_if = "Option::is_none")]
    sketch_bytes: Option<u16>,
    /// After how many seconds documents expire that do not say so themselves; `null` is never.
    expires_in: Option<u64>,
    /// When it was made.
    #[schema(value_type = Timestamp)]
    created_at: Timestamp,
    /// How many documents it has.
    documents: u64,
    /// How many distinct hashes they bear.
    distinct_hashes: u64,
    /// The bytes that the index of these hashes occupies in memory.
    index_bytes: u64,
}

impl From<CollectionInfo> for CollectionOut {
    fn from(info: CollectionInfo) -> CollectionOut {
        CollectionOut {
            name: info.name.to_string(),
            profile: info.settings.profile,
            bits: info.settings.width.bits(),
            k: info.settings.k,
            threshold: info.settings.signatures.map(|shape| shape.similarity(info.settings.k)),
            signatures: info.settings.signatures.map(SignaturesOut::from),
            sketch_bytes: info.settings.sketch_bytes,
            keep_text: info.settings.keep_text,
            expires_in: info.settings.expires_in,
            created_at: Timestamp(info.created_ms),
            documents: info.documents,
            distinct_hashes: info.distinct_hashes,
            index_bytes: info.index_bytes,
        }
    }
}

/// How signatures are made up and found.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Signatures)]
pub(in crate::http) struct SignaturesOut {
    /// The cells of a signature; the greatest distance.
    cells: u16,
    /// The bands: documents are found that agree in all cells of one.
    bands: u16,
    /// The cells of a band.
    rows: u16,
    /// The bytes of a signature.
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
pub(in crate::http) struct CollectionsOut {
    /// By name.
    pub(in crate::http) collections: Vec<CollectionOut>,
}

/// What was restored.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Restored)]
pub(in crate::http) struct RestoredOut {
    /// The collection as it stands.
    collection: CollectionOut,
    /// How many documents came from the backup.
    documents: u64,
    /// How many were left out because they have expired since.
    expired: u64,
    /// The collection that the backup was taken of.
    from: String,
    /// The last change that was in it.
    sequence: u64,
    /// When it was taken.
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

/// The sizes of the buckets of a collection's index.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Buckets)]
pub(in crate::http) struct BucketsOut {
    /// How many buckets hold fewer hashes than the key, and at least half as many.
    #[schema(value_type = BTreeMap<String, u64>)]
    fewer_than: BTreeMap<u64, u64>,
    /// How many hashes the largest holds.
    largest: u64,
}

impl From<BucketSizes> for BucketsOut {
    fn from(sizes: BucketSizes) -> BucketsOut {
        let classes = sizes.histogram.into_iter().enumerate();
        BucketsOut {
            fewer_than: classes.map(|(class, buckets)| (1 << class, buckets)).collect(),
            largest: sizes.largest,
        }
    }
}

/// The state of the server in numbers.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Stats)]
pub(in crate::http) struct StatsOut {
    /// The collection that was asked about.
    pub(in crate::http) collection: CollectionOut,
    /// The sizes of its buckets.
    pub(in crate::http) buckets: BucketsOut,
    /// How many matches at each distance were answered since the start, in all collections.
    #[schema(value_type = BTreeMap<String, u64>)]
    pub(in crate::http) answered_distances: BTreeMap<usize, u64>,
    /// Bytes on disk, all collections.
    disk_bytes: u64,
    /// The number of the last durable change.
    sequence: u64,
    /// Changes in the log that the oldest kept snapshot does not have.
    log_entries: u64,
    /// Operations waiting to be written.
    queued_operations: u64,
    /// The memory of the process.
    memory: MemoryOut,
    /// The newest snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshot: Option<SnapshotOut>,
}

impl StatsOut {
    pub(in crate::http) fn new(
        collection: CollectionInfo,
        sizes: BucketSizes,
        distances: &[u64],
        stats: EngineStats,
        memory: Memory,
        now_ms: u64,
    ) -> StatsOut {
        let answered = distances.iter().copied().enumerate().filter(|(_, count)| *count > 0);
        StatsOut {
            collection: collection.into(),
            buckets: sizes.into(),
            answered_distances: answered.collect(),
            disk_bytes: stats.disk_bytes,
            sequence: stats.sequence.0,
            log_entries: stats.log_entries,
            queued_operations: stats.queued_operations,
            memory: memory.into(),
            snapshot: stats.snapshot.map(|snapshot| SnapshotOut::new(snapshot, now_ms)),
        }
    }
}

/// The memory of the process.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Memory)]
pub(in crate::http) struct MemoryOut {
    /// Bytes of resident memory.
    resident_bytes: u64,
    /// The budget; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    budget_bytes: Option<u64>,
    /// What it admits: `open`, `no_bulk` above 80 % (documents one at a time), `full` above 90 % (no
    /// documents).
    state: MemoryStateOut,
}

/// What the memory budget admits.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = MemoryState)]
pub(in crate::http) enum MemoryStateOut {
    /// All.
    Open,
    /// Documents one at a time.
    NoBulk,
    /// No documents.
    Full,
}

impl From<Memory> for MemoryOut {
    fn from(memory: Memory) -> MemoryOut {
        let state = match memory.state {
            MemoryState::Open => MemoryStateOut::Open,
            MemoryState::NoBulk => MemoryStateOut::NoBulk,
            MemoryState::Full => MemoryStateOut::Full,
        };
        let Memory { resident_bytes, budget_bytes, .. } = memory;
        MemoryOut { resident_bytes, budget_bytes, state }
    }
}

/// A snapshot of the index on disk.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Snapshot)]
pub(in crate::http) struct SnapshotOut {
    /// Its file's name.
    name: String,
    /// The change at which it was begun; the log after it is replayed at the start.
    sequence: u64,
    /// Its size.
    bytes: u64,
    /// The XXH3 checksum of the file, 16 hexadecimal digits, where it was just written.
    #[serde(skip_serializing_if = "Option::is_none")]
    checksum: Option<String>,
    /// When it was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Timestamp>)]
    written_at: Option<Timestamp>,
    /// How long ago that is, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    age_seconds: Option<u64>,
}

impl SnapshotOut {
    pub(in crate::http) fn new(snapshot: Snapshot, now_ms: u64) -> SnapshotOut {
        SnapshotOut {
            name: snapshot.name,
            sequence: snapshot.sequence.0,
            bytes: snapshot.bytes,
            checksum: snapshot.checksum.map(|checksum| format!("{checksum:016x}")),
            written_at: snapshot.written_ms.map(Timestamp),
            age_seconds: snapshot.written_ms.map(|written| now_ms.saturating_sub(written) / 1_000),
        }
    }
}

/// The snapshots kept.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Snapshots)]
pub(in crate::http) struct SnapshotsOut {
    /// The newest first.
    pub(in crate::http) snapshots: Vec<SnapshotOut>,
}

/// What answers here.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Version)]
pub(in crate::http) struct VersionOut {
    /// Its name.
    pub(in crate::http) name: &'static str,
    /// Its version.
    pub(in crate::http) version: &'static str,
    /// The profiles it has.
    pub(in crate::http) profiles: Vec<String>,
}
