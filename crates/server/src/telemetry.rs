//! What a collector of OpenTelemetry is sent, over OTLP: a span for each check of a request that is traced, and the
//! figures of `/metrics`.
//!
//! Who traces is the caller: a check has a span if its request came with a `traceparent` that is sampled, and others
//! cost a look at their headers. Finished spans wait in a queue of two thousand; what does not fit is dropped, so that
//! a collector that hangs costs spans and no decision.

mod spans;

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::MeterProvider;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{MetricExporter, SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::sync::oneshot;

pub(crate) use self::spans::{Parent, record};
use crate::metrics::{self, Metrics, WithFigures};

const NAME: &str = "tidegate";
/// How long what is left may take to be sent, in the end.
const FLUSH_MAX: Duration = Duration::from_secs(2);

/// What sends, until it is closed.
#[derive(Debug)]
pub(crate) struct Telemetry {
    spans: SdkTracerProvider,
    figures: SdkMeterProvider,
}

impl Telemetry {
    /// Begins to send to a collector, whether it is there or not. Has to be called where tokio runs.
    pub(crate) fn start(
        endpoint: &str,
        metrics: &Arc<Metrics>,
        with_figures: &WithFigures,
    ) -> Result<Self, String> {
        let wrong = |error: &dyn std::fmt::Display| format!("telemetry.otlp: {error}");
        let spans = SpanExporter::builder().with_tonic().with_endpoint(endpoint).build();
        let spans = spans.map_err(|error| wrong(&error))?;
        let figures = MetricExporter::builder().with_tonic().with_endpoint(endpoint).build();
        let figures = figures.map_err(|error| wrong(&error))?;
        let spans =
            SdkTracerProvider::builder().with_batch_exporter(spans).with_resource(resource());
        let figures =
            SdkMeterProvider::builder().with_periodic_exporter(figures).with_resource(resource());
        let (spans, figures) = (spans.build(), figures.build());
        metrics::otlp::observe(&figures.meter(NAME), metrics, with_figures);
        spans::send_to(spans.tracer(NAME));
        Ok(Self { spans, figures })
    }

    /// Sends what is left, for a while at most.
    pub(crate) async fn close(self) {
        let (done, is_done) = oneshot::channel();
        // A thread that nobody waits for: one that the runtime has started would hold up the end of the process.
        let flush = move || {
            let Self { spans, figures } = self;
            let _ =
                (spans.shutdown_with_timeout(FLUSH_MAX), figures.shutdown_with_timeout(FLUSH_MAX));
            let _ = done.send(());
        };
        if std::thread::Builder::new().spawn(flush).is_ok()
            && tokio::time::timeout(FLUSH_MAX, is_done).await.is_err()
        {
            tracing::warn!("the collector did not take the last spans and figures in time");
        }
    }
}

/// Who sends. What the standard variables say comes first.
fn resource() -> Resource {
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let resource = Resource::builder().with_attribute(version);
    let says = |variable, part| {
        std::env::var(variable).is_ok_and(|it| !it.is_empty() && it.contains(part))
    };
    let is_named =
        says("OTEL_SERVICE_NAME", "") || says("OTEL_RESOURCE_ATTRIBUTES", "service.name=");
    if is_named { resource.build() } else { resource.with_service_name(NAME).build() }
}
