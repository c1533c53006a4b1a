//! The store over two imitations of DynamoDB, and over answers that only DynamoDB itself gives.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may")]

mod behaviours;
mod exactly_k;
mod faults;
mod items;
mod lost_answers;
mod scripted;
mod signatures;
mod support;
mod throttling;
