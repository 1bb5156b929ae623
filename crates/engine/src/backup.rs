//! Making backups: a thread reads a view of the store and writes a tar archive into a channel.
//!
//! The backup is a snapshot that concurrent writes do not affect. In memory it holds one part of the archive
//! and a few chunks. A view prevents the store from reclaiming what it shows, so a client that reads
//! nothing, or too slowly, is disconnected.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{Instant, timeout_at};

use super::registry::Collection;
use super::shared::Shared;
use crate::{EngineError, Pieces};
use lookalike_store::backup::{BackupError, Manifest, Writer};

/// Bytes of a chunk.
const CHUNK: usize = 64 << 10;
/// Maximum number of chunks that wait for the client.
const MAX_QUEUED: usize = 16;
/// The time for which a client may read nothing.
const STALL_TIMEOUT: Duration = Duration::from_mins(1);
/// The minimum rate of a client in bytes per second, once that time is used up.
const MIN_RATE: u64 = 256 << 10;

enum Message {
    Bytes(Bytes),
    /// The end of the backup. A channel that closes without it was cut off.
    End,
    Failed(EngineError),
}

/// Streams a backup of `collection`.
pub(super) fn stream(
    shared: Arc<Shared>,
    collection: Arc<Collection>,
    taken_ms: u64,
    permit: OwnedSemaphorePermit,
) -> Pieces {
    pieces(format!("collection {}", collection.name), MAX_QUEUED, permit, move |out| {
        write(&shared, &collection, taken_ms, out)
    })
}

/// Runs `write` on a thread of its own, and returns its output as a stream that ends with success or an
/// error. A flush ends a piece, of which at most `queued` wait for the reader.
pub(super) fn pieces(
    what: String,
    queued: usize,
    permit: OwnedSemaphorePermit,
    write: impl FnOnce(Outgoing) -> Result<u64, EngineError> + Send + 'static,
) -> Pieces {
    let (send, receive) = mpsc::channel(queued + 1);
    // Reserve capacity for the last message: a client that is behind must still learn whether the backup is
    // complete.
    let end = send.clone().try_reserve_owned().expect("an empty channel has capacity");
    let handle = Handle::current();
    let work = move || {
        let out = Outgoing { send, handle, begun: Instant::now(), sent: 0, buffer: Vec::new() };
        let last = match write(out) {
            Ok(bytes) => {
                tracing::info!(bytes, "a backup of {what} was sent");
                Message::End
            }
            Err(error) => {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                if is_of_client(&error) {
                    tracing::debug!(%error, cause, "a backup of {what} was cut off");
                } else {
                    tracing::warn!(%error, cause, "a backup of {what} was cut off");
                }
                Message::Failed(error)
            }
        };
        // Before the client receives the end: it may request the next backup at once.
        drop(permit);
        end.send(last);
    };
    drop(tokio::task::spawn_blocking(work));
    let pieces = stream::unfold(Some(receive), |receive| async move {
        let mut receive = receive?;
        match receive.recv().await {
            Some(Message::Bytes(bytes)) => Some((Ok(bytes), Some(receive))),
            Some(Message::End) => None,
            Some(Message::Failed(error)) => Some((Err(error), None)),
            None => Some((Err(cut_off()), None)),
        }
    });
    pieces.boxed()
}

/// Whether the client ended the backup: it disconnected, or read too slowly.
fn is_of_client(error: &EngineError) -> bool {
    use io::ErrorKind::{BrokenPipe, TimedOut};
    let EngineError::Backup(BackupError::Io(error)) = error else { return false };
    matches!(error.kind(), BrokenPipe | TimedOut)
}

fn cut_off() -> EngineError {
    let what = "the client read it too slowly, and it was cut off";
    BackupError::Io(io::Error::new(io::ErrorKind::TimedOut, what)).into()
}

