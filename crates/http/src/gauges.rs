//! Gauges and counts of collections that are read when `/metrics` is requested, in the text format of
//! Prometheus.
//!
//! They do not use the recorder, which would keep the last value of a deleted collection.

use std::fmt::Write;

use super::State;
use super::series::{Counts, OTHERS, Shown};
use lookalike_replica::Replicas;
use lookalike_service::{CollectionInfo, Health, Memory, MemoryState, Service, ServiceError};

/// The types of a metric.
const GAUGE: &str = "gauge";
const COUNTER: &str = "counter";

/// One metric with its samples.
struct Gauge {
    kind: &'static str,
    name: &'static str,
    about: &'static str,
    /// The name of the label that distinguishes the samples; empty if there is only one sample.
    label: &'static str,
    /// The value of the label, and the value of the sample.
    samples: Vec<(Option<String>, f64)>,
}

impl Gauge {
    fn one(name: &'static str, about: &'static str, value: f64) -> Gauge {
        Gauge { kind: GAUGE, name, about, label: "", samples: vec![(None, value)] }
    }

    /// A value of each collection.
    fn of_each(name: &'static str, about: &'static str, samples: Vec<(Option<String>, f64)>) -> Gauge {
        Gauge { kind: GAUGE, name, about, label: "collection", samples }
    }

    fn write(&self, out: &mut String) {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "# HELP {} {}\n# TYPE {} {}", self.name, self.about, self.name, self.kind);
        for (label, value) in &self.samples {
            let _ = match label {
                Some(label) => writeln!(out, "{}{{{}=\"{label}\"}} {value}", self.name, self.label),
                None => writeln!(out, "{} {value}", self.name),
            };
        }
        out.push('\n');
    }
}

/// Appends the gauges.
pub(super) async fn append(state: &State, out: &mut String) {
    for gauge in read(state).await {
        gauge.write(out);
    }
}

async fn read(state: &State) -> Vec<Gauge> {
    let service = &state.service;
    let mut gauges = vec![build_info()];
    let is_draining = (state.is_draining)();
    let ready = service.health().is_ok_and(|health| health == Health::Ready) && !is_draining;
    gauges.push(Gauge::one(
        "lookalike_ready",
        "1 if the server is ready, else 0.",
        f64::from(u8::from(ready)),
    ));
    let waiting = service.waiting() as f64;
    gauges.push(Gauge::one("lookalike_pool_waiting_requests", "Requests waiting for a processor.", waiting));
    let (held, most) = (state.accountant.reserved() as f64, state.accountant.capacity() as f64);
    let about = "Memory that requests hold for bodies, their contents, answers and jobs.";
    gauges.push(Gauge::one("lookalike_memory_requests_bytes", about, held));
    let about = "Memory that all requests together may hold (memory.requests).";
    gauges.push(Gauge::one("lookalike_memory_requests_limit_bytes", about, most));
    let Ok(of_process) = service.memory() else {
        return gauges;
    };
    let collections = or_warn(service.collections()).unwrap_or_default();
    gauges.extend(of_collections(service, &state.series.divide(collections)).await);
    gauges.extend(memory(&of_process));
    if let Some(stats) = or_warn(service.stats().await) {
        let mut one = |name, about, value: u64| gauges.push(Gauge::one(name, about, value as f64));
        one("lookalike_store_bytes", "Bytes of the store on disk.", stats.disk_bytes);
        one(
            "lookalike_history_changes",
            "Changes that the oldest kept snapshot does not contain.",
            stats.history_changes,
        );
        one("lookalike_write_queue_operations", "Operations waiting to be written.", stats.queued_operations);
        if let Some(written) = stats.snapshot.and_then(|snapshot| snapshot.written_ms) {
            let about = "Time of the newest snapshot, in seconds since 1970-01-01 UTC.";
            gauges.push(Gauge::one("lookalike_snapshot_timestamp_seconds", about, written as f64 / 1_000.0));
        }
    }
    gauges.extend(state.replicas.get().into_iter().flat_map(of_replicas));
    gauges
}

/// The version of the program, as labels of a gauge that is always 1.
fn build_info() -> Gauge {
    let about = "The version of the program; always 1.";
    let version = Some(env!("CARGO_PKG_VERSION").to_owned());
    let samples = vec![(version, 1.0)];
    Gauge { kind: GAUGE, name: "lookalike_build_info", about, label: "version", samples }
}

