//! The store in real Redis servers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may")]

mod behaviours;
mod faults;
mod restarts;
mod support;
#[cfg(feature = "tls")]
mod tls;
