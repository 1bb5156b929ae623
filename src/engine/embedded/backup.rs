//! A backup on its way out: one thread reads a view of the store and writes a tar into a channel.
//!
//! It sees one moment, whatever is written meanwhile; in memory it holds one part and a few pieces. A view keeps
//! the store from reclaiming what it sees, so a client that takes nothing, or next to nothing, is given up on.

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
use crate::backup::{BackupError, Manifest, Shape, Writer};
use crate::engine::{EngineError, Pieces};
use crate::ids::CollectionName;

/// Bytes handed on at a time.
const PIECE: usize = 64 << 10;
/// Pieces that wait for the client, at most.
const AHEAD: usize = 16;
/// How long a client may take nothing at all.
const PATIENCE: Duration = Duration::from_mins(1);
/// Bytes that a client has to take in a second, once that time is used up.
const LEAST_PACE: u64 = 256 << 10;

/// What goes through the channel.
enum Piece {
    Bytes(Bytes),
    /// There is no more: a channel that ends without it was cut.
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
    let name = collection.name.clone();
    pieces(name, permit, move |out| write(&shared, &collection, taken_ms, out))
}

/// The pieces of what `write` writes on a thread of its own, and their end.
fn pieces(
    name: CollectionName,
    permit: OwnedSemaphorePermit,
    write: impl FnOnce(Outgoing) -> Result<u64, EngineError> + Send + 'static,
) -> Pieces {
    let (send, receive) = mpsc::channel(AHEAD + 1);
    // Room for the last piece: a client that is behind has to be told that it has all, or that it has not.
    let end = send.clone().try_reserve_owned().expect("an empty channel has room");
    let handle = Handle::current();
    let work = move || {
        let out = Outgoing { send, handle, begun: Instant::now(), taken: 0, held: Vec::new() };
        let last = match write(out) {
            Ok(bytes) => {
                tracing::info!(collection = %name, bytes, "a backup was taken");
                Piece::End
            }
            Err(error) => {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                tracing::warn!(collection = %name, %error, cause, "a backup was cut off");
                Piece::Failed(error)
            }
        };
        // Before the client knows that it is at the end: it may ask for the next one at once.
        drop(permit);
        end.send(last);
    };
    drop(tokio::task::spawn_blocking(work));
    let pieces = stream::unfold(Some(receive), |receive| async move {
        let mut receive = receive?;
        match receive.recv().await {
            Some(Piece::Bytes(bytes)) => Some((Ok(bytes), Some(receive))),
            Some(Piece::End) => None,
            Some(Piece::Failed(error)) => Some((Err(error), None)),
            None => Some((Err(cut_off()), None)),
        }
    });
    pieces.boxed()
}

fn cut_off() -> EngineError {
    let what = "the client took it too slowly, and it was cut off";
    BackupError::Io(io::Error::new(io::ErrorKind::TimedOut, what)).into()
}

/// Writes it; answers with its size.
fn write(shared: &Shared, collection: &Collection, taken_ms: u64, out: Outgoing) -> Result<u64, EngineError> {
    let now_ms = shared.clock.now_ms();
    let view = shared.store.view();
    let record = collection.record();
    let manifest = Manifest {
        k: record.k,
        signatures: record.signatures.map(Shape::from),
        sketch_bytes: record.sketch_bytes,
        keep_text: record.keep_text,
        expires_in: record.expires_in,
        created_ms: record.created_ms,
        sequence: view.high_water()?.0,
        taken_ms,
        ..Manifest::of(&record.name, record.profile, record.width)
    };
    let mut writer = Writer::begin(out, &manifest)?;
    for row in view.rows_after(collection.id, None) {
        let (id, row) = row?;
        if !row.has_lapsed(now_ms) {
            writer.document(&id, &row)?;
        }
    }
    let mut out = writer.finish()?;
    out.flush().map_err(BackupError::Io)?;
    Ok(out.taken)
}

/// Where the tar goes: pieces into the channel, which blocks while it is full.
struct Outgoing {
    send: mpsc::Sender<Piece>,
    handle: Handle,
    begun: Instant,
    taken: u64,
    held: Vec<u8>,
}

impl Outgoing {
    fn hand_on(&mut self) -> io::Result<()> {
        let bytes = Bytes::from(std::mem::take(&mut self.held));
        self.taken += bytes.len() as u64;
        let deadline = self.begun + PATIENCE + Duration::from_secs(self.taken / LEAST_PACE);
        let sending = async { timeout_at(deadline, self.send.send(Piece::Bytes(bytes))).await };
        match self.handle.block_on(sending) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(io::Error::new(io::ErrorKind::BrokenPipe, "the client went away")),
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "the client took it too slowly")),
        }
    }
}

impl Write for Outgoing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.held.extend_from_slice(bytes);
        if self.held.len() >= PIECE {
            self.hand_on()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.held.is_empty() { Ok(()) } else { self.hand_on() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::Semaphore;

    /// What a client gets that takes nothing until so many pieces are written: their number, and whether the end is one.
    async fn taken_late(count: usize, failure: Option<io::ErrorKind>) -> (usize, bool) {
        let places = Arc::new(Semaphore::new(1));
        let permit = Arc::clone(&places).acquire_owned().await.unwrap();
        let write = move |mut out: Outgoing| {
            (0..count).try_for_each(|_| out.write_all(&vec![7; PIECE])).map_err(BackupError::Io)?;
            match failure {
                Some(kind) => Err(BackupError::Io(kind.into()).into()),
                None => Ok(out.taken),
            }
        };
        let pieces = pieces(CollectionName::default_collection().clone(), permit, write);
        // The writer gives its place back when it is done.
        drop(places.acquire().await.unwrap());
        let items: Vec<_> = pieces.collect().await;
        let bytes: usize = items.iter().flatten().map(Bytes::len).sum();
        assert_eq!(bytes, count * PIECE);
        (items.iter().filter(|item| item.is_ok()).count(), items.iter().all(Result::is_ok))
    }

    #[tokio::test]
    async fn a_client_that_is_as_far_behind_as_can_be_is_told_of_the_end() {
        for count in [0, 1, AHEAD - 1, AHEAD] {
            assert_eq!(taken_late(count, None).await, (count, true));
            assert_eq!(taken_late(count, Some(io::ErrorKind::Other)).await, (count, false));
        }
    }
}
