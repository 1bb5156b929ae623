//! Errors that the edge answers before a handler runs: as a response, or as bytes of HTTP/1.1 if no request
//! was parsed.

use std::fmt::Write;

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};

use super::super::browser;
use super::super::error::Problem;
use super::super::observe;

/// The complete answer. The connection is closed after it.
pub(super) fn bytes(problem: &Problem) -> Vec<u8> {
    let status = problem.status();
    let body = serde_json::to_string(&problem.body()).unwrap_or_default();
    let id = observe::new_id();
    let mut head =
        format!("HTTP/1.1 {} {}\r\n", status.as_u16(), status.canonical_reason().unwrap_or_default());
    let retry =
        problem.retry_after().map(|seconds| format!("retry-after: {seconds}\r\n")).unwrap_or_default();
    let _ = write!(
        head,
        "content-type: application/problem+json\r\ncontent-length: {}\r\n{retry}connection: close\r\n\
         x-content-type-options: nosniff\r\nx-request-id: ",
        body.len(),
    );
    observe::count_refused(status.as_u16());
    let request_id = observe::id_text(&id);
    tracing::debug!(code = problem.name(), request_id, "a request was refused before it was read");
    [head.as_bytes(), id.as_bytes(), b"\r\n\r\n", body.as_bytes()].concat()
}

/// The answer to a request that is not handled. The connection is closed after it.
pub(super) fn response(problem: &Problem) -> Response {
    let mut response = problem.clone().into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    headers.insert(observe::REQUEST_ID, observe::new_id());
    browser::finish(headers, None);
    observe::count_refused(problem.status().as_u16());
    response
}
