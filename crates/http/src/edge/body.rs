//! The body of a request, with a limit on the time that the server waits for it.
//!
//! A body that is read whole has `server.body_seconds`, and one second more for every 256 KiB received. After
//! five seconds it must also arrive at `server.bytes_per_second`. A stream has no limit as a whole. It ends
//! if the server has waited `server.stall_seconds` for a complete line and received fewer bytes than that
//! rate requires.
//!
//! Only the time that the server waits for the peer counts. A body that is already received needs no timer.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderValue, header};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep};

use super::EdgeLimits;
use super::peers::Peer;

/// The types of bodies that are streamed: documents and backups.
const STREAMS: [&[u8]; 2] = [b"application/x-ndjson", b"application/x-tar"];
/// The time before the minimum rate applies.
const GRACE: Duration = Duration::from_secs(5);
/// The time between two checks of a late body.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// A body gets one second more for each received part of this many bytes.
const BYTES_PER_EXTRA_SECOND: u64 = 256 << 10;

/// The peer sent its body too slowly. The message is sent to the peer.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct TooSlow(String);

/// A body whose arrival is timed.
pub(super) struct Timed {
    body: Incoming,
    peer: Arc<Peer>,
    limits: EdgeLimits,
    is_stream: bool,
    /// Bytes received since the start, or since the last complete line of a stream.
    bytes: u64,
    /// Time waited since then.
    waited: Duration,
    wait: Option<Wait>,
}

struct Wait {
    since: Instant,
    next_check: Pin<Box<Sleep>>,
}

impl Timed {
    pub(super) fn new(body: Incoming, headers: &HeaderMap, peer: Arc<Peer>, limits: EdgeLimits) -> Timed {
        let kind = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
        let is_stream = kind.is_some_and(|kind| STREAMS.iter().any(|stream| kind.starts_with(stream)));
        Timed { body, peer, limits, is_stream, bytes: 0, waited: Duration::ZERO, wait: None }
    }

    /// Ends a wait, and counts the received bytes.
    fn record_received(&mut self, part: Option<&Bytes>) {
        if let Some(wait) = self.wait.take() {
            self.waited += wait.since.elapsed();
        }
        self.peer.receives_body(part.map_or(0, Bytes::len));
        let Some(part) = part else { return };
        self.bytes += part.len() as u64;
        if self.is_stream && part.contains(&b'\n') {
            (self.bytes, self.waited) = (0, Duration::ZERO);
        }
    }

    /// The error if the body is too slow after this time of waiting.
    fn check(&self, waited: Duration) -> Option<TooSlow> {
        let rate = self.limits.bytes_per_second;
        if self.is_stream {
            let least = rate.saturating_mul(self.limits.stall.as_secs());
            let is_late = waited >= self.limits.stall && self.bytes < least;
            return is_late.then(|| {
                TooSlow(format!(
                    "no complete line and fewer than {rate} bytes a second came in {} s; send faster, or in \
                     shorter lines (server.stall_seconds, server.bytes_per_second)",
                    self.limits.stall.as_secs()
                ))
            });
        }
        let longest = self.limits.body + Duration::from_secs(self.bytes / BYTES_PER_EXTRA_SECOND);
        let least = rate as f64 * waited.saturating_sub(GRACE).as_secs_f64();
        let is_late = waited >= longest || (self.bytes as f64) < least;
        is_late.then(|| {
            TooSlow(format!(
                "{} bytes of the body came in {:.0} s; send it within {} s and at {rate} bytes a second or \
                 faster (server.body_seconds, server.bytes_per_second)",
                self.bytes,
                waited.as_secs_f64(),
                longest.as_secs(),
            ))
        })
    }

    fn poll_wait(&mut self, context: &mut Context<'_>) -> Poll<TooSlow> {
        if self.wait.is_none() {
            self.peer.awaits_body();
            let since = Instant::now();
            let next_check = Box::pin(tokio::time::sleep(CHECK_INTERVAL));
            self.wait = Some(Wait { since, next_check });
        }
        while let Some(wait) = &mut self.wait {
            if wait.next_check.as_mut().poll(context).is_pending() {
                break;
            }
            wait.next_check.as_mut().reset(Instant::now() + CHECK_INTERVAL);
            let waited = self.waited + wait.since.elapsed();
            if let Some(error) = self.check(waited) {
                metrics::counter!("lookalike_http_slow_bodies_total").increment(1);
                return Poll::Ready(error);
            }
        }
        Poll::Pending
    }
}

impl Drop for Timed {
    /// The unread rest of the body blocks the next request of the connection, so the answer closes it.
    fn drop(&mut self) {
        if !self.body.is_end_stream() {
            self.peer.abandons_body();
        }
    }
}

impl Body for Timed {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Ready(frame) => {
                let part = match &frame {
                    Some(Ok(frame)) => frame.data_ref(),
                    _ => None,
                };
                self.record_received(part);
                Poll::Ready(frame.map(|frame| frame.map_err(io::Error::other)))
            }
            Poll::Pending => {
                let error = std::task::ready!(self.poll_wait(context));
                Poll::Ready(Some(Err(io::Error::new(io::ErrorKind::TimedOut, error))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl TooSlow {
    /// The message for the peer, if this error has a [`TooSlow`] among its causes.
    pub(crate) fn of(error: &(dyn std::error::Error + 'static)) -> Option<String> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(slow) = error.downcast_ref::<TooSlow>() {
                return Some(slow.0.clone());
            }
            // `source` of an `io::Error` skips the error that it contains.
            let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
            next = inner.map(|inner| inner as &(dyn std::error::Error + 'static)).or_else(|| error.source());
        }
        None
    }
}
