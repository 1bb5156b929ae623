//! Spans of requests, sent to a collector over OTLP: the feature `opentelemetry`.
//!
//! Spans are `tracing`'s own, at level trace, so that the log does not know them unless it is asked to. Here those of
//! this program are handed on, in batches, by a thread of their own; what the collector does not take is lost, and
//! nothing waits for it. *Absent*: metrics, which Prometheus fetches.

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::registry::LookupSpan;

use super::{TelemetryError, TracesTo};

/// Where a collector takes spans.
const PATH: &str = "/v1/traces";

/// Spans on their way; what is left goes out when it is dropped.
#[derive(Debug)]
pub(super) struct Traces(SdkTracerProvider);

impl Drop for Traces {
    fn drop(&mut self) {
        if let Err(error) = self.0.shutdown() {
            tracing::warn!(%error, "the last spans could not be sent");
        }
    }
}

/// Whether spans could be sent there, as far as that can be told without sending one.
pub(super) fn check(to: &TracesTo) -> Result<(), TelemetryError> {
    exporter(to).map(|_| ())
}

fn exporter(to: &TracesTo) -> Result<SpanExporter, TelemetryError> {
    // The exporter's client asks for one even where it speaks no TLS.
    let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
    let base = to.endpoint.trim_end_matches('/');
    let endpoint = if base.ends_with(PATH) { base.to_owned() } else { format!("{base}{PATH}") };
    let exporter =
        SpanExporter::builder().with_http().with_protocol(Protocol::HttpBinary).with_endpoint(endpoint);
    exporter.build().map_err(|error| TelemetryError::Collector {
        endpoint: to.endpoint.clone(),
        detail: error.to_string(),
    })
}

/// Begins to send spans; what hands them on. Not to be called on an async worker.
pub(super) fn start<S>(to: &TracesTo) -> Result<(Traces, impl Layer<S> + use<S>), TelemetryError>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    let exporter = exporter(to)?;
    let sampler =
        Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(f64::from(to.percent.min(100)) / 100.0)));
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_sampler(sampler)
        .with_resource(Resource::builder().with_service_name(env!("CARGO_PKG_NAME")).build())
        .build();
    let layer = tracing_opentelemetry::layer()
        .with_tracer(provider.tracer(env!("CARGO_PKG_NAME")))
        .with_location(false)
        .with_threads(false)
        .with_tracked_inactivity(false)
        .with_filter(filter_fn(is_ours));
    Ok((Traces(provider), layer))
}

/// Spans of this program, and what went wrong within them.
fn is_ours(metadata: &Metadata<'_>) -> bool {
    metadata.target().starts_with(env!("CARGO_PKG_NAME"))
        && (metadata.is_span() || *metadata.level() <= Level::WARN)
}
