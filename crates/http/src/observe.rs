//! Observes every request: its id, its span, its count and time in the metrics, its log line, and panics.
//!
//! It is one function around all handlers, not several layers on each route: `GET /similar` takes a few
//! microseconds, and each layer would add some hundred nanoseconds.

use std::any::Any;
use std::cell::Cell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use dashmap::DashMap;
use foldhash::fast::RandomState;
use futures::FutureExt;
use futures::future::{Either, ready};
use metrics::{Counter, Histogram};
use parking_lot::Mutex;
use thread_local::ThreadLocal;
use tracing::field::Empty;
use tracing::{Instrument, Span};

use super::access::RequestKey;
use super::browser::{self, AllowedOrigin};
use super::error::{Code, Problem, Reason};
use super::refused;
use super::route::{ROUTES, UNKNOWN};
use lookalike_wording::milliseconds;

pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The maximum length of a request id that is accepted from a client.
const MAX_REQUEST_ID: usize = 128;

/// The prefix of the request ids of this process, which differs from that of every other process.
static PROCESS: LazyLock<String> =
    LazyLock::new(|| format!("{:016x}-", uuid::Uuid::new_v4().as_u64_pair().0));
static REQUESTS: AtomicU64 = AtomicU64::new(0);
/// The number of request numbers that a thread takes at a time. [`NUMBERS`] has those that it has not used.
const NUMBERS_AT_A_TIME: u64 = 256;
thread_local!(static NUMBERS: Cell<Range<u64>> = const { Cell::new(0..0) });

/// The requests that each thread has counted and not flushed to the metrics. With one list for all threads,
/// the processors would contend for the same cache lines at each request.
static COUNTED: LazyLock<ThreadLocal<Mutex<Vec<Counted>>>> = LazyLock::new(ThreadLocal::default);

/// The times of the requests of one series that a thread has counted.
struct Counted {
    series: Series,
    seconds: Vec<f64>,
}

/// The maximum number of requests of a series that a thread counts before it flushes them.
const MAX_COUNTED: usize = 256;

/// The metrics of each series. A lookup here is cheaper than building their labels again.
static SERIES: LazyLock<DashMap<Series, (Counter, Histogram), RandomState>> = LazyLock::new(DashMap::default);

/// Method, route and status.
type Series = (&'static str, &'static str, u16);

/// The statuses that alerts wait for. Prometheus takes a counter that begins at 1 for one that has not grown,
/// so that an alert would miss the first of them.
const ALERTING: [u16; 2] = [500, 507];

/// Makes the counters of the statuses that alerts wait for, of every operation.
pub(super) fn begin_counts() {
    let operations = ROUTES
        .rules
        .values()
        .flat_map(|rule| rule.methods().map(|method| (known_method(method.as_str()), rule.label)));
    for (method, route) in operations.chain([("other", UNKNOWN.label)]) {
        for status in ALERTING {
            counter((method, route, status)).increment(0);
        }
    }
}

/// Answers a request if the gate admits it, and records it under its route. `handle` is called at most once.
pub(super) fn answer<F>(
    route: &'static str,
    gate: &dyn Fn(&mut Request) -> Result<(), Problem>,
    handle: &mut dyn FnMut(Request) -> F,
    mut request: Request,
) -> impl Future<Output = Response> + use<F>
where
    F: Future<Output = Response> + Send + 'static,
{
    let start = Instant::now();
    let id = request_id(&request);
    let method = known_method(request.method().as_str());
    let span = span_of(&request, method, route, &id);
    let passed = gate(&mut request);
    let allowed = request.extensions().get::<AllowedOrigin>().cloned();
    let bucket = request.extensions().get::<RequestKey>().and_then(|RequestKey(held)| held.bucket.clone());
    // A panic affects only its own request: state that it leaves inconsistent belongs to that handler alone.
    let answer = match passed {
        Ok(()) => match span.in_scope(|| catch_unwind(AssertUnwindSafe(|| handle(request)))) {
            Ok(answer) => Either::Left(answer),
            Err(payload) => Either::Right(ready(panicked(payload.as_ref()))),
        },
        Err(problem) => Either::Right(ready(problem.into_response())),
    };
    // Not an async block, which would contain the future of the answer twice and move it.
    AssertUnwindSafe(answer).catch_unwind().instrument(span.clone()).map(move |answer| {
        let mut response = answer.unwrap_or_else(|payload| panicked(payload.as_ref()));
        let status = response.status().as_u16();
        let elapsed = start.elapsed();
        // A span that is not in force would search its fields by name, too.
        if !span.is_disabled() {
            record_status(&span, status);
        }
        count(method, route, status, elapsed.as_secs_f64());
        if let Some(bucket) = bucket {
            // `access::check` has taken the first unit.
            bucket.owe(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX).saturating_sub(1));
        }
        tracing::debug!(
            method,
            route,
            status,
            elapsed_ms = milliseconds(elapsed),
            request_id = id_text(&id),
            "answered"
        );
        if let Some(reason) = response.extensions_mut().remove::<Reason>() {
            refused::log(method, route, status, &reason, &id);
        }
        let headers = response.headers_mut();
        headers.insert(REQUEST_ID, id);
        browser::finish(headers, allowed);
        response
    })
}

