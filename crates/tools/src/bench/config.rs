//! The checked options of a run, and the request that it repeats.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::HeaderName;
use tidegate::Limit;
use tidegate::driver::StoreDrivers;

use super::BenchArgs;
use super::door::Door;
use super::keys::{Distribution, Keys};
use super::local_server::{POLICY, PolicySource};
use super::target::ServerUrl;
use super::tls::Tls;
use tidegate_config::usual_path;

use crate::Failure;
use crate::output::value_name;
use tidegate_core::text::printable;

/// The most requests at once, over all connections.
const UNDER_WAY_MAX: u32 = 65_536;
/// The longest key.
const KEY_BYTES_MAX: usize = 256;
const CONNECTIONS: u32 = 50;
const POLICY_NAME: &str = "api";
const KEY_HEADER: &str = "x-user";
const PATH: &str = "/";

#[derive(Debug)]
pub(super) struct BenchConfig {
    pub(super) door: Door,
    pub(super) server: Option<ServerUrl>,
    pub(super) against: Option<ServerUrl>,
    /// Whom to trust, if a server has TLS.
    pub(super) tls: Option<Tls>,
    /// The stores that a configuration can name.
    pub(super) stores: StoreDrivers,
    pub(super) policies: PolicySource,
    pub(super) request: RequestTemplate,
    pub(super) keys: Arc<Keys>,
    pub(super) key_count: u32,
    pub(super) distribution: Distribution,
    pub(super) connections: u32,
    pub(super) pipeline: u32,
    /// For each endpoint, all rounds together.
    pub(super) phase: Phase,
    pub(super) warm_up: Duration,
    pub(super) rounds: u32,
    pub(super) may_be_remote: bool,
}

impl BenchConfig {
    pub(super) fn from_args(args: &BenchArgs, stores: StoreDrivers) -> Result<Self, Failure> {
        let door = args.door;
        check_options(args).map_err(Failure::usage)?;
        let server_url = |name: &str, url: &Option<String>| {
            let url = url.as_ref().map(|url| ServerUrl::read(url, door)).transpose();
            url.map_err(|why| Failure::usage(format!("--{name}: {why}")))
        };
        let embedded = door == Door::Embedded;
        let connections = args.connections.unwrap_or(if embedded { 1 } else { CONNECTIONS });
        if connections * args.pipeline > UNDER_WAY_MAX {
            return Err(Failure::usage(format!(
                "--connections times --pipeline: expected at most {UNDER_WAY_MAX} requests under way"
            )));
        }
        let (server, against) =
            (server_url("server", &args.server)?, server_url("against", &args.against)?);
        let tls = tls(args, [&server, &against]).map_err(Failure::usage)?;
        let with_upstream = door == Door::Proxy && server.is_none();
        let rounds = if against.is_some() || with_upstream { args.rounds } else { 1 };
        if args.requests.is_some_and(|requests| requests < rounds.into()) {
            return Err(Failure::usage(format!(
                "--requests: expected at least {rounds}, one for each of the --rounds"
            )));
        }
        Ok(Self {
            door,
            stores,
            server,
            against,
            tls,
            policies: match &args.limit {
                Some(limit) => PolicySource::Limit(limit.clone()),
                None => PolicySource::Config(args.config.clone().or_else(|| default_config(door))),
            },
            request: request(args).map_err(Failure::usage)?,
            keys: Keys::new(&args.key, args.keys, args.distribution).into(),
            key_count: args.keys,
            distribution: args.distribution,
            connections,
            pipeline: args.pipeline,
            phase: Phase { duration: args.duration, requests: args.requests, rate: args.rate },
            warm_up: args.warm_up,
            rounds,
            may_be_remote: args.yes_remote,
        })
    }

    /// The policy that is asked for, unless the routes of a server choose it.
    pub(super) fn policy_asked(&self) -> Option<&str> {
        let by_routes = self.door.goes_by_routes() && self.server.is_some();
        let policy = &self.request.policy;
        if by_routes { self.request.auth_policy.as_deref() } else { Some(policy) }
    }
}

/// A server finds the default file by itself; without a server we look for it.
fn default_config(door: Door) -> Option<PathBuf> {
    (door == Door::Embedded).then(usual_path).flatten()
}

