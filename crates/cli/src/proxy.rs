//! `tidegate proxy`: a protecting reverse proxy in one line.

use std::process::ExitCode;

use tidegate::{Engine, Member, Policy};

use tidegate_config::Address;
use tidegate_config::proxy::{Settings, Target};
use tidegate_config::{Config, DoorRules, Listen, Listens, Problem, StoreChoice};
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
Everything else, such as limits by path or user, TLS and health checks, is said in a file:
`tidegate config example` shows one.
Ctrl-C or SIGTERM: requests in flight are finished, then it exits with 0.";

/// What a client may do, as it is called in headers and metrics.
const POLICY: &str = "limit";

/// A protecting reverse proxy: passes requests on to a site, so many from each client.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// What is protected: `http://127.0.0.1:3000`, `https://app.internal` or `unix:/run/app.sock`; several share the
    /// load
    #[arg(long, value_name = "URL", required = true, value_parser = str::parse::<Target>)]
    upstream: Vec<Target>,
    /// How much each client address may ask for, like `240/min` or `10/s burst 50`; without it nobody is refused
    #[arg(long, value_name = "LIMIT")]
    limit: Option<String>,
    /// Limit each URL by its own response time, from 240 a minute to 4; with --limit, both have to admit
    #[arg(long)]
    adaptive: bool,
    /// Where to listen: an address, or `unix:/run/proxy.sock`; port 0 takes any free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8000", value_parser = str::parse::<Address>)]
    listen: Address,
    /// Where /metrics and the rest of the API are answered; nowhere unless given
    #[arg(long, value_name = "ADDR", value_parser = str::parse::<Address>)]
    http: Option<Address>,
    /// Where to count: memory: is this process, <redis://127.0.0.1:6379> a Redis that a fleet shares
    #[arg(long, value_name = "URL", default_value = "memory:")]
    store: String,
}

/// Passes requests on until told to stop.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let config = config(args).map_err(Failure::usage)?;
    let source = Source { files: Vec::new(), read: Box::new(move || Ok(config.clone())) };
    serve::serve(source, false)
}

/// What was typed, as a file would say it.
fn config(args: &Args) -> Result<Config, String> {
    let written = match (&args.limit, args.adaptive) {
        (Some(limit), false) => written(limit)?,
        (None, true) => by_url()?,
        (None, false) => Config::default(),
        (Some(limit), true) => both(&written(limit)?, by_url()?)?,
    };
    let Config { policies, plans, doors, .. } = written;
    let every = Route::new(Match::default(), POLICY, None, 1).ok();
    let routes = every.filter(|_| !policies.is_empty()).into_iter().collect();
    Ok(Config {
        store: StoreChoice::by_url(args.store.clone()),
        listen: Listens {
            http: args.http.clone().map(Listen::on),
            proxy: Some(Listen::on(args.listen.clone())),
            grpc: None,
            resp: None,
        },
        policies,
        plans,
        doors: DoorRules { routes, ..doors },
        proxy: Some(Settings::of(args.upstream.clone())),
        ..Config::default()
    })
}

/// As a file has it in one line.
fn written(limit: &str) -> Result<Config, String> {
    let quoted = serde_json::to_string(limit).unwrap_or_default();
    let written =
        Config::parse(&format!("policies: {{ {POLICY}: {quoted} }}"), &|_| None, crate::STORES);
    // Where it stands in a file that nobody has written says nothing.
    let told = |problem: Problem| match problem.message.split_once(": ") {
        Some((place, what)) if place.starts_with("policies") => format!("--limit: {what}"),
        _ => format!("--limit: {}", problem.message),
    };
    written.map_err(|found| found.into_iter().next().map(told).unwrap_or_default())
}

/// Every URL by its own response time: from 240 to 4 a minute.
fn by_url() -> Result<Config, String> {
    let url = "name: url, key: url, algorithm: sliding-window, limit: 240/min, adaptive: { source: latency }";
    let policy = format!("{{ all: [{{ {url} }}] }}");
    let written =
        Config::parse(&format!("policies: {{ {POLICY}: {policy} }}"), &|_| None, crate::STORES);
    written.map_err(|found| found.into_iter().map(|problem| problem.message).collect())
}

/// A client's limit and that of the URL, in one step: who is refused by one is not charged by the other.
fn both(client: &Config, mut url: Config) -> Result<Config, String> {
    let limits = |config: &Config| -> Result<Vec<Member>, String> {
        let policy = config.policies.get(POLICY).cloned().unwrap_or_else(Policy::all);
        let engine = Engine::builder().policy(POLICY, policy).build();
        let engine = engine.map_err(|error| error.to_string())?;
        Ok(engine.policies().flat_map(|policy| policy.members()).cloned().collect())
    };
    let of_client = limits(client)?;
    if of_client.is_empty() {
        return Err("--limit: a leaky bucket delays, and cannot stand beside --adaptive".to_owned());
    }
    let add = |policy: Policy, member: Member| policy.limit_by("client", "client_ip", member.limit);
    let policy = of_client.into_iter().fold(Policy::all(), add);
    let add = |policy: Policy, member: Member| policy.limit_by("url", "url", member.limit);
    let policy = limits(&url)?.into_iter().fold(policy, add);
    url.policies.insert(POLICY.to_owned(), policy);
    let each = [("client_ip", KeyParts::default()), ("url", KeyParts::path())];
    let each = each.map(|(name, parts)| (name.to_owned(), parts));
    url.doors.policy_keys.insert(POLICY.to_owned(), CountedBy::Each(each.into()));
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(limit: Option<&str>, adaptive: bool) -> Args {
        Args {
            upstream: vec!["http://127.0.0.1:3000".parse().unwrap()],
            limit: limit.map(str::to_owned),
            adaptive,
            listen: "127.0.0.1:0".parse().unwrap(),
            http: None,
            store: "memory:".to_owned(),
        }
    }

    #[test]
    fn what_was_typed_is_a_configuration() {
        let config = config(&args(Some("240/min"), false)).unwrap();
        assert_eq!(config.policies.keys().collect::<Vec<_>>(), [POLICY]);
        assert_eq!(config.doors.routes.len(), 1);
        assert!(config.listen.http.is_none() && config.listen.proxy.is_some());
    }

    #[test]
    fn every_url_can_follow_its_own_response_time() {
        let config = config(&args(None, true)).unwrap();
        assert_eq!((config.plans.len(), config.doors.policy_keys.len()), (1, 1));
    }

    #[test]
    fn nobody_is_refused_unless_there_is_a_limit() {
        let config = config(&args(None, false)).unwrap();
        assert!(config.policies.is_empty() && config.doors.routes.is_empty());
    }

    #[test]
    fn what_makes_no_sense_is_told() {
        let told = config(&args(Some("240"), false)).unwrap_err();
        assert_eq!(told, "--limit: `240` does not say in what time: expected a rate like 100/min");
        let both = config(&args(Some("leaky-bucket 2/s max-wait 5s"), true)).unwrap_err();
        assert!(both.starts_with("--limit: a leaky bucket delays"), "{both}");
    }
}
