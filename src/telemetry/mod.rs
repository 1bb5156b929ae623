//! Logs, metrics and traces of the process.
//!
//! Logs go to standard error, as text or as one JSON object per line. Other modules record metrics through
//! the `metrics` facade, and this module renders them in the text format of Prometheus.

mod traces;

use std::io::IsTerminal;
use std::sync::OnceLock;

use lookalike_run::machine::Process;
use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use tracing_subscriber::filter::{LevelFilter, ParseError};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For programs: one JSON object per line.
    Json,
}

/// Where spans of requests are sent, and for how many requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracesTo {
    /// The base URL of a collector that accepts OTLP over HTTP.
    pub endpoint: String,
    /// The percentage of traced requests among those whose caller has made no sampling decision, 0 to 100.
    pub percent: u32,
}

/// Why logs or traces cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The log filter is invalid.
    #[error("log.level {level:?} is not a log filter: {source}")]
    Level {
        /// The given value.
        level: String,
        /// The error of the parser.
        source: ParseError,
    },
    /// The exporter to the collector cannot be created.
    #[error("traces.endpoint {endpoint:?} cannot be used: {detail}")]
    Collector {
        /// The given value.
        endpoint: String,
        /// The error of the exporter.
        detail: String,
    },
}

/// Keeps the export of spans alive. When it is dropped, spans that have not been sent yet are sent.
#[derive(Debug, Default)]
pub struct Telemetry {
    _traces: Option<traces::Traces>,
}

/// Starts logging, and traces if there is a collector. A second call changes nothing.
///
/// # Errors
/// [`TelemetryError`] if the level is not a filter directive, or if the exporter cannot be created.
pub fn start(level: &str, format: LogFormat, to: Option<&TracesTo>) -> Result<Telemetry, TelemetryError> {
    let filter = filter(level)?;
    let ansi = std::io::stderr().is_terminal();
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(ansi);
    let lines = match format {
        LogFormat::Text => lines.with_target(false).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    let subscriber = tracing_subscriber::registry().with(lines.with_filter(filter));
    let (traces, layer) = to.map(traces::start).transpose()?.unzip();
    // A process accepts only one subscriber, and tests start several servers in one process.
    let _ = subscriber.with(layer).try_init();
    Ok(Telemetry { _traces: traces })
}

/// Checks whether [`start`] would accept these settings, without starting anything.
///
/// # Errors
/// As [`start`].
pub fn check(level: &str, to: Option<&TracesTo>) -> Result<(), TelemetryError> {
    filter(level)?;
    to.map_or(Ok(()), traces::check)
}

fn filter(level: &str) -> Result<EnvFilter, TelemetryError> {
    let wrong = |source| TelemetryError::Level { level: level.to_owned(), source };
    for directive in level.split(',').map(str::trim) {
        // A bare word would be parsed as the name of a module, which would silence everything else.
        if !directive.contains(['=', '[', ':']) {
            directive.parse::<LevelFilter>().map_err(|error| wrong(error.into()))?;
        }
    }
    // The storage engine logs every file that it writes at "info". The exporter of spans logs the URL of
    // the collector, with its password, at "debug". A directive of the user overrides these defaults.
    EnvFilter::try_new(format!("lsm_tree=warn,opentelemetry=info,{level}")).map_err(wrong)
}

/// The metrics of the process.
#[derive(Clone)]
pub struct Metrics {
    handle: PrometheusHandle,
}

/// Histogram bounds in seconds: from 10 µs, the time of a lookup, to 10 s, when a request is given up.
const SECONDS: &[f64] = &[
    1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    10.0,
];
/// Histogram bounds for the changes in a group commit.
const CHANGES: &[f64] = &[1.0, 4.0, 16.0, 64.0, 256.0, 1_024.0, 4_096.0];

impl Metrics {
    /// Returns the recorder of this process. The first call installs it.
    ///
    /// # Errors
    /// If another recorder is already installed.
    pub fn install() -> Result<Metrics, BuildError> {
        static INSTALLED: OnceLock<Metrics> = OnceLock::new();
        if let Some(metrics) = INSTALLED.get() {
            return Ok(metrics.clone());
        }
        let handle = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), SECONDS)?
            .set_buckets_for_metric(Matcher::Suffix("_changes".into()), CHANGES)?
            .install_recorder()?;
        describe();
        Ok(INSTALLED.get_or_init(|| Metrics { handle }).clone())
    }

    /// Folds the recorded samples into histograms. It must be called every few seconds.
    pub fn keep(&self) {
        self.handle.run_upkeep();
    }

    /// All metrics in the text format of Prometheus.
    pub fn render(&self) -> String {
        record_process();
        self.keep();
        self.handle.render()
    }
}

