//! The release binary as the server of a benchmark, killed at its end.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

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
        let client = reqwest::Client::new();
        while !client.get(server.url("/readyz")).send().await.is_ok_and(|answer| answer.status().is_success())
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        server
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
