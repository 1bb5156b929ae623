//! Replicas for one test: servers of the release binary that follow a log in a folder or in S3.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use reqwest::Response;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use super::moto::Moto;
use super::server::{self, BINARY, Ended, Server};

/// How long a server may take to apply what the others have written.
const SOON: Duration = Duration::from_mins(1);

/// The header with the position of a server.
pub const POSITION: &str = "x-lookalike-position";

/// Where a process runs: its address, and the network namespace that has it.
#[derive(Clone)]
pub struct Place {
    pub host: String,
    pub namespace: Option<String>,
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

pub struct Replicas {
    folder: TempDir,
    pub servers: Vec<Option<Server>>,
    dirs: Vec<TempDir>,
    /// Where each server runs.
    places: Vec<Place>,
    /// Settings of all servers, as variables.
    variables: Vec<(&'static str, String)>,
    /// The program of the next server that starts.
    pub program: PathBuf,
}

impl Replicas {
    /// Starts servers on a folder.
    pub async fn start(servers: usize) -> Replicas {
        Replicas::start_with(servers, &[]).await
    }

    /// Servers on a folder with settings of all, as variables.
    pub async fn start_with(servers: usize, variables: &[(&'static str, &str)]) -> Replicas {
        Replicas::start_at(&vec![Place::loopback(); servers], variables, BINARY.as_ref()).await
    }

    /// Starts servers on a bucket.
    pub async fn on_bucket(servers: usize, moto: &Moto) -> Replicas {
        Replicas::in_cloud(servers, &bucket(moto)).await
    }

    /// Starts servers on the log of which the variables say where it is.
    pub async fn in_cloud(servers: usize, variables: &[(&'static str, String)]) -> Replicas {
        let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
        Replicas::start_with(servers, &variables).await
    }

    /// Starts a server at each of these places. `program` is that of the servers.
    pub async fn start_at(places: &[Place], variables: &[(&'static str, &str)], program: &Path) -> Replicas {
        let mut replicas = Replicas {
            folder: server::directory(),
            servers: places.iter().map(|_| None).collect(),
            dirs: places.iter().map(|_| server::directory()).collect(),
            places: places.to_vec(),
            variables: variables.iter().map(|(name, value)| (*name, (*value).to_owned())).collect(),
            program: program.to_owned(),
        };
        for at in 0..places.len() {
            replicas.restart(at).await;
        }
        replicas
    }

    /// The URL of a shared log with a name.
    pub fn log_url(&self, name: &str) -> String {
        format!("file://{}/{name}", self.folder.path().display())
    }

    /// Takes the log away, so that no server reaches it.
    pub fn hide_log(&self) {
        let log = self.folder.path().join("lookalike");
        fs::rename(&log, log.with_extension("away")).unwrap();
        fs::write(&log, "").unwrap();
    }

    /// Puts the log back.
    pub fn show_log(&self) {
        let log = self.folder.path().join("lookalike");
        fs::remove_file(&log).unwrap();
        fs::rename(log.with_extension("away"), &log).unwrap();
    }

    /// The command that runs a server.
    pub fn command(&self, at: usize, dir: &Path) -> Command {
        // One that is not of the replicas runs where the first one does.
        let place = self.places.get(at).unwrap_or(&self.places[0]);
        let listen = format!("{}:0", place.host);
        let mut command = server::serve_as(&self.program, &listen, dir, &[]);
        command
            .args(["--name", &format!("s{at}")])
            .env("LOOKALIKE_SHARED_LOG__URL", self.log_url("lookalike"));
        command
            .env("LOOKALIKE_REPLICAS__MAX_LAG_MS", "2000")
            .envs(self.variables.iter().map(|(name, value)| (name, value)));
        place.inside(command)
    }

    /// Starts a server that does not run, with the data that it has.
    pub async fn restart(&mut self, at: usize) {
        assert!(self.servers[at].is_none(), "server {at} runs");
        let started = Server::launch(self.command(at, self.dirs[at].path())).await;
        self.servers[at] = Some(started.unwrap_or_else(|ended| panic!("{ended:?}")));
    }

    /// Starts a server again, and waits until it has started, not until it is ready.
    pub async fn restart_in_any_state(&mut self, at: usize) {
        assert!(self.servers[at].is_none(), "server {at} runs");
        let started = Server::launch_with_fault(self.command(at, self.dirs[at].path())).await;
        self.servers[at] = Some(started.unwrap_or_else(|ended| panic!("{ended:?}")));
    }

    /// Puts a file or directory of a copy back into the directory of a server that does not run; all of it
    /// if `part` is empty.
    pub fn put_back(&mut self, at: usize, from: &Path, part: &str) {
        assert!(self.servers[at].is_none(), "server {at} runs");
        if part.is_empty() {
            self.wipe(at);
            return copy(from, self.dir(at));
        }
        let (from, to) = (from.join(part), self.dir(at).join(part));
        if from.is_dir() {
            fs::remove_dir_all(&to).unwrap();
            fs::create_dir(&to).unwrap();
            copy(&from, &to);
        } else {
            fs::copy(&from, &to).unwrap();
        }
    }

    /// Ends a server as an operator does.
    pub fn stop(&mut self, at: usize) {
        assert!(self.servers[at].take().unwrap().stop().success());
    }

    /// Replaces the data of a server that does not run by an empty directory.
    pub fn wipe(&mut self, at: usize) {
        assert!(self.servers[at].is_none(), "server {at} runs");
        self.dirs[at] = server::directory();
    }

    /// Runs a server on a directory until it ends, or becomes ready.
    pub async fn try_start(
        &self,
        at: usize,
        dir: &Path,
        variables: &[(&str, &str)],
    ) -> Result<Server, Ended> {
        let mut command = self.command(at, dir);
        command.envs(variables.iter().copied());
        Server::launch(command).await
    }

    pub fn kill(&mut self, at: usize) {
        self.servers[at].take().unwrap().kill();
    }

    /// Stops a server without ending its connections, until [`Replicas::resume`].
    pub fn pause(&self, at: usize) {
        self.signal(at, Signal::STOP);
    }

    /// Lets a stopped server go on.
    pub fn resume(&self, at: usize) {
        self.signal(at, Signal::CONT);
    }

    fn signal(&self, at: usize, signal: Signal) {
        let id = Pid::from_raw(self.server(at).id() as i32).unwrap();
        kill_process(id, signal).unwrap();
    }

    /// The directory of a server.
    pub fn dir(&self, at: usize) -> &Path {
        self.dirs[at].path()
    }

    /// A server that runs.
    pub fn server(&self, at: usize) -> &Server {
        self.servers[at].as_ref().unwrap()
    }

    /// The servers that run.
    pub fn running(&self) -> impl Iterator<Item = &Server> {
        self.servers.iter().flatten()
    }

    /// Waits until every server that runs has applied what any of them has acknowledged, and returns what
    /// each then exports.
    pub async fn exports(&self, collection: &str) -> Vec<String> {
        let mut exports = Vec::new();
        for server in self.running() {
            let route = format!("/collections/{collection}/export");
            exports.push(eventually(server, &format!("{route}?linearizable=true")).await);
        }
        exports
    }
}

/// The settings of a log in a bucket, as variables.
pub fn bucket(moto: &Moto) -> Vec<(&'static str, String)> {
    let url = ("LOOKALIKE_SHARED_LOG__URL", "s3://crawls/news/".to_owned());
    moto.variables().into_iter().chain([url]).collect()
}

/// Copies what is in a directory into another one.
pub fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from.join(".")).arg(to).status().unwrap();
    assert!(copied.success());
}

/// The body of a GET, once it succeeds.
pub async fn eventually(server: &Server, route: &str) -> String {
    let since = Instant::now();
    loop {
        let last = match server.try_get(route).await {
            Ok(response) if response.status().is_success() => return response.text().await.unwrap(),
            Ok(response) => response.text().await.unwrap_or_default(),
            Err(error) => error.to_string(),
        };
        assert!(since.elapsed() < SOON, "{route}: {last}\n{}", server.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The position in the headers of an answer.
pub fn position(response: &Response) -> u64 {
    response.headers()[POSITION].to_str().unwrap().parse().unwrap()
}

/// The documents of an export, each as JSON, without its header.
pub fn documents(export: &str) -> Vec<Value> {
    let lines = export.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line.get("export").is_none()).collect()
}
