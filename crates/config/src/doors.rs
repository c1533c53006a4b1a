//! What doors go by besides the policies.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate::Cidr;
use tidegate::tower::{ClientIp, Headers};

use super::amount::span_within;
use super::node::Spot;
use super::problem::Problem;
use super::secret::SecretSource;
use super::text::{self, Dialect, Legacy, OneOrMany};
use crate::plan::{By, Plan};
use crate::rls::{Manner, Shadow};
use crate::secret::checked_token;
use tidegate_core::text::unknown_policy;
use tidegate_core::{Algorithm, LimitSpec};
use tidegate_request::{BadMatch, Match, Route, Routes};
use tidegate_request::{CountedBy, KeyParts, UnknownPart};

/// Enough for a balancer that looks twice a second.
const DRAIN: Duration = Duration::from_secs(1);
/// Nobody looks less often than this.
const DRAIN_MAX: Duration = Duration::from_mins(5);

/// What doors go by: everything in it can change while they are open.
#[derive(Clone, Debug)]
pub struct DoorRules {
    /// The first that matches wins.
    pub routes: Vec<Route>,
    /// Who is limited by a policy where no route says so; by its address where it is not in here either.
    pub policy_keys: BTreeMap<String, CountedBy>,
    /// Finds clients, once it is told where a door keeps its peer.
    pub client_ip: ClientIp,
    /// The proxies whose headers are believed.
    pub trusted_proxies: Vec<Cidr>,
    /// What admin calls have to show; none: they are answered on this machine only.
    pub admin_token: Option<SecretSource>,
    pub headers: Headers,
    /// Whether the dashboard tells keys as they are.
    pub shows_keys: bool,
    /// For how long newcomers are served once a manager of services has told the server to stop.
    pub drain: Duration,
}

impl DoorRules {
    /// The routes, with the keys of policies that have one of their own.
    pub fn routes(&self) -> Routes {
        Routes::new(self.routes.clone(), self.policy_keys.clone())
    }
}

impl Default for DoorRules {
    fn default() -> Self {
        Self {
            routes: Vec::new(),
            policy_keys: BTreeMap::new(),
            client_ip: ClientIp::new(),
            trusted_proxies: Vec::new(),
            admin_token: None,
            headers: Headers::default(),
            shows_keys: false,
            drain: DRAIN,
        }
    }
}

/// Checks what doors go by; what is wrong is noted.
pub(crate) fn doors(
    file: &text::File,
    plans: &[Plan],
    top: &Spot<'_>,
    found: &mut Vec<Problem>,
) -> DoorRules {
    let by_url = by_url(plans);
    let policy_keys = policy_keys(file, &by_url, &top.of("policies"), found);
    let routes = file.routes.iter().enumerate().filter_map(|(index, text)| {
        let is_by_url = by_url.contains(&text.policy.as_str());
        route(text, file, is_by_url, &top.of("routes").item(index), found)
    });
    let routes = routes.collect();
    let client = file.client_ip.as_ref();
    let (client_ip, trusted_proxies) = match client {
        Some(text) => client_ip(text, ipv6_prefix(file), &top.of("client_ip"), found),
        None => (ClientIp::new(), Vec::new()),
    };
    let admin_token = file.admin.as_ref().and_then(|it| token(it, &top.of("admin"), found));
    let headers = file
        .headers
        .as_ref()
        .map_or(Headers::default(), |text| headers(text, &top.of("headers"), found));
    let drain = file
        .drain
        .as_ref()
        .and_then(|text| top.of("drain").note(span_within(text, Duration::ZERO, DRAIN_MAX), found));
    let drain = drain.unwrap_or(DRAIN);
    let keys = file.dashboard.as_ref().and_then(|text| text.keys);
    DoorRules {
        routes,
        policy_keys,
        client_ip,
        trusted_proxies,
        admin_token,
        headers,
        shows_keys: keys == Some(text::KeysShown::Shown),
        drain,
    }
}

