//! Spans of requests: the error message of a build without OpenTelemetry.
//! Not here: the spans that a collector receives, which `tests/traces` checks.

use std::process::Stdio;

use crate::server::{directory, serve};

/// A build without OpenTelemetry refuses to start when an endpoint for spans is configured.
#[test]
fn a_build_without_opentelemetry_names_the_feature_to_enable() {
    let data = directory();
    let variables = [("LOOKALIKE_TRACES__ENDPOINT", "http://127.0.0.1:4318")];
    let output = serve(data.path(), &variables).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(78));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("traces.endpoint") && stderr.contains("--features opentelemetry"), "{stderr}");
}
