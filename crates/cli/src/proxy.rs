//! `tidegate proxy`: a protecting reverse proxy in one line.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use tidegate::{Policy, SlidingWindow};
use tidegate_config::Door;
use tidegate_config::plan::Plan;
use tidegate_config::proxy::{Settings, Target};
use tidegate_config::{Address, Config, Listener, StoreChoice, limit_from_line};
use tidegate_core::LimitOrShaper;
use tidegate_request::{CountedBy, KeyParts};
use tidegate_request::{Match, Route};
use tidegate_server::Source;
use tidegate_tools::Failure;

use crate::serve;

const EXAMPLES: &str = "\
Examples:
  tidegate proxy --upstream http://127.0.0.1:3000 --limit 240/min
  tidegate proxy --upstream http://127.0.0.1:3000 --limit '10/s burst 50' --listen 0.0.0.0:80
  tidegate proxy --upstream unix:/run/app.sock --limit 240/min --store redis://127.0.0.1:6379
  tidegate proxy --upstream http://127.0.0.1:3000 --upstream http://127.0.0.1:3001   both in turn
  tidegate proxy --upstream http://127.0.0.1:3000 --adaptive   every URL by its own response time
  tidegate proxy --upstream http://127.0.0.1:3000 --limit 240/min --adaptive   both in one step

Then: curl -i http://127.0.0.1:8000/
Limits by path or user, TLS, health checks and more need a configuration file:
`tidegate config example` shows one.
Ctrl-C or SIGTERM: requests in flight are finished, then it exits with 0.";

/// The name of the policy in headers and metrics.
const POLICY: &str = "limit";

/// The requests per minute and URL while its responses are fast.
const URL_UNITS: u64 = 240;

/// A protecting reverse proxy: forwards requests to a site, with a limit per client.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ProxyArgs {
    /// The upstream: `http://127.0.0.1:3000`, `https://app.internal` or `unix:/run/app.sock`; several share the load
    #[arg(long, value_name = "URL", required = true, value_parser = str::parse::<Target>)]
    upstream: Vec<Target>,
    /// The limit of each client address, like `240/min` or `10/s burst 50`; default: none
    #[arg(long, value_name = "LIMIT")]
    limit: Option<String>,
    /// Limit each URL by its own response time, from 240 per minute to 4; with --limit, both must admit
    #[arg(long)]
    adaptive: bool,
    /// The address to listen on, or `unix:/run/proxy.sock`; port 0 takes any free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8000", value_parser = str::parse::<Address>)]
    listen: Address,
    /// The address of /metrics and the rest of the API; default: none
    #[arg(long, value_name = "ADDR", value_parser = str::parse::<Address>)]
    http: Option<Address>,
    /// The store: memory: is this process, <redis://127.0.0.1:6379> a Redis that a fleet shares
    #[arg(long, value_name = "URL", default_value = "memory:")]
    store: String,
}

/// Forwards requests until it is stopped.
pub(crate) fn run(args: &ProxyArgs) -> Result<ExitCode, Failure> {
    let config = config(args).map_err(Failure::usage)?;
    let source = Source { files: Vec::new(), read: Box::new(move || Ok(config.clone())) };
    serve::serve(source, false)
}

/// The configuration that the arguments describe.
fn config(args: &ProxyArgs) -> Result<Config, String> {
    let error = |error: String| format!("--limit: {error}");
    let limit = args.limit.as_deref().map(limit_from_line).transpose().map_err(error)?;
    let client = ("client_ip".to_owned(), KeyParts::default());
    let url = ("url".to_owned(), KeyParts::path());
    // Both limits are one atomic step: a request that one of them refuses is not charged to the other.
    let (policy, keys) = match (limit, args.adaptive) {
        (None, false) => (None, None),
        (Some(LimitOrShaper::Limit(limit)), false) => (Some(Policy::from(limit)), None),
        (Some(LimitOrShaper::Shaper(shaper)), false) => (Some(Policy::shaper(shaper)), None),
        (None, true) => (Some(Policy::all().limit_by("url", "url", url_limit()?)), Some(vec![url])),
        (Some(LimitOrShaper::Limit(limit)), true) => {
            let policy = Policy::all().limit_by("client", "client_ip", limit);
            (Some(policy.limit_by("url", "url", url_limit()?)), Some(vec![client, url]))
        }
        (Some(LimitOrShaper::Shaper(_)), true) => {
            return Err(error("a leaky bucket delays, and cannot stand beside --adaptive".into()));
        }
    };
    let every = Route::new(Match::default(), POLICY, None, 1).ok();
    let routes = every.filter(|_| policy.is_some()).into_iter().collect();
    let plan = args.adaptive.then(|| Plan::by_url(POLICY, "url", URL_UNITS));
    let keys = keys.map(|keys| (POLICY.to_owned(), CountedBy::Each(keys)));
    let mut listen = BTreeMap::from([(Door::Proxy, Listener::on(args.listen.clone()))]);
    listen.extend(args.http.clone().map(|address| (Door::Http, Listener::on(address))));
    let mut config = Config {
        store: StoreChoice::by_url(args.store.clone()),
        listen,
        policies: policy.into_iter().map(|policy| (POLICY.to_owned(), policy)).collect(),
        plans: plan.into_iter().collect(),
        proxy: Some(Settings::for_upstreams(args.upstream.clone())),
        ..Config::default()
    };
    config.doors.routes = routes;
    config.doors.policy_keys = keys.into_iter().collect();
    Ok(config)
}

/// The limit of each URL while its responses are fast.
fn url_limit() -> Result<SlidingWindow, String> {
    let buckets = SlidingWindow::DEFAULT_BUCKETS;
    SlidingWindow::new(URL_UNITS, Duration::from_mins(1), buckets).map_err(|it| it.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(limit: Option<&str>, adaptive: bool) -> ProxyArgs {
        ProxyArgs {
            upstream: vec!["http://127.0.0.1:3000".parse().unwrap()],
            limit: limit.map(str::to_owned),
            adaptive,
            listen: "127.0.0.1:0".parse().unwrap(),
            http: None,
            store: "memory:".to_owned(),
        }
    }

    #[test]
    fn arguments_become_a_configuration() {
        let config = config(&args(Some("240/min"), false)).unwrap();
        assert_eq!(config.policies.keys().collect::<Vec<_>>(), [POLICY]);
        assert_eq!(config.doors.routes.len(), 1);
        assert!(config.listen.into_keys().eq([Door::Proxy]));
    }

    #[test]
    fn adaptive_limits_each_url_by_its_response_time() {
        let config = config(&args(None, true)).unwrap();
        assert_eq!((config.plans.len(), config.doors.policy_keys.len()), (1, 1));
    }

    #[test]
    fn without_a_limit_nothing_is_refused() {
        let config = config(&args(None, false)).unwrap();
        assert!(config.policies.is_empty() && config.doors.routes.is_empty());
    }

    #[test]
    fn invalid_limits_are_explained() {
        let error = config(&args(Some("240"), false)).unwrap_err();
        assert_eq!(error, "--limit: `240` has no time unit: write 240/min");
        let both = config(&args(Some("leaky-bucket 2/s max-wait 5s"), true)).unwrap_err();
        assert!(both.starts_with("--limit: a leaky bucket delays"), "{both}");
    }
}
