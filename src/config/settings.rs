//! What the settings mean: a struct for each section, whose `Default` is the built-in default.
//!
//! Ranges stand beside the fields for the reader; `keys.rs` is what enforces them. Deserializing one of these
//! structs by hand checks neither ranges nor reads `"32 MiB"`: [`super::load`] does.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Everything that can be set, by section.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Where the server listens, what a connection may do, and how it stops.
    pub server: Server,
    /// The files for TLS.
    pub tls: Tls,
    /// Who may do what.
    pub keys: Keys,
    /// Where the data lies.
    pub data: Data,
    /// What one request may ask.
    pub limits: Limits,
    /// The threads for work that takes a processor for long.
    pub pool: Pool,
    /// The durable record of documents.
    pub store: Store,
    /// How much memory the process may take.
    pub memory: Memory,
    /// When snapshots of the index are taken and how many stay.
    pub snapshots: Snapshots,
    /// Profiles of the user's own.
    pub profiles: Profiles,
    /// The collection `default`, as it is made at the first start.
    pub collection: Collection,
    /// What is logged, and how.
    pub log: Log,
    /// Traces of requests, in a build with the feature `opentelemetry`.
    pub traces: Traces,
}

/// Where the server listens, what a connection may do, and how it stops.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Server {
    /// Address and port. Port 0 lets the system choose one.
    pub listen: SocketAddr,
    /// Whether to serve without keys where others than this machine can reach it.
    pub open: bool,
    /// Names under which it answers where there are no keys, beside localhost and IP addresses.
    pub hosts: Vec<String>,
    /// Origins whose web pages may use it, beside its own.
    pub origins: Vec<String>,
    /// Connections in all, 1 to 1000000.
    pub connections: usize,
    /// Connections of one address, 1 to 1000000.
    pub connections_per_address: usize,
    /// Seconds until the head of a request is there, 1 to 3600.
    pub header_seconds: u64,
    /// Seconds between two requests of a connection, 1 to 86400.
    pub idle_seconds: u64,
    /// Seconds until a body that is read whole is there, 1 to 3600.
    pub body_seconds: u64,
    /// Bytes a second at which bodies come and answers are read, 0 to 1 GiB.
    pub bytes_per_second: u64,
    /// Seconds that a stream may be without a line, or an answer without being read, 1 to 3600.
    pub stall_seconds: u64,
    /// Seconds that requests are still taken after the signal to stop, 0 to 600.
    pub lame_duck_seconds: u64,
    /// Seconds that the server may take to stop after that, running requests three quarters of it. 0 to 3600.
    pub drain_seconds: u64,
}

impl Default for Server {
    fn default() -> Server {
        Server {
            listen: (Ipv4Addr::LOCALHOST, 8080).into(),
            open: false,
            hosts: Vec::new(),
            origins: Vec::new(),
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

/// Who may do what.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Keys {
    /// The file of keys; `None` is `keys.toml` in the data directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
}

/// Where the data lies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Data {
    /// The data directory, not empty. A relative path starts at the working directory.
    pub dir: PathBuf,
}

impl Default for Data {
    fn default() -> Data {
        Data { dir: "./data".into() }
    }
}

/// What one request may ask.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Bytes of one document's body, or of one line of a stream, 1 to 1 GiB.
    pub document_bytes: usize,
    /// Bytes of a body that is read whole and holds several documents or queries, `document_bytes` to 1 GiB.
    pub batch_bytes: usize,
    /// Bytes of a document's metadata, 0 to 16 MiB.
    pub metadata_bytes: usize,
    /// Matches in an answer when the question names no number, 1 to 100000.
    pub default_matches: usize,
    /// Matches that a question may ask for, `default_matches` to 100000.
    pub matches: usize,
    /// Queries or texts in one request, 1 to 100000.
    pub batch_items: usize,
    /// Documents in one array, 1 to 100000.
    pub batch_documents: usize,
    /// Milliseconds until a question is answered, 1 to 3600000.
    pub query_ms: u64,
    /// Milliseconds until a document is stored, 1 to 3600000.
    pub write_ms: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            document_bytes: 1 << 20,
            batch_bytes: 32 << 20,
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

/// The threads for work that takes a processor for long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pool {
    /// Tasks that run at a time, 0 to 1024; 0 stands for one a core.
    pub permits: usize,
    /// Callers that wait for a permit at a time, 0 to 65536.
    pub queue: usize,
    /// Milliseconds that a caller waits before it is turned away, 0 to 60000.
    pub wait_ms: u64,
}

