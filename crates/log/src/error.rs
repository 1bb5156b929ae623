//! Errors of the log, and what the caller can do about them.

use std::path::PathBuf;
use std::{fmt, io};

use super::{MAX_PAYLOAD, Position};

/// An error of the log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// A setting cannot be used.
    #[error("{field} is {value:?}: {rule}")]
    Setting {
        /// The setting.
        field: &'static str,
        /// Its value.
        value: String,
        /// What it must be.
        rule: &'static str,
    },
    /// A file of certificates or of a key cannot be used.
    #[error("{} cannot be used: {what}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
        /// The error of the system, unless the content is wrong.
        source: Option<io::Error>,
    },
    /// No HTTP client can be created.
    #[error("no HTTP client can be created: does the system have certificates (replicas.ca_file)?")]
    Client(#[source] reqwest::Error),
    /// The log did not answer in time. The entry, if there was one, was not appended and never will be.
    #[error(
        "no etcd server answered in time at {endpoints}: {source}. Nothing was written; retry, and check \
         that most etcd servers run (`etcdctl endpoint status --cluster`)"
    )]
    Unavailable {
        /// The servers that were tried.
        endpoints: String,
        /// The last failure.
        source: Failure,
    },
    /// Every lane of this server has been in use until the deadline. The entry was not appended.
    #[error("{lanes} appends are in progress, and none ended in time. Nothing was written; retry later")]
    Busy {
        /// How many appends may be in progress.
        lanes: usize,
    },
    /// The connection to the log failed while an append was in progress.
    #[error(
        "the outcome of an append is unknown: {0}. The entry is in the log or will be, or it is not: read \
         the log before you append it again"
    )]
    Unknown(#[source] Failure),
    /// The space of etcd is used up. The entry was not appended.
    #[error(
        "etcd has no space left (alarm NOSPACE). Nothing was written. Entries that all servers have are \
         removed automatically; if this persists, raise --quota-backend-bytes of etcd, at most to 8 GiB"
    )]
    Full,
    /// The payload is larger than an entry can be.
    #[error("an entry of {bytes} bytes is too large: the limit is {MAX_PAYLOAD}; split it")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// etcd accepts smaller requests than an entry needs.
    #[error(
        "etcd refuses an entry of {bytes} bytes: start it with --max-request-bytes of 1572864 (its default) \
         or more"
    )]
    RequestLimit {
        /// The size of the payload.
        bytes: usize,
    },
    /// etcd refused the user, the password, or an operation.
    #[error(
        "etcd refused access: {0}. Check replicas.user and its password, and that its role has readwrite \
         on the prefix {prefix}", prefix = .1
    )]
    Unauthorized(#[source] Failure, String),
    /// Entries that a reader needs were removed.
    #[error(
        "the log was trimmed: the entry after {after} is no longer there. Restore a backup from another \
         server, and read on from its position"
    )]
    Trimmed {
        /// The position from which the reader wanted to go on.
        after: Position,
    },
    /// The log ends before a position that this server has reached: etcd lost data, or was replaced.
    #[error(
        "the log does not have the entry at {position} that this server has applied, and ends at {end}: etcd \
         was restored from an older backup or replaced. Writes are refused. Export the collections of the \
         server with the greatest position, and start the replicas anew (docs/replicas.md, Backup)"
    )]
    Rewound {
        /// The position that must be in the log.
        position: Position,
        /// The end of the log.
        end: Position,
    },
    /// Another program changed the keys of the log.
    #[error("the log is damaged: {0}. Only lookalike may write below the prefix of shared_log.url in etcd")]
    Damaged(String),
    /// An endpoint belongs to another etcd cluster.
    #[error(
        "{endpoint} belongs to the etcd cluster {found:x}, not to {expected:x}: correct shared_log.url, or \
         if etcd was restored or replaced, start the replicas anew (docs/replicas.md, Backup)"
    )]
    OtherEtcd {
        /// The endpoint.
        endpoint: String,
        /// The identity of the etcd cluster that was seen first.
        expected: u64,
        /// The identity of its own etcd cluster.
        found: u64,
    },
    /// Another process registered under the name of this server.
    #[error("another process runs as server {server:?}: give every server its own replicas.server name")]
    NameTaken {
        /// The name.
        server: String,
    },
    /// etcd refused a request in a way that no retry changes.
    #[error("etcd refused a request: {0}. Is it version 3.4 or later?")]
    Refused(#[source] Failure),
}

/// Why one request to one server of the log failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The connection was never made, or broke.
    #[error("{}", Transport(url, source))]
    Transport {
        /// The server.
        url: String,
        /// The error of the HTTP library.
        source: reqwest::Error,
    },
    /// The server did not answer in time.
    #[error("{url} did not answer within {millis} ms")]
    Elapsed {
        /// The server.
        url: String,
        /// How long the request waited.
        millis: u128,
    },
    /// The server answered with an error.
    #[error("{url} answered {message:?}")]
    Refused {
        /// The server.
        url: String,
        /// The code of gRPC; 2 if there is none.
        code: u32,
        /// The text of the error.
        message: String,
    },
    /// The answer cannot be understood.
    #[error("{url} gave an answer that is not etcd's: {what}")]
    Malformed {
        /// The server.
        url: String,
        /// What is wrong.
        what: String,
    },
    /// The server belongs to another etcd cluster.
    #[error("{url} belongs to another etcd cluster")]
    Foreign {
        /// The server.
        url: String,
        /// The identity of the etcd cluster that was seen first.
        expected: u64,
        /// The identity of its own etcd cluster.
        found: u64,
    },
}

struct Transport<'a>(&'a str, &'a reqwest::Error);

impl fmt::Display for Transport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Transport(url, error) = self;
        let cause = innermost(error);
        match (error.is_connect(), url.starts_with("https:")) {
            (true, true) => write!(
                f,
                "no TLS with {url} ({cause}): check that it runs, and that its certificate is signed by \
                 replicas.ca_file"
            ),
            (true, false) => write!(f, "no server answers at {url} ({cause})"),
            (false, true) => write!(
                f,
                "the connection to {url} failed ({cause}): if this persists, check that it accepts \
                 replicas.certificate"
            ),
            (false, false) => write!(
                f,
                "the connection to {url} failed ({cause}): if this persists, check that it does not expect \
                 https"
            ),
        }
    }
}

/// The last cause of an error: the others name the layers that it passed.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}
