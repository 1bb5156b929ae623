//! A server for one test: the release binary on a free port, killed at the end of the test. Also used by
//! `tests/torture` and `tests/replicas`. With `LOOKALIKE_TEST_REPLICAS`, a server is several replicas
//! (`behind`).

#[path = "behind.rs"]
mod behind;
#[path = "proxy.rs"]
#[allow(dead_code, reason = "the tests of replicas use more of it")]
pub mod proxy;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use reqwest::{Client, Response, StatusCode};
use serde_json::Value;
use tempfile::TempDir;

/// The binary under test.
pub const BINARY: &str = env!("CARGO_BIN_EXE_lookalike");
const START: Duration = Duration::from_mins(5);

/// A running server.
pub struct Server {
    pub url: String,
    pub client: Client,
    child: Child,
    log: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
    /// The rest of the replicas, if this is its first server.
    replicas: Option<Box<behind::Replicas>>,
}

/// Whether a server of a test is several replicas: what its tests know of one process does not hold.
pub fn is_replicated() -> bool {
    behind::is_wanted()
}

/// The exit status and the log of a server.
#[derive(Debug)]
#[allow(dead_code, reason = "shown when a test fails; read in tests/torture")]
pub struct Ended {
    pub status: ExitStatus,
    pub log: String,
}

/// NDJSON: one document per number, with the number as id and as hash.
pub fn lines(range: std::ops::Range<u64>) -> String {
    range
        .map(|i| format!("{}\n", serde_json::json!({"id": format!("{i}"), "hash": format!("{i:016x}")})))
        .collect()
}

/// A temporary data directory, deleted at the end of the test.
pub fn directory() -> TempDir {
    tempfile::Builder::new().prefix("lookalike-test-").tempdir().unwrap()
}

/// The binary with these arguments and an empty environment except `PATH`.
pub fn command(arguments: &[&str]) -> Command {
    command_of(BINARY.as_ref(), arguments)
}

fn command_of(program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command
}

/// A command that runs the server on a data directory and a free port, with settings from the environment.
pub fn serve(data: &Path, variables: &[(&str, &str)]) -> Command {
    serve_as(BINARY.as_ref(), "127.0.0.1:0", data, variables)
}

/// The command of a server with another program and address.
pub fn serve_as(program: &Path, listen: &str, data: &Path, variables: &[(&str, &str)]) -> Command {
    let mut command = command_of(program, &["serve", "--listen", listen, "--data", data.to_str().unwrap()]);
    // No load balancer has to notice the shutdown, so that the server can stop at once.
    command.env("LOOKALIKE_SERVER__LAME_DUCK_SECONDS", "0");
    // Most tests write hashes of 64 bits, which are easier to read.
    command.env("LOOKALIKE_COLLECTION__PROFILE", "copies-64");
    command.envs(variables.iter().copied());
    command
}

impl Server {
    /// Starts a server on a data directory and waits until it is ready.
    pub async fn start(data: &Path) -> Server {
        Server::start_with(data, &[]).await
    }

    /// Starts a server with settings from the environment and waits until it is ready.
    pub async fn start_with(data: &Path, variables: &[(&str, &str)]) -> Server {
        if behind::is_wanted() {
            return behind::start(data, variables).await;
        }
        Server::launch(serve(data, variables)).await.unwrap_or_else(|ended| panic!("{ended:?}"))
    }

