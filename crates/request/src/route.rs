//! Routes: the policy and the key of a request. The first route that matches wins.

mod choice;
mod condition;

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::fmt::Write as _;

use tidegate::Cidr;
use tidegate_core::adaptive::Priority;

pub use self::choice::{BadChoice, Choice};
use self::condition::{Conditions, Values};
use super::pattern::{HostPattern, PathPattern};
use crate::key::Part;
use crate::{AmbiguousRequest, Case, ClientRequest, CountedBy, KeyParts, RequestKey, Resource};
use tidegate_core::text::printable;

/// The conditions of a route. An absent one matches everything.
#[derive(Clone, Copy, Default, Debug)]
pub struct Match<'a> {
    /// A path in which `*` matches anything.
    pub path: Option<&'a str>,
    /// The methods; none matches all.
    pub methods: &'a [&'a str],
    /// A host in which `*` matches anything.
    pub host: Option<&'a str>,
    /// `true`: assets alone, `false`: all but assets.
    pub assets: Option<bool>,
    /// The value that each of these headers has to have; `*` matches anything.
    pub headers: &'a [(&'a str, &'a str)],
    /// The same for cookies.
    pub cookies: &'a [(&'a str, &'a str)],
    /// The same for parameters of the query.
    pub query: &'a [(&'a str, &'a str)],
    /// The networks of the client; none matches all.
    pub networks: &'a [Cidr],
    /// Whether letter case matters: of the path, for the key as well, and of values in the body.
    pub case: Case,
}

/// A route, checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Route {
    path: Option<PathPattern>,
    case: Case,
    methods: Vec<String>,
    host: Option<HostPattern>,
    assets: Option<bool>,
    conditions: Conditions,
    networks: Vec<Cidr>,
    policy: Choice<RoutePolicy>,
    priority: Option<Choice<Priority>>,
    cost: u64,
    /// The value of the key part `route`.
    name: String,
}

/// A policy that a route may ask.
#[derive(Clone, PartialEq, Eq, Debug)]
struct RoutePolicy {
    name: String,
    /// `None`: the policy's own.
    key: Option<CountedBy>,
    /// Its index among the policies of all routes.
    number: usize,
}

/// An invalid condition of a route.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadMatch {
    /// `path`, `method`, `host`, `header`, `cookie` or `query`.
    pub field: &'static str,
    /// The name of the header, cookie or parameter.
    pub name: Option<String>,
    what: &'static str,
    text: String,
    expected: &'static str,
}

/// All routes in order, and the keys of policies.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Routes {
    in_order: Vec<Route>,
    policy_keys: BTreeMap<String, CountedBy>,
    /// The key of all other policies.
    default_key: CountedBy,
    /// Whether any key is in a body.
    read_bodies: bool,
}

/// What a key needs to know of the route that matched. The default is no route.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MatchedRoute<'a> {
    /// The name of the route.
    pub name: Option<&'a str>,
    /// Whether letter case matters.
    pub case: Case,
}

/// The policy and key of a request.
#[derive(Debug)]
pub struct RouteMatch<'a> {
    /// The policy.
    pub policy: &'a str,
    /// What the policy counts by.
    pub by: &'a CountedBy,
    /// The key of this request.
    pub key: RequestKey<'a>,
    /// What the request costs.
    pub cost: u64,
    /// The route, if one matched.
    pub route: MatchedRoute<'a>,
    /// The priority that the route gives the request.
    pub priority: Option<Priority>,
    /// The index of its policy among [those of all routes](Routes::policies), if one matched.
    pub number: Option<usize>,
}

impl Route {
    /// A route to a policy, with a key of its own or the policy's; otherwise all invalid conditions.
    pub fn new(
        matched: Match<'_>,
        policy: &str,
        key: Option<KeyParts>,
        cost: u64,
    ) -> Result<Self, Vec<BadMatch>> {
        let mut bad = Vec::new();
        let mut note = |field, text: &str, expected| {
            bad.push(BadMatch { field, name: None, what: field, text: text.to_owned(), expected });
        };
        let path = matched.path.and_then(|text| {
            let read = PathPattern::read(text, matched.case);
            read.map_err(|expected| note("path", text, expected)).ok()
        });
        let mut methods = Vec::new();
        for text in matched.methods {
            if text.is_empty()
                || !text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-')
            {
                note("method", text, "one like POST");
            }
            methods.push((*text).to_owned());
        }
        let host = matched.host.and_then(|text| {
            HostPattern::read(text).map_err(|expected| note("host", text, expected)).ok()
        });
        let conditions = Conditions::read(&matched, &mut bad);
        if !bad.is_empty() {
            return Err(bad);
        }
        let networks = matched.networks.to_vec();
        let host_name = host.as_ref().map_or("", |host| &host.text);
        let path_name = path.as_ref().map_or("/*", |path| &path.text);
        let kind = match matched.assets {
            Some(true) => " (assets)",
            Some(false) => " (no assets)",
            None => "",
        };
        let mut name = format!("{} {host_name}{path_name}{kind}{conditions}", methods.join(","));
        for network in &networks {
            let _ = write!(name, " network={network}");
        }
        let name = name.trim_start().to_owned();
        let policy = Choice::always(RoutePolicy::new(policy.to_owned(), key));
        let Match { case, assets, .. } = matched;
        Ok(Self {
            path,
            case,
            methods,
            host,
            assets,
            conditions,
            networks,
            policy,
            priority: None,
            cost,
            name,
        })
    }

