//! `lookalike serve`: reads the settings, opens the listener, handles signals and runs the server.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tokio::net::{TcpListener, TcpSocket};
use tokio::signal::unix::{SignalKind, signal};

use super::Failure;
use crate::config::{self, Given, Settings};
use crate::server::{self, ServerError, Stop};
use crate::telemetry::{self, LogFormat, TracesTo};
use lookalike_engine::OpenError;
use lookalike_store::StoreError;

/// How long the runtime waits at exit for threads that are still working.
const LAST_WAIT: Duration = Duration::from_secs(2);
/// Exit code of a process that could not stop in time. Nothing acknowledged is lost: the next start replays
/// the journal.
const UNFINISHED: i32 = 75;
/// Connections that may wait to be accepted; the system may allow fewer. If the queue is full, a client
/// repeats its SYN a second later.
const BACKLOG: u32 = 4_096;
/// The variable that names the settings file.
const CONFIG_VARIABLE: &str = "LOOKALIKE_CONFIG";

#[derive(Debug, Default, Args)]
pub(super) struct ServeArguments {
    /// Settings file; config/default.toml shows every key [env: `LOOKALIKE_CONFIG`]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address and port to listen on [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<String>,
    /// Serve without keys on an address that other machines can reach
    #[arg(long)]
    open: bool,
    /// Data directory; created if it does not exist [default: ./data]
    #[arg(long, value_name = "DIR")]
    data: Option<String>,
    /// Be one of the replicas that share this log, a folder, bucket or container with the scheme file, s3, gs
    /// or az
    #[arg(long, value_name = "URL")]
    shared_log: Option<String>,
    /// When a write is acknowledged: "stored" (the log has it) or "local" (this server has it,
    /// which alone uses the log) [default: stored]
    #[arg(long, value_name = "WHEN")]
    acknowledge: Option<String>,
    /// Name of this server among the replicas [default: the name of the machine]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Log level or filter [default: info]
    #[arg(long, value_name = "LEVEL")]
    log: Option<String>,
}

pub(super) fn run(arguments: ServeArguments) -> Result<(), Failure> {
    let settings = arguments.settings()?;
    let format = match settings.log.format {
        config::LogFormat::Text => LogFormat::Text,
        config::LogFormat::Json => LogFormat::Json,
    };
    let _telemetry = telemetry::start(&settings.log.level, format, traces(&settings).as_ref())
        .map_err(|error| Failure::of(&error, 78))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(serve(settings));
    runtime.shutdown_timeout(LAST_WAIT);
    result
}

/// Checks settings as `serve` does, without listening and without reading the data.
pub(super) fn check(settings: &Settings) -> Result<(), Failure> {
    telemetry::check(&settings.log.level, traces(settings).as_ref())
        .map_err(|error| Failure::of(&error, 78))?;
    server::check(settings).map_err(|error| Failure::of(&error, code(&error)))
}

fn traces(settings: &Settings) -> Option<TracesTo> {
    let endpoint = settings.traces.endpoint.clone()?;
    Some(TracesTo { endpoint, percent: settings.traces.percent })
}

impl ServeArguments {
    /// The arguments of a server with this settings file, or with that of the environment.
    pub(super) fn of_file(config: Option<PathBuf>) -> ServeArguments {
        ServeArguments { config, ..ServeArguments::default() }
    }

    /// The settings from these flags, the environment, and the file that either of them names.
    pub(super) fn settings(self) -> Result<Settings, Failure> {
        self.explained().map(|(settings, _)| settings)
    }

