//! The bytes of a connection, between the socket and hyper. This layer does four things:
//!
//! - It records the phase of the peer: received bytes begin a head, and a blocked write shows that the peer
//!   does not read.
//! - It refuses HTTP/2 before hyper reads a byte, because hyper would close the connection without an answer.
//! - It replaces the answers of hyper to heads that hyper cannot parse, because they have no body and no
//!   request id.
//! - It closes a connection in two steps if the peer still sends: if the socket is closed with unread bytes,
//!   the peer may lose the answer.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::super::error::{Code, Problem};
use super::peers::Peer;
use super::{HEAD_BYTES, refusal};

/// The time that a peer that still sends has to read the last answer.
const LINGER: Duration = Duration::from_secs(1);
/// Maximum bytes that it may send in this time.
const LINGER_BYTES: usize = 16 << 20;
/// A head and a body of at most this many bytes in total are copied and written together, which is faster
/// than a vectored write.
const JOINED_BYTES: usize = 1 << 10;

/// The start of an HTTP/2 connection, up to the byte that differs from every HTTP/1 request.
const HTTP2: &[u8] = b"PRI * HTTP/2";

/// The stream of a connection, with its peer.
pub(super) struct Watched<S> {
    stream: S,
    peer: Arc<Peer>,
    /// Whether the peer has closed its side.
    is_at_end: bool,
    /// Whether the last write was incomplete: then the next one does not begin with the head of an answer.
    is_partial: bool,
    protocol: Protocol,
    /// The answer that is sent in place of an answer of hyper, and the number of bytes written.
    refusal: Option<(Vec<u8>, usize)>,
    closing: Closing,
}

/// The protocol of the peer, by its first bytes.
enum Protocol {
    /// This number of bytes has arrived. They are the start of [`HTTP2`].
    Unknown(usize),
    /// The first bytes are not those of HTTP/2.
    Http1,
    /// HTTP/2: the peer gets an error, and hyper the end of the stream.
    Http2,
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
        let (protocol, closing) = (Protocol::Unknown(0), Closing::NotBegun);
        Watched { stream, peer, is_at_end: false, is_partial: false, protocol, refusal: None, closing }
    }

    /// Records the result of a write of `length` bytes.
    fn record_write(&mut self, result: &Poll<io::Result<usize>>, length: usize) {
        match result {
            Poll::Ready(Ok(written)) => {
                self.is_partial = *written < length;
                self.peer.record_write(*written, false);
            }
            Poll::Ready(Err(_)) => {}
            Poll::Pending => {
                self.is_partial = true;
                self.peer.record_write(0, true);
            }
        }
    }

    /// The answer to send in place of these bytes, if they are an answer that hyper made by itself. An answer
    /// of the server begins during a request, and an answer of hyper has no body.
    fn replacement(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        if self.is_partial || self.peer.is_in_request() {
            return None;
        }
        let status = bytes.strip_prefix(b"HTTP/1.").and_then(|rest| rest.get(1..5))?;
        let problem = match status {
            b" 400" => Problem::new(
                Code::MalformedRequest,
                "the head of the request is not HTTP/1.1: check the request line, the headers, and that \
                 Content-Length and Transfer-Encoding agree",
            ),
            b" 414" => Problem::new(Code::UriTooLong, "the URI is too long; send a POST with a body instead"),
            b" 431" => Problem::new(
                Code::HeadersTooLarge,
                format!(
                    "the head of the request is larger than {HEAD_BYTES} bytes or has more than 64 headers; \
                     remove headers"
                ),
            ),
            _ => return None,
        };
        Some(refusal::bytes(&problem))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if matches!(self.protocol, Protocol::Http2) {
            return self.poll_refuse(context);
        }
        let before = buffer.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(context, buffer);
        if matches!(result, Poll::Ready(Ok(()))) {
            if buffer.filled().len() > before {
                self.peer.received();
            } else {
                self.is_at_end = true;
            }
            if let Protocol::Unknown(seen) = self.protocol {
                self.protocol = protocol(seen, &buffer.filled()[before..]);
            }
        }
        if matches!(self.protocol, Protocol::Http2) {
            buffer.set_filled(before);
            let detail = "this server speaks HTTP/1.1, not HTTP/2; with curl, omit --http2-prior-knowledge";
            let problem = Problem::new(Code::HttpVersion, detail);
            self.refusal = Some((refusal::bytes(&problem), 0));
            return self.poll_refuse(context);
        }
        result
    }
}

/// The protocol, if these bytes follow the first `seen` bytes of [`HTTP2`].
fn protocol(seen: usize, bytes: &[u8]) -> Protocol {
    let length = bytes.len().min(HTTP2.len() - seen);
    if bytes[..length] != HTTP2[seen..seen + length] {
        Protocol::Http1
    } else if seen + length == HTTP2.len() {
        Protocol::Http2
    } else {
        Protocol::Unknown(seen + length)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Watched<S> {
    /// Writes the refusal and closes the connection.
    fn poll_refuse(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_refusal(context, 0))?;
        Pin::new(self).poll_shutdown(context)
    }

    /// Writes the refusal. Returns `length`, as if the bytes that it replaces were written.
    fn poll_refusal(&mut self, context: &mut Context<'_>, length: usize) -> Poll<io::Result<usize>> {
        while let Some((bytes, done)) = &mut self.refusal {
            let written = ready!(Pin::new(&mut self.stream).poll_write(context, &bytes[*done..]))?;
            *done += written;
            if written == 0 || *done == bytes.len() {
                self.refusal = None;
            }
        }
        Poll::Ready(Ok(length))
    }

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
        if self.refusal.is_none() {
            self.refusal = self.replacement(bytes).map(|refusal| (refusal, 0));
        }
        if self.refusal.is_some() {
            return self.poll_refusal(context, bytes.len());
        }
        let result = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.record_write(&result, bytes.len());
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
        let length = slices.iter().map(|slice| slice.len()).sum();
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
        self.record_write(&result, length);
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
