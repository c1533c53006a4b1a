//! What the doors use beside the policies: routes, clients, headers, the admin token.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate::Cidr;
use tidegate::tower::{ClientIp, Headers};

use super::amount::time;
use super::node::Cursor;
use super::secret::SecretSource;
use super::text::{self, Dialect, Legacy, OneOrMany};
use crate::envoy::{AnswerStyle, Shadow};
use crate::plan::{Follows, Plan};
use crate::secret::checked_token;
use tidegate_core::text::{printable, unknown_policy};
use tidegate_core::{Algorithm, LimitSpec};
use tidegate_request::{Authority, BadMatch, Case, CountedBy, KeyParts, Match, Route, Routes};

/// Enough for a load balancer that checks twice a second.
const DRAIN: Duration = Duration::from_secs(1);
/// No load balancer checks less often than this.
const DRAIN_MAX: Duration = Duration::from_mins(5);

/// What the doors use; all of it can change in a reload.
#[derive(Clone, Debug)]
pub struct DoorRules {
    /// The first that matches wins.
    pub routes: Vec<Route>,
    /// What each policy counts by where a route has no key. Default: the client's address.
    pub policy_keys: BTreeMap<String, CountedBy>,
    /// Finds the client of a request.
    pub client_ip: ClientIp,
    /// The proxies whose headers name the client.
    pub trusted_proxies: Vec<Cidr>,
    /// The token of admin calls. `None`: only local clients may make them.
    pub admin_token: Option<SecretSource>,
    /// Names of the API, beside `localhost` and addresses.
    pub own_hosts: Vec<String>,
    pub headers: Headers,
    /// Whether the dashboard shows keys in clear text.
    pub shows_keys: bool,
    /// How long new connections are served after SIGTERM.
    pub drain: Duration,
}

impl DoorRules {
    /// The routes, with the keys of policies that have one of their own.
    pub fn routes(&self) -> Routes {
        Routes::new(self.routes.clone(), self.policy_keys.clone())
    }

    /// Lets these proxies name the client. The error is for people.
    pub fn trust(&mut self, proxies: &[Cidr]) -> Result<(), String> {
        for proxy in proxies {
            let trusting = self.client_ip.clone().trust(&proxy.to_string());
            self.client_ip = trusting.map_err(|error| error.to_string())?;
        }
        self.trusted_proxies.extend_from_slice(proxies);
        Ok(())
    }
}

/// Checks the part of a file that the doors use.
pub(crate) fn doors(file: &text::File, plans: &[Plan], top: &Cursor<'_>) -> DoorRules {
    let by_url = by_url(plans);
    let policy_keys = policy_keys(file, &by_url, &top.field("policies"));
    let routes = file.routes.iter().enumerate().filter_map(|(index, text)| {
        let is_by_url = by_url.contains(&text.policy.as_str());
        let route = route(text, file, is_by_url, &top.field("routes").item(index));
        route.map(|route| (index, route))
    });
    let routes: Vec<(usize, Route)> = routes.collect();
    warn_of_unreachable(&routes, &top.field("routes"));
    let routes = routes.into_iter().map(|(_, route)| route).collect();
    let client = file.client_ip.as_ref();
    let (client_ip, trusted_proxies) = match client {
        Some(text) => client_ip(text, ipv6_prefix(file), &top.field("client_ip")),
        None => (ClientIp::new(), Vec::new()),
    };
    let admin_token = file.admin.as_ref().and_then(|it| token(it, &top.field("admin")));
    let own_hosts = file.admin.as_ref().map(|it| own_hosts(it, &top.field("admin").field("hosts")));
    let own_hosts = own_hosts.unwrap_or_default();
    let headers = file
        .headers
        .as_ref()
        .map_or(Headers::default(), |text| headers(text, &top.field("headers")));
    let drain = time(top, "drain", file.drain.as_ref(), Duration::ZERO..=DRAIN_MAX, DRAIN);
    let keys = file.dashboard.as_ref().and_then(|text| text.keys);
    DoorRules {
        routes,
        policy_keys,
        client_ip,
        trusted_proxies,
        admin_token,
        own_hosts,
        headers,
        shows_keys: keys == Some(text::KeysShown::Shown),
        drain,
    }
}

