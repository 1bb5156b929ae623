//! The edge: connections are accepted, served with HTTP/1.1, and ended in order.
//!
//! It promises that no peer keeps a place that another needs: who says nothing, says it too slowly or does
//! not read what it asked for is ended, and when all places are taken the least deserving makes room
//! (`peers`). What hyper answers by itself gets the body and the id that all errors have (`stream`).
//!
//! *Absent*: routes and what they do; this file hands each request to a function and writes its answer.
//! HTTP/2: a request here is one small question, and HTTP/1.1 with keep-alive has fewer ways to be misused.

mod body;
mod peers;
mod refusal;
mod stream;
mod tls;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use futures::FutureExt;
use futures::future::Either;
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use metrics::counter;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

pub(super) use body::TooSlow;
pub use tls::{Tls, TlsError};

use super::error::{Code, Problem};
use peers::{Admitted, Peer, Peers, TICK};
use stream::Watched;

/// How long to wait after the system had no descriptor or no memory for another connection.
const BREATH: Duration = Duration::from_millis(100);
/// How long connections that are at no request get to take leave by themselves when the server stops.
const LEAVE: Duration = Duration::from_millis(100);
/// Bytes of a request's line and headers. What is larger gets a 431.
pub(super) const HEAD_BYTES: usize = 32 << 10;
/// Connections accepted before those that were get a turn.
const BATCH: usize = 32;
/// Bytes read from a connection and not yet looked at, at most.
const BUFFER_BYTES: usize = 64 << 10;

/// What a peer may do to its connection.
#[derive(Clone, Copy, Debug)]
pub struct EdgeLimits {
    /// Connections in all.
    pub connections: usize,
    /// Connections of one address; of IPv6, of one network of 64 bits.
    pub connections_per_address: usize,
    /// Until the head of a request is there, from its first byte, or from the begin of the connection.
    pub header: Duration,
    /// Between two requests.
    pub idle: Duration,
    /// Until a body that is read whole is there; large ones get more, see `body`.
    pub body: Duration,
    /// Bytes a second of a body or an answer, after a few seconds.
    pub bytes_per_second: u64,
    /// Without a line of a stream, or without an answer being read at that rate.
    pub stall: Duration,
    /// For requests under way when the server stops.
    pub drain: Duration,
}

/// Serves each request by `answer` until `stop` resolves; then accepts no more, lets every connection finish
/// the request it is at, and returns when the last is closed. Those that are still open when the drain time
/// has passed are cut; answers with how many they were.
pub async fn serve<F>(
    listener: TcpListener,
    answer: impl Fn(Request, IpAddr) -> F + Clone + Send + 'static,
    limits: EdgeLimits,
    tls: Option<Tls>,
    stop: impl Future<Output = ()>,
) -> usize
where
    F: Future<Output = Response> + Send + 'static,
{
    let graceful = GracefulShutdown::new();
    let peers = Arc::new(Peers::new(limits));
    let mut tasks = JoinSet::new();
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    tokio::pin!(stop);
    loop {
        let first = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = tasks.join_next() => continue,
            _ = tick.tick() => { peers.tick(); continue }
            () = &mut stop => break,
        };
        // Whoever waits in line for the next turn of this loop waits with the system, which has room for so
        // many.
        let others = std::iter::from_fn(|| listener.accept().now_or_never());
        for accepted in std::iter::once(first).chain(others).take(BATCH) {
            match accepted {
                Ok((stream, address)) => {
                    let address = normal(address);
                    let Some(admitted) = peers.admit(address) else {
                        turn_away(&stream, tls.is_some());
                        continue;
                    };
                    let peer = Arc::clone(&admitted.peer);
                    let answer = answer.clone();
                    let answer = move |request| answer(request, address);
                    let connection =
                        connection(stream, answer, admitted, tls.clone(), graceful.watcher(), limits);
                    peers.may_end(&peer, tasks.spawn(connection));
                }
                Err(error) if is_of_the_peer(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "a connection cannot be accepted");
                    tokio::time::sleep(BREATH).await;
                    break;
                }
            }
        }
        // Whoever sent its request with the connection is heard before others may ask for its place.
        tokio::task::yield_now().await;
    }
    drop(listener);
    let end = tokio::time::Instant::now() + limits.drain;
    let closed = graceful.shutdown();
    tokio::pin!(closed);
    let leave = end.min(tokio::time::Instant::now() + LEAVE);
    if tokio::time::timeout_at(leave, &mut closed).await.is_err() {
        // Who has not sent a whole head by now would keep the others waiting for nothing.
        peers.end_silent();
        let _ = tokio::time::timeout_at(end, &mut closed).await;
    }
    while tasks.try_join_next().is_some() {}
    let cut = tasks.len();
    tasks.shutdown().await;
    cut
}

