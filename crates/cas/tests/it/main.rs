//! The store over a map, with the faults that a database has.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may")]

mod behaviours;
mod contention;
mod faults;
mod map;
