//! A server without data, or with data that the log does not reach any more, takes those of the newest
//! snapshot, or begins with the first entry of the log.

use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use bytes::{Buf, Bytes};
use futures::{Stream, StreamExt};
use tokio::sync::mpsc;

use super::{ReplicaError, Replicas, snapshots, standing};
use lookalike_engine::{EngineSettings, JoinError, remove_data, replace_data};
use lookalike_log::LogError;

/// Pieces of a copy that wait for the disk.
const AHEAD: usize = 16;
/// How long to wait before another attempt.
const RETRY: Duration = Duration::from_secs(2);
/// How often the progress is logged.
const PROGRESS_BYTES: u64 = 256 << 20;

/// Why data were not replaced.
#[derive(Debug, thiserror::Error)]
pub(super) enum CopyFailure {
    /// The list of snapshots cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The data cannot be written, or ended early.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// The file that asks for the copy cannot be deleted.
    #[error("the file that asks for other data cannot be deleted: {0}")]
    Mark(#[source] io::Error),
}

impl Replicas {
    /// Replaces the data in `dir`, which no engine uses, by the newest snapshot of the log, or if it has none
    /// by nothing: then the log has all entries. Tries until it succeeds.
    ///
    /// # Errors
    /// [`ReplicaError::Log`] if the log cannot be read, for a reason that does not pass.
    pub async fn copy_data(&self, dir: &Path, settings: EngineSettings) -> Result<(), ReplicaError> {
        loop {
            match self.try_copy(dir, settings).await {
                Ok(()) => return Ok(()),
                Err(CopyFailure::Log(error)) if !error.is_transient() => return Err(error.into()),
                Err(error) => tracing::warn!(%error, "waiting for the data of the shared log"),
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    async fn try_copy(&self, dir: &Path, settings: EngineSettings) -> Result<(), CopyFailure> {
        match self.log.newest_snapshot(None).await? {
            Some(snapshot) => snapshots::load(&self.log, &snapshot, dir, settings).await?,
            None => remove_data(dir)?,
        }
        standing::forget(&self.dir).map_err(CopyFailure::Mark)
    }
}

/// Replaces the data in a directory by the pieces of a copy.
pub(super) async fn write(
    pieces: impl Stream<Item = io::Result<Bytes>>,
    dir: &Path,
    settings: EngineSettings,
) -> Result<(), CopyFailure> {
    let (send, receive) = mpsc::channel(AHEAD);
    let dir = dir.to_path_buf();
    let mut received = Received { pieces: receive, piece: Bytes::new() };
    let writing = tokio::task::spawn_blocking(move || replace_data(&dir, &settings, &mut received));
    let (mut pieces, mut bytes) = (std::pin::pin!(pieces), 0);
    while let Some(piece) = pieces.next().await {
        let before = bytes / PROGRESS_BYTES;
        bytes += piece.as_ref().map_or(0, Bytes::len) as u64;
        if bytes / PROGRESS_BYTES > before {
            tracing::info!(bytes, "copying data");
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
    tracing::info!(bytes, "the data of this server are replaced");
    Ok(())
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
