//! The settings: a struct for each section, whose `Default` is the built-in default.
//!
//! The ranges next to the fields are for the reader; `keys.rs` enforces them. Direct deserialization of
//! these structs neither checks ranges nor reads `"32 MiB"`: [`super::load`] does.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// All settings, by section.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Where the server listens, what a connection may do, and how it stops.
    pub server: Server,
    /// The files for TLS.
    pub tls: Tls,
    /// Access keys.
    pub keys: Keys,
    /// Where the data is stored.
    pub data: Data,
    /// The limits of one request.
    pub limits: Limits,
    /// The threads for CPU-bound work.
    pub pool: Pool,
    /// The durable store of documents.
    pub store: Store,
    /// The memory limits of the process.
    pub memory: Memory,
    /// When snapshots of the index are taken, and how many are kept.
    pub snapshots: Snapshots,
    /// Profiles that the user defines.
    pub profiles: Profiles,
    /// The collection `default`, as it is created at the first start.
    pub collection: Collection,
    /// What is logged, and how.
    pub log: Log,
    /// Traces of requests.
    pub traces: Traces,
    /// The log that the server shares with its replicas.
    pub shared_log: SharedLog,
    /// The server as a replica.
    pub replicas: Replicas,
}

/// Where the server listens, what a connection may do, and how it stops.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Server {
    /// Address and port. Port 0 lets the system choose one.
    pub listen: SocketAddr,
    /// Whether to serve without keys on an address that other machines can reach.
    pub open: bool,
    /// Host names that are accepted if there are no keys, in addition to localhost and IP addresses.
    pub hosts: Vec<String>,
    /// Origins whose web pages may use the server, in addition to its own.
    pub origins: Vec<String>,
    /// Whether `/` serves the console.
    pub console: bool,
    /// Seconds until a planned deletion without a time takes effect, 1 to 31536000.
    pub deletion_seconds: u64,
    /// Open connections, 1 to 1000000.
    pub connections: usize,
    /// Open connections of one address, 1 to 1000000.
    pub connections_per_address: usize,
    /// Seconds for the head of a request to arrive, 1 to 3600.
    pub header_seconds: u64,
    /// Seconds that a connection may be idle between requests, 1 to 86400.
    pub idle_seconds: u64,
    /// Seconds for a body that is read whole to arrive, 1 to 3600.
    pub body_seconds: u64,
    /// Minimum rate of bodies and of reading answers, in bytes per second, 0 to 1 GiB.
    pub bytes_per_second: u64,
    /// Seconds that a stream may be without a line, or an answer without being read, 1 to 3600.
    pub stall_seconds: u64,
    /// Seconds that requests are still accepted after the signal to stop, 0 to 600.
    pub lame_duck_seconds: u64,
    /// Seconds that the server may take to stop after that; running requests get three quarters of it. 0 to
    /// 3600.
    pub drain_seconds: u64,
}

impl Default for Server {
    fn default() -> Server {
        Server {
            listen: (Ipv4Addr::LOCALHOST, 8080).into(),
            open: false,
            hosts: Vec::new(),
            origins: Vec::new(),
            console: true,
            deletion_seconds: 600,
            connections: 1_024,
            connections_per_address: 128,
            header_seconds: 30,
            idle_seconds: 75,
            body_seconds: 15,
            bytes_per_second: 1 << 10,
            stall_seconds: 60,
            lame_duck_seconds: 2,
            drain_seconds: 10,
        }
    }
}

/// The files for TLS: both or none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tls {
    /// The certificate chain in PEM, the server's own first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<PathBuf>,
    /// The private key in PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
}

/// Access keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Keys {
    /// The file of keys; `None` is `keys.toml` in the data directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
}

/// Where the data is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Data {
    /// The data directory, not empty. A relative path is relative to the working directory.
    pub dir: PathBuf,
}

impl Default for Data {
    fn default() -> Data {
        Data { dir: "./data".into() }
    }
}

