//! Logs and metrics: how the process tells what it does.
//!
//! Logs go to standard error, as text or as one JSON object a line. Metrics are recorded through the
//! `metrics` facade by whoever has something to count, and rendered here in the text format of Prometheus.

use std::io::IsTerminal;
use std::sync::OnceLock;

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use metrics_process::Collector;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{LevelFilter, ParseError};

/// How log lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line, for programs.
    Json,
}

/// Starts logging. A second call changes nothing.
///
/// # Errors
/// If `level` is no filter directive.
pub fn start_logs(level: &str, format: LogFormat) -> Result<(), ParseError> {
    for directive in level.split(',').map(str::trim) {
        // A word alone would be taken for the name of a module, and everything else silenced.
        if !directive.contains(['=', '[', ':']) {
            directive.parse::<LevelFilter>()?;
        }
    }
    // The storage engine tells of every file it writes at "info"; a directive of the caller's overrules this.
    let filter = EnvFilter::try_new(format!("lsm_tree=warn,{level}"))?;
    let ansi = std::io::stderr().is_terminal();
    let builder =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(ansi);
    // Only the first subscriber of a process can be set; tests start several servers in one.
    let _ = match format {
        LogFormat::Text => builder.with_target(false).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    Ok(())
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
    describe_histogram!(
        "lookalike_commit_seconds",
        Unit::Seconds,
        "Time to make a group of changes durable."
    );
    describe_histogram!("lookalike_commit_changes", "Changes made durable together.");
    describe_histogram!("lookalike_snapshot_seconds", Unit::Seconds, "Time to write a snapshot.");
    describe_counter!("lookalike_snapshot_failures_total", "Snapshots that could not be written.");
}