impl Default for Pool {
    fn default() -> Pool {
        Pool { permits: 0, queue: 64, wait_ms: 50 }
    }
}

/// The durable record of documents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Store {
    /// Operations that may wait to be written, 1024 to 1048576.
    pub queue_operations: usize,
    /// Bytes of documents that may wait to be written, 1 KiB to 2 GiB.
    pub queue_bytes: usize,
    /// Bytes of the block cache, 1 MiB to 1 TiB.
    pub cache_bytes: u64,
    /// Bytes of the journal after which memory is written out, 64 KiB to 1 TiB.
    pub journal_bytes: u64,
    /// Bytes of the disk that are kept free: with less, no writes are taken. 0 to 1 TiB.
    pub reserve_bytes: u64,
    /// Whether every file is compared with its checksum at the start.
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

/// How much memory the process may take.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Memory {
    /// Bytes of resident memory above nine tenths of which no document is inserted, 16 MiB to 64 TiB; `None` leaves it
    /// to the machine: 80 % of the limit of the process's control group, or of all memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<u64>,
    /// Bytes for who bears the hashes that were stored or found lately, 0 (none) to 64 GiB; `None` stands for a fiftieth of the
    /// budget, 16 MiB at least and 1 GiB at most, or 64 MiB if the budget is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub posting_cache: Option<u64>,
    /// Bytes that requests may hold together: bodies, what is made of them, and answers that were not read yet, 1 MiB to
    /// 64 TiB; `None` stands for a third of the budget, or 256 MiB if the budget is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
}

/// When snapshots of the index are taken and how many stay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Snapshots {
    /// Changes after which a snapshot is taken, 1 to 1000000000000.
    pub every_changes: u64,
    /// Seconds after which one is taken if anything changed, 1 to 2592000 (30 days).
    pub every_seconds: u64,
    /// Snapshots that stay on disk, 2 to 100. One alone would leave nothing to fall back on if it is damaged.
    pub keep: usize,
}

impl Default for Snapshots {
    fn default() -> Snapshots {
        Snapshots { every_changes: 100_000, every_seconds: 300, keep: 2 }
    }
}

/// Profiles of the user's own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Profiles {
    /// The TOML file that defines them, not empty; `None` if there are none. A relative path starts at the working
    /// directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
}

/// The collection `default`, as it is made at the first start. Later starts find it and leave it as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Collection {
    /// The profile, by name, not empty.
    pub profile: String,
    /// The Hamming distance of a lookup that names none, 0 to 128 bits; `None` leaves it to the profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub k: Option<u32>,
    /// Whether texts are stored beside their hashes.
    pub keep_text: bool,
}

impl Default for Collection {
    fn default() -> Collection {
        Collection { profile: "copies-64".into(), k: None, keep_text: false }
    }
}

/// What is logged, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// A filter in the language of `tracing`'s `EnvFilter`, not empty: `info`, or `info,lookalike::http=debug`.
    pub level: String,
    /// The form of a line.
    pub format: LogFormat,
    /// Milliseconds from which on a query gets a line, 0 to 3600000.
    pub slow_query_ms: u64,
}

impl Default for Log {
    fn default() -> Log {
        Log { level: "info".into(), format: LogFormat::Text, slow_query_ms: 200 }
    }
}

/// Where traces of requests go, and of how many.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Traces {
    /// The base URL of a collector that speaks OTLP over HTTP, such as `http://localhost:4318`; `None` is nowhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Of how many requests in a hundred that bring no decision of their caller's, 0 to 100.
    pub percent: u32,
}

impl Default for Traces {
    fn default() -> Traces {
        Traces { endpoint: None, percent: 10 }
    }
}

/// The form of a line of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// For programs: a JSON object a line.
    Json,
}
