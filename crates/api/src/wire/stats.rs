//! Statistics, snapshots and the version on the wire.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

use super::collections::CollectionOut;
use super::hashes::{HashFormat, HashOut};
use super::values::Timestamp;
use lookalike_hash::Hash;
use lookalike_service::{BucketSizes, CollectionInfo, EngineStats, Memory, MemoryState, Snapshot};

/// The sizes of the buckets of a collection's index.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Buckets)]
pub struct BucketsOut {
    /// The number of buckets by size: those with fewer hashes than the key, and at least half as many.
    #[schema(value_type = BTreeMap<String, u64>)]
    fewer_than: BTreeMap<u64, u64>,
    /// The number of hashes in the largest bucket.
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

/// The hashes that most documents have.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SharedHashes)]
pub struct SharedHashesOut {
    /// The hashes, that of most documents first.
    hashes: Vec<SharedHashOut>,
}

/// A hash that several documents have.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SharedHash)]
pub(super) struct SharedHashOut {
    /// The hash.
    #[schema(value_type = HashOut)]
    hash: HashOut,
    /// The number of documents that have it.
    documents: u64,
}

impl SharedHashesOut {
    /// Hashes in this form, each with the number of its documents.
    pub fn new(counted: Vec<(Hash, u64)>, form: Option<HashFormat>) -> SharedHashesOut {
        let out = |(hash, documents)| SharedHashOut { hash: HashOut::new(hash, form), documents };
        SharedHashesOut { hashes: counted.into_iter().map(out).collect() }
    }
}

/// Statistics of a collection and of the server.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Stats)]
pub struct StatsOut {
    /// The collection of the request.
    pub collection: CollectionOut,
    /// The sizes of the buckets of its index.
    pub buckets: BucketsOut,
    /// The number of matches at each distance in all answers of this collection since the start.
    #[schema(value_type = BTreeMap<String, u64>)]
    pub answered_distances: BTreeMap<usize, u64>,
    /// Bytes of the store on disk, for all collections.
    disk_bytes: u64,
    /// The number of the last durable change.
    sequence: u64,
    /// The number of changes in the history that the oldest kept snapshot does not contain.
    history_changes: u64,
    /// The number of operations that wait to be written.
    queued_operations: u64,
    /// The memory of the process.
    memory: MemoryOut,
    /// The newest snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshot: Option<SnapshotOut>,
    /// How far the server is in the shared log; absent on a single server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replica: Option<FollowingOut>,
}

/// How far a replica is.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Following)]
pub struct FollowingOut {
    /// The last entry of the log that it has applied.
    pub position: u64,
    /// The number of entries of the log that it has not applied; absent if it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag_entries: Option<u64>,
    /// Milliseconds since it certainly had every acknowledged write.
    pub behind_ms: u64,
}

impl StatsOut {
    /// The statistics of a collection.
    pub fn new(
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
            history_changes: stats.history_changes,
            queued_operations: stats.queued_operations,
            memory: memory.into(),
            snapshot: stats.snapshot.map(|snapshot| SnapshotOut::new(snapshot, now_ms)),
            replica: None,
        }
    }
}

/// The memory of the process.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Memory)]
pub(super) struct MemoryOut {
    /// The resident memory in bytes.
    resident_bytes: u64,
    /// The budget in bytes; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    budget_bytes: Option<u64>,
    /// What the budget admits: `open` all documents, `no_bulk` (above 80 %) single documents, `full` (above
    /// 90 %) no documents.
    state: MemoryStateOut,
}

/// What the memory budget admits.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = MemoryState)]
pub(super) enum MemoryStateOut {
    /// All documents.
    Open,
    /// Single documents, no streams or arrays.
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
pub struct SnapshotOut {
    /// The name of its file.
    name: String,
    /// The number of the last change before it was begun. A start replays the history after this change.
    sequence: u64,
    /// Its size in bytes.
    bytes: u64,
    /// The XXH3 checksum of the file, 16 hexadecimal digits; absent if it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    checksum: Option<String>,
    /// When it was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Timestamp>)]
    written_at: Option<Timestamp>,
    /// Its age in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    age_seconds: Option<u64>,
}

impl SnapshotOut {
    /// A snapshot as it is listed.
    pub fn new(snapshot: Snapshot, now_ms: u64) -> SnapshotOut {
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

/// The kept snapshots.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Snapshots)]
pub struct SnapshotsOut {
    /// The snapshots, newest first.
    pub snapshots: Vec<SnapshotOut>,
}

/// The program that answers.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Version)]
pub struct VersionOut {
    /// The name of the program.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
    /// The profiles that it has.
    pub profiles: Vec<String>,
}
