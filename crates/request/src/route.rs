//! Routes: the policy and the key of a request. The first route that matches wins.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fmt;

use super::pattern::{HostPattern, PathPattern};
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
    /// Whether the letter case of the path matters, for the key as well.
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
    policy: String,
    /// `None`: the policy's own.
    key: Option<CountedBy>,
    cost: u64,
    /// The value of the key part `route`.
    name: String,
}

/// An invalid condition of a route.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadMatch {
    /// `path`, `method` or `host`.
    pub field: &'static str,
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
}

/// What a key needs to know of the route that matched. The default is no route.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MatchedRoute<'a> {
    /// The name of the route.
    pub name: Option<&'a str>,
    /// Whether the letter case of the path matters.
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
    /// The index of the route, if one matched.
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
            bad.push(BadMatch { field, text: text.to_owned(), expected });
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
        if !bad.is_empty() {
            return Err(bad);
        }
        let host_name = host.as_ref().map_or("", |host| &host.text);
        let path_name = path.as_ref().map_or("/*", |path| &path.text);
        let kind = match matched.assets {
            Some(true) => " (assets)",
            Some(false) => " (no assets)",
            None => "",
        };
        let name = format!("{} {host_name}{path_name}{kind}", methods.join(","));
        let name = name.trim_start().to_owned();
        let (policy, key) = (policy.to_owned(), key.map(CountedBy::One));
        let Match { case, assets, .. } = matched;
        Ok(Self { path, case, methods, host, assets, policy, key, cost, name })
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
        path && method && host && (self.assets.is_none() || self.assets == other.assets)
    }

    /// `folded` is the path without letter case, once a route needs it.
    fn matches<'r>(
        &self,
        request: &'r ClientRequest<'_>,
        folded: &OnceCell<std::borrow::Cow<'r, str>>,
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
        for route in &mut in_order {
            if route.key.is_none() {
                route.key = policy_keys.get(&route.policy).cloned();
            }
        }
        Self { in_order, policy_keys, default_key: CountedBy::default() }
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
            return Ok(Some(RouteMatch { policy, by, key, cost: 1, route, number: None }));
        }
        let (mut routes, folded) = (self.in_order.iter().enumerate(), OnceCell::new());
        let found = routes.find(|(_, route)| route.matches(request, &folded));
        found.map(|(number, route)| self.matched(number, route, request)).transpose()
    }

    /// The policy and key of the assets of a document that was asked for: by the first route for assets alone. `None` if
    /// there is no such route.
    pub fn find_assets<'a>(
        &'a self,
        document: &ClientRequest<'_>,
    ) -> Result<Option<RouteMatch<'a>>, AmbiguousRequest> {
        let host = |route: &Route| route.host.as_ref().is_none_or(|it| it.matches(&document.host));
        let mut routes = self.in_order.iter().enumerate();
        let found = routes.find(|(_, route)| route.assets == Some(true) && host(route));
        found.map(|(number, route)| self.matched(number, route, document)).transpose()
    }

    fn matched<'a>(
        &'a self,
        number: usize,
        route: &'a Route,
        request: &ClientRequest<'_>,
    ) -> Result<RouteMatch<'a>, AmbiguousRequest> {
        let Route { policy, key, cost, name, case, .. } = route;
        let by = key.as_ref().unwrap_or(&self.default_key);
        let route = MatchedRoute { name: Some(name), case: *case };
        let key = by.key_for(request, route)?;
        Ok(RouteMatch { policy, by, key, cost: *cost, route, number: Some(number) })
    }

    /// How many routes there are.
    pub const fn len(&self) -> usize {
        self.in_order.len()
    }

    /// The most parts of a request that any key may read.
    pub fn alternatives_max(&self) -> usize {
        let of_routes = self.in_order.iter().filter_map(|route| route.key.as_ref());
        let all = of_routes.chain(self.policy_keys.values()).map(CountedBy::alternatives);
        all.max().unwrap_or_default().max(self.default_key.alternatives())
    }

    /// The policy of each route.
    pub fn policies(&self) -> impl Iterator<Item = &str> {
        self.in_order.iter().map(|route| route.policy.as_str())
    }

    /// Whether any key depends on a header.
    pub fn reads_headers(&self) -> bool {
        let of_routes = self.in_order.iter().filter_map(|route| route.key.as_ref());
        of_routes.chain(self.policy_keys.values()).any(CountedBy::reads_headers)
    }

    /// What a policy counts by where a route has no key.
    pub fn key_of(&self, policy: &str) -> &CountedBy {
        self.policy_keys.get(policy).unwrap_or(&self.default_key)
    }
}

