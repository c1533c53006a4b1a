//! The server: doors for five protocols, and one service behind them.
//!
//! Each module imports only from modules above it; a test checks the order.
//!
//! - [`net`]: listeners, connections, TLS, PROXY protocol, timeouts, what each client and all together may hold, write
//!   coalescing.
//! - [`metrics`]: counters, histograms, the metric catalogue, refused keys, rendering for Prometheus.
//! - `telemetry`: OpenTelemetry export, behind the feature `otlp`.
//! - [`logs`]: log lines and their rate limits.
//! - [`stats`]: latencies of targets and URLs.
//! - [`adaptive`]: limits that follow the load, and the signals they follow.
//! - [`upstreams`]: the proxy's connections, pools, health checks, balancing.
//! - [`service`]: `CheckService`, the one way from a question to an answer; the configuration in force.
//! - [`dashboard`]: the sampler, the event feed, the files of the page.
//! - [`doors`]: one folder per protocol. A door decodes, asks the service and encodes; wire types stay inside it.
//! - [`run`]: start, reload, shutdown, systemd.
#![forbid(unsafe_code)]

mod net;

mod metrics;

#[cfg(feature = "otlp")]
mod telemetry;

pub mod logs;

mod stats;

mod adaptive;

mod upstreams;

mod service;

mod dashboard;

mod doors;

mod run;

pub use self::run::{NamedFiles, ServeError, Source, serve};
