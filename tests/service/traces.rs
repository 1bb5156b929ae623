//! Spans of requests: what a build without them says. What a collector gets is in `tests/traces`.

use std::process::Stdio;

use crate::server::{directory, serve};

/// What a build does that cannot send spans.
#[test]
fn a_build_without_traces_says_how_to_get_them() {
    let data = directory();
    let variables = [("LOOKALIKE_TRACES__ENDPOINT", "http://127.0.0.1:4318")];
    let output = serve(data.path(), &variables).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(78));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("traces.endpoint") && said.contains("--features opentelemetry"), "{said}");
}