/// The first route that matches wins, so that one behind a wider one is never reached.
fn warn_of_unreachable(routes: &[(usize, Route)], cursor: &Cursor<'_>) {
    for (number, (index, route)) in routes.iter().enumerate() {
        if let Some((wider, _)) = routes[..number].iter().find(|(_, it)| it.covers(route)) {
            cursor.item(*index).warn(format!(
                "is never reached: routes[{wider}] matches all of its requests, and the first match wins. Move this one \
                 before it"
            ));
        }
    }
}

/// How Envoy's service answers.
pub(crate) fn answer_style(file: &text::File) -> AnswerStyle {
    let (default, envoy) = (AnswerStyle::default(), file.envoy.as_ref());
    let is_shadow = |mode: Option<text::Mode>| mode == Some(text::Mode::Shadow);
    let shadow = if is_shadow(file.mode) {
        Shadow::AllDoors
    } else if is_shadow(envoy.and_then(|text| text.mode)) {
        Shadow::Envoy
    } else {
        Shadow::Off
    };
    AnswerStyle {
        is_atomic: envoy.and_then(|text| text.atomic).unwrap_or(default.is_atomic),
        adds_headers: envoy.and_then(|text| text.headers).unwrap_or(default.adds_headers),
        shadow,
    }
}

/// The policies that follow the response time of URLs. They count URLs as they are measured: by path, without host and
/// query.
fn by_url(plans: &[Plan]) -> Vec<&str> {
    let of_urls = |plan: &&Plan| matches!(plan.follows, Follows::Urls { .. });
    plans.iter().filter(of_urls).map(|plan| plan.policy.as_str()).collect()
}

fn policy_keys(
    file: &text::File,
    by_url: &[&str],
    cursor: &Cursor<'_>,
) -> BTreeMap<String, CountedBy> {
    let key = |(name, policy): (&String, &text::Policy)| {
        let text::Policy::Map(options) = policy else { return None };
        let is_by_url = by_url.contains(&name.as_str());
        if let Some(each) = identifiers(options, is_by_url) {
            return Some((name.clone(), CountedBy::Each(each)));
        }
        let parts = cursor.field(name).field("key").accept(key_parts(options.key.as_ref()?))?;
        let parts = if is_by_url { KeyParts::path() } else { parts };
        Some((name.clone(), CountedBy::One(parts)))
    };
    file.policies.iter().filter_map(key).collect()
}

/// The identifiers of all limits of a policy, if all of them are parts of a request.
fn identifiers(options: &text::PolicyOptions, is_by_url: bool) -> Option<Vec<(String, KeyParts)>> {
    let mut named = BTreeMap::new();
    for member in options.members() {
        let key = member.key.as_ref()?;
        let parts = KeyParts::read([key.as_str()]).ok()?;
        let is_path = is_by_url && key == "url";
        named.insert(key.clone(), if is_path { KeyParts::path() } else { parts });
    }
    (!named.is_empty()).then(|| named.into_iter().collect())
}

fn route(
    text: &text::Route,
    file: &text::File,
    is_by_url: bool,
    cursor: &Cursor<'_>,
) -> Option<Route> {
    if !file.policies.contains_key(&text.policy) {
        let names = file.policies.keys().map(String::as_str);
        cursor.field("policy").report(unknown_policy(&text.policy, names));
    }
    // Our own proxy can delay and release; other proxies get an error when they ask.
    let problem = |policy| forward_auth_problem(policy, file.proxy.is_some());
    if let Some(why) = file.policies.get(&text.policy).and_then(problem) {
        cursor.field("policy").report(why);
    }
    let matches = text.matches.clone().unwrap_or_default();
    let methods = matches.method.as_ref().map_or(&[][..], OneOrMany::as_slice);
    let methods: Vec<&str> = methods.iter().map(String::as_str).collect();
    let (path, host) = (matches.path.as_deref(), matches.host.as_deref());
    let mut key = text.key.as_ref().map(|key| cursor.field("key").accept(key_parts(key)));
    if let (Some(given), Some(text::Policy::Map(options))) =
        (&text.key, file.policies.get(&text.policy))
    {
        if identifiers(options, is_by_url).is_some() {
            let message = "each limit of the policy has a key of its own: remove this one";
            cursor.field("key").report(message);
        } else if is_by_url && matches!(given.as_slice(), [only] if only == "url" || only == "path")
        {
            key = None;
        } else if is_by_url {
            let message = "the policy follows URLs and counts by them: remove the key";
            cursor.field("key").report(message);
        }
    }
    let case = match text.case {
        Some(text::Case::Insensitive) => Case::Insensitive,
        Some(text::Case::Sensitive) | None => Case::Sensitive,
    };
    let matched = Match { path, methods: &methods, host, assets: matches.assets, case };
    let has_key = !matches!(key, Some(None));
    let route = Route::new(matched, &text.policy, key.flatten(), text.cost.unwrap_or(1));
    let report = |bad: &BadMatch| cursor.field("match").field(bad.field).report(bad);
    route.map_err(|bad| bad.iter().for_each(report)).ok().filter(|_| has_key)
}

