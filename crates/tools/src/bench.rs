//! `tidegate bench`: load on a server or on the library itself, with the latency of each reply.
//!
//! - `config` is the checked command line; `keys` has the keys, `target` the address of a server, `tls` whom to trust.
//! - `local_server` is started where no server is named, for the proxy with its `upstream`; an `endpoint` is one of the two
//!   that are compared.
//! - `client` is one of the protocols, each in its file: `http`, `grpc`, `resp`, over a `connection`.
//! - `load` drives the clients of an endpoint, as fast as replies arrive or by a `pacer`; `stats` counts.
//! - `rounds` alternates between the endpoints, and `report` prints the figures.

mod client;
mod config;
mod connection;
mod door;
mod endpoint;
mod error;
mod grpc;
mod http;
mod keys;
mod load;
mod local_server;
mod pacer;
mod report;
mod resp;
mod rounds;
mod stats;
mod target;
mod tls;
mod upstream;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use tidegate::driver::StoreDrivers;
use tidegate_core::parse_duration;

use self::config::BenchConfig;
use self::door::Door;
use self::keys::Distribution;
use self::report::BenchReport;
use super::output::print_report;
use super::{ERROR, Failure, OK};

const EXAMPLES: &str = "\
Examples:
  tidegate bench                                    the demo over HTTP, on a server of its own
  tidegate bench --door embedded                    what a decision costs in process
  tidegate bench --door resp --pipeline 16 --limit 1000000/s
  tidegate bench -c tidegate.yaml --policy login --keys 1000000 --distribution zipf
  tidegate bench --rate 20000/s --connections 100   open loop: latency at a rate you name
  tidegate bench --server http://127.0.0.1:8080 --requests 100000
  tidegate bench --door unix --server unix:/run/tidegate/http.sock
  tidegate bench --door proxy --limit 1000000/s     what the proxy adds to asking its upstream
  tidegate bench --door proxy --server http://127.0.0.1:8000 --against http://127.0.0.1:3000
  tidegate bench --door auth --server https://localhost:8443 --ca-file ca.pem --path /login
  tidegate bench --door resp --limit 1000000/s --against redis://127.0.0.1:6379   redis-cell
  tidegate bench --door grpc --server 127.0.0.1:8081 --against 127.0.0.1:18081 \\
      --domain edge --descriptor remote_address={}   envoyproxy/ratelimit

Without --server a server is started for the run, on free loopback ports instead of those of its
file, and the report has its CPU time.
Requests spend: a run against a server in use uses up the limits of its policy.
Through the proxy and forward-auth the routes of the server choose the policy, and the key is in a
header: a server that is started has one route, to --policy, which counts by that header.
With --against both servers are measured in turns, and the report has the ratio with its spread.
Ctrl-C ends the run, and prints what was measured so far. How to read the figures: docs/bench.md.

Exit codes: 0 ok, 1 error or a request failed, 64 usage.";

/// Put load on a server or on the library itself, and measure how long answers take.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct BenchArgs {
    /// What to speak; embedded is no server at all, but the library in this process
    #[arg(long, value_enum, default_value_t = Door::Http)]
    door: Door,
    /// The server to ask: `http://127.0.0.1:8080`, `redis://:PASSWORD@127.0.0.1:6380`, `127.0.0.1:8081` or
    /// `unix:/run/tidegate/http.sock`, with TLS `https://…` or `rediss://…`; without one a server is started
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// Another server that speaks the same protocol, to measure in turns with the first: redis-cell, throttlecrab,
    /// envoyproxy/ratelimit, another tidegate
    #[arg(long, value_name = "URL")]
    against: Option<String>,
    /// The configuration of the server that is started; without one ./tidegate.yaml if there is one, else a demo
    #[arg(short, long, value_name = "FILE", conflicts_with = "server")]
    config: Option<PathBuf>,
    /// The authority that signed the certificates of servers with TLS, in PEM; default: those of the system
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// The policy to ask for; auth: `/v1/auth/NAME` instead of the server's routes [default: api]
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,
    /// A limit to ask for instead of a policy: the server that is started gets it, and over resp it goes along as
    /// CL.THROTTLE
    #[arg(long, value_name = "LIMIT", conflicts_with_all = ["config", "policy"])]
    limit: Option<String>,
    /// What a request spends
    #[arg(long, value_name = "N", default_value_t = 1)]
    cost: u32,
    /// The keys; {} is the number of the key
    #[arg(long, value_name = "TEMPLATE", default_value = "user-{}")]
    key: String,
    /// proxy, auth: the header that the key is sent in [default: x-user]
    #[arg(long, value_name = "NAME")]
    key_header: Option<String>,
    /// proxy, auth: the path of the requests [default: /]
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
    /// How many different keys
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    keys: u32,
    /// How often each key is used
    #[arg(long, value_enum, default_value_t = Distribution::Uniform)]
    distribution: Distribution,
    /// How many connections are open at once; with embedded, how many tasks [default: 50; embedded: 1]
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=4096))]
    connections: Option<u32>,
    /// resp: commands in one write; grpc: concurrent calls on each connection
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1024))]
    pipeline: u32,
    /// How long to measure each server, up to 1h
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = read_span)]
    duration: Duration,
    /// Stop after N requests to each server, if the time is not over before
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,
    /// How long to send requests before measuring; 0s for no warm-up
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = read_span)]
    warm_up: Duration,
    /// Open loop: send N requests per second whether or not replies arrive; latency counts from when each was due
    #[arg(long, value_name = "N/s", value_parser = read_rate)]
    rate: Option<u32>,
    /// With --against, or a proxy beside its upstream: how many rounds, each with both servers
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// grpc: the domain of the descriptor
    #[arg(long, value_name = "NAME", default_value = "tidegate")]
    domain: String,
    /// grpc: the descriptor to ask for; {} is the key [default: policy=POLICY,key={}]
    #[arg(long, value_name = "KEY=VALUE,…")]
    descriptor: Option<String>,
    /// Allow a server that is not on this machine: it is yours, and may be put under load
    #[arg(long)]
    yes_remote: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Up to an hour.
fn read_span(text: &str) -> Result<Duration, String> {
    const LONGEST: Duration = Duration::from_hours(1);
    let span = if text == "0" { Some(Duration::ZERO) } else { parse_duration(text) };
    span.filter(|span| *span <= LONGEST)
        .ok_or_else(|| "expected a duration up to 1h, like 500ms or 30s".to_owned())
}

fn read_rate(text: &str) -> Result<u32, String> {
    const MOST: u32 = 10_000_000;
    let number = text.strip_suffix("/s").unwrap_or(text).parse().ok();
    number
        .filter(|number| (1..=MOST).contains(number))
        .ok_or_else(|| format!("expected requests per second from 1/s to {MOST}/s, like 5000/s"))
}

/// Measures, and prints the report.
pub fn run(args: &BenchArgs, stores: StoreDrivers) -> Result<ExitCode, Failure> {
    let config = BenchConfig::from_args(args, stores)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(format!("cannot start: {error}")))?;
    let (measured, was_stopped) = runtime.block_on(rounds::measure(&config))?;
    let report = BenchReport::new(&config, &measured, was_stopped);
    print_report(&report, args.json, || report.text())?;
    Ok(ExitCode::from(if report.has_errors() { ERROR } else { OK }))
}
