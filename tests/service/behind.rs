//! Replicas that a test takes for one server: `LOOKALIKE_TEST_REPLICAS=1` starts three servers over a log in
//! a folder, and a proxy that takes them in turns and asks for consistent reads.
//!
//! All data are in the directory of the test, so that a server that is started there again has the same
//! replicas. All processes are stopped, killed and started together.

use std::path::Path;

use futures::future::join_all;

use super::proxy::Proxy;
use super::{Server, serve};

const SERVERS: usize = 3;

/// Four processes share the processors of the test.
const PATIENT: [(&str, &str); 3] = [
    ("LOOKALIKE_POOL__WAIT_MS", "10000"),
    ("LOOKALIKE_LIMITS__QUERY_MS", "20000"),
    ("LOOKALIKE_LIMITS__WRITE_MS", "30000"),
];

/// What belongs to the first replica.
pub struct Replicas {
    pub others: Vec<Server>,
    // Held for their drop.
    _proxy: Proxy,
}

/// Whether a test shall run with replicas.
pub fn is_wanted() -> bool {
    std::env::var_os("LOOKALIKE_TEST_REPLICAS").is_some()
}

/// Starts replicas. Returns the first server, with the address of the proxy.
pub async fn start(data: &Path, variables: &[(&str, &str)]) -> Server {
    let url = format!("file://{}", data.join("log").display());
    let starts = (0..SERVERS).map(|at| {
        let mut command = serve(&data.join(format!("s{at}")), &PATIENT);
        command.envs(variables.iter().copied()).args(["--shared-log", &url, "--name", &format!("s{at}")]);
        Server::launch(command)
    });
    let started = join_all(starts).await.into_iter();
    let mut servers: Vec<Server> =
        started.map(|started| started.unwrap_or_else(|ended| panic!("{ended:?}"))).collect();
    let urls: Vec<String> = servers.iter().map(|server| server.url.clone()).collect();
    let proxy = Proxy::start(&urls).await;
    let mut first = servers.remove(0);
    first.url.clone_from(&proxy.url);
    first.replicas = Some(Box::new(Replicas { others: servers, _proxy: proxy }));
    first
}
