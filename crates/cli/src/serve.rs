//! `tidegate serve`.

mod source;

use std::path::PathBuf;
use std::process::ExitCode;

use tidegate_config::Address;
use tidegate_config::proxy::Target;
use tidegate_server::Source;
use tidegate_tools::{Failure, OK};

use crate::envoy::EnvoyArgs;

const EXAMPLES: &str = "\
Examples:
  tidegate serve -c tidegate.yaml         with a configuration; `tidegate config example` shows one
  tidegate serve                          ./tidegate.yaml, else a demo on http://127.0.0.1:8080
  tidegate serve --listen 127.0.0.1:0     on any free port; the URL is printed
  tidegate serve --listen '[::1]:8080'    on IPv6
  tidegate serve --grpc 127.0.0.1:8081 --envoy-config /etc/ratelimit   for Envoy
  tidegate serve --store redis://127.0.0.1:6379   limits shared by every process on that Redis

Then: curl -s http://127.0.0.1:8080/v1/check -d '{\"policy\":\"api\",\"key\":\"user-42\"}'
The file is reloaded when it changes and on SIGHUP; an invalid one is rejected, and the old one stays in force.
Ctrl-C or SIGTERM: /readyz answers 503, requests in flight are finished, then it exits with 0;
after SIGTERM new connections are served for another second (`drain`), so that load balancers notice.";

/// Serve a configuration, or a few demo policies (the default command).
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ServeArgs {
    /// The configuration file; default: ./tidegate.yaml if it exists, else a demo in memory
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The address of the HTTP API, overrides the configuration: an address, or `unix:/run/tidegate.sock`; port 0 takes
    /// any free one
    #[arg(long, value_name = "ADDR", value_parser = str::parse::<Address>)]
    listen: Option<Address>,
    /// The address of the Redis protocol, overrides the configuration: CL.THROTTLE and TG.CHECK
    #[arg(long, value_name = "ADDR", value_parser = str::parse::<Address>)]
    resp: Option<Address>,
    /// The file with the password of the Redis protocol on its first line
    #[arg(long, value_name = "FILE")]
    resp_password_file: Option<PathBuf>,
    /// The store, overrides `store.url` of the configuration: memory: is this process,
    /// <redis://127.0.0.1:6379> a Redis that a fleet shares
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    #[command(flatten)]
    envoy: EnvoyArgs,
    /// Listen on an address that other machines can reach, without TLS or without authentication
    #[arg(long)]
    insecure_bind: bool,
    /// Open only the doors of these arguments: for the server that `tidegate bench` measures
    #[arg(long, hide = true, requires = "listen")]
    only_typed_doors: bool,
    #[command(flatten)]
    measured: MeasuredArgs,
}

/// What `tidegate bench` measures besides doors.
#[derive(Clone, Debug, clap::Args)]
struct MeasuredArgs {
    /// The address of the proxy, instead of the configuration's
    #[arg(long, hide = true, requires_all = ["only_typed_doors", "upstream"])]
    proxy: Option<Address>,
    /// The upstream of the proxy
    #[arg(long, hide = true, requires = "proxy")]
    upstream: Option<Target>,
    /// The policy of all requests, instead of the routes of the configuration
    #[arg(long, hide = true, requires_all = ["only_typed_doors", "route_key"])]
    route_policy: Option<String>,
    /// What it counts by
    #[arg(long, hide = true, requires = "route_policy")]
    route_key: Option<String>,
    /// What a request costs
    #[arg(long, hide = true, requires = "route_policy", default_value_t = 1)]
    route_cost: u64,
}

/// Serves until it is stopped.
pub(crate) fn run(args: &ServeArgs) -> Result<ExitCode, Failure> {
    serve(source::from_args(args), args.insecure_bind)
}

/// Serves the configuration of a source until it is stopped.
pub(crate) fn serve(source: Source, insecure_bind: bool) -> Result<ExitCode, Failure> {
    let served = tidegate_server::serve(source, insecure_bind, crate::STORES);
    served.map(|()| ExitCode::from(OK)).map_err(|error| Failure::new(error.to_string()))
}
