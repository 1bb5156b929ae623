//! A server without data, or with data that the log does not reach any more, copies that of another server.

use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use bytes::{Buf, Bytes};
use futures::StreamExt;
use reqwest::Method;
use tokio::sync::mpsc;

use super::{ReplicaError, Replicas, ServerState, standing};
use lookalike_client::{Client, ClientError, Trust};
use lookalike_engine::{EngineSettings, JoinError, replace_data};

/// Pieces of a copy that wait for the disk.
const AHEAD: usize = 16;
/// How long to wait before another attempt.
const RETRY: Duration = Duration::from_secs(2);
/// How often the progress is logged.
const PROGRESS_BYTES: u64 = 256 << 20;

/// Why an attempt to copy failed.
#[derive(Debug, thiserror::Error)]
enum CopyFailure {
    /// No other server is alive, or their data differ.
    #[error("no other replica is alive and may answer: start one that has data")]
    NoServer,
    /// The other server refused, or cannot be reached.
    #[error("{address}: {source}")]
    Server { address: String, source: ClientError },
    /// The data cannot be written, or ended early.
    #[error(transparent)]
    Join(#[from] JoinError),
}

impl Replicas {
    /// Replaces the data in `dir`, which no engine uses, by a copy of another server's. Tries until it
    /// succeeds.
    ///
    /// # Errors
    /// [`ReplicaError::Log`] if the list of servers cannot be read, for a reason that does not pass.
    pub async fn copy_data(&self, dir: &Path, settings: EngineSettings) -> Result<(), ReplicaError> {
        loop {
            match self.try_copy(dir, settings).await? {
                Ok(()) => match standing::forget(&self.dir) {
                    Ok(()) => return Ok(()),
                    Err(error) => tracing::warn!(%error, "waiting to delete the file that asks for a copy"),
                },
                Err(error) => tracing::warn!(%error, "waiting for a copy of the data of another server"),
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    async fn try_copy(
        &self,
        dir: &Path,
        settings: EngineSettings,
    ) -> Result<Result<(), CopyFailure>, ReplicaError> {
        let is_source = |other: &ServerState| other.name != self.settings.server && !other.is_diverged;
        let others = self.servers().await?.into_iter().filter(is_source);
        let Some(source) = others.max_by_key(|other| other.position) else {
            return Ok(Err(CopyFailure::NoServer));
        };
        Ok(self.copy_from(source, dir, settings).await)
    }

    async fn copy_from(
        &self,
        source: ServerState,
        dir: &Path,
        settings: EngineSettings,
    ) -> Result<(), CopyFailure> {
        let ServerState { name, address, position, .. } = source;
        tracing::info!(from = name, position, "copying the data of another server");
        let refused = |source| CopyFailure::Server { address: address.clone(), source };
        let key = self.settings.peer_key.clone();
        let trust = self.settings.peer_ca_file.as_deref().map_or(Trust::System, Trust::Authorities);
        let client = Client::new(&address, key, trust).map_err(refused)?;
        let answer = client.send(client.request(Method::GET, "/replicas/copy")).await.map_err(refused)?;
        let (send, receive) = mpsc::channel(AHEAD);
        let dir = dir.to_path_buf();
        let mut received = Received { pieces: receive, piece: Bytes::new() };
        let writing = tokio::task::spawn_blocking(move || replace_data(&dir, &settings, &mut received));
        let (mut pieces, mut bytes) = (answer.bytes_stream(), 0);
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(io::Error::other);
            let before = bytes / PROGRESS_BYTES;
            bytes += piece.as_ref().map_or(0, Bytes::len) as u64;
            if bytes / PROGRESS_BYTES > before {
                tracing::info!(bytes, "copying the data of another server");
            }
            // If the disk fails, the result says so.
            if send.send(piece).await.is_err() {
                break;
            }
        }
        drop(send);
        let failed = |_| io::Error::other("the task that writes the data failed");
        let written = writing.await.map_err(failed);
        written.map_err(|error| JoinError::Copy(error.into()))??;
        tracing::info!(bytes, "the data of another server is copied");
        Ok(())
    }
}

/// The pieces of a stream as a reader for a thread that may block.
struct Received {
    pieces: mpsc::Receiver<io::Result<Bytes>>,
    piece: Bytes,
}

impl Read for Received {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            match self.pieces.blocking_recv() {
                Some(piece) => self.piece = piece?,
                None => return Ok(0),
            }
        }
        let length = self.piece.len().min(out.len());
        self.piece.copy_to_slice(&mut out[..length]);
        Ok(length)
    }
}