/// The whole life of a connection. Aborted by whoever ends it before its time.
async fn connection<F>(
    stream: TcpStream,
    answer: impl Fn(Request) -> F + Send + 'static,
    admitted: Admitted,
    tls: Option<Tls>,
    watcher: Watcher,
    limits: EdgeLimits,
) where
    F: Future<Output = Response> + Send + 'static,
{
    // Without it a small answer may wait for the peer's delayed acknowledgement of the one before.
    let _ = stream.set_nodelay(true);
    match tls {
        None => talk(stream, answer, admitted, watcher, limits).await,
        Some(tls) => match tls.accept(stream).await {
            Ok(stream) => talk(stream, answer, admitted, watcher, limits).await,
            Err(error) => {
                counter!("lookalike_tls_handshake_failures_total").increment(1);
                tracing::debug!(%error, "a TLS handshake failed");
            }
        },
    }
}

async fn talk<F>(
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
    answer: impl Fn(Request) -> F + Send + 'static,
    admitted: Admitted,
    watcher: Watcher,
    limits: EdgeLimits,
) where
    F: Future<Output = Response> + Send + 'static,
{
    let peer = Arc::clone(&admitted.peer);
    let io = TokioIo::new(Watched::new(stream, Arc::clone(&peer)));
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        if !peer.begins_request() {
            return Either::Left(std::future::ready(Err(Ended)));
        }
        if !admitted.takes_seat(request.body().is_end_stream()) {
            let ending = Ending(Arc::clone(&peer));
            let refusal = refusal::response(&no_room()).map(|body| Answer { body, ending });
            return Either::Left(std::future::ready(Ok(refusal)));
        }
        let answering = answer(request_of(request, &peer, limits));
        let peer = Arc::clone(&peer);
        // Not an async block, which would have room for the answering twice.
        Either::Right(answering.map(move |mut response| {
            if peer.has_rest() {
                // The connection ends with this answer; a client that were not told could send its next
                // request there.
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            Ok(response.map(|body| Answer { body, ending: Ending(peer) }))
        }))
    });
    let mut builder = http1::Builder::new();
    builder.max_buf_size(BUFFER_BYTES).max_header_size(HEAD_BYTES);
    if let Err(error) = watcher.watch(builder.serve_connection(io, service)).await {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// The request with a body that cannot be late for ever.
fn request_of(request: hyper::Request<Incoming>, peer: &Arc<Peer>, limits: EdgeLimits) -> Request {
    let (parts, incoming) = request.into_parts();
    if incoming.is_end_stream() {
        return Request::from_parts(parts, Body::empty());
    }
    let body = body::Timed::new(incoming, &parts.headers, Arc::clone(peer), limits);
    Request::from_parts(parts, Body::new(body))
}

/// The connection was ended while this request came in; it was not begun.
#[derive(Debug, thiserror::Error)]
#[error("the connection was ended to make room")]
struct Ended;

/// An answer's body; the connection is free for the next request when it has been written.
struct Answer {
    body: Body,
    ending: Ending,
}

struct Ending(Arc<Peer>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.ends_request();
    }
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let _ = &self.ending;
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Answers a peer for whom there is no place, if that can be done without waiting.
fn turn_away(stream: &TcpStream, is_tls: bool) {
    counter!("lookalike_http_connections_ended_total", "reason" => "no_room").increment(1);
    tracing::debug!("a connection was refused: all are at work on requests");
    if !is_tls {
        let _ = stream.try_write(&refusal::bytes(&no_room()));
    }
}

fn no_room() -> Problem {
    let detail = "the server has as many connections as it takes (server.connections, \
                  server.connections_per_address), all at work on requests; use one connection for several";
    Problem::new(Code::Busy, detail)
}

/// One name for one peer: an IPv4 address in whatever form; of IPv6 the network that one customer gets.
fn normal(address: SocketAddr) -> IpAddr {
    match address.ip().to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
        address @ IpAddr::V4(_) => address,
    }
}

/// Whether the connection failed on the other side before it was accepted; the next one may be in order.
fn is_of_the_peer(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
