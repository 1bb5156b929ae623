//! A replica: its settings, its start, and what it does besides answering.

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::{ServerError, drain, engine_settings};
use crate::config::{Acknowledge, Settings, read_shared_log};
use lookalike_engine::{Engine, Progress};
use lookalike_replica::{Behind, ReplicaSettings, Replicas, SnapshotPolicy};
use lookalike_run::machine;
use lookalike_run::pool::CpuPool;

/// Opens the engine, waits until it has the whole log, and compares it with the other servers. If the log
/// does not reach back to its position, or its data were found to differ, it begins with a snapshot.
pub(super) async fn open(
    settings: &Settings,
    pool: CpuPool,
    progress: &Arc<Progress>,
    replicas: &Replicas,
) -> Result<Arc<Engine>, ServerError> {
    if replicas.has_diverged() {
        tracing::warn!("the data of this server differed from those of the others, and are replaced");
    }
    if replicas.has_diverged() || replicas.begins_with_snapshot().await? {
        replicas.copy_data(&settings.data.dir, engine_settings(settings)).await?;
    }
    loop {
        // A new origin each time: it identifies the entries of an engine.
        let membership = replicas.membership(uuid::Uuid::new_v4().as_u128());
        let engine = super::open(settings, pool.clone(), progress, Some(membership)).await?;
        if replicas.catch_up(&engine).await? {
            replicas.compare_at_start(&engine).await;
            return Ok(engine);
        }
        tracing::warn!("the shared log does not reach back to the data of this server");
        engine.close(drain(settings)).await;
        drop(engine);
        replicas.copy_data(&settings.data.dir, engine_settings(settings)).await?;
    }
}

/// Keeps the server among the replicas. Ends when it cannot follow the log any more; never for a single
/// server.
pub(super) async fn run(replicas: &OnceLock<Replicas>) {
    match replicas.get() {
        Some(replicas) => replicas.run().await,
        None => std::future::pending().await,
    }
}

/// The settings of the replicas, if the server has a shared log.
pub(super) fn settings(settings: &Settings, address: &str) -> Result<Option<ReplicaSettings>, ServerError> {
    let replicas = &settings.replicas;
    let Some(url) = &settings.shared_log.url else { return Ok(None) };
    let wrong = |detail: String| ServerError::ReplicaSettings(detail);
    let wanted = read_shared_log(url);
    let url = wanted
        .ok_or_else(|| wrong(format!("shared_log.url is {url:?}, and not such as s3://bucket/news")))?;
    let server = replicas.server.clone().or_else(machine::host_name);
    Ok(Some(ReplicaSettings {
        url,
        process: uuid::Uuid::new_v4().as_u128(),
        server: server
            .ok_or_else(|| wrong("the machine has no name: give one with --name NAME".to_owned()))?,
        address: replicas.address.clone().unwrap_or_else(|| address.to_owned()),
        peer_key: replicas
            .peer_key_file
            .as_deref()
            .map(|path| secret("replicas.peer_key_file", path))
            .transpose()?,
        peer_ca_file: replicas.peer_ca_file.clone(),
        max_lag: Duration::from_millis(replicas.max_lag_ms),
        behind: (settings.shared_log.acknowledge == Acknowledge::Local)
            .then_some(Behind { limit: settings.shared_log.behind_bytes }),
        snapshots: SnapshotPolicy {
            bytes: settings.shared_log.snapshot_bytes,
            keep: Duration::from_hours(24 * settings.shared_log.keep_days),
        },
    }))
}

/// The secret in a file, without the end of its line.
fn secret(setting: &str, path: &Path) -> Result<String, ServerError> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        ServerError::ReplicaSettings(format!("{setting}: {} cannot be read: {error}", path.display()))
    })?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}
