//! The consequences of a failed request to etcd.
//!
//! etcd's errors are known by their text: the gateway sends the same text in every version and place (an
//! answer, a stream, the reason of a cancelled watch), but codes and statuses differ.

use crate::Failure;

/// The kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The request had no effect and never will have. Another try, at another server, may succeed.
    NotDone,
    /// The request may have an effect, now or later. Another try may succeed.
    Unclear,
    /// The token is unknown to the server: it expired, or the server was restarted.
    TokenExpired,
    /// The user has no access.
    Unauthorized,
    /// The space of etcd is used up.
    Full,
    /// The request is larger than etcd accepts.
    TooLarge,
    /// The lease of the request has ended.
    LeaseEnded,
    /// The revision was removed by a compaction.
    Compacted,
    /// The revision does not exist yet.
    Future,
    /// The server belongs to another etcd cluster.
    Foreign,
    /// No retry changes the answer. The request had no effect.
    Final,
}

/// Parts of etcd's messages. Those that are not in the table are judged by their code.
const MESSAGES: &[(&str, Kind)] = &[
    ("database space exceeded", Kind::Full),
    ("requested lease not found", Kind::LeaseEnded),
    ("has been compacted", Kind::Compacted),
    ("is a future revision", Kind::Future),
    ("request is too large", Kind::TooLarge),
    ("message larger than max", Kind::TooLarge),
    ("invalid auth token", Kind::TokenExpired),
    ("revision of auth store is old", Kind::TokenExpired),
    ("user name is empty", Kind::TokenExpired),
    ("authentication failed", Kind::Unauthorized),
    ("permission denied", Kind::Unauthorized),
    ("etcdserver: no leader", Kind::NotDone),
    ("too many requests", Kind::NotDone),
    ("proposal dropped", Kind::NotDone),
];

/// Codes of gRPC after which the outcome is unclear: cancelled, unknown, deadline exceeded, aborted,
/// internal, unavailable, data loss.
const UNCLEAR: &[u32] = &[1, 2, 4, 10, 13, 14, 15];

/// The text by which etcd says that it does not ask for a password.
const NO_AUTHENTICATION: &str = "authentication is not enabled";

impl Failure {
    /// The kind of this failure.
    pub(super) fn kind(&self) -> Kind {
        match self {
            Failure::Transport { source, .. } if source.is_connect() => Kind::NotDone,
            Failure::Transport { .. } | Failure::Elapsed { .. } | Failure::Malformed { .. } => Kind::Unclear,
            Failure::Foreign { .. } => Kind::Foreign,
            Failure::Refused { code, message, .. } => kind_of_message(*code, message),
        }
    }

    /// Whether etcd accepts requests without a password.
    pub(super) fn is_without_authentication(&self) -> bool {
        matches!(self, Failure::Refused { message, .. } if message.contains(NO_AUTHENTICATION))
    }
}

fn kind_of_message(code: u32, message: &str) -> Kind {
    let known = MESSAGES.iter().find(|(part, _)| message.contains(part));
    let by_code = || if UNCLEAR.contains(&code) { Kind::Unclear } else { Kind::Final };
    known.map_or_else(by_code, |(_, kind)| *kind)
}

impl Kind {
    /// Whether the same request may succeed at another server or later.
    pub(super) fn is_transient(self) -> bool {
        matches!(self, Kind::NotDone | Kind::Unclear)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_etcd_3_4_have_a_meaning() {
        let cases = [
            (8, "etcdserver: mvcc: database space exceeded", Kind::Full),
            (5, "etcdserver: requested lease not found", Kind::LeaseEnded),
            (11, "etcdserver: mvcc: required revision has been compacted", Kind::Compacted),
            (11, "etcdserver: mvcc: required revision is a future revision", Kind::Future),
            (3, "etcdserver: request is too large", Kind::TooLarge),
            (16, "etcdserver: invalid auth token", Kind::TokenExpired),
            (3, "etcdserver: user name is empty", Kind::TokenExpired),
            (3, "etcdserver: authentication failed, invalid user ID or password", Kind::Unauthorized),
            (2, "auth: permission denied", Kind::Unauthorized),
            (14, "etcdserver: no leader", Kind::NotDone),
            (14, "etcdserver: leader changed", Kind::Unclear),
            (14, "etcdserver: request timed out", Kind::Unclear),
            (14, "etcdserver: request timed out, possibly due to previous leader failure", Kind::Unclear),
            (8, "etcdserver: too many requests", Kind::NotDone),
            (3, "etcdserver: key is not provided", Kind::Final),
            (
                0,
                "rpc error: code = Unauthenticated desc = etcdserver: invalid auth token",
                Kind::TokenExpired,
            ),
        ];
        for (code, message, kind) in cases {
            assert_eq!(kind_of_message(code, message), kind, "{message}");
        }
    }
}
