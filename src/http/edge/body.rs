//! The body of a request, which cannot be late for ever.
//!
//! A body that is read whole must be there in `server.body_seconds`, plus one for every 256 KiB that came,
//! and from the fifth second on come at `server.bytes_per_second`. A stream may take as long as it likes; but
//! when `server.stall_seconds` were spent waiting without a line, and fewer bytes came than that rate asks
//! for, it ends.
//!
//! Only the time counts in which the server waited for the peer. No timer is set for a body that is there
//! already.

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

/// The types of bodies that are not read whole: documents, and backups.
const STREAMS: [&[u8]; 2] = [b"application/x-ndjson", b"application/x-tar"];
/// From when on the rate counts.
const GRACE: Duration = Duration::from_secs(5);
/// How often it is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// Bytes for which a body gets another second.
const BYTES_FOR_A_SECOND: u64 = 256 << 10;

/// The peer sent its body too slowly. The message is for the peer.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(in crate::http) struct TooSlow(String);

/// A body with a clock.
pub(super) struct Timed {
    body: Incoming,
    peer: Arc<Peer>,
    limits: EdgeLimits,
    is_stream: bool,
    /// Bytes since the begin, or since the last line of a stream.
    bytes: u64,
    /// Time waited since the same.
    waited: Duration,
    wait: Option<Wait>,
}

struct Wait {
    since: Instant,
    look: Pin<Box<Sleep>>,
}

impl Timed {
    pub(super) fn new(body: Incoming, headers: &HeaderMap, peer: Arc<Peer>, limits: EdgeLimits) -> Timed {
        let kind = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
        let is_stream = kind.is_some_and(|kind| STREAMS.iter().any(|stream| kind.starts_with(stream)));
        Timed { body, peer, limits, is_stream, bytes: 0, waited: Duration::ZERO, wait: None }
    }

    fn arrived(&mut self, part: Option<&Bytes>) {
        if let Some(wait) = self.wait.take() {
            self.waited += wait.since.elapsed();
        }
        self.peer.has_body(part.map_or(0, Bytes::len));
        let Some(part) = part else { return };
        self.bytes += part.len() as u64;
        if self.is_stream && part.contains(&b'\n') {
            (self.bytes, self.waited) = (0, Duration::ZERO);
        }
    }

    /// Why the peer gets no more time, if it does not.
    fn verdict(&self, waited: Duration) -> Option<TooSlow> {
        let rate = self.limits.bytes_per_second;
        if self.is_stream {
            let least = rate.saturating_mul(self.limits.stall.as_secs());
            let is_late = waited >= self.limits.stall && self.bytes < least;
            return is_late.then(|| {
                TooSlow(format!(
                    "no whole line came in {} s, nor {rate} bytes a second (server.stall_seconds)",
                    self.limits.stall.as_secs()
                ))
            });
        }
        let longest = self.limits.body + Duration::from_secs(self.bytes / BYTES_FOR_A_SECOND);
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
            self.wait = Some(Wait { since: Instant::now(), look: Box::pin(tokio::time::sleep(LOOK)) });
        }
        while let Some(wait) = &mut self.wait {
            if wait.look.as_mut().poll(context).is_pending() {
                break;
            }
            wait.look.as_mut().reset(Instant::now() + LOOK);
            let waited = self.waited + wait.since.elapsed();
            if let Some(verdict) = self.verdict(waited) {
                metrics::counter!("lookalike_http_slow_bodies_total").increment(1);
                return Poll::Ready(verdict);
            }
        }
        Poll::Pending
    }
}

impl Drop for Timed {
    /// What was not read stays in the connection's way: the answer tells the peer to use another one.
    fn drop(&mut self) {
        if !self.body.is_end_stream() {
            self.peer.leaves_body();
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
                self.arrived(part);
                Poll::Ready(frame.map(|frame| frame.map_err(io::Error::other)))
            }
            Poll::Pending => {
                let verdict = std::task::ready!(self.poll_wait(context));
                Poll::Ready(Some(Err(io::Error::new(io::ErrorKind::TimedOut, verdict))))
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
    /// What is said to the peer, if this error came of its slowness.
    pub(in crate::http) fn of(error: &(dyn std::error::Error + 'static)) -> Option<String> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(slow) = error.downcast_ref::<TooSlow>() {
                return Some(slow.0.clone());
            }
            // The source of an `io::Error` is the source of what it holds, not that itself.
            let held = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
            next = held.map(|held| held as &(dyn std::error::Error + 'static)).or_else(|| error.source());
        }
        None
    }
}
