//! `tidegate proxy`: a protecting reverse proxy in one line.

mod limits;
mod notes;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::str::FromStr;

use tidegate::Cidr;
use tidegate_config::Door;
use tidegate_config::proxy::{Settings, Target};
use tidegate_config::{Address, Config, Listener, Position, Problem, StoreChoice, usual_path};
use tidegate_server::Source;
use tidegate_tools::Failure;

use self::limits::Limits;
use crate::serve;

const EXAMPLES: &str = "\
Examples:
  tidegate proxy --upstream http://127.0.0.1:3000 --limit 240/min
  tidegate proxy --upstream http://127.0.0.1:3000 --limit '10/s burst 50' --listen 0.0.0.0:80
  tidegate proxy --upstream unix:/run/app.sock --limit 240/min --store redis://127.0.0.1:6379
  tidegate proxy --upstream http://127.0.0.1:3000 --upstream http://127.0.0.1:3001   both in turn
  tidegate proxy --upstream http://127.0.0.1:3000 --limit 240/min --adaptive   and slow URLs less
  tidegate proxy --upstream http://127.0.0.1:3000 --adaptive --adaptive-max none   only slow URLs
  tidegate proxy --upstream http://127.0.0.1:3000 --adaptive --adaptive-max 600/min   all URLs
  tidegate proxy --upstream http://127.0.0.1:3000 --limit 240/min --trusted-proxies 10.0.0.0/8

Then: curl -i http://127.0.0.1:8000/
--limit counts pages and API calls. Assets, which are GETs of .css, .js, images, fonts and media
outside of /api, have a budget of their own, so that a page that is admitted is not left without them.
Limits by path or user, TLS, health checks and more need a configuration file:
`tidegate config example` shows one. ./tidegate.yaml is not read: `tidegate serve` does.
Ctrl-C or SIGTERM: requests in flight are finished, then it exits with 0;
after SIGTERM new connections are served for another second, so that load balancers notice.";

/// A protecting reverse proxy: forwards requests to a site, with a limit per client.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ProxyArgs {
    /// The upstream: `http://127.0.0.1:3000`, `https://app.internal` or `unix:/run/app.sock`; several share the load
    #[arg(long, value_name = "URL", required = true, value_parser = str::parse::<Target>)]
    upstream: Vec<Target>,
    /// The limit of each client address, like `240/min` or `10/s burst 50`, for all but assets; default: none
    #[arg(long, value_name = "LIMIT")]
    limit: Option<String>,
    /// The limit of each client address for assets, or `none`; default: ten times --limit
    #[arg(long, value_name = "LIMIT|none", requires = "limit", value_parser = OrNone::from_str)]
    asset_limit: Option<OrNone>,
    /// Limit each URL by its own response time, for all clients together, from --adaptive-max down to 4 per minute; with
    /// --limit, both must admit
    #[arg(long)]
    adaptive: bool,
    /// The most requests for one URL of all clients together while its responses are fast, like `600/min`. `none`: no cap
    /// up to 300 ms; above, from the URL's busiest fast minute down, at least from 240. Default: `none` with --limit, else
    /// 240/min, which one client can use up
    #[arg(long, value_name = "RATE|none", value_parser = OrNone::from_str)]
    adaptive_max: Option<OrNone>,
    /// The proxies in front whose headers name the client, like `10.0.0.0/8`; default: none
    #[arg(long, value_name = "NETWORK,…", value_delimiter = ',', value_parser = str::parse::<Cidr>)]
    trusted_proxies: Vec<Cidr>,
    /// The address to listen on, or `unix:/run/proxy.sock`; port 0 takes any free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8000", value_parser = str::parse::<Address>)]
    listen: Address,
    /// The address of /metrics and the rest of the API; default: none
    #[arg(long, value_name = "ADDR", value_parser = str::parse::<Address>)]
    http: Option<Address>,
    /// The store: memory: is this process, <redis://127.0.0.1:6379> a Redis that a fleet shares
    #[arg(long, value_name = "URL", default_value = "memory:")]
    store: String,
    /// Open --http on an address that other machines can reach, without TLS and without an admin token
    #[arg(long, requires = "http")]
    insecure_bind: bool,
}

/// A limit, or `none`.
#[derive(Clone, PartialEq, Eq, Debug)]
enum OrNone {
    Limit(String),
    None,
}

impl FromStr for OrNone {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(if text == "none" { Self::None } else { Self::Limit(text.to_owned()) })
    }
}

/// Forwards requests until it is stopped.
pub(crate) fn run(args: &ProxyArgs) -> Result<ExitCode, Failure> {
    let limits = limits::from_args(args).map_err(Failure::usage)?;
    let notes = limits.notes.clone();
    let config = config(args, limits).map_err(Failure::usage)?;
    let origin = "the command line".to_owned();
    let read = Box::new(move || Ok(config.clone()));
    serve::serve(Source { files: Vec::new(), origin, notes, read }, args.insecure_bind)
}

/// The configuration that the arguments describe.
fn config(args: &ProxyArgs, limits: Limits) -> Result<Config, String> {
    let mut listen = BTreeMap::from([(Door::Proxy, Listener::on(args.listen.clone()))]);
    listen.extend(args.http.clone().map(|address| (Door::Http, Listener::on(address))));
    let mut config = Config {
        store: StoreChoice::by_url(args.store.clone()),
        listen,
        policies: limits.policies,
        plans: limits.plans,
        proxy: Some(Settings::for_upstreams(args.upstream.clone())),
        ..Config::default()
    };
    config.doors.routes = limits.routes;
    config.doors.policy_keys = limits.keys;
    config.doors.trust(&args.trusted_proxies)?;
    let unread = usual_path().map(|path| notes::unread(&path));
    let warnings = limits.warnings.into_iter().chain(unread);
    config.warnings.extend(warnings.map(|warning| Problem::new(Position::START, warning)));
    Ok(config)
}

#[cfg(test)]
mod tests;