/// Whether the options fit together.
fn check_options(args: &BenchArgs) -> Result<(), String> {
    let (door, name) = (args.door, value_name(&args.door));
    let embedded = door == Door::Embedded;
    if embedded && (args.server.is_some() || args.against.is_some()) {
        return Err("--door embedded has no server: leave --server and --against out".to_owned());
    }
    if embedded && args.rate.is_some() {
        return Err("--rate: a decision in process takes less than the clock can pace".to_owned());
    }
    if args.pipeline > 1 && !matches!(door, Door::Resp | Door::Grpc) {
        return Err(format!("--pipeline: --door {name} has one request at a time"));
    }
    if args.limit.is_some() && args.server.is_some() && door == Door::Grpc {
        return Err(
            "--limit cannot go along over gRPC: ask for a --policy of the server".to_owned()
        );
    }
    check_routed(args)?;
    if args.duration.is_zero() {
        return Err("--duration: expected some time, like 10s".to_owned());
    }
    let (key, keys) = (&args.key, args.keys);
    if key.is_empty() || key.len() > KEY_BYTES_MAX {
        return Err(format!("--key: expected 1 to {KEY_BYTES_MAX} bytes"));
    }
    if keys > 1 && !key.contains("{}") {
        return Err(format!(
            "--key `{}` is the same for all {keys} keys: put {{}} where the number goes, or say --keys 1",
            printable(key)
        ));
    }
    Ok(())
}

/// Whether the options fit a door whose policy, cost and key come from routes; and those of such doors a door.
fn check_routed(args: &BenchArgs) -> Result<(), String> {
    let (door, name) = (args.door, value_name(&args.door));
    let (path, header) = (args.path.as_deref(), args.key_header.as_deref());
    if !door.goes_by_routes() {
        let given = [("--path", path), ("--key-header", header)];
        let given = given.into_iter().find_map(|(option, value)| value.map(|_| option));
        return given.map_or(Ok(()), |option| {
            Err(format!("{option} belongs to --door proxy and --door auth, not to {name}"))
        });
    }
    if args.server.is_some() && args.limit.is_some() {
        return Err(format!("--limit cannot go along with --door {name}: the server has its own"));
    }
    if args.server.is_some() && args.cost != 1 {
        return Err("--cost: the routes of the server say what a request costs".to_owned());
    }
    if args.server.is_some() && args.policy.is_some() && door == Door::Proxy {
        return Err("--policy: the routes of the server choose it, by --path and more".to_owned());
    }
    let is_plain = |it: u8| it.is_ascii_graphic() && !b"/?#%".contains(&it);
    if args.policy.as_ref().is_some_and(|policy| !policy.bytes().all(is_plain)) {
        return Err(format!("--policy: --door {name} cannot ask for a name with spaces or /?#%"));
    }
    let is_path =
        |path: &str| path.starts_with('/') && path.bytes().all(|it| it.is_ascii_graphic());
    if path.is_some_and(|path| !is_path(path)) {
        return Err("--path: expected a path like /api/items?page=2, without spaces".to_owned());
    }
    if header.is_some_and(|name| name.parse::<HeaderName>().is_err()) {
        return Err("--key-header: expected the name of a header, like x-user".to_owned());
    }
    if !args.key.bytes().all(|it| it.is_ascii_graphic()) {
        return Err(format!(
            "--key: --door {name} sends it in a header: expected ASCII without spaces"
        ));
    }
    Ok(())
}

/// Whom to trust, if one of the servers has TLS.
fn tls(args: &BenchArgs, urls: [&Option<ServerUrl>; 2]) -> Result<Option<Tls>, String> {
    if urls.into_iter().flatten().any(ServerUrl::has_tls) {
        let tls = Tls::new(args.ca_file.as_deref(), args.door);
        return tls.map(Some).map_err(|why| format!("--ca-file: {why}"));
    }
    match args.ca_file {
        None => Ok(None),
        Some(_) => Err("--ca-file is for TLS: no URL begins with https:// or rediss://".to_owned()),
    }
}