/// How Envoy's service answers.
pub(crate) fn manner(file: &text::File) -> Manner {
    let (usual, envoy) = (Manner::default(), file.envoy.as_ref());
    let is_shadow = |mode: Option<text::Mode>| mode == Some(text::Mode::Shadow);
    let shadow = if is_shadow(file.mode) {
        Shadow::Everybody
    } else if is_shadow(envoy.and_then(|text| text.mode)) {
        Shadow::Envoy
    } else {
        Shadow::Nobody
    };
    Manner {
        is_atomic: envoy.and_then(|text| text.atomic).unwrap_or(usual.is_atomic),
        adds_headers: envoy.and_then(|text| text.headers).unwrap_or(usual.adds_headers),
        shadow,
    }
}

/// The policies that follow the response time of URLs. They count them as they are measured: by their path, without host
/// and query.
fn by_url(plans: &[Plan]) -> Vec<&str> {
    let of_urls = |plan: &&Plan| matches!(plan.by, By::Urls { .. });
    plans.iter().filter(of_urls).map(|plan| plan.policy.as_str()).collect()
}

fn policy_keys(
    file: &text::File,
    by_url: &[&str],
    spot: &Spot<'_>,
    found: &mut Vec<Problem>,
) -> BTreeMap<String, CountedBy> {
    let key = |(name, policy): (&String, &text::Policy)| {
        let text::Policy::Map(options) = policy else { return None };
        let is_by_url = by_url.contains(&name.as_str());
        if let Some(each) = identifiers(options, is_by_url) {
            return Some((name.clone(), CountedBy::Each(each)));
        }
        let parts = spot.of(name).of("key").note(key_parts(options.key.as_ref()?), found)?;
        let parts = if is_by_url { KeyParts::path() } else { parts };
        Some((name.clone(), CountedBy::One(parts)))
    };
    file.policies.iter().filter_map(key).collect()
}

/// The identifiers that all limits of a policy name, if they are parts of a request.
fn identifiers(options: &text::PolicyOptions, is_by_url: bool) -> Option<Vec<(String, KeyParts)>> {
    let members = options.all.iter().chain(&options.any).flatten();
    let mut named = BTreeMap::new();
    for member in members {
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
    spot: &Spot<'_>,
    found: &mut Vec<Problem>,
) -> Option<Route> {
    if !file.policies.contains_key(&text.policy) {
        let names = file.policies.keys().map(String::as_str);
        found.push(spot.of("policy").problem(unknown_policy(&text.policy, names)));
    }
    // Our own proxy can wait and give back; then whoever else asks is told that they cannot.
    let unaskable = |policy| unaskable(policy, file.proxy.is_some());
    if let Some(why) = file.policies.get(&text.policy).and_then(unaskable) {
        found.push(spot.of("policy").problem(why));
    }
    let matches = text.matches.clone().unwrap_or_default();
    let methods = matches.method.as_ref().map_or(&[][..], OneOrMany::as_slice);
    let methods: Vec<&str> = methods.iter().map(String::as_str).collect();
    let (path, host) = (matches.path.as_deref(), matches.host.as_deref());
    let mut key = text.key.as_ref().map(|key| spot.of("key").note(key_parts(key), found));
    if let (Some(given), Some(text::Policy::Map(options))) =
        (&text.key, file.policies.get(&text.policy))
    {
        if identifiers(options, is_by_url).is_some() {
            let message = "the limits of the policy say what they count by: leave it out";
            found.push(spot.of("key").problem(message));
        } else if is_by_url && matches!(given.as_slice(), [only] if only == "url" || only == "path")
        {
            key = None;
        } else if is_by_url {
            let message = "the policy follows URLs, and so counts by them: leave it out";
            found.push(spot.of("key").problem(message));
        }
    }
    let matched = Match { path, methods: &methods, host };
    let has_key = !matches!(key, Some(None));
    let route = Route::new(matched, &text.policy, key.flatten(), text.cost.unwrap_or(1));
    let note = |bad: Vec<BadMatch>| {
        found.extend(bad.iter().map(|bad| spot.of("match").of(bad.field).problem(bad)));
    };
    route.map_err(note).ok().filter(|_| has_key)
}

/// Why a proxy cannot be answered by a policy.
fn unaskable(policy: &text::Policy, is_proxy: bool) -> Option<&'static str> {
    let shapes = "is a leaky bucket, which delays: a proxy that asks can only be told yes or no";
    let holds = "limits concurrency: a proxy that asks cannot give a place back";
    let problem = |spec: &LimitSpec| match spec.algorithm() {
        _ if is_proxy => None,
        Algorithm::LEAKY_BUCKET => Some(shapes),
        Algorithm::CONCURRENCY => Some(holds),
        _ => None,
    };
    let own = policy.limit_spec().as_ref().and_then(problem);
    let text::Policy::Map(options) = policy else { return own };
    let mut members = options.all.iter().chain(&options.any).flatten();
    let is_named = members.clone().any(|member| member.key.is_some());
    let named = (is_named && identifiers(options, false).is_none()).then_some(
        "counts by identifiers that are no parts of a request, like client_ip or header:x-user, in \
         each of its limits",
    );
    named.or(own).or_else(|| members.find_map(|member| problem(&member.limit_spec())))
}

