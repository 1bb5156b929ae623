//! The bytes of a connection, between the socket and hyper. This layer does two things:
//!
//! - It records the phase of the peer: received bytes begin a head, and a blocked write shows that the peer
//!   does not read.
//! - It closes a connection in two steps if the peer still sends: if the socket is closed with unread bytes,
//!   the peer may lose the answer.
//!
//! *Absent*: the bytes themselves. A head that hyper cannot parse gets the plain answer of hyper, and HTTP/2
//! gets none.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::peers::Peer;

/// The time that a peer that still sends has to read the last answer.
const LINGER: Duration = Duration::from_secs(1);
/// Maximum bytes that it may send in this time.
const LINGER_BYTES: usize = 16 << 20;
/// A head and a body of at most this many bytes in total are copied and written together, which is faster
/// than a vectored write.
const JOINED_BYTES: usize = 1 << 10;

/// The stream of a connection, with its peer.
pub(super) struct Watched<S> {
    stream: S,
    peer: Arc<Peer>,
    /// Whether the peer has closed its side.
    is_at_end: bool,
    closing: Closing,
}

/// The steps of closing a connection.
enum Closing {
    NotBegun,
    /// The writing side is being shut down.
    ShuttingDown,
    /// The bytes that the peer still sends are discarded, until this time or for this number of bytes.
    Lingering(Pin<Box<Sleep>>, usize),
}

impl<S> Watched<S> {
    pub(super) fn new(stream: S, peer: Arc<Peer>) -> Watched<S> {
        Watched { stream, peer, is_at_end: false, closing: Closing::NotBegun }
    }

    fn record_write(&self, result: &Poll<io::Result<usize>>) {
        match result {
            Poll::Ready(Ok(written)) => self.peer.record_write(*written, false),
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.peer.record_write(0, true),
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(context, buffer);
        if matches!(result, Poll::Ready(Ok(()))) {
            if buffer.filled().len() > before {
                self.peer.received();
            } else {
                self.is_at_end = true;
            }
        }
        result
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Watched<S> {
    /// Discards the bytes that the peer still sends.
    fn poll_discard(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Closing::Lingering(sleep, left) = &mut self.closing else {
            return Poll::Ready(());
        };
        let mut bytes = [0; 8 << 10];
        loop {
            if sleep.as_mut().poll(context).is_ready() {
                return Poll::Ready(());
            }
            let mut buffer = ReadBuf::new(&mut bytes);
            match ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() && *left > buffer.filled().len() => {
                    *left -= buffer.filled().len();
                }
                _ => return Poll::Ready(()),
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.record_write(&result);
        result
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let [one] = slices {
            return self.poll_write(context, one);
        }
        let length: usize = slices.iter().map(|slice| slice.len()).sum();
        let result = if length <= JOINED_BYTES {
            let mut joined = [0; JOINED_BYTES];
            let mut free = &mut joined[..];
            for slice in slices {
                let (copy, rest) = free.split_at_mut(slice.len());
                copy.copy_from_slice(slice);
                free = rest;
            }
            Pin::new(&mut self.stream).poll_write(context, &joined[..length])
        } else {
            Pin::new(&mut self.stream).poll_write_vectored(context, slices)
        };
        self.record_write(&result);
        result
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            match self.closing {
                Closing::NotBegun => self.closing = Closing::ShuttingDown,
                Closing::ShuttingDown => {
                    ready!(Pin::new(&mut self.stream).poll_shutdown(context))?;
                    if self.is_at_end {
                        return Poll::Ready(Ok(()));
                    }
                    self.closing = Closing::Lingering(Box::pin(tokio::time::sleep(LINGER)), LINGER_BYTES);
                }
                Closing::Lingering(..) => return self.poll_discard(context).map(Ok),
            }
        }
    }
}