/// Writes the backup. Returns its size in bytes.
fn write(shared: &Shared, collection: &Collection, taken_ms: u64, out: Outgoing) -> Result<u64, EngineError> {
    let now_ms = shared.clock.now_ms();
    let view = shared.store.view();
    let record = collection.record();
    let manifest = Manifest {
        created_ms: record.created_ms,
        sequence: view.high_water()?.0,
        taken_ms,
        ..Manifest::of(&record.name, record.settings)
    };
    let mut writer = Writer::begin(out, &manifest)?;
    for row in view.rows_after(collection.id, None) {
        let (id, row) = row?;
        if !row.has_lapsed(now_ms) {
            writer.document(&id, &row)?;
        }
    }
    for mark in view.marks_after(collection.id, None) {
        if let Some((mark, marked_ms)) = mark? {
            writer.mark(&mark, marked_ms)?;
        }
    }
    writer.finish()?.finish()
}

pub(super) fn io_error(error: io::Error) -> EngineError {
    BackupError::Io(error).into()
}

/// The destination of the archive. It sends chunks into the channel, and blocks while the channel is full.
pub(super) struct Outgoing {
    send: mpsc::Sender<Message>,
    handle: Handle,
    begun: Instant,
    sent: u64,
    buffer: Vec<u8>,
}

impl Outgoing {
    /// Sends the rest. Returns the number of bytes sent.
    pub(super) fn finish(mut self) -> Result<u64, EngineError> {
        self.flush().map_err(BackupError::Io)?;
        Ok(self.sent)
    }

    fn send_chunk(&mut self) -> io::Result<()> {
        let bytes = Bytes::from(std::mem::take(&mut self.buffer));
        self.sent += bytes.len() as u64;
        let deadline = self.begun + STALL_TIMEOUT + Duration::from_secs(self.sent / MIN_RATE);
        let sending = async { timeout_at(deadline, self.send.send(Message::Bytes(bytes))).await };
        match self.handle.block_on(sending) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(io::Error::new(io::ErrorKind::BrokenPipe, "the client disconnected")),
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "the client read it too slowly")),
        }
    }
}

impl Write for Outgoing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= CHUNK {
            self.send_chunk()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() { Ok(()) } else { self.send_chunk() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::Semaphore;

    /// The result for a client that reads nothing until `count` chunks are written: the number of chunks,
    /// and whether it receives no error.
    async fn read_late(count: usize, failure: Option<io::ErrorKind>) -> (usize, bool) {
        let permits = Arc::new(Semaphore::new(1));
        let permit = Arc::clone(&permits).acquire_owned().await.unwrap();
        let write = move |mut out: Outgoing| {
            (0..count).try_for_each(|_| out.write_all(&vec![7; CHUNK])).map_err(BackupError::Io)?;
            match failure {
                Some(kind) => Err(BackupError::Io(kind.into()).into()),
                None => Ok(out.sent),
            }
        };
        let pieces = pieces("a test".to_owned(), MAX_QUEUED, permit, write);
        // The writer releases its permit when it is done.
        drop(permits.acquire().await.unwrap());
        let items: Vec<_> = pieces.collect().await;
        let bytes: usize = items.iter().flatten().map(Bytes::len).sum();
        assert_eq!(bytes, count * CHUNK);
        (items.iter().filter(|item| item.is_ok()).count(), items.iter().all(Result::is_ok))
    }

    #[tokio::test]
    async fn a_client_that_is_as_far_behind_as_possible_receives_the_end() {
        for count in [0, 1, MAX_QUEUED - 1, MAX_QUEUED] {
            assert_eq!(read_late(count, None).await, (count, true));
            assert_eq!(read_late(count, Some(io::ErrorKind::Other)).await, (count, false));
        }
    }

    #[tokio::test]
    async fn a_flush_ends_a_piece_of_any_length() {
        let permit = Arc::new(Semaphore::new(1)).acquire_owned().await.unwrap();
        let write = |mut out: Outgoing| {
            for length in [3 * CHUNK, 5] {
                out.write_all(&[1; 4]).and_then(|()| out.write_all(&vec![2; length])).unwrap();
                out.flush().unwrap();
            }
            out.finish()
        };
        let pieces = pieces("a test".to_owned(), 2, permit, write);
        let lengths: Vec<usize> = pieces.map(|piece| piece.unwrap().len()).collect().await;
        assert_eq!(lengths, [4 + 3 * CHUNK, 4 + 5]);
    }
}
