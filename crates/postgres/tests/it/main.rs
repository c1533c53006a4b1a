//! The store in a real PostgreSQL.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may")]

mod behaviours;
mod contention;
mod crashes;
mod disk;
mod exactly_k;
mod failover;
mod faults;
mod load;
mod logins;
mod rows;
mod shares;
mod support;
#[cfg(feature = "tls")]
mod tls;