/// The limits of one request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Bytes of a text, also of the text of a page, 1 to 1 GiB.
    pub document_bytes: usize,
    /// Bytes of a page, 1 to 1 GiB.
    pub page_bytes: usize,
    /// Bytes of a body that is read whole and holds several documents or queries, `document_bytes` to 1 GiB.
    pub batch_bytes: usize,
    /// Bytes of a Parquet file that is read for a client, 1 to 16 GiB.
    pub file_bytes: usize,
    /// Pixels of an image, 1 to 1000000000.
    pub image_pixels: u64,
    /// Bytes of a document's metadata, 0 to 16 MiB.
    pub metadata_bytes: usize,
    /// Matches in an answer if the query gives no number, 1 to 100000.
    pub default_matches: usize,
    /// Matches that a query may request, `default_matches` to 100000.
    pub matches: usize,
    /// Queries or texts in one request, 1 to 100000.
    pub batch_items: usize,
    /// Documents in one array, 1 to 100000.
    pub batch_documents: usize,
    /// Milliseconds until a query is answered, 1 to 3600000.
    pub query_ms: u64,
    /// Milliseconds until a document is stored, 1 to 3600000.
    pub write_ms: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            document_bytes: 1 << 20,
            page_bytes: 4 << 20,
            batch_bytes: 32 << 20,
            file_bytes: 256 << 20,
            image_pixels: 32_000_000,
            metadata_bytes: 16 << 10,
            default_matches: 10,
            matches: 1_000,
            batch_items: 1_000,
            batch_documents: 10_000,
            query_ms: 2_000,
            write_ms: 5_000,
        }
    }
}

/// The threads for CPU-bound work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pool {
    /// Tasks that run at a time, 0 to 1024; 0 means one per core.
    pub permits: usize,
    /// Callers that wait for a permit at a time, 0 to 65536.
    pub queue: usize,
    /// Milliseconds of processor time that others may take, per permit, before a waiting caller is refused,
    /// 0 to 60000.
    pub wait_ms: u64,
}

impl Default for Pool {
    fn default() -> Pool {
        Pool { permits: 0, queue: 64, wait_ms: 50 }
    }
}

/// The durable store of documents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Store {
    /// Operations that may wait to be written, 1024 to 1048576.
    pub queue_operations: usize,
    /// Bytes of documents that may wait to be written, 1 KiB to 2 GiB.
    pub queue_bytes: usize,
    /// Bytes of the block cache, 1 MiB to 1 TiB.
    pub cache_bytes: u64,
    /// Bytes of the journal after which the memtables are flushed, 64 KiB to 1 TiB.
    pub journal_bytes: u64,
    /// Bytes of the disk that are kept free: with less, writes are refused. 0 to 1 TiB.
    pub reserve_bytes: u64,
    /// Whether every file is compared with its checksum at startup.
    pub verify: bool,
}

impl Default for Store {
    fn default() -> Store {
        Store {
            queue_operations: 4_096,
            queue_bytes: 32 << 20,
            cache_bytes: 32 << 20,
            journal_bytes: 64 << 20,
            reserve_bytes: 256 << 20,
            verify: true,
        }
    }
}

/// The memory limits of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Memory {
    /// Bytes of resident memory, 16 MiB to 64 TiB; above nine tenths of it no document is inserted. `None`
    /// is 80 % of the limit of the control group of the process, or of the memory of the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<u64>,
    /// Bytes of the posting cache: the postings of hashes that were stored or found recently. 0 (none)
    /// to 64 GiB; `None` is a fiftieth of the budget, at least 16 MiB and at most 1 GiB, or 64 MiB if the
    /// budget is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub posting_cache: Option<u64>,
    /// Bytes that all requests together may hold: bodies, data derived from them, and answers that have not
    /// been read yet. 1 MiB to 64 TiB; `None` is a third of the budget, or 256 MiB if the budget is not
    /// known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
}

/// When snapshots of the index are taken, and how many are kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Snapshots {
    /// Changes after which a snapshot is taken, 1 to 1000000000000.
    pub every_changes: u64,
    /// Seconds after which a snapshot is taken if anything changed, 1 to 2592000 (30 days).
    pub every_seconds: u64,
    /// Snapshots that are kept, 2 to 100. A single one would leave no fallback if it is damaged.
    pub keep: usize,
}

impl Default for Snapshots {
    fn default() -> Snapshots {
        Snapshots { every_changes: 100_000, every_seconds: 300, keep: 2 }
    }
}

/// Profiles that the user defines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Profiles {
    /// The TOML file that defines them, not empty; `None` if there are none. A relative path is relative to
    /// the working directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
}