/// Why forward-auth cannot ask a policy.
fn forward_auth_problem(policy: &text::Policy, is_proxy: bool) -> Option<&'static str> {
    let shapes = "is a leaky bucket, which delays: forward-auth can only admit or refuse";
    let holds_permits = "limits concurrency: forward-auth cannot release a permit";
    let problem = |spec: &LimitSpec| match spec.algorithm() {
        _ if is_proxy => None,
        Algorithm::LEAKY_BUCKET => Some(shapes),
        Algorithm::CONCURRENCY => Some(holds_permits),
        _ => None,
    };
    let own = policy.limit_spec().as_ref().and_then(problem);
    let text::Policy::Map(options) = policy else { return own };
    let is_named = options.members().any(|member| member.key.is_some());
    let named = (is_named && identifiers(options, false).is_none()).then_some(
        "counts by identifiers that are not key parts of a request, like client_ip or header:x-user: \
         use key parts in each of its limits",
    );
    named.or(own).or_else(|| options.members().find_map(|member| problem(&member.limit.spec())))
}

fn key_parts(text: &OneOrMany) -> Result<KeyParts, String> {
    KeyParts::read(text.as_slice().iter().map(String::as_str))
}

/// The prefix length that identifies an IPv6 client.
pub(crate) fn ipv6_prefix(file: &text::File) -> u8 {
    file.client_ip.as_ref().and_then(|text| text.ipv6_prefix).unwrap_or(64)
}

fn client_ip(text: &text::ClientIp, ipv6_prefix: u8, cursor: &Cursor<'_>) -> (ClientIp, Vec<Cidr>) {
    let mut client_ip = ClientIp::new().ipv6_prefix(ipv6_prefix);
    if text.forwarded == Some(true) {
        client_ip = client_ip.forwarded();
    }
    let mut trusted = Vec::new();
    for (index, network) in text.trusted_proxies.iter().enumerate() {
        let cursor = cursor.field("trusted_proxies").item(index);
        trusted.extend(cursor.accept(network.parse::<Cidr>()));
        client_ip = client_ip.clone().trust(network).unwrap_or(client_ip);
    }
    (client_ip, trusted)
}

fn token(text: &text::Admin, cursor: &Cursor<'_>) -> Option<SecretSource> {
    let (given, file) = (text.token.as_ref(), text.token_file.as_ref());
    let token = SecretSource::choose("token", given, file, cursor);
    if let Some(SecretSource::Given(token)) = &token {
        cursor.field("token").accept(checked_token(&token.0));
    }
    token
}

/// The names, in their one spelling.
fn own_hosts(text: &text::Admin, cursor: &Cursor<'_>) -> Vec<String> {
    let host = |(index, text): (usize, &String)| {
        let authority = Authority::read(text.as_bytes()).ok().filter(|it| it.port().is_none());
        let expected = || format!("`{}` is not a host without a port", printable(text));
        let authority = cursor.item(index).accept(authority.ok_or_else(expected))?;
        Some(authority.host().to_owned())
    };
    text.hosts.iter().enumerate().filter_map(host).collect()
}

fn headers(text: &text::Headers, cursor: &Cursor<'_>) -> Headers {
    match (text.dialect.unwrap_or(Dialect::Draft11), text.legacy.unwrap_or(Legacy::Epoch)) {
        (Dialect::Draft11, Legacy::Epoch) => Headers::LegacyEpoch,
        (Dialect::Draft11, Legacy::Delta) => Headers::LegacyDelta,
        (Dialect::Draft11, Legacy::Off) => Headers::Standard,
        (Dialect::Off, Legacy::Off) => Headers::Off,
        (Dialect::Off, Legacy::Epoch | Legacy::Delta) => {
            let message = "switches all headers off: set `legacy: off` as well";
            cursor.field("dialect").report(message);
            Headers::Off
        }
    }
}
