//! Tests of the service as users see it: the release binary, over HTTP and on the command line.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics, in its helpers too")]
#![allow(
    clippy::too_many_lines,
    clippy::type_complexity,
    clippy::precedence,
    clippy::duration_suboptimal_units,
    reason = "tables of cases are long and nested"
)]

mod archives;
mod attacks;
mod backup;
mod bad_input;
mod banks;
mod batches;
mod browser;
mod bulk;
mod calibrate;
mod cluster_work;
mod clusters;
mod command_line;
mod conditions;
mod contained;
mod contract;
mod corpus;
mod damage;
mod decoders;
mod dedupe;
mod dedupe_bench;
mod dedupe_changes;
mod dedupe_checks;
mod dedupe_evidence;
mod dedupe_index;
mod dedupe_places;
mod dedupe_results;
mod dedupe_shapes;
mod dedupe_shards;
mod dedupe_spans;
mod dedupe_stops;
mod dedupe_weights;
mod deletions;
mod deployment;
mod duplicates;
mod edge;
mod encoding;
mod examples;
mod expiry;
mod exports;
mod features;
mod forms;
mod generated;
mod golden;
mod hidden_text;
mod idempotency;
#[cfg(feature = "images")]
mod images;
mod import;
mod import_shapes;
mod import_stops;
#[path = "../pathological/inputs.rs"]
mod inputs;
mod keys;
mod marks;
mod measures;
mod memory;
mod mixing;
#[allow(dead_code, reason = "the tests of replicas use more of it")]
mod moto;
mod neighbours;
mod objects;
mod overload;
mod pairs;
mod parquet;
mod parquet_rows;
mod passages;
mod pathological;
mod planned;
mod profiles;
mod prometheus;
mod reclaim;
mod reindex;
mod reindex_swap;
mod repair;
mod restores;
mod road;
mod server;
mod settings;
mod signatures;
mod skipped;
mod stores;
mod strangers;
mod stray_bytes;
mod supplied;
#[cfg(feature = "images")]
mod thumbnails;
mod tls;
mod traces;
mod weights;
#[cfg(not(feature = "images"))]
mod without_images;