    /// Starts a server in a control group and waits until it is ready.
    pub async fn start_in(data: &Path, group: &Path) -> Server {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo $$ > \"$0/cgroup.procs\" && exec \"$@\""]).arg(group).arg(BINARY);
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data).env_clear();
        command.env("LOOKALIKE_COLLECTION__PROFILE", "copies-64");
        Server::launch(command).await.unwrap_or_else(|ended| panic!("{ended:?}"))
    }

    /// Runs a server command and waits until the server is ready, or returns how it ended before that.
    pub async fn launch(command: Command) -> Result<Server, Ended> {
        Server::launch_until(command, |status, _| status == StatusCode::OK).await
    }

    /// Like `launch`, for a server with an injected fault. The start may already meet the fault; then this
    /// waits until `/readyz` reports another state than `starting`.
    #[allow(dead_code, reason = "for tests/torture")]
    pub async fn launch_with_fault(command: Command) -> Result<Server, Ended> {
        let has_started = |status, answer: &str| status == StatusCode::OK || !answer.contains("\"starting\"");
        Server::launch_until(command, has_started).await
    }

    async fn launch_until(
        command: Command,
        has_started: impl Fn(StatusCode, &str) -> bool,
    ) -> Result<Server, Ended> {
        let mut server = Server::spawn(command)?;
        let start = Instant::now();
        while start.elapsed() < START {
            // A request to a server that is killed at that moment may wait for ever.
            let asked = server.client.get(format!("{}/readyz", server.url)).timeout(START);
            if let Ok(response) = asked.send().await {
                let status = response.status();
                if response.text().await.is_ok_and(|answer| has_started(status, &answer)) {
                    return Ok(server);
                }
            }
            if let Some(status) = server.child.try_wait().unwrap() {
                return Err(server.ended(status));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("the server did not become ready:\n{}", server.log());
    }

    /// Runs a server command and waits until the server listens, ready or not.
    pub fn spawn(mut command: Command) -> Result<Server, Ended> {
        // Tests create their TLS clients after a server, so that this is the place to install the provider.
        let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let log = Arc::new(Mutex::new(String::new()));
        let Some(url) = first_url(&mut stderr, &log) else {
            let status = child.wait().unwrap();
            let log = log.lock().unwrap().clone();
            return Err(Ended { status, log });
        };
        let rest = Arc::clone(&log);
        let reader = std::thread::spawn(move || {
            let mut line = String::new();
            while stderr.read_line(&mut line).is_ok_and(|read| read > 0) {
                rest.lock().unwrap().push_str(&line);
                line.clear();
            }
        });
        Ok(Server { url, client: Client::new(), child, log, reader: Some(reader), replicas: None })
    }

    /// Waits until the metrics report a connection that the server ended for this reason.
    pub async fn wait_for_ended_connection(&self, reason: &str) {
        let line = format!("lookalike_http_connections_ended_total{{reason=\"{reason}\"}}");
        for _ in 0..1_000 {
            if self.get("/metrics").await.text().await.unwrap().contains(&line) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("no connection was ended for {reason}:\n{}", self.log());
    }

    /// Waits until the process ends without a signal from the test.
    #[allow(dead_code, reason = "for tests/torture")]
    pub fn wait(mut self) -> Ended {
        let status = self.child.wait().unwrap();
        self.ended(status)
    }

    fn ended(&mut self, status: ExitStatus) -> Ended {
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        Ended { status, log: self.log() }
    }

    /// Waits until the log contains these words. A separate thread reads the log from a pipe, so that a
    /// line may arrive after the answer to its request.
    pub async fn wait_for_log(&self, words: &str) {
        for _ in 0..500 {
            if self.log().contains(words) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the log has no {words:?}:\n{}", self.log());
    }

    /// The log so far; with replicas, those of all servers.
    pub fn log(&self) -> String {
        let mut log = self.log.lock().unwrap().clone();
        self.others().for_each(|other| log.push_str(&other.log()));
        log
    }

    /// The other replicas.
    fn others(&self) -> impl Iterator<Item = &Server> {
        self.replicas.iter().flat_map(|replicas| &replicas.others)
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills the server with SIGKILL and waits for its end.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        // Dropping the rest of the replicas kills it.
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        self.others().for_each(Server::terminate);
    }

    /// Sends SIGTERM and waits for the end of the process.
    pub fn stop(mut self) -> ExitStatus {
        self.terminate();
        let mut status = self.end();
        for other in self.replicas.iter_mut().flat_map(|replicas| &mut replicas.others) {
            let ended = other.end();
            status = if status.success() { ended } else { status };
        }
        status
    }

    /// Waits for the end of the process, and of its log.
    fn end(&mut self) -> ExitStatus {
        let status = self.child.wait().unwrap();
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        status
    }

    pub async fn get(&self, route: &str) -> Response {
        self.try_get(route).await.unwrap()
    }

    pub async fn try_get(&self, route: &str) -> Result<Response, reqwest::Error> {
        self.client.get(format!("{}{route}", self.url)).send().await
    }

    /// The JSON of a successful GET.
    pub async fn json(&self, route: &str) -> Value {
        let response = self.get(route).await;
        let status = response.status();
        let text = response.text().await.unwrap();
        assert!(status.is_success(), "GET {route}: {status} {text}");
        serde_json::from_str(&text).unwrap()
    }

    /// Status and JSON of a POST.
    pub async fn post(&self, route: &str, body: Value) -> (StatusCode, Value) {
        let request = self.client.post(format!("{}{route}", self.url)).json(&body);
        let response = request.send().await.unwrap();
        let status = response.status();
        let text = response.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    pub async fn put(&self, route: &str, body: Value) -> (StatusCode, Value) {
        let request = self.client.put(format!("{}{route}", self.url)).json(&body);
        let response = request.send().await.unwrap();
        let status = response.status();
        (status, response.json().await.unwrap())
    }

    pub async fn delete(&self, route: &str) -> StatusCode {
        self.client.delete(format!("{}{route}", self.url)).send().await.unwrap().status()
    }

    /// Sends lines as NDJSON. Returns the result lines and the summary.
    pub async fn stream(&self, route: &str, lines: String) -> (Vec<Value>, Value) {
        let request =
            self.client.post(format!("{}{route}", self.url)).header("content-type", "application/x-ndjson");
        let response = request.body(lines).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        let text = response.text().await.unwrap();
        let mut lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let summary = lines.pop().unwrap()["summary"].clone();
        (lines, summary)
    }

    /// The documents of an export, one per line, as [`without_header`] returns them.
    pub async fn export(&self, route: &str) -> String {
        without_header(&self.get(route).await.text().await.unwrap())
    }

    /// The number of documents in the default collection.
    pub async fn documents(&self) -> u64 {
        self.json("/collections/default").await["documents"].as_u64().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The documents of an export, without its header, and without their order of arrival and times of writing,
/// which differ if they are stored twice.
pub fn without_header(export: &str) -> String {
    let (header, documents) = export.split_once('\n').unwrap();
    assert!(header.starts_with("{\"export\":{\"collection\":"), "{header}");
    let without_times = |line: &str| line.split(",\"arrival\":").next().unwrap().to_owned() + "}\n";
    documents.lines().map(without_times).collect()
}

/// Reads the log up to the line with the address. Returns `None` if the log ends without one.
fn first_url(stderr: &mut impl BufRead, log: &Mutex<String>) -> Option<String> {
    let mut line = String::new();
    while stderr.read_line(&mut line).is_ok_and(|read| read > 0) {
        log.lock().unwrap().push_str(&line);
        if let Some((_, rest)) = line.split_once("listening on ") {
            return rest.split_whitespace().next().map(|url| url.trim_end_matches(',').to_owned());
        }
        line.clear();
    }
    None
}

/// The ids of the matches of an answer, in their order.
pub fn ids(answer: &Value) -> Vec<String> {
    let matches = answer["similar"].as_array().unwrap();
    matches.iter().map(|found| found["id"].as_str().unwrap().to_owned()).collect()
}

/// The snapshot files of a data directory, newest first.
pub fn snapshot_files(data: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(data.join("snapshots")).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "snapshot"));
    files.sort();
    files.reverse();
    files
}
