//! Tests that every store of tidegate passes, and what tests need beside a store.
//!
//! - [`store_behaviours`]: the promises of [`behaviours`], [`vectors`] and [`multi_charge`] as tests of one store.
//! - [`multi_charge`]: several limits in one step.
//! - [`vectors`]: the golden vectors.
//! - [`scripted`]: a store that answers, fails or hangs as a test tells it.
//! - `fleet` (feature `adaptive`): nodes that agree on one adaptive limit.
//! - `fuzz` (feature `fuzz`): input that begins well and goes wrong, and a bound on what a parser holds because of it.
//! - `processes` (feature `processes`): real Redis servers, clusters and sentinels on loopback, and a proxy that faults
//!   connections.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    clippy::cast_possible_truncation,
    reason = "all of this runs in tests"
)]
#![warn(missing_docs)]
#![forbid(unsafe_code)]

pub mod behaviours;
#[cfg(feature = "adaptive")]
pub mod fleet;
#[cfg(feature = "fuzz")]
pub mod fuzz;
pub mod multi_charge;
#[cfg(feature = "processes")]
pub mod processes;
pub mod scripted;
pub mod vectors;
