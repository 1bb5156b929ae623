//! Connections: accepted, served with HTTP/1.1, and ended in order.
//!
//! *Absent*: routes and what they do; this file hands each request to a function and writes its answer.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// How long to wait after the system had no descriptor or no memory for another connection.
const BREATH: Duration = Duration::from_millis(100);

/// Serves each request by `answer` until `stop` resolves; then accepts no more, lets every connection finish
/// the request it is at, and returns when the last is closed. Those that are still open when `drain` has passed
/// are cut; answers with how many they were.
pub async fn serve<F>(
    listener: TcpListener,
    answer: impl Fn(Request) -> F + Clone + Send + 'static,
    stop: impl Future<Output = ()>,
    drain: Duration,
) -> usize
where
    F: Future<Output = Response> + Send + 'static,
{
    let connections = GracefulShutdown::new();
    let mut tasks = JoinSet::new();
    tokio::pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = tasks.join_next() => continue,
            () = &mut stop => break,
        };
        match accepted {
            Ok((stream, _)) => {
                let connection = connections.watch(connection(stream, answer.clone()));
                tasks.spawn(async move {
                    if let Err(error) = connection.await {
                        tracing::debug!(%error, "a connection ended early");
                    }
                });
            }
            Err(error) if is_of_the_peer(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "a connection cannot be accepted");
                tokio::time::sleep(BREATH).await;
            }
        }
    }
    drop(listener);
    let _ = tokio::time::timeout(drain, connections.shutdown()).await;
    while tasks.try_join_next().is_some() {}
    let cut = tasks.len();
    tasks.shutdown().await;
    cut
}

fn connection<F>(
    stream: TcpStream,
    answer: impl Fn(Request) -> F + Send + 'static,
) -> http1::Connection<
    TokioIo<TcpStream>,
    impl hyper::service::Service<
        hyper::Request<hyper::body::Incoming>,
        Response = Response,
        Error = Infallible,
        Future: Send,
    >,
>
where
    F: Future<Output = Response> + Send + 'static,
{
    // Without it a small answer may wait for the peer's delayed acknowledgement of the one before.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
        let answering = answer(request.map(Body::new));
        async move { Ok(answering.await) }
    });
    http1::Builder::new().serve_connection(TokioIo::new(stream), service)
}

/// Whether the connection failed on the other side before it was accepted; the next one may be in order.
fn is_of_the_peer(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