/// The collection `default`, as it is created at the first start. Later starts do not change it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Collection {
    /// The profile, by name, not empty.
    pub profile: String,
    /// The Hamming distance of a lookup that gives none, 0 to 256 bits; `None` is the default of the
    /// profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub k: Option<u32>,
    /// Whether texts are stored with their hashes.
    pub keep_text: bool,
    /// The size in bytes of the sketch that documents keep, 8 to 1,024, or 0 for none; `None` is the default
    /// of the profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sketch_bytes: Option<u16>,
}

impl Default for Collection {
    fn default() -> Collection {
        Collection { profile: "copies-128".into(), k: None, keep_text: false, sketch_bytes: None }
    }
}

/// What is logged, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// A filter in the syntax of `tracing`'s `EnvFilter`, not empty: `info`, or
    /// `info,lookalike_http=debug`.
    pub level: String,
    /// The format of a line.
    pub format: LogFormat,
    /// Milliseconds from which on a query is logged, 0 to 3600000.
    pub slow_query_ms: u64,
}

impl Default for Log {
    fn default() -> Log {
        Log { level: "info".into(), format: LogFormat::Text, slow_query_ms: 200 }
    }
}

/// Where traces of requests are sent, and for how many requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Traces {
    /// The base URL of a collector that accepts OTLP over HTTP, such as `http://localhost:4318`; `None`
    /// sends none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// The percentage of traced requests among those whose caller has made no sampling decision, 0 to 100.
    pub percent: u32,
}

impl Default for Traces {
    fn default() -> Traces {
        Traces { endpoint: None, percent: 10 }
    }
}

/// The log that the server shares with its replicas.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SharedLog {
    /// The URL of the log, which [`read_shared_log`] reads; `None` is a single server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// When a write is acknowledged.
    pub acknowledge: Acknowledge,
    /// Bytes of entries that the log may lack if writes do not wait for it, 1 MiB to 1 TiB.
    pub behind_bytes: u64,
    /// Bytes of entries after which a snapshot is due, 1 MiB to 1 TiB.
    pub snapshot_bytes: u64,
    /// Days for which the log goes back, 1 to 3650.
    pub keep_days: u64,
}

impl Default for SharedLog {
    fn default() -> SharedLog {
        let (acknowledge, behind_bytes) = (Acknowledge::Stored, 1 << 30);
        SharedLog { url: None, acknowledge, behind_bytes, snapshot_bytes: 256 << 20, keep_days: 7 }
    }
}

/// When a server with a shared log acknowledges a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Acknowledge {
    /// When the log has it, too.
    Stored,
    /// When its own disk has it; the log follows. Only one server may use the log.
    Local,
}

/// Reads the URL of a shared log: `file:///FOLDER`, or `s3://BUCKET/PREFIX` (also `gs://`, `az://`). Returns
/// it without a slash at its end; `None` if it has another form.
///
/// ```
/// use lookalike::config::read_shared_log;
/// assert_eq!(read_shared_log("file:///shared/news/"), Some("file:///shared/news".to_owned()));
/// assert_eq!(read_shared_log("file://shared"), None);
/// assert_eq!(read_shared_log("https://shared"), None);
/// ```
pub fn read_shared_log(url: &str) -> Option<String> {
    let (scheme, place) = url.split_once("://")?;
    let place = place.trim_end_matches('/');
    let is_place = !place.is_empty() && (scheme != "file" || place.starts_with('/'));
    (is_place && ["file", "s3", "gs", "az"].contains(&scheme)).then(|| format!("{scheme}://{place}"))
}

/// The server as a replica.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Replicas {
    /// The name of this server, which no other replica has; `None` is the name of the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The URL at which other servers reach this one; `None` is the address on which it listens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The file with the key that this server shows to the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer_key_file: Option<PathBuf>,
    /// The certificates that are trusted to sign those of the other servers, in PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer_ca_file: Option<PathBuf>,
    /// Milliseconds after which a server that cannot follow the log is not ready, 100 to 3600000.
    pub max_lag_ms: u64,
}

impl Default for Replicas {
    fn default() -> Replicas {
        Replicas { server: None, address: None, peer_key_file: None, peer_ca_file: None, max_lag_ms: 5_000 }
    }
}

/// The format of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// For programs: one JSON object per line.
    Json,
}
