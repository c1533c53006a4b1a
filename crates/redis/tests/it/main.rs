//! The store in Redis against real servers, clusters and sentinels.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may")]

mod adaptive;
mod axum_replicas;
mod behaviours;
mod breaker;
mod client;
mod cluster;
mod differential;
mod effective;
mod engine;
mod exactly_k;
mod extremes;
mod fast_path;
mod faults;
mod keys;
mod leases;
mod nodes;
mod not_redis;
mod overrides;
mod permits;
mod replicas;
mod sentinel;
mod shares;
mod support;
mod together;
mod worst_case;
