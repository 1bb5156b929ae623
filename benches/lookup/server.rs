//! The release binary as the server of a benchmark, killed at its end.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use reqwest::{Body, Client};
use serde_json::Value;

/// A running server.
pub struct Server {
    pub address: SocketAddr,
    child: Child,
}

impl Server {
    /// Starts the binary on a data directory and waits until it is ready.
    pub async fn start(data: &Path) -> Server {
        // The port is bound and released: it is unlikely that another process takes it in between.
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = free.expect("a free port");
        let child = Command::new(env!("CARGO_BIN_EXE_lookalike"))
            .args(["serve", "--log", "warn", "--listen", &address.to_string(), "--data"])
            .arg(data)
            .stderr(Stdio::inherit())
            .spawn()
            .expect("the binary starts");
        let server = Server { address, child };
        let client = Client::new();
        while !client.get(server.url("/readyz")).send().await.is_ok_and(|answer| answer.status().is_success())
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        server
    }

    /// Stores a stream of documents in a new collection with these settings, durable. Returns how long the
    /// stream took.
    pub async fn store(&self, collection: &str, settings: &Value, lines: impl Into<Body>) -> Duration {
        let (client, url) = (Client::new(), self.url(&format!("/collections/{collection}")));
        // One of this name that was just deleted is removed in the background.
        while !client.put(&url).json(settings).send().await.is_ok_and(|answer| answer.status().is_success()) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let start = Instant::now();
        let request = client.post(format!("{url}/documents")).header("content-type", "application/x-ndjson");
        let mut answer = request.body(lines).send().await.expect("an answer");
        let mut end = Vec::new();
        while let Some(part) = answer.chunk().await.expect("all of it") {
            end.extend_from_slice(&part);
            end.drain(..end.len().saturating_sub(1_000));
        }
        let took = start.elapsed();
        let end = String::from_utf8_lossy(&end);
        let summary = end.lines().last().unwrap_or_default();
        assert!(summary.ends_with("\"errors\":0}}"), "{summary}");
        took
    }

    pub fn url(&self, route: &str) -> String {
        format!("http://{}{route}", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
