//! The harness of the Redis tests does what it says: a fault that is not one would prove nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may")]

mod cluster;
mod proxy;
mod sentinel;
mod server;
