//! A reverse proxy on loopback in front of the servers of a cluster, which takes them in turns.
//!
//! - [`Manner::Consistent`] asks for `linearizable=true`, as a client does that wants answers like those of a
//!   single server. If a server closes its connection, so does the proxy to the client.
//! - [`Manner::Checked`] does what `config/cluster/haproxy.cfg` says: it asks each server for `/readyz`,
//!   leaves out those that are not ready, and tries another one if a connection fails, is closed without an
//!   answer, or the answer is 503.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{Request, Response, StatusCode, Uri};
use futures::future::join_all;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// How often a server is asked whether it is ready.
const CHECKED_EVERY: Duration = Duration::from_millis(100);
/// How often a request is tried.
const TRIES: usize = 3;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    Consistent,
    Checked,
}

/// A running proxy, which ends when it is dropped.
pub struct Proxy {
    pub url: String,
    to: Arc<Servers>,
    // Held for its drop, which ends the tasks.
    _tasks: JoinSet<()>,
}

struct Servers {
    manner: Manner,
    client: Client<HttpConnector, Body>,
    /// The addresses, and whether each is ready.
    addresses: Mutex<Vec<(String, bool)>>,
    turn: AtomicUsize,
}

impl Proxy {
    /// Starts a proxy to servers with these URLs.
    pub async fn start(manner: Manner, urls: &[String]) -> Proxy {
        let addresses = urls.iter().map(|url| (address(url), true)).collect();
        let client = Client::builder(TokioExecutor::new()).build_http();
        let turn = AtomicUsize::new(0);
        let to = Arc::new(Servers { manner, client, addresses: Mutex::new(addresses), turn });
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, Arc::clone(&to)));
        if manner == Manner::Checked {
            tasks.spawn(check(Arc::clone(&to)));
        }
        Proxy { url, to, _tasks: tasks }
    }

    /// Replaces a server by one with another URL, which must prove to be ready.
    pub fn replace(&self, at: usize, url: &str) {
        self.to.addresses.lock()[at] = (address(url), false);
    }
}

fn address(url: &str) -> String {
    url.trim_start_matches("http://").to_owned()
}

async fn accept(listener: TcpListener, to: Arc<Servers>) {
    // Connections end with the proxy.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        let _ = stream.set_nodelay(true);
        let to = Arc::clone(&to);
        let service = service_fn(move |request: Request<hyper::body::Incoming>| {
            let to = Arc::clone(&to);
            async move { to.answer(request.map(Body::new)).await }
        });
        // Without an answer of a server there is none for the client: the connection is closed.
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        connections.spawn(async { drop(connection.await) });
    }
}

async fn check(to: Arc<Servers>) {
    loop {
        let addresses: Vec<String> = to.addresses.lock().iter().map(|(address, _)| address.clone()).collect();
        let client = &to.client;
        let checks = addresses.iter().map(|address| async move {
            let request = Request::get(format!("http://{address}/readyz")).body(Body::empty()).unwrap();
            let answer = tokio::time::timeout(CHECKED_EVERY * 5, client.request(request)).await;
            answer.is_ok_and(|answer| answer.is_ok_and(|answer| answer.status() == StatusCode::OK))
        });
        let ready = join_all(checks).await;
        for (known, (address, ready)) in to.addresses.lock().iter_mut().zip(addresses.iter().zip(ready)) {
            if known.0 == *address {
                known.1 = ready;
            }
        }
        tokio::time::sleep(CHECKED_EVERY).await;
    }
}

impl Servers {
    /// The next server that is ready; any, if none is.
    fn next(&self) -> String {
        let addresses = self.addresses.lock();
        let turns = (0..addresses.len()).map(|_| self.turn.fetch_add(1, Ordering::Relaxed));
        let mut turns = turns.map(|turn| &addresses[turn % addresses.len()]);
        turns.find(|(_, ready)| *ready).unwrap_or(&addresses[0]).0.clone()
    }

    async fn answer(&self, request: Request<Body>) -> io::Result<Response<Body>> {
        let (mut parts, body) = request.into_parts();
        let target = parts.uri.path_and_query().map_or("/", |target| target.as_str()).to_owned();
        if self.manner == Manner::Consistent {
            let sign = if target.contains('?') { '&' } else { '?' };
            parts.uri = format!("http://{}{target}{sign}linearizable=true", self.next())
                .parse()
                .map_err(io::Error::other)?;
            let answer = self.client.request(Request::from_parts(parts, body)).await;
            return answer.map(|answer| answer.map(Body::new)).map_err(io::Error::other);
        }
        let body = to_bytes(body, usize::MAX).await.map_err(io::Error::other)?;
        for attempt in 1.. {
            parts.uri = format!("http://{}{target}", self.next()).parse::<Uri>().map_err(io::Error::other)?;
            match self.client.request(Request::from_parts(parts.clone(), body.clone().into())).await {
                Ok(answer) if answer.status() != StatusCode::SERVICE_UNAVAILABLE || attempt == TRIES => {
                    return Ok(answer.map(Body::new));
                }
                Err(error) if attempt == TRIES => return Err(io::Error::other(error)),
                _ => {}
            }
        }
        unreachable!("the last try returns")
    }
}
