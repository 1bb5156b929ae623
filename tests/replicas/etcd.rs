//! An etcd cluster of real processes on loopback, for tests: start, kill, stop, restart.
//!
//! The data is in a temporary directory or a given one, and the ports are chosen at random. Dropping the
//! value kills the processes. Each can have a network namespace of its own (`network`).

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
    dir: PathBuf,
    // Held for its drop, which deletes the directory.
    _temporary: Option<TempDir>,
    flags: Vec<String>,
    scheme: &'static str,
    nodes: Vec<Node>,
}

/// Where a process runs: its address, and the network namespace that has it.
#[derive(Clone)]
pub struct Place {
    pub host: String,
    pub namespace: Option<String>,
}

struct Node {
    place: Place,
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

pub fn free_port() -> u16 {
    loop {
        let port = fastrand::u16(PORTS);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

fn nodes(places: &[Place], ports: &[(u16, u16)]) -> Vec<Node> {
    let node = |(place, ports): (&Place, &(u16, u16))| {
        let (client_port, peer_port) = *ports;
        Node { place: place.clone(), client_port, peer_port, process: None }
    };
    places.iter().zip(ports).map(node).collect()
}

impl Place {
    pub fn loopback() -> Place {
        Place { host: "127.0.0.1".to_owned(), namespace: None }
    }

    /// The command that runs a command here, as the same process.
    pub fn inside(&self, command: Command) -> Command {
        let Some(namespace) = &self.namespace else { return command };
        // Unlike `ip netns exec`, this copies no mounts, which would keep the disks of other tests busy.
        let mut inside = Command::new("nsenter");
        inside.arg(format!("--net=/run/netns/{namespace}"));
        inside.arg(command.get_program()).args(command.get_args());
        inside.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        inside.envs(command.get_envs().filter_map(|(name, value)| value.map(|value| (name, value))));
        inside
    }
}

impl Etcd {
    /// Starts an etcd cluster of `size` servers with further flags, and waits until it has a leader.
    pub async fn start(size: usize, flags: &[&str]) -> Etcd {
        let etcd = Etcd::spawn(size, "http", flags);
        etcd.wait_until_healthy().await;
        etcd
    }

    /// Starts an etcd cluster, and does not wait. With the scheme `https`, the flags name the certificates.
    pub fn spawn(size: usize, scheme: &'static str, flags: &[&str]) -> Etcd {
        Etcd::spawn_at(&vec![Place::loopback(); size], scheme, flags)
    }

    /// Starts an etcd cluster with a process at each place, and does not wait.
    pub fn spawn_at(places: &[Place], scheme: &'static str, flags: &[&str]) -> Etcd {
        let temporary = tempfile::tempdir().unwrap();
        let ports: Vec<_> = places.iter().map(|_| (free_port(), free_port())).collect();
        let flags = flags.iter().map(|&flag| flag.to_owned()).collect();
        let nodes = nodes(places, &ports);
        let dir = temporary.path().to_owned();
        Etcd { dir, _temporary: Some(temporary), flags, scheme, nodes }.started()
    }

    /// Starts an etcd cluster with its data in a directory, which may have data of one of this size, and does
    /// not wait.
    pub fn spawn_in(dir: &Path, size: usize) -> Etcd {
        fs::create_dir_all(dir).unwrap();
        let path = dir.join("ports");
        let ports = fs::read(&path).unwrap_or_else(|_| {
            let ports: Vec<_> = (0..size).map(|_| (free_port(), free_port())).collect();
            let text = serde_json::to_vec(&ports).unwrap();
            // The processes know each other by their ports, which a loss of power must not change.
            let mut file = File::create(&path).unwrap();
            file.write_all(&text).and_then(|()| file.sync_all()).unwrap();
            File::open(dir).and_then(|dir| dir.sync_all()).unwrap();
            text
        });
        let ports: Vec<(u16, u16)> = serde_json::from_slice(&ports).unwrap();
        let nodes = nodes(&vec![Place::loopback(); size], &ports);
        Etcd { dir: dir.to_owned(), _temporary: None, flags: Vec::new(), scheme: "http", nodes }.started()
    }

    fn started(mut self) -> Etcd {
        (0..self.len()).for_each(|at| self.restart(at));
        self
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
        format!("{}://{}:{}", self.scheme, self.nodes[at].place.host, self.nodes[at].client_port)
    }

    /// The URL of a shared log with this prefix, as a setting.
    pub fn url(&self, prefix: &str) -> String {
        let places = self.nodes.iter().map(|node| format!("{}:{}", node.place.host, node.client_port));
        let scheme = if self.scheme == "https" { "etcds" } else { "etcd" };
        format!("{scheme}://{}/{prefix}", places.collect::<Vec<_>>().join(","))
    }

    fn peer(&self, at: usize) -> String {
        format!("http://{}:{}", self.nodes[at].place.host, self.nodes[at].peer_port)
    }

    /// The output of a server.
    pub fn output(&self, at: usize) -> PathBuf {
        self.dir.join(format!("n{at}.log"))
    }

    /// Starts a server that does not run, with the data that it has.
    pub fn restart(&mut self, at: usize) {
        assert!(self.nodes[at].process.is_none(), "server {at} runs");
        let members: Vec<String> = (0..self.len()).map(|at| format!("n{at}={}", self.peer(at))).collect();
        let output = File::options().create(true).append(true).open(self.output(at)).unwrap();
        let (client, peer) = (self.endpoint(at), self.peer(at));
        let mut command = Command::new(PROGRAM);
        command
            .args(["--name", &format!("n{at}"), "--data-dir"])
            .arg(self.dir.join(format!("n{at}")))
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &members.join(","), "--initial-cluster-token", &self.peer(0)])
            .args(&self.flags);
        let mut command = self.nodes[at].place.inside(command);
        command.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
        self.nodes[at].process = Some(command.spawn().unwrap());
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
        fs::remove_dir_all(self.dir.join(format!("n{at}"))).unwrap();
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
