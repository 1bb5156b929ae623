//! The edge: it accepts connections, serves them with HTTP/1.1, and closes them.
//!
//! A peer cannot hold a connection that another peer needs. The edge closes a connection that sends nothing,
//! sends too slowly, or does not read its answer. At the limit of connections it closes one to accept another
//! (`peers`). A head that cannot be parsed gets the answer of hyper, a status without a body.
//!
//! *Absent*: the routes; this file calls a function for each request and writes its answer. HTTP/2: requests
//! are small, and HTTP/1.1 with keep-alive has fewer ways to be misused.

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

/// The pause after an accept for which the system has no descriptor or no memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// When the server stops, the time for connections without a request to close by themselves.
const IDLE_CLOSE: Duration = Duration::from_millis(100);
/// Maximum bytes of the request line and the headers. A larger head gets a 431.
const HEAD_BYTES: usize = 32 << 10;
/// Connections accepted in a row before other tasks run.
const ACCEPT_BATCH: usize = 32;
/// Maximum bytes that are read from a connection and not parsed.
const BUFFER_BYTES: usize = 64 << 10;

/// The limits of a connection.
#[derive(Clone, Copy, Debug)]
pub struct EdgeLimits {
    /// Maximum number of connections.
    pub connections: usize,
    /// Maximum number of connections of one address; for IPv6, of one 64-bit network.
    pub connections_per_address: usize,
    /// Time for the head of a request to arrive, from its first byte or from the start of the connection.
    pub header: Duration,
    /// Maximum time between two requests.
    pub idle: Duration,
    /// Time for a body that is read whole; a large body gets more, see `body`.
    pub body: Duration,
    /// Minimum bytes per second of a body or of the reading of an answer, after a few seconds.
    pub bytes_per_second: u64,
    /// Maximum time without a complete line of a stream, or with an answer read below that rate.
    pub stall: Duration,
    /// Time for the running requests when the server stops.
    pub drain: Duration,
}

/// Serves requests with `answer` until `stop` resolves. Then it accepts no more connections, and each
/// connection finishes its running request. It returns when the last connection is closed. After the drain
/// time it aborts the open connections, and returns their number.
pub(super) async fn serve<F>(
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
        // Further connections wait in the backlog of the system until the next iteration.
        let others = std::iter::from_fn(|| listener.accept().now_or_never());
        for accepted in std::iter::once(first).chain(others).take(ACCEPT_BATCH) {
            match accepted {
                Ok((stream, address)) => {
                    let address = limited_address(address);
                    let Some(admitted) = peers.admit(address) else {
                        refuse(&stream, tls.is_some());
                        continue;
                    };
                    let peer = Arc::clone(&admitted.peer);
                    let answer = answer.clone();
                    let answer = move |request| answer(request, address);
                    let connection =
                        connection(stream, answer, admitted, tls.clone(), graceful.watcher(), limits);
                    peers.set_task(&peer, tasks.spawn(connection));
                }
                Err(error) if is_peer_error(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "a connection cannot be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    break;
                }
            }
        }
        // A request that arrived with its connection begins before the next connection may displace it.
        tokio::task::yield_now().await;
    }
    drop(listener);
    let end = tokio::time::Instant::now() + limits.drain;
    let closed = graceful.shutdown();
    tokio::pin!(closed);
    let idle_end = end.min(tokio::time::Instant::now() + IDLE_CLOSE);
    if tokio::time::timeout_at(idle_end, &mut closed).await.is_err() {
        // A connection without a complete head would delay the stop for nothing.
        peers.end_idle();
        let _ = tokio::time::timeout_at(end, &mut closed).await;
    }
    while tasks.try_join_next().is_some() {}
    let aborted = tasks.len();
    tasks.shutdown().await;
    aborted
}

/// Serves one connection. [`Peers`] aborts this task to close the connection early.
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
    // Otherwise a small answer may wait for the delayed acknowledgement of the previous answer.
    let _ = stream.set_nodelay(true);
    match tls {
        None => serve_http(stream, answer, admitted, watcher, limits).await,
        Some(tls) => match tls.accept(stream).await {
            Ok(stream) => serve_http(stream, answer, admitted, watcher, limits).await,
            Err(error) => {
                counter!("lookalike_tls_handshake_failures_total").increment(1);
                tracing::debug!(%error, "a TLS handshake failed");
            }
        },
    }
}

async fn serve_http<F>(
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
        if !admitted.takes_slot(request.body().is_end_stream()) {
            let ending = RequestEnd(Arc::clone(&peer));
            let refusal = refusal::response(&too_many_connections()).map(|body| Answer { body, ending });
            return Either::Left(std::future::ready(Ok(refusal)));
        }
        let answering = answer(request_of(request, &peer, limits));
        let peer = Arc::clone(&peer);
        // Not an async block, which would contain the future of the answer twice.
        Either::Right(answering.map(move |mut response| {
            if peer.has_unread_body() {
                // The connection closes after this answer. Without the header, the client could send its next
                // request on it.
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            Ok(response.map(|body| Answer { body, ending: RequestEnd(peer) }))
        }))
    });
    let mut builder = http1::Builder::new();
    builder.max_buf_size(BUFFER_BYTES).max_header_size(HEAD_BYTES);
    if let Err(error) = watcher.watch(builder.serve_connection(io, service)).await {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// The request with a body that is timed.
fn request_of(request: hyper::Request<Incoming>, peer: &Arc<Peer>, limits: EdgeLimits) -> Request {
    let (parts, incoming) = request.into_parts();
    if incoming.is_end_stream() {
        return Request::from_parts(parts, Body::empty());
    }
    let body = body::Timed::new(incoming, &parts.headers, Arc::clone(peer), limits);
    Request::from_parts(parts, Body::new(body))
}

/// The connection was closed while this request arrived, so the request is not handled.
#[derive(Debug, thiserror::Error)]
#[error("the connection was closed to accept another one")]
struct Ended;

/// The body of an answer. When it is dropped, the request has ended.
struct Answer {
    body: Body,
    ending: RequestEnd,
}

/// Ends the request of a peer when it is dropped.
struct RequestEnd(Arc<Peer>);

impl Drop for RequestEnd {
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

/// Refuses a connection that is not admitted. The answer is sent if that needs no wait.
fn refuse(stream: &TcpStream, is_tls: bool) {
    counter!("lookalike_http_connections_ended_total", "reason" => "no_room").increment(1);
    tracing::debug!("a connection was refused: all connections have running requests");
    if !is_tls {
        let _ = stream.try_write(&refusal::bytes(&too_many_connections()));
    }
}

fn too_many_connections() -> Problem {
    let detail = "all connections that the server accepts have running requests (server.connections, \
                  server.connections_per_address); use one connection for several requests";
    Problem::new(Code::Busy, detail)
}

/// The address that `connections_per_address` limits: an IPv4 address, also one in an IPv6 address; for IPv6
/// the 64-bit network, which one customer gets.
fn limited_address(address: SocketAddr) -> IpAddr {
    match address.ip().to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
        address @ IpAddr::V4(_) => address,
    }
}

/// Whether the peer closed the connection before it was accepted. The next accept may succeed.
fn is_peer_error(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
