//! The state of the replicas, for people who operate them.

use serde::Serialize;
use utoipa::ToSchema;

use super::{Replicas, Report, Unsent};
use lookalike_log::{Log, LogError, Position};

/// The state of the replicas, as one of them sees it.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ReplicasStatus {
    /// The URL of the shared log.
    pub url: String,
    /// The name of the server that answers.
    pub server: String,
    /// The last entry of the log that this server has applied.
    pub position: u64,
    /// The last entry of the log; `None` if it does not answer.
    pub end: Option<u64>,
    /// The number of entries that this server has not applied; `None` if it is not known.
    pub lag_entries: Option<u64>,
    /// Milliseconds since this server certainly had every acknowledged write.
    pub behind_ms: u64,
    /// What the log lacks of what this server has acknowledged; `None` if each write waits for it.
    pub unsent: Option<Unsent>,
    /// Why this server answers no requests for data, or does not follow the log, if that is so.
    pub trouble: Option<String>,
    /// The servers that are alive, by name.
    pub servers: Vec<ServerState>,
}

/// The state of a replica, as it reported it.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ServerState {
    /// Its name.
    pub name: String,
    /// The URL at which other servers reach it.
    pub address: String,
    /// Its version of lookalike.
    pub version: String,
    /// The last entry of the log that it has applied.
    pub position: u64,
    /// The last entry of the log whose effect is on its disk.
    pub durable: u64,
    /// The number of entries of the log that it has not applied; `None` if it is not known.
    pub lag_entries: Option<u64>,
    /// Milliseconds since it certainly had every acknowledged write.
    pub behind_ms: u64,
    /// The last position of the log at which its data were the same as those of others; `None` if they were
    /// not compared yet, or differ.
    pub agreed: Option<u64>,
    /// Whether it answers no requests for data, because its data differ from those of others.
    pub is_diverged: bool,
}

impl Replicas {
    /// The state of the replicas.
    pub async fn status(&self) -> ReplicasStatus {
        let (end, servers) = tokio::join!(self.log.last(), self.servers());
        let unknown = |error: &LogError| format!("the shared log does not answer: {error}");
        let trouble = self.log_trouble().map(|trouble| trouble.reason);
        ReplicasStatus {
            url: self.settings.url.clone(),
            server: self.settings.server.clone(),
            position: self.engine.get().map_or(0, |engine| engine.applied().0),
            lag_entries: self.lag(),
            behind_ms: self.behind().as_millis() as u64,
            unsent: self.unsent(),
            trouble: self
                .divergence()
                .or(trouble)
                .or_else(|| self.trouble())
                .or_else(|| end.as_ref().err().map(unknown)),
            end: end.ok().map(|(Position(end), _)| end),
            servers: servers.unwrap_or_default(),
        }
    }

    async fn servers(&self) -> Result<Vec<ServerState>, LogError> {
        let end = self.seen.lock().end;
        let state = |(name, report): (String, Report)| {
            let Report { address, version, position, durable, behind_ms, .. } = report;
            let Report { number, agreed, is_diverged, .. } = report;
            let lag_entries = (number > 0).then(|| end.saturating_sub(number));
            ServerState {
                name,
                address,
                version,
                position,
                durable,
                lag_entries,
                behind_ms,
                agreed,
                is_diverged,
            }
        };
        Ok(self.reports().await?.into_iter().map(state).collect())
    }

    /// The reports of the servers that are alive, by name.
    pub(super) async fn reports(&self) -> Result<Vec<(String, Report)>, LogError> {
        let read = |(name, value): (String, bytes::Bytes)| Some((name, serde_json::from_slice(&value).ok()?));
        Ok(self.log.members().await?.into_iter().filter_map(read).collect())
    }
}
