//! What the doors use beside the policies: routes, clients, headers, the admin token.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate::Cidr;
use tidegate::tower::{ClientIp, Dialect, Headers, ResetUnit};

use super::amount::time;
use super::jwt::{TokenKeys, token_keys};
use super::node::Cursor;
use super::secret::SecretSource;
use super::text;
use crate::envoy::{AnswerStyle, Shadow};
use crate::plan::Plan;
use crate::routes::{CheckedRoutes, routes};
use crate::secret::checked_token;
use tidegate_core::text::printable;
use tidegate_request::{Authority, CountedBy, Route, Routes};

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
    /// The policies that each route may ask, and what the route counts by there.
    pub(crate) route_keys: Vec<Vec<(String, CountedBy)>>,
    /// Finds the client of a request.
    pub client_ip: ClientIp,
    /// The proxies whose headers name the client.
    pub trusted_proxies: Vec<Cidr>,
    /// The keys that verify tokens of requests.
    pub token_keys: Option<TokenKeys>,
    /// The token of admin calls. `None`: only local clients may make them.
    pub admin_token: Option<SecretSource>,
    /// Names of the API, beside `localhost` and addresses.
    pub own_hosts: Vec<String>,
    pub headers: Headers,
    /// Whether the dashboard shows keys in clear text.
    pub shows_keys: bool,
    /// Whether the log does.
    pub logs_keys: bool,
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
    let CheckedRoutes { in_order, policy_keys, route_keys } = routes(file, plans, top);
    let client = file.client_ip.as_ref();
    let (client_ip, trusted_proxies) = match client {
        Some(text) => client_ip(text, ipv6_prefix(file), &top.field("client_ip")),
        None => (ClientIp::new(), Vec::new()),
    };
    let token_keys = file.jwt.as_ref().and_then(|it| token_keys(it, &top.field("jwt")));
    let admin_token = file.admin.as_ref().and_then(|it| token(it, &top.field("admin")));
    let own_hosts = file.admin.as_ref().map(|it| own_hosts(it, &top.field("admin").field("hosts")));
    let own_hosts = own_hosts.unwrap_or_default();
    let headers = file.headers.as_ref().map_or(Headers::default(), headers);
    if let Some(text::Headers { dialect: Some(text::Dialect::Off), legacy: None, .. }) =
        &file.headers
    {
        top.field("headers").field("dialect").warn(
            "leaves the X-RateLimit headers: add `legacy: off` to send none, or `legacy: epoch` to keep them",
        );
    }
    let drain = time(top, "drain", file.drain.as_ref(), Duration::ZERO..=DRAIN_MAX, DRAIN);
    let shows = |keys: Option<text::KeysShown>| keys == Some(text::KeysShown::Shown);
    DoorRules {
        routes: in_order,
        policy_keys,
        route_keys,
        client_ip,
        trusted_proxies,
        token_keys,
        admin_token,
        own_hosts,
        headers,
        shows_keys: shows(file.dashboard.as_ref().and_then(|text| text.keys)),
        logs_keys: shows(file.logs.as_ref().and_then(|text| text.keys)),
        drain,
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

/// The prefix length that identifies an IPv6 client.
pub(crate) fn ipv6_prefix(file: &text::File) -> u8 {
    file.client_ip.as_ref().and_then(|text| text.ipv6_prefix).unwrap_or(64)
}

fn client_ip(text: &text::ClientIp, ipv6_prefix: u8, cursor: &Cursor<'_>) -> (ClientIp, Vec<Cidr>) {
    let mut client_ip = ClientIp::new().ipv6_prefix(ipv6_prefix);
    if text.forwarded == Some(true) {
        client_ip = client_ip.forwarded();
    }
    if let Some(hops) = text.trusted_hops {
        let cursor = cursor.field("trusted_hops");
        if !text.trusted_proxies.is_empty() {
            cursor.report("and `trusted_proxies` are both given: give one of them");
        }
        let counting = cursor.accept(client_ip.clone().trust_hops(hops.into()));
        return (counting.unwrap_or(client_ip), Vec::new());
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

fn headers(text: &text::Headers) -> Headers {
    let default = Headers::default();
    Headers {
        dialect: text.dialect.map_or(default.dialect, |dialect| match dialect {
            text::Dialect::Draft11 => Dialect::Draft11,
            text::Dialect::Legacy => Dialect::Legacy,
            text::Dialect::Off => Dialect::Off,
        }),
        x_rate_limit: text.legacy.map_or(default.x_rate_limit, |legacy| match legacy {
            text::Legacy::Epoch => Some(ResetUnit::Epoch),
            text::Legacy::Delta => Some(ResetUnit::Delta),
            text::Legacy::Off => None,
        }),
    }
}