    /// The settings, and for each key the value as written and where it was written.
    pub(super) fn explained(self) -> Result<(Settings, Vec<Given>), Failure> {
        let file = self.config.or_else(|| std::env::var_os(CONFIG_VARIABLE).map(PathBuf::from));
        let flags = [
            ("server.listen", self.listen),
            ("server.open", self.open.then(|| "true".to_owned())),
            ("data.dir", self.data),
            ("shared_log.url", self.shared_log),
            ("shared_log.acknowledge", self.acknowledge),
            ("replicas.server", self.name),
            ("log.level", self.log),
        ];
        let flags: Vec<(&'static str, String)> =
            flags.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
        // A name that is not Unicode is not one of ours.
        let variables =
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
        config::explain(file.as_deref(), variables, &flags).map_err(|error| Failure::of(&error, 78))
    }
}

async fn serve(settings: Settings) -> Result<(), Failure> {
    let address = settings.server.listen;
    let listener = listen(address).map_err(|error| {
        Failure::new(format!("cannot listen on {address}: {error}; choose another with --listen ADDR:PORT"))
    })?;
    let bound = listener.local_addr()?;
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        data = %settings.data.dir.display(),
        "bound to {bound}; every request is answered with 503 until the data is read"
    );
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let longest = [Stop::AfterLameDuck, Stop::AtOnce].map(|how| server::longest_stop(&settings, how));
    let shutdown = async move {
        let how = tokio::select! {
            _ = terminate.recv() => Stop::AfterLameDuck,
            _ = interrupt.recv() => Stop::AtOnce,
        };
        end_within(longest[usize::from(how == Stop::AtOnce)]);
        tokio::spawn(async move {
            // A second signal ends the process at once. Nothing acknowledged is lost, but the next start
            // takes longer.
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            tracing::warn!("second signal to stop: the server waits for no connection and takes no snapshot");
            std::process::exit(1);
        });
        how
    };
    server::run(settings, listener, shutdown).await.map_err(|error| Failure::of(&error, code(&error)))
}

/// Ends the process after this time, whatever it is doing. It uses a thread, because all tasks may be
/// waiting for the disk.
fn end_within(longest: Duration) {
    let end = move || {
        std::thread::sleep(longest);
        let seconds = longest.as_secs();
        tracing::error!(
            seconds,
            code = UNFINISHED,
            "the server did not stop in time and is ended; nothing acknowledged is lost, and the next start \
             replays the journal"
        );
        std::process::exit(UNFINISHED);
    };
    if let Err(error) = std::thread::Builder::new().name("lookalike-stop".into()).spawn(end) {
        tracing::warn!(%error, "nothing will end the process if it does not stop in time");
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A restart must not wait for connections of the previous process.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Damaged data, data of a newer version and wrong settings have separate codes: a restart does not help.
fn code(error: &ServerError) -> u8 {
    match error {
        ServerError::Open(error) => open_code(error),
        ServerError::Default(_)
        | ServerError::Profiles(_)
        | ServerError::Keys(_)
        | ServerError::NoKeyFile(_)
        | ServerError::Tls(_)
        | ServerError::HalfTls
        | ServerError::ReplicaSettings(_)
        | ServerError::Replica(_)
        | ServerError::Unguarded { .. } => 78,
        // A restart helps.
        ServerError::Outrun => 75,
        _ => 1,
    }
}

/// The exit code of a data directory that cannot be used.
pub(super) fn open_code(error: &OpenError) -> u8 {
    match error {
        OpenError::Store(StoreError::Locked(_))
        | OpenError::Directory { .. }
        | OpenError::NotEmpty { .. }
        | OpenError::Replica { .. }
        | OpenError::Thread(_) => 1,
        // The error does not show that the data is damaged.
        OpenError::Store(error) if error.is_refused() || error.is_full() => 1,
        OpenError::Newer { .. } | OpenError::Damaged { .. } | OpenError::Store(_) => 65,
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_directory_without_access_is_not_reported_as_damaged() {
        let code = |kind: io::ErrorKind| {
            let path = "data/journal/mark".into();
            open_code(&OpenError::Store(StoreError::Io { path, action: "opened", source: kind.into() }))
        };
        assert_eq!(code(io::ErrorKind::PermissionDenied), 1);
        assert_eq!(code(io::ErrorKind::ReadOnlyFilesystem), 1);
        assert_eq!(code(io::ErrorKind::StorageFull), 1);
        assert_eq!(code(io::ErrorKind::NotFound), 65, "a missing file is damage");
    }
}
