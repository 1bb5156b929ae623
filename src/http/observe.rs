//! What happens around every request: an id, a count, a time, a line in the log.
//!
//! One layer in place of several, because `GET /similar` is answered in a few microseconds and each layer
//! costs some hundred nanoseconds of them.

use std::any::Any;
use std::fmt::Write;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use dashmap::DashMap;
use metrics::{Counter, Histogram};

use super::error::{Code, Problem};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The longest request id taken over from a client.
const MAX_REQUEST_ID: usize = 128;

/// What tells this process's request ids from those of others.
static PROCESS: LazyLock<u64> = LazyLock::new(|| uuid::Uuid::new_v4().as_u64_pair().0);
static REQUESTS: AtomicU64 = AtomicU64::new(0);

/// Counters of a method, route and status. Looking them up here costs less than naming their labels anew.
static SERIES: LazyLock<DashMap<(&'static str, &'static str, u16), (Counter, Histogram)>> =
    LazyLock::new(DashMap::new);

/// The routes seen so far, each once and for ever: there are as many as the router has.
static ROUTES: LazyLock<DashMap<String, &'static str>> = LazyLock::new(DashMap::new);

/// The layer.
pub(super) async fn observe(mut request: Request, next: Next) -> Response {
    let start = Instant::now();
    let id = request_id(&request);
    let method = method(&request);
    let route = route(&request);
    request.headers_mut().insert(REQUEST_ID, id.clone());
    let mut response = next.run(request).await;
    let status = response.status().as_u16();
    let elapsed = start.elapsed();
    count(method, route, status, elapsed.as_secs_f64());
    tracing::debug!(method, route, status, ?elapsed, request_id = ?id, "answered");
    response.headers_mut().insert(REQUEST_ID, id);
    response
}

/// The client's own id, if it is a sensible one, or a new one.
fn request_id(request: &Request) -> HeaderValue {
    if let Some(given) = request.headers().get(&REQUEST_ID)
        && given.len() <= MAX_REQUEST_ID
        && !given.is_empty()
        && given.to_str().is_ok()
    {
        return given.clone();
    }
    let mut text = String::with_capacity(33);
    let number = REQUESTS.fetch_add(1, Ordering::Relaxed);
    let _ = write!(text, "{:016x}-{number:x}", *PROCESS);
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static("unknown"))
}

/// The method, if it is one that a route has: others would make a series each.
fn method(request: &Request) -> &'static str {
    match request.method().as_str() {
        "GET" => "GET",
        "POST" => "POST",
        "PUT" => "PUT",
        "DELETE" => "DELETE",
        "HEAD" => "HEAD",
        _ => "other",
    }
}

fn route(request: &Request) -> &'static str {
    let Some(path) = request.extensions().get::<MatchedPath>() else {
        return "none";
    };
    if let Some(known) = ROUTES.get(path.as_str()) {
        return *known;
    }
    let leaked: &'static str = Box::leak(path.as_str().to_owned().into_boxed_str());
    *ROUTES.entry(leaked.to_owned()).or_insert(leaked)
}

fn count(method: &'static str, route: &'static str, status: u16, seconds: f64) {
    let key = (method, route, status);
    if let Some(series) = SERIES.get(&key) {
        series.0.increment(1);
        series.1.record(seconds);
        return;
    }
    let labels = [("method", method.to_owned()), ("route", route.to_owned()), ("status", status.to_string())];
    let counter = metrics::counter!("lookalike_http_requests_total", &labels);
    let histogram = metrics::histogram!("lookalike_http_request_seconds", &labels[..2]);
    counter.increment(1);
    histogram.record(seconds);
    SERIES.insert(key, (counter, histogram));
}

/// The answer to a request whose handler panicked.
pub(super) fn panicked(payload: Box<dyn Any + Send + 'static>) -> Response {
    let message = payload
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or("unknown");
    tracing::error!(message, "a handler panicked");
    Problem::new(
        Code::Internal,
        "the server failed while it handled the request; this is a fault of the server",
    )
    .into_response()
}