    /// The same with one of several policies, each with a key of its own or the policy's.
    #[must_use]
    pub fn choosing(self, policy: Choice<(String, Option<KeyParts>)>) -> Self {
        Self { policy: policy.map(|(name, key)| RoutePolicy::new(name, key)), ..self }
    }

    /// The same with a priority for its requests.
    #[must_use]
    pub fn prioritized(self, priority: Choice<Priority>) -> Self {
        Self { priority: Some(priority), ..self }
    }

    /// Whether it matches every request that another route matches, so that one behind it is never reached.
    pub fn covers(&self, other: &Self) -> bool {
        let path = match (&self.path, &other.path) {
            (None, _) => true,
            (Some(path), Some(others)) => {
                (self.case == other.case || self.case == Case::Insensitive) && path.covers(others)
            }
            (Some(path), None) => path.matches("/*") && path.matches("/"),
        };
        let method = self.methods.is_empty()
            || (!other.methods.is_empty()
                && other.methods.iter().all(|it| self.methods.contains(it)));
        let host = match (&self.host, &other.host) {
            (None, _) => true,
            (Some(host), Some(others)) => host.covers(others),
            (Some(_), None) => false,
        };
        let is_within = |it: &Cidr| self.networks.iter().any(|wider| wider.contains_network(it));
        let network = self.networks.is_empty()
            || (!other.networks.is_empty() && other.networks.iter().all(is_within));
        path && method
            && host
            && network
            && self.conditions.cover(&other.conditions)
            && (self.assets.is_none() || self.assets == other.assets)
    }

    /// Whether the client is in one of its networks.
    fn is_for(&self, request: &ClientRequest<'_>) -> bool {
        self.networks.is_empty() || self.networks.iter().any(|it| it.contains(request.client))
    }

    /// An error if servers could read another value than the one that decides.
    fn matches<'s, 'r>(
        &'s self,
        request: &'r ClientRequest<'_>,
        folded: &OnceCell<Cow<'r, str>>,
        values: &mut Values<'s, '_>,
    ) -> Result<bool, AmbiguousRequest> {
        Ok(self.matches_target(request, folded)
            && self.is_for(request)
            && self.conditions.hold(values)?)
    }

    /// `folded` is the path without letter case, once a route needs it.
    fn matches_target<'r>(
        &self,
        request: &'r ClientRequest<'_>,
        folded: &OnceCell<Cow<'r, str>>,
    ) -> bool {
        let method =
            self.methods.is_empty() || self.methods.iter().any(|method| *method == request.method);
        let host = self.host.as_ref().is_none_or(|host| host.matches(&request.host));
        let path = || match self.case {
            Case::Sensitive => request.path.counted(),
            Case::Insensitive => folded.get_or_init(|| request.path.counted_in(Case::Insensitive)),
        };
        let assets = self.assets.is_none_or(|assets| assets == Resource::is_asset(request));
        method && host && assets && self.path.as_ref().is_none_or(|pattern| pattern.matches(path()))
    }
}

impl RoutePolicy {
    fn new(name: String, key: Option<KeyParts>) -> Self {
        Self { name, key: key.map(CountedBy::One), number: 0 }
    }
}

impl Routes {
    /// Whether there is no route at all.
    pub const fn is_empty(&self) -> bool {
        self.in_order.is_empty()
    }

    /// What a policy counts by, if it has its own key.
    pub fn key_of_policy(&self, policy: &str) -> Option<&CountedBy> {
        self.policy_keys.get(policy)
    }

    /// Routes in order, and the keys of policies.
    pub fn new(mut in_order: Vec<Route>, policy_keys: BTreeMap<String, CountedBy>) -> Self {
        let policies = in_order.iter_mut().flat_map(|route| route.policy.iter_mut());
        for (number, policy) in policies.enumerate() {
            policy.number = number;
            let of_policy = policy_keys.get(&policy.name);
            policy.key = match policy.key.take() {
                Some(own) => Some(own.by_route(of_policy)),
                None => of_policy.cloned(),
            };
        }
        let default_key = CountedBy::default();
        let routes = Self { in_order, policy_keys, default_key, read_bodies: false };
        let read_bodies = routes.keys().any(CountedBy::reads_body);
        Self { read_bodies, ..routes }
    }

