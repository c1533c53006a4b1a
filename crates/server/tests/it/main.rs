//! The real binary, from outside: its HTTP API, its command line, its exit codes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod check;
mod http;
mod http_errors;
mod serve;
mod simulate;
mod support;
mod vectors;
