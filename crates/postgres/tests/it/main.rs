//! The store in a real PostgreSQL.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may")]

mod behaviours;
mod contention;
mod exactly_k;
mod faults;
mod rows;
mod support;
