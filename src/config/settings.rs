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
    /// The server as a replica, and its access to the shared log.
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SharedLog {
    /// The URL of the log, which [`SharedLogUrl::read`] reads; `None` is a single server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// The parts of the URL of a shared log, `etcd://HOST:PORT[,HOST:PORT...]/PREFIX`.
///
/// ```
/// use lookalike::config::SharedLogUrl;
/// let url = SharedLogUrl::read("etcds://etcd-1:2379,[::1]:2379/news").unwrap();
/// assert_eq!(url.endpoints, ["https://etcd-1:2379", "https://[::1]:2379"]);
/// assert_eq!(url.prefix, "news");
/// assert_eq!(SharedLogUrl::read("etcd://etcd-1:2379"), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedLogUrl {
    /// The URLs of etcd's servers: `etcd://` stands for `http://`, and `etcds://` for `https://`.
    pub endpoints: Vec<String>,
    /// The first part of the keys of the log in etcd.
    pub prefix: String,
}

impl SharedLogUrl {
    /// The parts of a URL; `None` if it has another form.
    pub fn read(url: &str) -> Option<SharedLogUrl> {
        let (scheme, rest) = url.split_once("://")?;
        let scheme = match scheme {
            "etcd" => "http",
            "etcds" => "https",
            _ => return None,
        };
        let (hosts, prefix) = rest.split_once('/')?;
        let in_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        let is_prefix = (1..=64).contains(&prefix.len()) && prefix.bytes().all(in_name);
        let endpoint = |place: &str| {
            let (host, port) = place.rsplit_once(':')?;
            let is_host =
                !host.is_empty() && host.bytes().all(|byte| in_name(byte) || b":[]".contains(&byte));
            (is_host && port.parse::<u16>().is_ok()).then(|| format!("{scheme}://{place}"))
        };
        let endpoints = hosts.split(',').map(endpoint).collect::<Option<_>>()?;
        is_prefix.then(|| SharedLogUrl { endpoints, prefix: prefix.to_owned() })
    }
}

/// The server as a replica, and its access to the shared log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Replicas {
    /// The name of this server, which no other replica has; `None` is the name of the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The URL at which other servers reach this one; `None` is the address on which it listens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The user of etcd.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The file with the password of the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password_file: Option<PathBuf>,
    /// The certificates that are trusted to sign those of etcd, in PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// The certificate that the server shows to etcd, in PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<PathBuf>,
    /// The private key of that certificate, in PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// The file with the key that this server shows to the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer_key_file: Option<PathBuf>,
    /// The certificates that are trusted to sign those of the other servers, in PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer_ca_file: Option<PathBuf>,
    /// Milliseconds after which a server that cannot follow the log is not ready, 100 to 3600000.
    pub max_lag_ms: u64,
    /// Live servers that must have an entry before it is removed from the log, 1 to 100.
    pub min_copies: usize,
    /// Bytes that the log may take before it is trimmed, 1 MiB to 8 GiB; `None` is an eighth of etcd's quota.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trim_bytes: Option<u64>,
}

impl Default for Replicas {
    fn default() -> Replicas {
        Replicas {
            server: None,
            address: None,
            user: None,
            password_file: None,
            ca_file: None,
            certificate: None,
            key: None,
            peer_key_file: None,
            peer_ca_file: None,
            max_lag_ms: 5_000,
            min_copies: 2,
            trim_bytes: None,
        }
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
