//! A server of a cluster: its settings, its start, and what it does besides answering.

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::{ServerError, drain, engine_settings};
use crate::cluster::{Cluster, ClusterSettings};
use crate::config::Settings;
use crate::engine::{Engine, Progress};
use crate::log::etcd::{ClientCertificate, Credentials};
use crate::machine;
use crate::pool::CpuPool;

/// Opens the engine, waits until it has the whole log, and compares it with the other servers. If the log
/// does not reach back to its position, or its data were found to differ, it copies those of another server
/// first.
pub(super) async fn open(
    settings: &Settings,
    pool: CpuPool,
    progress: &Arc<Progress>,
    cluster: &Cluster,
) -> Result<Arc<Engine>, ServerError> {
    if cluster.has_diverged() {
        tracing::warn!("the data of this server differed from those of the others, and are replaced");
        cluster.copy_data(&settings.data.dir, engine_settings(settings)).await?;
    }
    loop {
        // A new origin each time: it identifies the entries of an engine.
        let membership = cluster.membership(uuid::Uuid::new_v4().as_u128());
        let engine = super::open(settings, pool.clone(), progress, Some(membership)).await?;
        if cluster.catch_up(&engine).await? {
            cluster.compare_at_start(&engine).await;
            return Ok(engine);
        }
        tracing::warn!("the log of the cluster does not reach back to the data of this server");
        engine.close(drain(settings)).await;
        drop(engine);
        cluster.copy_data(&settings.data.dir, engine_settings(settings)).await?;
    }
}

/// Keeps the server in the cluster. Ends when it cannot follow the log any more; never for a single server.
pub(super) async fn run(cluster: &OnceLock<Cluster>) {
    match cluster.get() {
        Some(cluster) => cluster.run().await,
        None => std::future::pending().await,
    }
}

/// The settings of the cluster, if the server is part of one.
pub(super) fn settings(settings: &Settings, address: &str) -> Result<Option<ClusterSettings>, ServerError> {
    let cluster = &settings.cluster;
    if cluster.etcd.is_empty() {
        return Ok(None);
    }
    let wrong = |detail: String| ServerError::ClusterSettings(detail);
    let credentials = match (&cluster.user, &cluster.password_file) {
        (None, None) => None,
        (Some(user), Some(path)) => {
            let password = secret("cluster.password_file", path)?;
            Some(Credentials { user: user.clone(), password })
        }
        _ => {
            let detail = "cluster.user and cluster.password_file go together: name both, or none";
            return Err(wrong(detail.to_owned()));
        }
    };
    let certificate = match (&cluster.certificate, &cluster.key) {
        (None, None) => None,
        (Some(certificate), Some(key)) => {
            Some(ClientCertificate { certificate: certificate.clone(), key: key.clone() })
        }
        _ => {
            let detail = "cluster.certificate and cluster.key go together: name both files, or none";
            return Err(wrong(detail.to_owned()));
        }
    };
    let server = cluster.server.clone().or_else(machine::host_name);
    Ok(Some(ClusterSettings {
        endpoints: cluster.etcd.clone(),
        name: cluster.name.clone(),
        server: server
            .ok_or_else(|| wrong("the machine has no name: give one with --name NAME".to_owned()))?,
        credentials,
        ca_file: cluster.ca_file.clone(),
        certificate,
        address: cluster.address.clone().unwrap_or_else(|| address.to_owned()),
        peer_key: cluster
            .peer_key_file
            .as_deref()
            .map(|path| secret("cluster.peer_key_file", path))
            .transpose()?,
        peer_ca_file: cluster.peer_ca_file.clone(),
        max_lag: Duration::from_millis(cluster.max_lag_ms),
        min_copies: cluster.min_copies,
        trim_bytes: cluster.trim_bytes,
    }))
}

/// The secret in a file, without the end of its line.
fn secret(setting: &str, path: &Path) -> Result<String, ServerError> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        ServerError::ClusterSettings(format!("{setting}: {} cannot be read: {error}", path.display()))
    })?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}
