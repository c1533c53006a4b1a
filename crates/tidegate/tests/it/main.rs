//! The library's tests: one binary, one room per kind of claim.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may")]

#[cfg(feature = "adaptive")]
mod adaptive;
#[cfg(feature = "adaptive")]
mod adaptive_sharing;
#[cfg(feature = "breaker")]
mod breaker;
mod deny_cache;
mod deny_cache_work;
mod effective;
mod engine;
mod exactly_k;
mod examples;
#[cfg(feature = "leases")]
mod leases;
mod limiter;
mod memory;
mod multi_charge;
mod processes;
mod processes_work;
#[cfg(all(feature = "adaptive", feature = "redis"))]
mod redis_adaptive;
#[cfg(feature = "redis")]
mod redis_breaker;
#[cfg(feature = "redis")]
mod redis_client;
#[cfg(feature = "redis")]
mod redis_cluster;
#[cfg(feature = "redis")]
mod redis_differential;
#[cfg(feature = "redis")]
mod redis_effective;
#[cfg(feature = "redis")]
mod redis_engine;
#[cfg(feature = "redis")]
mod redis_exactly_k;
#[cfg(feature = "redis")]
mod redis_faults;
#[cfg(feature = "redis")]
mod redis_keys;
#[cfg(feature = "redis")]
mod redis_leases;
#[cfg(feature = "redis")]
mod redis_nodes;
#[cfg(feature = "redis")]
mod redis_overrides;
#[cfg(feature = "redis")]
mod redis_replicas;
#[cfg(feature = "redis")]
mod redis_sentinel;
#[cfg(feature = "redis")]
mod redis_stranger;
#[cfg(feature = "redis")]
mod redis_support;
#[cfg(feature = "redis")]
mod redis_together;
#[cfg(feature = "redis")]
mod redis_vectors;
mod run_time_overrides;
mod scripted;
mod shadow;
mod snapshot;
mod store_errors;
mod successor;
mod together;
mod vectors;
#[cfg(feature = "tokio")]
mod waiting;
#[cfg(feature = "time-zones")]
mod zones;

#[cfg(feature = "tower")]
mod tower;
#[cfg(feature = "tower")]
mod tower_client_ip;
