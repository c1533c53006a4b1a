//! What is sent to a collector.

use serde::Deserialize;

/// What is sent to a collector of OpenTelemetry.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Telemetry {
    /// Where spans and figures go, over OTLP with gRPC: the collector's `http://` URL. Needs a binary that was built with
    /// the feature `otlp`.
    #[cfg_attr(test, schemars(example = "http://127.0.0.1:4317"))]
    pub otlp: String,
}