/// Records what is known of this process under the names that all clients of Prometheus use.
fn record_process() {
    let Some(process) = Process::now() else { return };
    counter!("process_cpu_seconds_total").absolute(process.cpu.as_secs());
    gauge!("process_start_time_seconds").set(process.started.as_secs_f64());
    gauge!("process_resident_memory_bytes").set(process.resident_bytes as f64);
    gauge!("process_virtual_memory_bytes").set(process.virtual_bytes as f64);
    gauge!("process_virtual_memory_max_bytes").set(process.most_virtual_bytes as f64);
    gauge!("process_threads").set(process.threads as f64);
    gauge!("process_open_fds").set(process.open_files as f64);
    gauge!("process_max_fds").set(process.most_open_files as f64);
}

fn describe() {
    describe_counter!("process_cpu_seconds_total", Unit::Seconds, "CPU time of the process.");
    describe_gauge!(
        "process_start_time_seconds",
        Unit::Seconds,
        "Start of the process, in seconds since 1970."
    );
    describe_gauge!("process_resident_memory_bytes", Unit::Bytes, "Resident memory.");
    describe_gauge!("process_virtual_memory_bytes", Unit::Bytes, "Virtual memory.");
    describe_gauge!(
        "process_virtual_memory_max_bytes",
        Unit::Bytes,
        "The limit of virtual memory; 0 without one."
    );
    describe_gauge!("process_threads", Unit::Count, "Threads of the process.");
    describe_gauge!("process_open_fds", Unit::Count, "Open file descriptors.");
    describe_gauge!("process_max_fds", Unit::Count, "The limit of open file descriptors.");
    describe_counter!("lookalike_http_requests_total", "Requests answered, by method, route and status.");
    describe_histogram!(
        "lookalike_http_request_seconds",
        Unit::Seconds,
        "Time from the head of a request to the head of its answer."
    );
    describe_counter!("lookalike_queries_total", "Queries answered, by index or by scan.");
    describe_counter!("lookalike_query_probes_total", "Runs of hashes read for queries.");
    describe_counter!(
        "lookalike_query_candidates_total",
        "Candidates compared for queries, free places included."
    );
    describe_counter!(
        "lookalike_document_outcomes_total",
        "Documents that clients sent to this server, by outcome; those with a short text count twice."
    );
    describe_gauge!("lookalike_http_connections", "Open connections.");
    describe_counter!("lookalike_http_connections_accepted_total", "Connections accepted.");
    describe_counter!(
        "lookalike_http_connections_ended_total",
        "Connections that the server ended or refused, by reason."
    );
    describe_counter!(
        "lookalike_http_slow_bodies_total",
        "Requests given up because their body arrived too slowly."
    );
    describe_counter!(
        "lookalike_rate_limited_requests_total",
        "Requests refused because their key had used its units."
    );
    describe_counter!(
        "lookalike_tls_handshake_failures_total",
        "Connections that failed before the first request."
    );
    describe_counter!(
        "lookalike_memory_refusals_total",
        "Times that a request was refused memory or had to wait for it."
    );
    describe_histogram!(
        "lookalike_commit_seconds",
        Unit::Seconds,
        "Time to make a group of changes durable."
    );
    describe_histogram!(
        "lookalike_replica_append_seconds",
        Unit::Seconds,
        "Time until the shared log has an entry."
    );
    describe_histogram!("lookalike_commit_changes", "Changes made durable together.");
    describe_histogram!("lookalike_snapshot_seconds", Unit::Seconds, "Time to write a snapshot.");
    describe_counter!("lookalike_snapshot_failures_total", "Snapshots that could not be written.");
    // An alert waits for its first increase, and a counter that begins at 1 has not increased.
    metrics::counter!("lookalike_snapshot_failures_total").increment(0);
    describe_counter!("lookalike_expired_documents_total", "Expired documents removed.");
    describe_counter!(
        "lookalike_cluster_entries_total",
        "Entries of the clusters of documents that were read and written for writes and tasks, by kind."
    );
}
