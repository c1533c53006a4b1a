//! `tidegate serve`: what is typed, and what it stands for.

mod source;

use std::path::PathBuf;
use std::process::ExitCode;

use tidegate_config::Address;
use tidegate_server::Source;
use tidegate_tools::{Failure, OK};

use crate::envoy::EnvoyArgs;

const EXAMPLES: &str = "\
Examples:
  tidegate serve -c tidegate.yaml         what the file says; `tidegate config example` shows one
  tidegate serve                          ./tidegate.yaml, else a demo on http://127.0.0.1:8080
  tidegate serve --listen 127.0.0.1:0     on any free port; the URL is printed
  tidegate serve --listen '[::1]:8080'    on IPv6
  tidegate serve --grpc 127.0.0.1:8081 --envoy-config /etc/ratelimit   for Envoy
  tidegate serve --store redis://127.0.0.1:6379   limits shared by every process on that Redis

Then: curl -s http://127.0.0.1:8080/v1/check -d '{\"policy\":\"api\",\"key\":\"user-42\"}'
The file is read again when it changes and on SIGHUP; a bad one is refused, and the old one stays.
Ctrl-C or SIGTERM: /readyz says 503, requests in flight are finished, then it exits with 0;
after SIGTERM newcomers are served for another second (`drain`), so that balancers notice.";

/// Serve what a configuration says, or a few demo policies (the default command).
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The configuration; without one ./tidegate.yaml if there is one, else a demo in memory
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where the HTTP API listens, instead of what the configuration says: an address, or
    /// `unix:/run/tidegate.sock`; port 0 takes any free one
    #[arg(long, value_name = "ADDR", value_parser = str::parse::<Address>)]
    listen: Option<Address>,
    /// Where the Redis protocol is spoken, instead of what the configuration says: CL.THROTTLE and TG.CHECK
    #[arg(long, value_name = "ADDR", value_parser = str::parse::<Address>)]
    resp: Option<Address>,
    /// Clients of the Redis protocol have to know the password on the first line of this file
    #[arg(long, value_name = "FILE")]
    resp_password_file: Option<PathBuf>,
    /// Where to count, instead of the `store.url` of the configuration: memory: is this process,
    /// <redis://127.0.0.1:6379> a Redis that a fleet shares
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    #[command(flatten)]
    envoy: EnvoyArgs,
    /// Listen on an address that others can reach, without TLS or without authentication
    #[arg(long)]
    insecure_bind: bool,
    /// Open no door but those that are typed, whatever the configuration says: for the server that is measured by
    /// `tidegate bench`
    #[arg(long, hide = true, requires = "listen")]
    only_typed_doors: bool,
}

/// Serves until told to stop.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    serve(source::from_args(args), args.insecure_bind)
}

/// Serves what a source says, until told to stop.
pub(crate) fn serve(source: Source, insecure_bind: bool) -> Result<ExitCode, Failure> {
    let served = tidegate_server::serve(source, insecure_bind, crate::STORES);
    served.map(|()| ExitCode::from(OK)).map_err(|error| Failure::new(error.to_string()))
}
