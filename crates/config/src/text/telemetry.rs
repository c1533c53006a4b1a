//! Telemetry for a collector.

use serde::Deserialize;

/// Telemetry for an OpenTelemetry collector.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Telemetry {
    /// The `http://` URL of the collector, for spans and metrics over OTLP/gRPC. Needs a binary built with the feature
    /// `otlp`.
    #[cfg_attr(test, schemars(example = "http://127.0.0.1:4317"))]
    pub otlp: String,
}
