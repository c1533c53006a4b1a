//! The library's tests: one binary, one room per kind of claim.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may")]

#[cfg(feature = "adaptive")]
mod adaptive;
#[cfg(feature = "adaptive")]
mod adaptive_sharing;
mod behaviours;
#[cfg(feature = "breaker")]
mod breaker;
mod costs;
mod deny_cache;
mod deny_cache_work;
mod effective;
mod enforce;
mod engine;
mod exactly_k;
mod examples;
mod front_page;
mod hashed_keys;
mod keys;
#[cfg(feature = "leases")]
mod leases;
mod limit_overrides;
mod limiter;
mod memory;
mod multi_charge;
mod renewal;
mod run_time_overrides;
mod shadow;
mod shares;
mod snapshot;
mod snapshot_file;
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
