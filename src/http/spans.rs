//! A span for each request, with the feature `opentelemetry`; without it, all functions do nothing.
//!
//! Names and fields follow OpenTelemetry's conventions for HTTP servers; the parent is the `traceparent`.

#[cfg(not(feature = "opentelemetry"))]
pub(super) use disabled::RequestSpan;
#[cfg(feature = "opentelemetry")]
pub(super) use exported::RequestSpan;

#[cfg(feature = "opentelemetry")]
mod exported {
    use axum::extract::Request;
    use axum::http::{HeaderMap, HeaderValue};
    use opentelemetry::propagation::{Extractor, TextMapPropagator};
    use opentelemetry_sdk::propagation::TraceContextPropagator;
    use tracing::field::Empty;
    use tracing::{Instrument, Span};
    use tracing_opentelemetry::OpenTelemetrySpanExt;

    /// The span of a request.
    pub(in crate::http) struct RequestSpan(Span);

    struct Headers<'a>(&'a HeaderMap);

    impl Extractor for Headers<'_> {
        fn get(&self, key: &str) -> Option<&str> {
            self.0.get(key)?.to_str().ok()
        }

        fn keys(&self) -> Vec<&str> {
            self.0.keys().map(axum::http::HeaderName::as_str).collect()
        }
    }

    impl RequestSpan {
        /// Starts the span of a request.
        pub(in crate::http) fn of(
            request: &Request,
            method: &'static str,
            route: &'static str,
            id: &HeaderValue,
        ) -> RequestSpan {
            let span = tracing::trace_span!(
                "request",
                otel.name = format_args!("{method} {route}"),
                otel.kind = "server",
                otel.status_code = Empty,
                http.request.method = method,
                http.route = route,
                url.path = request.uri().path(),
                http.response.status_code = Empty,
                request_id = id.to_str().unwrap_or_default(),
            );
            if !span.is_disabled() {
                let parent = TraceContextPropagator::new().extract(&Headers(request.headers()));
                let _ = span.set_parent(parent);
            }
            RequestSpan(span)
        }

        /// Runs `work` within the span.
        pub(in crate::http) fn in_scope<T>(&self, work: impl FnOnce() -> T) -> T {
            self.0.in_scope(work)
        }

        /// Attaches the span to a future.
        pub(in crate::http) fn attach<F: Future>(&self, work: F) -> impl Future<Output = F::Output> + use<F> {
            work.instrument(self.0.clone())
        }

        /// Records the status of the answer.
        pub(in crate::http) fn record_status(&self, status: u16) {
            self.0.record("http.response.status_code", status);
            if status >= 500 {
                self.0.record("otel.status_code", "ERROR");
            }
        }
    }
}

#[cfg(not(feature = "opentelemetry"))]
mod disabled {
    use axum::extract::Request;
    use axum::http::HeaderValue;

    /// The span of a request, which does nothing here.
    pub(in crate::http) struct RequestSpan;

    impl RequestSpan {
        pub(in crate::http) fn of(
            _: &Request,
            _: &'static str,
            _: &'static str,
            _: &HeaderValue,
        ) -> RequestSpan {
            RequestSpan
        }

        #[allow(clippy::unused_self, reason = "the same signature as with a span")]
        pub(in crate::http) fn in_scope<T>(&self, work: impl FnOnce() -> T) -> T {
            work()
        }

        #[allow(clippy::unused_self, reason = "the same signature as with a span")]
        pub(in crate::http) fn attach<F: Future>(&self, work: F) -> F {
            work
        }

        #[allow(clippy::unused_self, reason = "the same signature as with a span")]
        pub(in crate::http) fn record_status(&self, _: u16) {}
    }
}
