//! The bytes of a connection: passed on, with an eye on where the peer is.
//!
//! Four things are done on the way. Bytes that come tell that a head has begun; bytes that are not taken tell
//! that the peer does not read. A peer that begins with HTTP/2 is told so before hyper, which would say
//! nothing, sees a byte. The answers that hyper makes by itself to a head that it cannot read have no body
//! and no id: in their place goes one that has. And a connection that ends while the peer still sends is
//! ended in two steps, for a peer whose unread bytes are thrown away may lose the answer with them.

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

/// How long a peer gets to read the last answer when it still sends.
const LINGER: Duration = Duration::from_secs(1);
/// What it may send meanwhile.
const LINGER_BYTES: usize = 16 << 20;
/// Head and body of at most so many bytes are written as one piece: that takes less than several slices do.
const JOINED: usize = 1 << 10;

/// What a connection with HTTP/2 begins with, as far as it differs from every request by HTTP/1.
const HTTP2: &[u8] = b"PRI * HTTP/2";

/// A stream with its peer.
pub(super) struct Watched<S> {
    stream: S,
    peer: Arc<Peer>,
    /// Whether the peer has ended its side.
    is_at_end: bool,
    /// Whether what was offered last was not taken whole: then what is offered next begins in the middle.
    is_partial: bool,
    opening: Opening,
    /// What goes out in place of hyper's own answer, and how much of it has gone.
    refusal: Option<(Vec<u8>, usize)>,
    farewell: Farewell,
}

/// What the connection begins with.
enum Opening {
    /// So many bytes came, and all of them are those of HTTP/2.
    Unknown(usize),
    /// Something else.
    Http1,
    /// HTTP/2: the peer is told that this is not spoken, and hyper that nothing came.
    Http2,
}

enum Farewell {
    NotYet,
    Ending,
    Waiting(Pin<Box<Sleep>>, usize),
}

impl<S> Watched<S> {
    pub(super) fn new(stream: S, peer: Arc<Peer>) -> Watched<S> {
        let (opening, farewell) = (Opening::Unknown(0), Farewell::NotYet);
        Watched { stream, peer, is_at_end: false, is_partial: false, opening, refusal: None, farewell }
    }

    fn written(&mut self, result: &Poll<io::Result<usize>>, offered: usize) {
        match result {
            Poll::Ready(Ok(taken)) => {
                self.is_partial = *taken < offered;
                self.peer.took(*taken, false);
            }
            Poll::Ready(Err(_)) => {}
            Poll::Pending => {
                self.is_partial = true;
                self.peer.took(0, true);
            }
        }
    }

    /// What is to be written in place of these bytes, if they are an answer that hyper made by itself. Ours
    /// begin while a request is at work, and none of theirs has a body.
    fn in_place_of(&self, bytes: &[u8]) -> Option<Vec<u8>> {
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
            b" 414" => Problem::new(Code::UriTooLong, "the URI is too long; send what it holds as a body"),
            b" 431" => Problem::new(
                Code::HeadersTooLarge,
                format!(
                    "the head of the request is larger than {HEAD_BYTES} bytes or has more than 64 headers"
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
        if matches!(self.opening, Opening::Http2) {
            return self.poll_ending(context);
        }
        let before = buffer.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(context, buffer);
        if matches!(result, Poll::Ready(Ok(()))) {
            if buffer.filled().len() > before {
                self.peer.received();
            } else {
                self.is_at_end = true;
            }
            if let Opening::Unknown(seen) = self.opening {
                self.opening = opening(seen, &buffer.filled()[before..]);
            }
        }
        if matches!(self.opening, Opening::Http2) {
            buffer.set_filled(before);
            let detail =
                "this server speaks HTTP/1.1, and not HTTP/2: with curl, leave --http2-prior-knowledge out";
            let problem = Problem::new(Code::HttpVersion, detail);
            self.refusal = Some((refusal::bytes(&problem), 0));
            return self.poll_ending(context);
        }
        result
    }
}

/// What the connection begins with, if these bytes come after so many of HTTP/2's.
fn opening(seen: usize, bytes: &[u8]) -> Opening {
    let length = bytes.len().min(HTTP2.len() - seen);
    if bytes[..length] != HTTP2[seen..seen + length] {
        Opening::Http1
    } else if seen + length == HTTP2.len() {
        Opening::Http2
    } else {
        Opening::Unknown(seen + length)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Watched<S> {
    /// Writes the refusal and ends the connection.
    fn poll_ending(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_refusal(context, 0))?;
        Pin::new(self).poll_shutdown(context)
    }

    /// Writes what goes out in place of `offered` bytes.
    fn poll_refusal(&mut self, context: &mut Context<'_>, offered: usize) -> Poll<io::Result<usize>> {
        while let Some((bytes, done)) = &mut self.refusal {
            let taken = ready!(Pin::new(&mut self.stream).poll_write(context, &bytes[*done..]))?;
            *done += taken;
            if taken == 0 || *done == bytes.len() {
                self.refusal = None;
            }
        }
        Poll::Ready(Ok(offered))
    }

    /// Reads and forgets what the peer still sends.
    fn poll_rest(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Farewell::Waiting(sleep, left) = &mut self.farewell else {
            return Poll::Ready(());
        };
        let mut room = [0; 8 << 10];
        loop {
            if sleep.as_mut().poll(context).is_ready() {
                return Poll::Ready(());
            }
            let mut buffer = ReadBuf::new(&mut room);
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
            self.refusal = self.in_place_of(bytes).map(|refusal| (refusal, 0));
        }
        if self.refusal.is_some() {
            return self.poll_refusal(context, bytes.len());
        }
        let result = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.written(&result, bytes.len());
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
        let offered = slices.iter().map(|slice| slice.len()).sum();
        let result = if offered <= JOINED {
            let mut joined = [0; JOINED];
            let mut room = &mut joined[..];
            for slice in slices {
                let (place, rest) = room.split_at_mut(slice.len());
                place.copy_from_slice(slice);
                room = rest;
            }
            Pin::new(&mut self.stream).poll_write(context, &joined[..offered])
        } else {
            Pin::new(&mut self.stream).poll_write_vectored(context, slices)
        };
        self.written(&result, offered);
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
            match self.farewell {
                Farewell::NotYet => self.farewell = Farewell::Ending,
                Farewell::Ending => {
                    ready!(Pin::new(&mut self.stream).poll_shutdown(context))?;
                    if self.is_at_end {
                        return Poll::Ready(Ok(()));
                    }
                    self.farewell = Farewell::Waiting(Box::pin(tokio::time::sleep(LINGER)), LINGER_BYTES);
                }
                Farewell::Waiting(..) => return self.poll_rest(context).map(Ok),
            }
        }
    }
}
