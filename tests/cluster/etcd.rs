//! An etcd cluster of real processes on loopback, for tests: start, kill, stop, restart.
//!
//! The data is in a temporary directory, and the ports are chosen at random. Dropping the value kills the
//! processes. *Absent*: partitions of the network; a stopped process (`pause`) is the closest to them.

use std::fs::{self, File};
use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio_rustls::rustls::crypto::ring;

const PROGRAM: &str = "/usr/bin/etcd";
/// The ports to choose from. They are below those that the system gives to clients, so that none is taken
/// while a server is down.
const PORTS: std::ops::Range<u16> = 20_000..32_000;
const STARTS_WITHIN: Duration = Duration::from_secs(40);

/// An etcd cluster.
pub struct Etcd {
    dir: TempDir,
    flags: Vec<String>,
    scheme: &'static str,
    nodes: Vec<Node>,
}

struct Node {
    client_port: u16,
    peer_port: u16,
    process: Option<Child>,
}

/// Whether etcd is installed. If not, prints that a test is skipped.
pub fn is_installed() -> bool {
    let found = Path::new(PROGRAM).exists();
    if !found {
        // Not captured by the test harness, so it appears when all tests pass.
        let _ = writeln!(std::io::stderr(), "SKIPPED: {PROGRAM} is not installed (Debian: etcd-server)");
    }
    found
}

fn free_port() -> u16 {
    loop {
        let port = fastrand::u16(PORTS);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

impl Etcd {
    /// Starts a cluster of `size` servers with further flags, and waits until it has a leader.
    pub async fn start(size: usize, flags: &[&str]) -> Etcd {
        let etcd = Etcd::spawn(size, "http", flags);
        etcd.wait_until_healthy().await;
        etcd
    }

    /// Starts a cluster, and does not wait. With the scheme `https`, the flags name the certificates.
    pub fn spawn(size: usize, scheme: &'static str, flags: &[&str]) -> Etcd {
        let node = |_| Node { client_port: free_port(), peer_port: free_port(), process: None };
        let nodes = (0..size).map(node).collect();
        let flags = flags.iter().map(|&flag| flag.to_owned()).collect();
        let dir = tempfile::tempdir().unwrap();
        let mut etcd = Etcd { dir, flags, scheme, nodes };
        (0..size).for_each(|at| etcd.restart(at));
        etcd
    }

    /// The number of servers.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The URLs for clients.
    pub fn endpoints(&self) -> Vec<String> {
        (0..self.len()).map(|at| self.endpoint(at)).collect()
    }

    /// The URL of one server for clients.
    pub fn endpoint(&self, at: usize) -> String {
        format!("{}://127.0.0.1:{}", self.scheme, self.nodes[at].client_port)
    }

    fn peer(&self, at: usize) -> String {
        format!("http://127.0.0.1:{}", self.nodes[at].peer_port)
    }

    /// The output of a server.
    pub fn output(&self, at: usize) -> PathBuf {
        self.dir.path().join(format!("n{at}.log"))
    }

    /// Starts a server that does not run, with the data that it has.
    pub fn restart(&mut self, at: usize) {
        assert!(self.nodes[at].process.is_none(), "server {at} runs");
        let members: Vec<String> = (0..self.len()).map(|at| format!("n{at}={}", self.peer(at))).collect();
        let output = File::options().create(true).append(true).open(self.output(at)).unwrap();
        let (client, peer) = (self.endpoint(at), self.peer(at));
        let process = Command::new(PROGRAM)
            .args(["--name", &format!("n{at}"), "--data-dir"])
            .arg(self.dir.path().join(format!("n{at}")))
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &members.join(","), "--initial-cluster-token", &self.peer(0)])
            .args(&self.flags)
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .spawn()
            .unwrap();
        self.nodes[at].process = Some(process);
    }

    /// Kills a server as a power cut would, except that the system keeps what was written.
    pub fn kill(&mut self, at: usize) {
        let mut process = self.nodes[at].process.take().unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// Removes the data of a server that does not run.
    pub fn wipe(&mut self, at: usize) {
        assert!(self.nodes[at].process.is_none(), "server {at} runs");
        fs::remove_dir_all(self.dir.path().join(format!("n{at}"))).unwrap();
    }

    /// Stops a server without ending its connections: nothing answers until [`Etcd::resume`].
    pub fn pause(&self, at: usize) {
        self.signal(at, Signal::STOP);
    }

    /// Lets a stopped server go on.
    pub fn resume(&self, at: usize) {
        self.signal(at, Signal::CONT);
    }

    fn signal(&self, at: usize, signal: Signal) {
        let process = self.nodes[at].process.as_ref().unwrap();
        kill_process(Pid::from_child(process), signal).unwrap();
    }

    /// The memory of a server in bytes: now, and the most it has had.
    pub fn memory(&self, at: usize) -> (u64, u64) {
        let id = self.nodes[at].process.as_ref().unwrap().id();
        let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let field = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
        };
        (field("VmRSS:"), field("VmHWM:"))
    }

    /// The leader, if a server knows it.
    pub async fn leader(&self) -> Option<usize> {
        for at in (0..self.len()).filter(|&at| self.nodes[at].process.is_some()) {
            if let Some((member, leader)) = status(&self.endpoint(at)).await
                && member == leader
            {
                return Some(at);
            }
        }
        None
    }

    /// Waits until there is a leader and every server that runs follows it.
    pub async fn wait_until_healthy(&self) {
        let since = Instant::now();
        loop {
            let mut leaders = Vec::new();
            for at in (0..self.len()).filter(|&at| self.nodes[at].process.is_some()) {
                leaders.push(status(&self.endpoint(at)).await.map(|(_, leader)| leader));
            }
            let is_healthy = |leader: &Option<String>| leader.is_some() && *leader == leaders[0];
            if leaders.iter().all(is_healthy) {
                return;
            }
            let output = || fs::read_to_string(self.output(0)).unwrap_or_default();
            assert!(since.elapsed() < STARTS_WITHIN, "etcd has no leader: {}", output());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        for process in self.nodes.iter_mut().filter_map(|node| node.process.as_mut()) {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// The identities of a server and of its leader, unless it has none.
async fn status(endpoint: &str) -> Option<(String, String)> {
    // This fails if the process has a default already.
    let _ = ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).timeout(Duration::from_secs(1));
    let request = client.build().unwrap().post(format!("{endpoint}/v3/maintenance/status")).body("{}");
    let text = request.send().await.ok()?.text().await.ok()?;
    let status: serde_json::Value = serde_json::from_str(&text).ok()?;
    let id = |field: &serde_json::Value| field.as_str().map(str::to_owned);
    Some((id(&status["header"]["member_id"])?, id(&status["leader"])?))
}
