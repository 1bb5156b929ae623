//! A span around each request, for who exports traces: the feature `opentelemetry`. Without it there is nothing here.
//!
//! Names and fields are those of OpenTelemetry's conventions for HTTP servers. A caller's `traceparent` is taken over.

#[cfg(feature = "opentelemetry")]
pub(super) use exported::RequestSpan;
#[cfg(not(feature = "opentelemetry"))]
pub(super) use nothing::RequestSpan;

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
        /// The span of this request, which begins now.
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

        /// What is done within it at once.
        pub(in crate::http) fn within<T>(&self, done: impl FnOnce() -> T) -> T {
            self.0.in_scope(done)
        }

        /// What is done within it.
        pub(in crate::http) fn around<F: Future>(&self, done: F) -> impl Future<Output = F::Output> + use<F> {
            done.instrument(self.0.clone())
        }

        /// How it ended.
        pub(in crate::http) fn answered(&self, status: u16) {
            self.0.record("http.response.status_code", status);
            if status >= 500 {
                self.0.record("otel.status_code", "ERROR");
            }
        }
    }
}

#[cfg(not(feature = "opentelemetry"))]
mod nothing {
    use axum::extract::Request;
    use axum::http::HeaderValue;

    /// Nothing, in the place of the span of a request.
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

        #[allow(clippy::unused_self, reason = "as where there is a span")]
        pub(in crate::http) fn within<T>(&self, done: impl FnOnce() -> T) -> T {
            done()
        }

        #[allow(clippy::unused_self, reason = "as where there is a span")]
        pub(in crate::http) fn around<F: Future>(&self, done: F) -> F {
            done
        }

        #[allow(clippy::unused_self, reason = "as where there is a span")]
        pub(in crate::http) fn answered(&self, _: u16) {}
    }
}