impl fmt::Display for BadMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a {}: expected {}", printable(&self.text), self.field, self.expected)
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;
    use crate::ClientIp;
    use crate::Peer;

    fn route(path: Option<&str>, methods: &[&str], host: Option<&str>, policy: &str) -> Route {
        Route::new(Match { path, methods, host, ..Match::default() }, policy, None, 1).unwrap()
    }

    #[test]
    fn the_first_route_that_matches_wins() {
        let routes = Routes::new(
            vec![
                route(Some("/api/login"), &["POST", "PUT"], None, "login"),
                route(Some("/api/*"), &[], Some("*.shop.example"), "shop"),
                route(Some("/api/*"), &[], None, "api"),
                route(None, &["DELETE"], None, "delete"),
            ],
            BTreeMap::new(),
        );
        let check = |method: &str, host: &str, path: &str, expected: Option<(&str, &str)>| {
            let request = Request::builder().method(method).uri(path).header("host", host);
            let (request, ()) = request.body(()).unwrap().into_parts();
            let client_ip = ClientIp::new();
            let peer = Peer::Ip("192.0.2.7".parse().unwrap());
            let seen = ClientRequest::direct(&client_ip, peer, &request).unwrap();
            let found = routes.find(&seen, None).unwrap();
            let found = found.as_ref().map(|found| (found.policy, found.route.name.unwrap()));
            assert_eq!(found, expected, "{method} {host} {path}");
        };
        check("POST", "a", "/api/login", Some(("login", "POST,PUT /api/login")));
        check("PUT", "a", "/api//login/", Some(("login", "POST,PUT /api/login")));
        check("GET", "a", "/api/login", Some(("api", "/api/*")));
        check("GET", "www.shop.example:80", "/api", Some(("shop", "*.shop.example/api/*")));
        check("DELETE", "a", "/other", Some(("delete", "DELETE /*")));
        check("GET", "a", "/other", None);
    }

    #[test]
    fn assets_are_told_by_method_and_path_and_never_by_headers() {
        let only = |assets| Match { assets: Some(assets), ..Match::default() };
        let routes = Routes::new(
            vec![
                Route::new(only(true), "assets", None, 1).unwrap(),
                Route::new(only(false), "pages", None, 1).unwrap(),
            ],
            BTreeMap::new(),
        );
        let client_ip = ClientIp::new();
        for (method, path, expected) in [
            ("GET", "/app.css", "assets"),
            ("HEAD", "/a/logo.SVG?v=2", "assets"),
            ("GET", "/", "pages"),
            ("GET", "/shop.html", "pages"),
            ("GET", "/login;x.css", "pages"),
            ("GET", "/login?x.css", "pages"),
            ("POST", "/app.css", "pages"),
            ("GET", "/api/chart.png", "pages"),
            ("GET", "/%61pi/chart.png", "pages"),
            ("GET", "/data.json", "pages"),
        ] {
            let request = Request::builder().method(method).uri(path);
            let request = request.header("accept", "text/css").header("sec-fetch-dest", "style");
            let (request, ()) = request.body(()).unwrap().into_parts();
            let seen = ClientRequest::direct(&client_ip, Peer::Unix, &request).unwrap();
            let found = routes.find(&seen, None).unwrap().map(|found| found.policy);
            assert_eq!(found, Some(expected), "{method} {path}");
            let assets = routes.find_assets(&seen).unwrap().map(|found| found.policy);
            assert_eq!(assets, Some("assets"), "{method} {path}");
        }
    }

    #[test]
    fn a_route_covers_one_that_it_matches_always() {
        let check = |one: Match<'_>, other: Match<'_>, expected: bool| {
            let route = |matched| Route::new(matched, "api", None, 1).unwrap();
            assert_eq!(route(one).covers(&route(other)), expected, "{one:?} {other:?}");
        };
        let path = |path| Match { path: Some(path), ..Match::default() };
        let any = Match::default();
        for (one, other, expected) in [
            (any, path("/login"), true),
            (path("/login"), any, false),
            (path("/*"), any, true),
            (path("/api/*"), path("/api/v1/*"), true),
            (path("/api/*"), path("/api"), false),
            (path("/api/*"), path("/api/*"), true),
            (path("/api/v1"), path("/api/*"), false),
            (path("/a"), path("/b"), false),
            (any, Match { methods: &["POST"], ..any }, true),
            (Match { methods: &["POST"], ..any }, any, false),
            (Match { methods: &["GET", "POST"], ..any }, Match { methods: &["POST"], ..any }, true),
            (
                Match { host: Some("*.example"), ..any },
                Match { host: Some("a.example"), ..any },
                true,
            ),
            (Match { host: Some("a.example"), ..any }, any, false),
            (Match { assets: Some(true), ..any }, any, false),
            (any, Match { assets: Some(true), ..any }, true),
            (Match { case: Case::Insensitive, ..path("/A") }, path("/a"), true),
            (path("/a"), Match { case: Case::Insensitive, ..path("/a") }, false),
        ] {
            check(one, other, expected);
        }
    }

    #[test]
    fn letter_case_evades_no_route_whose_server_ignores_it() {
        let case = Case::Insensitive;
        let matched = |path, case| Match { path: Some(path), case, ..Match::default() };
        let by_path = || KeyParts::read(["path"]).ok();
        let routes = Routes::new(
            vec![
                Route::new(matched("/Api/Login", case), "login", by_path(), 1).unwrap(),
                Route::new(matched("/api/*", Case::Sensitive), "api", by_path(), 1).unwrap(),
            ],
            BTreeMap::new(),
        );
        let client_ip = ClientIp::new();
        for (path, expected) in [
            ("/api/login", Some(("login", "/api/login"))),
            ("/API/login/", Some(("login", "/api/login"))),
            ("/api/LOG%49N;x", Some(("login", "/api/login"))),
            ("/api/Other", Some(("api", "/api/Other"))),
            ("/Api/other", None),
        ] {
            let (request, ()) = Request::get(path).body(()).unwrap().into_parts();
            let seen = ClientRequest::direct(&client_ip, Peer::Unix, &request).unwrap();
            let found = routes.find(&seen, None).unwrap();
            let found = found.map(|found| (found.policy, found.key.into_label()));
            let expected = expected.map(|(policy, key)| (policy, key.as_bytes().to_vec()));
            assert_eq!(found, expected, "{path}");
        }
    }

    #[test]
    fn all_that_makes_no_sense_in_a_route_is_told() {
        let matched = Match {
            path: Some("api"),
            methods: &["PO ST", "get"],
            host: Some("a b"),
            ..Match::default()
        };
        let bad = Route::new(matched, "api", None, 1).unwrap_err();
        let told: Vec<_> = bad.iter().map(|bad| (bad.field, bad.to_string())).collect();
        assert_eq!(
            told.iter().map(|(field, _)| *field).collect::<Vec<_>>(),
            ["path", "method", "method", "host"]
        );
        assert_eq!(told[2].1, "`get` is not a method: expected one like POST");
    }
}
