//! A reverse proxy on loopback in front of the replicas, which takes them in turns.
//!
//! It asks for `linearizable=true`, as a client does that wants answers like those of a single server. If a
//! server closes its connection, so does the proxy to the client.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Body;
use axum::http::{Request, Response};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// A running proxy, which ends when it is dropped.
pub struct Proxy {
    pub url: String,
    // Held for its drop, which ends the task.
    _task: JoinSet<()>,
}

struct Servers {
    client: Client<HttpConnector, Body>,
    addresses: Vec<String>,
    turn: AtomicUsize,
}

impl Proxy {
    /// Starts a proxy to servers with these URLs.
    pub async fn start(urls: &[String]) -> Proxy {
        let addresses = urls.iter().map(|url| url.trim_start_matches("http://").to_owned()).collect();
        let client = Client::builder(TokioExecutor::new()).build_http();
        let to = Arc::new(Servers { client, addresses, turn: AtomicUsize::new(0) });
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let mut task = JoinSet::new();
        task.spawn(accept(listener, to));
        Proxy { url, _task: task }
    }
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

impl Servers {
    async fn answer(&self, mut request: Request<Body>) -> io::Result<Response<Body>> {
        let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
        let sign = if target.contains('?') { '&' } else { '?' };
        let address = &self.addresses[self.turn.fetch_add(1, Ordering::Relaxed) % self.addresses.len()];
        *request.uri_mut() =
            format!("http://{address}{target}{sign}linearizable=true").parse().map_err(io::Error::other)?;
        let answer = self.client.request(request).await;
        answer.map(|answer| answer.map(Body::new)).map_err(io::Error::other)
    }
}
