//! The real binary, from outside: its HTTP API, its command line, its exit codes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod check;
mod config;
mod doctor;
mod http;
mod http_errors;
#[path = "../../../tidegate/tests/it/processes.rs"]
mod processes;
mod reload;
mod resp;
mod resp_clients;
mod resp_docs;
mod resp_errors;
mod resp_redis;
mod resp_support;
mod serve;
mod serve_redis;
mod simulate;
mod support;
mod vectors;
mod vectors_redis;