fn key_parts(text: &OneOrMany) -> Result<KeyParts, UnknownPart> {
    KeyParts::read(text.as_slice().iter().map(String::as_str))
}

/// How many bits of an IPv6 address make one client.
pub(crate) fn ipv6_prefix(file: &text::File) -> u8 {
    file.client_ip.as_ref().and_then(|text| text.ipv6_prefix).unwrap_or(64)
}

fn client_ip(
    text: &text::ClientIp,
    ipv6_prefix: u8,
    spot: &Spot<'_>,
    found: &mut Vec<Problem>,
) -> (ClientIp, Vec<Cidr>) {
    let mut client_ip = ClientIp::new().ipv6_prefix(ipv6_prefix);
    if text.forwarded == Some(true) {
        client_ip = client_ip.forwarded();
    }
    let mut trusted = Vec::new();
    for (index, network) in text.trusted_proxies.iter().enumerate() {
        let spot = spot.of("trusted_proxies").item(index);
        trusted.extend(spot.note(network.parse::<Cidr>(), found));
        client_ip = client_ip.clone().trust(network).unwrap_or(client_ip);
    }
    (client_ip, trusted)
}

fn token(text: &text::Admin, spot: &Spot<'_>, found: &mut Vec<Problem>) -> Option<SecretSource> {
    match (&text.token, &text.token_file) {
        (Some(token), None) => {
            spot.of("token").note(checked_token(&token.0), found);
            Some(SecretSource::Given(token.clone()))
        }
        (None, Some(file)) => Some(SecretSource::File(file.into())),
        (None, None) => None,
        (Some(_), Some(_)) => {
            found.push(
                spot.of("token_file").problem("and `token` are both given: give one of them"),
            );
            None
        }
    }
}

fn headers(text: &text::Headers, spot: &Spot<'_>, found: &mut Vec<Problem>) -> Headers {
    match (text.dialect.unwrap_or(Dialect::Draft11), text.legacy.unwrap_or(Legacy::Epoch)) {
        (Dialect::Draft11, Legacy::Epoch) => Headers::LegacyEpoch,
        (Dialect::Draft11, Legacy::Delta) => Headers::LegacyDelta,
        (Dialect::Draft11, Legacy::Off) => Headers::Standard,
        (Dialect::Off, Legacy::Off) => Headers::Off,
        (Dialect::Off, Legacy::Epoch | Legacy::Delta) => {
            let message = "switches all headers off: say `legacy: off` as well";
            found.push(spot.of("dialect").problem(message));
            Headers::Off
        }
    }
}