    /// The policy and key of a request: by the first route that matches, or by `policy` if it is given. An error if
    /// servers could read another key from the request.
    pub fn find<'a>(
        &'a self,
        request: &ClientRequest<'_>,
        policy: Option<&'a str>,
    ) -> Result<Option<RouteMatch<'a>>, AmbiguousRequest> {
        if let Some(policy) = policy {
            let (by, route) = (self.key_of(policy), MatchedRoute::default());
            let key = by.key_for(request, route)?;
            let (priority, number) = (None, None);
            return Ok(Some(RouteMatch { policy, by, key, cost: 1, route, priority, number }));
        }
        let mut values = Values::new(request);
        let route = self.first_match(request, &mut values)?;
        route.map(|route| self.matched(route, &mut values)).transpose()
    }

    fn first_match<'a>(
        &'a self,
        request: &ClientRequest<'_>,
        values: &mut Values<'a, '_>,
    ) -> Result<Option<&'a Route>, AmbiguousRequest> {
        let folded = OnceCell::new();
        for route in &self.in_order {
            if route.matches(request, &folded, values)? {
                return Ok(Some(route));
            }
        }
        Ok(None)
    }

    /// Whether the key of a request is in its body. Then [`Routes::find`] needs the body.
    pub fn need_body(&self, request: &ClientRequest<'_>) -> Result<bool, AmbiguousRequest> {
        if !self.read_bodies || !request.has_json() {
            return Ok(false);
        }
        let mut values = Values::new(request);
        let Some(route) = self.first_match(request, &mut values)? else { return Ok(false) };
        let key = route.policy.pick(&mut values)?.key.as_ref();
        Ok(key.unwrap_or(&self.default_key).reads_body())
    }

    /// The policy and key of the assets of a document that was asked for: by the first route for assets alone. `None` if
    /// there is no such route.
    pub fn find_assets<'a>(
        &'a self,
        document: &ClientRequest<'_>,
    ) -> Result<Option<RouteMatch<'a>>, AmbiguousRequest> {
        let host = |route: &Route| route.host.as_ref().is_none_or(|it| it.matches(&document.host));
        let mut values = Values::new(document);
        for route in &self.in_order {
            let is_for = route.assets == Some(true) && host(route) && route.is_for(document);
            if is_for && route.conditions.hold(&mut values)? {
                return self.matched(route, &mut values).map(Some);
            }
        }
        Ok(None)
    }

    fn matched<'a>(
        &'a self,
        route: &'a Route,
        values: &mut Values<'a, '_>,
    ) -> Result<RouteMatch<'a>, AmbiguousRequest> {
        let Route { policy, priority, cost, name, case, .. } = route;
        let RoutePolicy { name: policy, key, number } = policy.pick(values)?;
        let priority = priority.as_ref().map(|it| it.pick(values).copied()).transpose()?;
        let by = key.as_ref().unwrap_or(&self.default_key);
        let route = MatchedRoute { name: Some(name), case: *case };
        let key = by.key_for(values.request(), route)?;
        let (cost, number) = (*cost, Some(*number));
        Ok(RouteMatch { policy, by, key, cost, route, priority, number })
    }

    /// What routes and policies count by.
    fn keys(&self) -> impl Iterator<Item = &CountedBy> {
        let policies = self.in_order.iter().flat_map(|route| route.policy.iter());
        policies.filter_map(|it| it.key.as_ref()).chain(self.policy_keys.values())
    }

    /// How many routes there are.
    pub const fn len(&self) -> usize {
        self.in_order.len()
    }

    /// The most parts of a request that any key may read.
    pub fn alternatives_max(&self) -> usize {
        let all = self.keys().map(CountedBy::alternatives);
        all.max().unwrap_or_default().max(self.default_key.alternatives())
    }

    /// All policies that routes may ask, in order.
    pub fn policies(&self) -> impl Iterator<Item = &str> {
        let policies = self.in_order.iter().flat_map(|route| route.policy.iter());
        policies.map(|it| it.name.as_str())
    }

    /// Whether a route gives its requests a priority.
    pub fn have_priorities(&self) -> bool {
        self.in_order.iter().any(|route| route.priority.is_some())
    }

    /// Whether anything depends on a token.
    pub fn read_tokens(&self) -> bool {
        self.keys().any(CountedBy::reads_tokens) || self.match_tokens()
    }

    /// Whether any key or condition depends on a header.
    pub fn reads_headers(&self) -> bool {
        self.keys().any(CountedBy::reads_headers) || self.parts().any(Part::reads_headers)
    }

    /// Whether the route or the policy of a request depends on a header that access logs usually lack.
    pub fn match_unlogged_headers(&self) -> bool {
        self.parts().any(Part::reads_unlogged_headers)
    }

    /// Whether the policy of a request depends on a token.
    pub fn match_tokens(&self) -> bool {
        self.parts().any(Part::is_signed)
    }

    /// How many different headers, cookies and parameters routes read, beside keys.
    pub fn parts_matched(&self) -> usize {
        self.parts().collect::<HashSet<_>>().len()
    }

    fn parts(&self) -> impl Iterator<Item = &Part> {
        self.in_order.iter().flat_map(|route| {
            let priority = route.priority.as_ref().and_then(Choice::part);
            route.conditions.parts().chain(route.policy.part()).chain(priority)
        })
    }

    /// What a policy counts by where a route has no key.
    pub fn key_of(&self, policy: &str) -> &CountedBy {
        self.policy_keys.get(policy).unwrap_or(&self.default_key)
    }
}

impl fmt::Display for BadMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a {}: expected {}", printable(&self.text), self.what, self.expected)
    }
}

#[cfg(test)]
mod tests;
