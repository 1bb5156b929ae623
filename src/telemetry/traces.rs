//! Spans of requests, sent to a collector over OTLP.
//!
//! The spans are those of `tracing`, at level trace, so that the log omits them by default. A separate
//! thread sends the spans of this program in batches. Spans that the collector does not accept are lost,
//! and nothing waits for it. *Absent*: metrics, which Prometheus scrapes.

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::registry::LookupSpan;

use super::{TelemetryError, TracesTo};

/// The path of a collector for spans.
const PATH: &str = "/v1/traces";

/// The export of spans. When it is dropped, the remaining spans are sent.
#[derive(Debug)]
pub(super) struct Traces(SdkTracerProvider);

impl Drop for Traces {
    fn drop(&mut self) {
        if let Err(error) = self.0.shutdown() {
            tracing::warn!(%error, "the last spans could not be sent");
        }
    }
}

/// Checks whether spans can be sent there, as far as that is possible without sending one.
pub(super) fn check(to: &TracesTo) -> Result<(), TelemetryError> {
    exporter(to).map(|_| ())
}

fn exporter(to: &TracesTo) -> Result<SpanExporter, TelemetryError> {
    // The client of the exporter needs a provider even for URLs without TLS.
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

/// Starts the export of spans, and returns the layer that feeds it. It must not be called on an async
/// worker.
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

/// Selects the spans of this program, and the warnings and errors within them.
fn is_ours(metadata: &Metadata<'_>) -> bool {
    metadata.target().starts_with(env!("CARGO_PKG_NAME"))
        && (metadata.is_span() || *metadata.level() <= Level::WARN)
}
