//! OpenTelemetry export over OTLP: a span for each check of a traced request, and the metrics of `/metrics`.
//!
//! The caller decides what is traced: a check has a span if its request has a sampled `traceparent`. Finished spans wait in
//! a queue of two thousand; further spans are dropped, so a stalled collector never delays a decision.

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
/// For the last export at shutdown.
const FLUSH_MAX: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) struct Telemetry {
    spans: SdkTracerProvider,
    figures: SdkMeterProvider,
}

impl Telemetry {
    /// Starts the export; the collector need not be up. Needs a tokio runtime.
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

    /// Sends what is left, within [`FLUSH_MAX`].
    pub(crate) async fn close(self) {
        let (done, is_done) = oneshot::channel();
        // A detached thread, because the runtime waits for its blocking tasks.
        let flush = move || {
            let Self { spans, figures } = self;
            let _ =
                (spans.shutdown_with_timeout(FLUSH_MAX), figures.shutdown_with_timeout(FLUSH_MAX));
            let _ = done.send(());
        };
        if std::thread::Builder::new().spawn(flush).is_ok()
            && tokio::time::timeout(FLUSH_MAX, is_done).await.is_err()
        {
            tracing::warn!("the collector did not accept the last spans and metrics in time");
        }
    }
}

/// The service name and version. The standard `OTEL_` variables take precedence.
fn resource() -> Resource {
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let resource = Resource::builder().with_attribute(version);
    let is_set = |variable, part| {
        std::env::var(variable).is_ok_and(|it| !it.is_empty() && it.contains(part))
    };
    let is_named =
        is_set("OTEL_SERVICE_NAME", "") || is_set("OTEL_RESOURCE_ATTRIBUTES", "service.name=");
    if is_named { resource.build() } else { resource.with_service_name(NAME).build() }
}
