//! The real binary, from outside: its HTTP API, its command line, its exit codes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod check;
mod completions;
mod config;
mod cost;
mod docs;
mod doctor;
mod drain;
mod fleet;
mod forward_auth;
mod http;
mod http2;
mod http_errors;
mod http_express;
mod http_hold;
mod limits;
mod logs;
mod metrics;
mod openapi;
mod overload;
#[path = "../../../tidegate/tests/it/processes.rs"]
mod processes;
mod programs;
mod prometheus;
mod proxies;
mod ready;
mod reload;
mod replay;
mod resp;
mod resp_clients;
mod resp_docs;
mod resp_errors;
mod resp_redis;
mod resp_support;
mod rls;
mod rls_envoy;
mod rls_grpc;
mod serve;
mod serve_redis;
mod simulate;
mod simulations;
mod support;
mod systemd;
mod vectors;
mod vectors_redis;
