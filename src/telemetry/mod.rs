//! Logs, metrics and traces: how the process tells what it does.
//!
//! Logs go to standard error, as text or as one JSON object a line. Metrics are recorded through the
//! `metrics` facade by whoever has something to count, and rendered here in the text format of Prometheus.

#[cfg(feature = "opentelemetry")]
mod traces;

use std::io::IsTerminal;
use std::sync::OnceLock;

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use metrics_process::Collector;
use tracing_subscriber::filter::{LevelFilter, ParseError};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

/// How log lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line, for programs.
    Json,
}

/// Where spans of requests go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracesTo {
    /// The base URL of a collector that speaks OTLP over HTTP.
    pub endpoint: String,
    /// Of how many requests in a hundred that bring no decision of their caller's, 0 to 100.
    pub percent: u32,
}

/// Why logs or traces cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter of the log is none.
    #[error("log.level {level:?} is no log filter: {source}")]
    Level {
        /// What was given.
        level: String,
        /// What is wrong with it.
        source: ParseError,
    },
    /// The program was built without traces.
    #[error(
        "traces.endpoint is set, and this program was built without traces: build it with --features opentelemetry, or \
         leave traces.endpoint out"
    )]
    NoTraces,
    /// The collector cannot be spoken to.
    #[error("traces.endpoint {endpoint:?} cannot be used: {detail}")]
    Collector {
        /// What was given.
        endpoint: String,
        /// What is wrong with it.
        detail: String,
    },
}

/// What goes on as long as it is kept: spans that were not sent yet go out when it is dropped.
#[derive(Debug, Default)]
pub struct Telemetry {
    #[cfg(feature = "opentelemetry")]
    _traces: Option<traces::Traces>,
}

/// Starts logging, and traces if there is somewhere to send them. A second call changes nothing.
///
/// # Errors
/// [`TelemetryError`] if the level is no filter directive, or if there are no traces.
pub fn start(level: &str, format: LogFormat, to: Option<&TracesTo>) -> Result<Telemetry, TelemetryError> {
    let filter = filter(level)?;
    let ansi = std::io::stderr().is_terminal();
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(ansi);
    let lines = match format {
        LogFormat::Text => lines.with_target(false).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    let subscriber = tracing_subscriber::registry().with(lines.with_filter(filter));
    #[cfg(feature = "opentelemetry")]
    {
        let started = to.map(traces::start).transpose()?;
        let (traces, layer) = started.unzip();
        // Only the first subscriber of a process can be set; tests start several servers in one.
        let _ = subscriber.with(layer).try_init();
        Ok(Telemetry { _traces: traces })
    }
    #[cfg(not(feature = "opentelemetry"))]
    {
        no_traces(to)?;
        let _ = subscriber.try_init();
        Ok(Telemetry::default())
    }
}

/// Whether [`start`] would take these, without starting anything.
///
/// # Errors
/// As [`start`].
pub fn check(level: &str, to: Option<&TracesTo>) -> Result<(), TelemetryError> {
    filter(level)?;
    #[cfg(feature = "opentelemetry")]
    return to.map_or(Ok(()), traces::check);
    #[cfg(not(feature = "opentelemetry"))]
    no_traces(to)
}

#[cfg(not(feature = "opentelemetry"))]
fn no_traces(to: Option<&TracesTo>) -> Result<(), TelemetryError> {
    to.map_or(Ok(()), |_| Err(TelemetryError::NoTraces))
}

fn filter(level: &str) -> Result<EnvFilter, TelemetryError> {
    let wrong = |source| TelemetryError::Level { level: level.to_owned(), source };
    for directive in level.split(',').map(str::trim) {
        // A word alone would be taken for the name of a module, and everything else silenced.
        if !directive.contains(['=', '[', ':']) {
            directive.parse::<LevelFilter>().map_err(|error| wrong(error.into()))?;
        }
    }
    // The storage engine tells of every file it writes at "info", and the exporter of spans at "debug" the
    // URL of the collector with its password; a directive of the caller's overrules this.
    EnvFilter::try_new(format!("lsm_tree=warn,opentelemetry=info,{level}")).map_err(wrong)
}

/// The metrics of the process.
#[derive(Clone)]
pub struct Metrics {
    handle: PrometheusHandle,
    process: Collector,
}

/// Seconds: from a lookup's ten microseconds to a request that is given up.
const SECONDS: &[f64] = &[
    1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    10.0,
];
/// Changes in a commit.
const CHANGES: &[f64] = &[1.0, 4.0, 16.0, 64.0, 256.0, 1_024.0, 4_096.0];

impl Metrics {
    /// The recorder of this process, installed at the first call.
    ///
    /// # Errors
    /// If another recorder was installed before.
    pub fn install() -> Result<Metrics, BuildError> {
        static INSTALLED: OnceLock<Metrics> = OnceLock::new();
        if let Some(metrics) = INSTALLED.get() {
            return Ok(metrics.clone());
        }
        let handle = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), SECONDS)?
            .set_buckets_for_metric(Matcher::Suffix("_changes".into()), CHANGES)?
            .install_recorder()?;
        let metrics = Metrics { handle, process: Collector::default() };
        metrics.process.describe();
        describe();
        Ok(INSTALLED.get_or_init(|| metrics).clone())
    }

    /// Folds the samples recorded since the last call; to be called every few seconds.
    pub fn keep(&self) {
        self.handle.run_upkeep();
    }

    /// All metrics in the text format of Prometheus.
    pub fn render(&self) -> String {
        self.process.collect();
        self.keep();
        self.handle.render()
    }
}

fn describe() {
    describe_counter!("lookalike_http_requests_total", "Requests answered, by method, route and status.");
    describe_histogram!(
        "lookalike_http_request_seconds",
        Unit::Seconds,
        "Time from a request's head to its answer's head."
    );
    describe_counter!("lookalike_queries_total", "Queries answered, by index or by scan.");
    describe_counter!("lookalike_query_probes_total", "Runs of hashes read for queries.");
    describe_counter!("lookalike_query_candidates_total", "Places for hashes compared for queries.");
    describe_gauge!("lookalike_http_connections", "Open connections.");
    describe_counter!("lookalike_http_connections_accepted_total", "Connections accepted.");
    describe_counter!(
        "lookalike_http_connections_ended_total",
        "Connections that the server ended or refused, by reason."
    );
    describe_counter!(
        "lookalike_http_slow_bodies_total",
        "Requests given up because their body came too slowly."
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
        "Times that a request was refused memory, or had to wait for it."
    );
    describe_histogram!(
        "lookalike_commit_seconds",
        Unit::Seconds,
        "Time to make a group of changes durable."
    );
    describe_histogram!("lookalike_commit_changes", "Changes made durable together.");
    describe_histogram!("lookalike_snapshot_seconds", Unit::Seconds, "Time to write a snapshot.");
    describe_counter!("lookalike_snapshot_failures_total", "Snapshots that could not be written.");
    describe_counter!("lookalike_expired_documents_total", "Documents removed because their time had come.");
}
