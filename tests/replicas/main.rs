//! Replicas: the shared log, and servers of the release binary that follow it, on a folder, a server of S3
//! and one of Azure.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

mod ahead;
mod appends;
mod as_one;
mod azurite;
mod cut_off;
mod divergence;
mod haproxy;
mod hidden;
mod histories;
#[path = "../torture/history.rs"]
#[allow(clippy::needless_pass_by_value, reason = "as in tests/torture")]
mod history;
#[path = "../service/moto.rs"]
#[allow(dead_code, reason = "the tests of the service use more of it")]
mod moto;
mod network;
mod objects;
mod order;
mod ratios;
mod rolling;
#[path = "../service/server.rs"]
#[allow(dead_code, reason = "the tests of the service use more of it")]
mod server;
mod servers;
#[path = "../service/skipped.rs"]
mod skipped;
mod unreached;

use std::time::Duration;

/// Long enough for every outage in these tests.
const PATIENT: Duration = Duration::from_mins(1);

/// How often something is repeated: in the long form, what `LOOKALIKE_TORTURE_CYCLES` says.
fn cycles(short: u64) -> u64 {
    number("LOOKALIKE_TORTURE_CYCLES", short)
}

/// The number in a variable.
fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Prints the events of the log if `RUST_LOG` is set.
fn trace() {
    let filter = tracing_subscriber::EnvFilter::from_default_env();
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_test_writer().try_init();
}
