//! The store in a real memcached.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may")]

mod behaviours;
mod faults;
mod servers;
mod support;
