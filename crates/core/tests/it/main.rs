//! The core's tests: one binary, one room per kind of claim.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod adaptive;
mod adaptive_loop;
mod adaptive_properties;
mod adaptive_windows;
mod bytes;
mod calendar;
mod changes;
mod combine;
mod combine_each;
mod concurrency;
mod controls;
mod effective;
mod grammar;
mod leaky_bucket;
mod lease_adversary;
mod lease_fleet;
mod lease_node;
mod lease_store;
mod places;
mod places_fleet;
mod properties_answers;
mod properties_clock;
mod properties_edges;
mod properties_gcra;
mod properties_windows;
mod refund;
mod share;
mod support;
mod vectors;
