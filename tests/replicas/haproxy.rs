//! HAProxy in front of the servers of a test, with the configuration of the tour of replicas
//! (`config/replicas/haproxy.cfg`) and the addresses of these servers.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use tempfile::TempDir;

const PROGRAM: &str = "/usr/sbin/haproxy";
const CONFIGURATION: &str = include_str!("../../config/replicas/haproxy.cfg");
/// The names of the servers in it, and the address of each.
const SERVERS: [(&str, &str); 3] = [("a", "server-a:8080"), ("b", "server-b:8080"), ("c", "server-c:8080")];
const SOON: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(50);

/// A running HAProxy, which is killed when it is dropped.
pub struct HaProxy {
    pub url: String,
    dir: TempDir,
    process: Child,
}

/// Whether HAProxy is installed. If not, prints that a test is skipped.
pub fn is_installed() -> bool {
    let found = Path::new(PROGRAM).exists();
    if !found {
        let _ = writeln!(std::io::stderr(), "SKIPPED: {PROGRAM} is not installed (Debian: haproxy)");
    }
    found
}

impl HaProxy {
    /// Starts HAProxy in front of three servers with these URLs, and waits until it accepts connections.
    pub fn start(urls: &[&str]) -> HaProxy {
        let dir = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let socket = format!("global\n    stats socket {} level admin\n", socket(&dir).display());
        let mut configuration = CONFIGURATION.replacen("global\n", &socket, 1);
        configuration = configuration.replacen("bind :8080", &format!("bind 127.0.0.1:{port}"), 1);
        for ((_, address), url) in SERVERS.iter().zip(urls) {
            assert!(configuration.contains(address), "the configuration has no server {address}");
            configuration = configuration.replacen(address, url.trim_start_matches("http://"), 1);
        }
        let path = dir.path().join("haproxy.cfg");
        fs::write(&path, configuration).unwrap();
        let process = Command::new(PROGRAM).arg("-q").arg("-db").arg("-f").arg(path).spawn().unwrap();
        let proxy = HaProxy { url: format!("http://127.0.0.1:{port}"), dir, process };
        wait_until("it accepts connections", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        proxy
    }

    /// Gives a server another address, and waits until it gets requests there.
    pub fn replace(&self, at: usize, url: &str) {
        let (name, _) = SERVERS[at];
        let (host, port) = url.trim_start_matches("http://").split_once(':').unwrap();
        self.tell(&format!("set server servers/{name} addr {host} port {port}"));
        let is_up = || {
            let states = self.tell("show stat servers 4 -1");
            states.lines().any(|line| {
                let mut fields = line.split(',');
                fields.nth(1) == Some(name) && fields.nth(15) == Some("UP")
            })
        };
        wait_until("the server is up", is_up);
    }

    /// Sends a command to its socket, and returns the answer.
    fn tell(&self, command: &str) -> String {
        let mut connection = UnixStream::connect(socket(&self.dir)).unwrap();
        connection.write_all(format!("{command}\n").as_bytes()).unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        answer
    }
}

fn socket(dir: &TempDir) -> PathBuf {
    dir.path().join("socket")
}

fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < SOON, "HAProxy: {what} is not reached");
        std::thread::sleep(PAUSE);
    }
}

impl Drop for HaProxy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