/// The span of a request, which exists at the level `trace`. Names and fields follow OpenTelemetry's
/// conventions for HTTP servers.
fn span_of(request: &Request, method: &'static str, route: &'static str, id: &HeaderValue) -> Span {
    let span = tracing::trace_span!(
        "request",
        otel.name = format_args!("{method} {route}"),
        otel.kind = "server",
        otel.status_code = Empty,
        http.request.method = method,
        http.route = route,
        url.path = request.uri().path(),
        http.response.status_code = Empty,
        request_id = id_text(id),
    );
    set_parent(&span, request.headers());
    span
}

fn record_status(span: &Span, status: u16) {
    span.record("http.response.status_code", status);
    if status >= 500 {
        span.record("otel.status_code", "ERROR");
    }
}

/// Makes the span in the header `traceparent` the parent.
fn set_parent(span: &Span, headers: &axum::http::HeaderMap) {
    use opentelemetry::propagation::{Extractor, TextMapPropagator};
    use opentelemetry_sdk::propagation::TraceContextPropagator;
    use tracing_opentelemetry::OpenTelemetrySpanExt;

    struct Headers<'a>(&'a axum::http::HeaderMap);

    impl Extractor for Headers<'_> {
        fn get(&self, key: &str) -> Option<&str> {
            self.0.get(key)?.to_str().ok()
        }

        fn keys(&self) -> Vec<&str> {
            self.0.keys().map(HeaderName::as_str).collect()
        }
    }

    if !span.is_disabled() {
        let _ = span.set_parent(TraceContextPropagator::new().extract(&Headers(headers)));
    }
}

/// Counts a request that could not be parsed, and so has neither method nor route.
pub(super) fn count_refused(status: u16) {
    count("other", UNKNOWN.label, status, 0.0);
}

/// The id that the client has sent, if it is valid, or a new one.
fn request_id(request: &Request) -> HeaderValue {
    if let Some(given) = request.headers().get(&REQUEST_ID)
        && given.len() <= MAX_REQUEST_ID
        && !given.is_empty()
        && given.to_str().is_ok()
    {
        return given.clone();
    }
    new_id()
}

/// An id for the log, with the same text as in the header.
pub(super) fn id_text(id: &HeaderValue) -> &str {
    id.to_str().unwrap_or_default()
}

/// A new, unique id.
pub(super) fn new_id() -> HeaderValue {
    let number = NUMBERS.with(|numbers| {
        let mut left = numbers.take();
        let number = left.next().unwrap_or_else(|| {
            let first = REQUESTS.fetch_add(NUMBERS_AT_A_TIME, Ordering::Relaxed);
            left = first + 1..first + NUMBERS_AT_A_TIME;
            first
        });
        numbers.set(left);
        number
    });
    let id = [PROCESS.as_str(), itoa::Buffer::new().format(number)].concat();
    HeaderValue::try_from(id).unwrap_or_else(|_| HeaderValue::from_static("unknown"))
}

/// The method, or `other` if no route has it: otherwise each unknown method would create a series.
fn known_method(method: &str) -> &'static str {
    match method {
        "GET" => "GET",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "HEAD" => "HEAD",
        _ => "other",
    }
}

fn count(method: &'static str, route: &'static str, status: u16, seconds: f64) {
    let mut counted = COUNTED.get_or_default().lock();
    let series = (method, route, status);
    let at = counted.iter().position(|counted| counted.series == series).unwrap_or_else(|| {
        counted.push(Counted { series, seconds: Vec::with_capacity(MAX_COUNTED) });
        counted.len() - 1
    });
    counted[at].seconds.push(seconds);
    if counted[at].seconds.len() == MAX_COUNTED {
        counted[at].flush();
    }
}

/// Flushes the counts of all threads. Call it before the metrics are read.
pub(super) fn flush_counts() {
    COUNTED.iter().for_each(|counted| counted.lock().iter_mut().for_each(Counted::flush));
}

impl Counted {
    fn flush(&mut self) {
        let handles = SERIES.entry(self.series).or_insert_with(|| {
            let (method, route, _) = self.series;
            let labels = [("method", method), ("route", route)];
            (counter(self.series), metrics::histogram!("lookalike_http_request_seconds", &labels))
        });
        handles.0.increment(self.seconds.len() as u64);
        self.seconds.drain(..).for_each(|seconds| handles.1.record(seconds));
    }
}

/// The counter of a series.
fn counter((method, route, status): Series) -> Counter {
    let labels = [("method", method.to_owned()), ("route", route.to_owned()), ("status", status.to_string())];
    metrics::counter!("lookalike_http_requests_total", &labels)
}

/// The answer to a request whose handler panicked.
fn panicked(payload: &(dyn Any + Send)) -> Response {
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

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    #[tokio::test]
    async fn a_panic_in_a_handler_is_answered_with_500_and_later_requests_succeed() {
        let mut handler = |request: Request| {
            assert!(request.uri().path() != "/panic", "on purpose");
            async move {
                assert!(request.uri().path() != "/later", "on purpose");
                Response::new(Body::empty())
            }
        };
        for (path, status) in [("/panic", 500), ("/livez", 200), ("/later", 500), ("/livez", 200)] {
            let request = Request::get(path).body(Body::empty()).unwrap();
            let response = answer("/livez", &|_| Ok(()), &mut handler, request).await;
            assert_eq!(response.status().as_u16(), status);
            assert!(response.headers().contains_key(&REQUEST_ID));
        }
    }
}