fn request(args: &BenchArgs) -> Result<RequestTemplate, String> {
    let limit = match &args.limit {
        None => None,
        Some(limit) => {
            let limit: Limit =
                limit.parse().map_err(|error: tidegate::LimitError| format!("--limit: {error}"))?;
            let limit = ThrottleLimit::from_limit(&limit).map_err(|why| format!("--limit: {why}"));
            // Only CL.THROTTLE needs it.
            if args.door == Door::Resp { Some(limit?) } else { limit.ok() }
        }
    };
    let policy = match (&args.limit, &args.policy) {
        (Some(_), _) => POLICY,
        (None, named) => named.as_deref().unwrap_or(POLICY_NAME),
    };
    let entries = match &args.descriptor {
        Some(text) => entries(text)?,
        None => vec![("policy".to_owned(), policy.to_owned()), ("key".to_owned(), "{}".to_owned())],
    };
    let or = |given: &Option<String>, default: &str| given.as_deref().unwrap_or(default).to_owned();
    Ok(RequestTemplate {
        policy: policy.to_owned(),
        cost: args.cost,
        limit,
        domain: args.domain.clone(),
        entries,
        path: or(&args.path, PATH),
        key_header: or(&args.key_header, KEY_HEADER),
        auth_policy: args.policy.clone().filter(|_| args.server.is_some()),
    })
}

/// A stretch of load: the warm-up, or one round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Phase {
    pub(super) duration: Duration,
    pub(super) requests: Option<u64>,
    /// Per second. Absent: as fast as replies arrive.
    pub(super) rate: Option<u32>,
}

/// All of a request but its key.
#[derive(Clone, Debug)]
pub(super) struct RequestTemplate {
    pub(super) policy: String,
    pub(super) cost: u32,
    /// A limit to send along, where the protocol can.
    pub(super) limit: Option<ThrottleLimit>,
    /// gRPC: the domain, and descriptor entries with `{}` for the key.
    pub(super) domain: String,
    pub(super) entries: Vec<(String, String)>,
    /// Proxy and forward-auth: the path, and the header with the key.
    pub(super) path: String,
    pub(super) key_header: String,
    /// Forward-auth: the policy to ask for instead of the server's routes.
    pub(super) auth_policy: Option<String>,
}

/// A limit as the arguments of `CL.THROTTLE`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ThrottleLimit {
    pub(super) max_burst: u64,
    pub(super) count: u64,
    pub(super) period_s: u64,
}

impl ThrottleLimit {
    pub(super) fn from_limit(limit: &Limit) -> Result<Self, String> {
        let (Limit::Gcra(gcra) | Limit::TokenBucket(gcra)) = limit else {
            return Err("CL.THROTTLE has one algorithm: expected a limit like \
                        `100/min burst 20`"
                .to_owned());
        };
        if gcra.period().subsec_nanos() != 0 || gcra.period() == Duration::ZERO {
            return Err(
                "CL.THROTTLE counts in whole seconds: expected a limit like 10/s".to_owned()
            );
        }
        let (burst, count) = (gcra.burst(), gcra.limit());
        Ok(Self { max_burst: burst.saturating_sub(1), count, period_s: gcra.period().as_secs() })
    }
}

/// `KEY=VALUE,…`.
fn entries(text: &str) -> Result<Vec<(String, String)>, String> {
    let entry = |part: &str| match part.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!(
            "--descriptor: `{}`: expected entries like remote_address={{}} with commas between them",
            printable(part)
        )),
    };
    text.split(',').map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_become_arguments_of_cl_throttle() {
        let throttle = |text: &str| ThrottleLimit::from_limit(&text.parse().unwrap()).ok();
        let some = |max_burst, count, period_s| Some(ThrottleLimit { max_burst, count, period_s });
        assert_eq!(throttle("100/min burst 20"), some(19, 100, 60));
        assert_eq!(throttle("1000000/s"), some(999_999, 1_000_000, 1));
        assert_eq!(throttle("token-bucket 10/s capacity 50"), some(49, 10, 1));
        assert_eq!(throttle("10/500ms"), None);
        assert_eq!(throttle("sliding-log 5/h"), None);
    }

    #[test]
    fn entries_have_a_name_each() {
        let two = vec![("a".to_owned(), "1".to_owned()), ("b".to_owned(), "{}=".to_owned())];
        assert_eq!(entries("a=1,b={}="), Ok(two));
        assert!(entries("a").is_err() && entries("a=1,").is_err() && entries("=1").is_err());
    }
}
