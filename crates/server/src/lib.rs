//! The doors of tidegate, and the service behind them.
//!
//! - [`doors`] are what the outside speaks to. A door decodes, asks the service and encodes; wire types stay inside it.
//! - [`service`] is the one way from a question to an answer; [`app`] is what all doors share.
//! - [`listen`] binds addresses; [`server`] accepts connections, with every bound that keeps a hostile client from hurting others.
//! - [`gather`] makes one write of many.
//! - [`threshold`] is what a connection passes before its door: the PROXY protocol, and [`tls`].
//! - [`adaptive`] lets limits follow the load of what they protect.
//! - [`observed`] keeps what callers say about the services behind them.
//! - [`patience`] waits with an end.
//! - [`urls`] keeps what the proxy has seen of every URL.
//! - [`metrics`] counts what the doors did, for Prometheus.
//! - [`reload`] puts another configuration in force while the doors are open.
//! - [`dashboard`] is the page at `/`, and what it lives on.
//! - [`systemd`] takes sockets over, and says how the service does.
//! - `telemetry` sends spans and figures to a collector, where the feature `otlp` is on.
//! - [`run`] opens the doors, and closes them.
#![forbid(unsafe_code)]
#![allow(
    rustdoc::private_intra_doc_links,
    reason = "the table of contents is for those who read the code"
)]

mod adaptive;
mod dashboard;
mod doors;
pub mod logs;
mod metrics;
mod net;
mod run;
mod service;
mod stats;
#[cfg(feature = "otlp")]
mod telemetry;
mod upstreams;

pub use self::run::{ServeError, Source, serve};