/// Gauges and counts of each collection, and of the others together.
async fn of_collections(service: &Service, shown: &Shown) -> Vec<Gauge> {
    let Shown { own, others, counts } = shown;
    let of_each = |name, about, value: &dyn Fn(&CollectionInfo) -> u64| {
        let mut samples: Vec<_> =
            own.iter().map(|info| (Some(info.name.to_string()), value(info) as f64)).collect();
        if !others.is_empty() {
            samples.push((Some(OTHERS.to_owned()), others.iter().map(value).sum::<u64>() as f64));
        }
        Gauge::of_each(name, about, samples)
    };
    let counted =
        |name, about, value: &dyn Fn(&CollectionInfo) -> u64, of_others: &dyn Fn(&Counts) -> u64| {
            let own = own.iter().map(|info| (Some(info.name.to_string()), value(info) as f64));
            let others = counts.iter().map(|counts| (Some(OTHERS.to_owned()), of_others(counts) as f64));
            Gauge { kind: COUNTER, ..Gauge::of_each(name, about, own.chain(others).collect()) }
        };
    let mut gauges = vec![
        of_each("lookalike_documents", "Stored documents.", &|info| info.documents),
        of_each("lookalike_distinct_hashes", "Distinct hashes in the index.", &|info| info.distinct_hashes),
        of_each("lookalike_index_bytes", "Memory of the index.", &|info| info.index_bytes),
        of_each("lookalike_marks", "Marks of pairs and documents as no duplicates.", &|info| info.marks),
        counted("lookalike_collection_queries_total", "Queries answered.", &|info| info.queries, &|counts| {
            counts.queries
        }),
        counted(
            "lookalike_collection_writes_total",
            "Documents that clients of this server stored or deleted.",
            &|info| info.written,
            &|counts| counts.written,
        ),
    ];
    let (mut largest, mut ages) = (Vec::new(), Vec::new());
    for info in own {
        // A collection that was deleted in the meantime has none.
        if let Ok((sizes, age_ms)) = service.bucket_sizes(info).await {
            largest.push((Some(info.name.to_string()), sizes.largest as f64));
            ages.push((Some(info.name.to_string()), age_ms as f64 / 1_000.0));
        }
    }
    let about = "Hashes in the largest bucket of the index: skew, which makes queries slow.";
    gauges.push(Gauge::of_each("lookalike_largest_bucket_hashes", about, largest));
    let about = "Age of the largest bucket's size; a large collection is counted at most every ten seconds.";
    gauges.push(Gauge::of_each("lookalike_largest_bucket_age_seconds", about, ages));
    gauges
}

/// Gauges of a replica.
fn of_replicas(replicas: &Replicas) -> Vec<Gauge> {
    let position = replicas.position() as f64;
    let behind = replicas.behind().as_secs_f64();
    let follows = f64::from(u8::from(replicas.is_following()));
    let mut gauges = vec![
        Gauge::one("lookalike_replica_position", "Last entry of the log that is applied.", position),
        Gauge::one(
            "lookalike_replica_behind_seconds",
            "Time since this server certainly had every acknowledged write.",
            behind,
        ),
        Gauge::one("lookalike_replica_following", "1 if the server follows the log, else 0.", follows),
        Gauge::one(
            "lookalike_replica_diverged",
            "1 if the server answers nothing because its data differ from those of others, else 0.",
            f64::from(u8::from(replicas.divergence().is_some())),
        ),
    ];
    if let Some(lag) = replicas.lag() {
        let about = "Entries of the log that are not applied.";
        gauges.push(Gauge::one("lookalike_replica_lag_entries", about, lag as f64));
    }
    if let Some(unsent) = replicas.unsent() {
        let about = "Entries that this server has acknowledged and the store of the log lacks.";
        gauges.push(Gauge::one("lookalike_replica_unsent_entries", about, unsent.entries as f64));
        let about = "Bytes of these entries.";
        gauges.push(Gauge::one("lookalike_replica_unsent_bytes", about, unsent.bytes as f64));
        let about = "Age of the first of these entries.";
        let seconds = unsent.oldest_ms as f64 / 1_000.0;
        gauges.push(Gauge::one("lookalike_replica_unsent_seconds", about, seconds));
    }
    if let Some(agreed) = replicas.agreed() {
        let about =
            "Last entry of the log at which the data were compared with those of others and the same.";
        gauges.push(Gauge::one("lookalike_replica_agreed_position", about, agreed as f64));
    }
    gauges
}

/// The value that was read. After an error, the metrics are absent, which is not 0, and a warning is logged.
fn or_warn<T>(read: Result<T, ServiceError>) -> Option<T> {
    read.inspect_err(|error| tracing::warn!(%error, "some metrics are missing: they cannot be read")).ok()
}

/// Gauges of the memory budget.
fn memory(memory: &Memory) -> Vec<Gauge> {
    let mut gauges = vec![Gauge::one(
        "lookalike_memory_resident_bytes",
        "Resident memory of the process, as last measured.",
        memory.resident_bytes as f64,
    )];
    if let Some(budget) = memory.budget_bytes {
        let about = "Memory that the process may use.";
        gauges.push(Gauge::one("lookalike_memory_budget_bytes", about, budget as f64));
    }
    let refuses = |what: &str, refused: bool| (Some(what.to_owned()), f64::from(u8::from(refused)));
    gauges.push(Gauge {
        kind: GAUGE,
        name: "lookalike_memory_refuses",
        about: "1 while the memory budget refuses bulk or inserts, else 0.",
        label: "what",
        samples: vec![
            refuses("bulk", memory.state != MemoryState::Open),
            refuses("inserts", memory.state == MemoryState::Full),
        ],
    });
    gauges
}
