//! Routes: which requests they are for, and what their policies count by.

use std::collections::BTreeMap;

use tidegate::adaptive::Priority;
use tidegate::{Cidr, Policy};
use tidegate_core::text::printable;
use tidegate_core::{Algorithm, LimitSpec};
use tidegate_request::{
    BadChoice, BadMatch, Case, Choice, CountedBy, KeyParts, Match, Route, Routes, TenantKey,
};

use super::node::Cursor;
use super::text::{self, OneOrMany, RoutePolicy, RoutePriority};
use super::{adaptive, map_policies, policy, share};
use crate::plan::{Follows, Plan};

/// Far more than routes need. Each is searched for in the whole head of a request.
const PARTS_MATCHED_MAX: usize = 32;

/// The routes of a file, and what each policy counts by where a route has no key.
pub(crate) struct CheckedRoutes {
    pub(crate) in_order: Vec<Route>,
    pub(crate) policy_keys: BTreeMap<String, CountedBy>,
    /// The policies that each route may ask, and what the route counts by there.
    pub(crate) route_keys: Vec<Vec<(String, CountedBy)>>,
}

/// Checks the routes.
pub(crate) fn routes(file: &text::File, plans: &[Plan], top: &Cursor<'_>) -> CheckedRoutes {
    let by_url = by_url(plans);
    let policy_keys = policy_keys(file, &by_url, &top.field("policies"));
    let cursor = top.field("routes");
    let routes = file.routes.iter().enumerate().filter_map(|(index, text)| {
        let route = route(text, file, &by_url, &cursor.item(index));
        route.map(|route| (index, route))
    });
    let routes: Vec<(usize, Route)> = routes.collect();
    warn_of_unreachable(&routes, &cursor);
    let in_order: Vec<Route> = routes.into_iter().map(|(_, route)| route).collect();
    let all = Routes::new(in_order.clone(), policy_keys.clone());
    let matched = all.parts_matched();
    if matched > PARTS_MATCHED_MAX {
        cursor.report(format!(
            "match by {matched} different headers, cookies and parameters: expected at most {PARTS_MATCHED_MAX}"
        ));
    }
    if file.jwt.is_some() && !all.read_tokens() {
        top.field("jwt")
            .warn("is used by nothing: count by a claim, like `key: \"jwt:sub|client_ip\"`");
    }
    let route_keys = file.routes.iter().map(|text| route_keys(text, &by_url, &all)).collect();
    CheckedRoutes { in_order, policy_keys, route_keys }
}

/// What a route counts by, for each policy that it may ask.
fn route_keys(text: &text::Route, by_url: &[&str], all: &Routes) -> Vec<(String, CountedBy)> {
    let own = || text.key.as_ref().and_then(|key| key_parts(key).ok());
    let key = |(_, policy): (Option<&str>, &str)| {
        let own = own().filter(|_| !by_url.contains(&policy));
        let key = match (own, all.key_of(policy)) {
            (Some(tenant), CountedBy::Tenant(key)) => {
                CountedBy::Tenant(TenantKey { tenant, ..key.clone() })
            }
            (Some(own), _) => CountedBy::One(own),
            (None, of_policy) => of_policy.clone(),
        };
        (policy.to_owned(), key)
    };
    text.policy.names().map(key).collect()
}

/// What a key needs that the file does not have.
fn check_needs(parts: &KeyParts, file: &text::File, cursor: &Cursor<'_>) {
    if parts.reads_tokens() && lacks_jwt(file) {
        cursor.report(NEEDS_JWT);
    }
    if parts.reads_body() && file.proxy.is_none() {
        cursor.warn(
            "`json:` reads bodies, which only the reverse proxy has: without `proxy`, the value is always absent",
        );
    }
}

/// Whether the file has no section `jwt`. One with problems was reported, and left out.
const fn lacks_jwt(file: &text::File) -> bool {
    file.jwt.is_none() && !file.has_bad_jwt
}

const POLICIES_LIKE: &str = "{ by: \"header:x-plan\", pro: api-pro, else: api-free }";
const PRIORITIES_LIKE: &str = "{ by: \"header:x-plan\", pro: critical, else: batch }";

/// What is missing where a claim is named.
const NEEDS_JWT: &str = "`jwt:` needs the section `jwt`, with the keys of the issuer: otherwise no token can be verified";

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

/// A cost that a limit never admits refuses every request of a route.
pub(crate) fn warn_of_costs(
    file: &text::File,
    policies: &BTreeMap<String, Policy>,
    cursor: &Cursor<'_>,
) {
    // Checked policies can be built.
    let Some(engine) = policy::engine(policies) else { return };
    for (index, route) in file.routes.iter().enumerate() {
        let cost = route.cost.unwrap_or(1);
        for (_, name) in route.policy.names() {
            let Ok(view) = engine.policy_ref(name) else { continue };
            let asks_any = matches!(
                file.policies.get(name),
                Some(text::Policy::Map(options)) if options.any.is_some()
            );
            let fits = view.members().map(|member| member.limit.ceiling() / member.cost).min();
            if let Some(most) = fits.filter(|most| cost > *most && !asks_any) {
                cursor.item(index).field("cost").warn(format!(
                    "never fits into policy `{}`, so that all its requests are refused: expected at most {most}",
                    printable(name)
                ));
            }
        }
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
        let cursor = cursor.field(name);
        if let Some(key) = share::tenant_key(options) {
            let at = match options.key {
                Some(_) => cursor.field("key"),
                None => cursor.field("share").field("by"),
            };
            at.accept(options.key.as_ref().map_or(Ok(()), |key| key_parts(key).map(drop)))?;
            check_needs(&key.tenant, file, &at);
            let is_routed =
                || file.routes.iter().any(|it| it.policy.names().any(|(_, of)| of == name));
            if let Some(by) = share::weights_by(options).filter(|by| is_signed(by) || is_routed()) {
                check_believed(by, file, &cursor.field("share").field("weights"));
            }
            return Some((name.clone(), CountedBy::Tenant(key)));
        }
        if let Some(each) = identifiers(options, is_by_url) {
            for (_, parts) in &each {
                check_needs(parts, file, &cursor);
            }
            return Some((name.clone(), CountedBy::Each(each)));
        }
        let parts = cursor.field("key").accept(key_parts(options.key.as_ref()?))?;
        check_needs(&parts, file, &cursor.field("key"));
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
    by_url: &[&str],
    cursor: &Cursor<'_>,
) -> Option<Route> {
    let policy = policies(text, file, by_url, cursor);
    let priority = text.priority.as_ref().map(|it| priority(it, file, &cursor.field("priority")));
    // The policies are chosen below.
    let make = |matched: Match<'_>| Route::new(matched, "", None, text.cost.unwrap_or(1));
    let route = matched(text, make, &cursor.field("match"))?.choosing(policy?);
    Some(match priority {
        Some(priority) => route.prioritized(priority?),
        None => route,
    })
}

/// The policies that a route may ask, each with the key of the route if it has one.
fn policies(
    text: &text::Route,
    file: &text::File,
    by_url: &[&str],
    cursor: &Cursor<'_>,
) -> Option<Choice<(String, Option<KeyParts>)>> {
    let at = cursor.field("policy");
    for (value, name) in text.policy.names() {
        let at = value.map_or(at.clone(), |value| at.field(value));
        let Some(policy) = file.policies.get(name) else {
            at.report(policy::unknown(name, file, &at));
            continue;
        };
        // Our own proxy can delay and release; other proxies get an error when they ask.
        if let Some(why) = forward_auth_problem(policy, file.proxy.is_some()) {
            at.report(why);
        }
        if let text::Policy::Map(options) = policy
            && let Some(why) = share::route_problem(options, text.key.as_ref())
        {
            at.report(why);
        }
    }
    let own = text.key.as_ref().map(|key| cursor.field("key").accept(key_parts(key)));
    let own = own.map_or(Some(None), |own| own.map(Some))?;
    if let Some(own) = &own {
        check_needs(own, file, &cursor.field("key"));
    }
    let mut problems =
        text.policy.names().filter_map(|(_, name)| key_problem(name, text, file, by_url));
    if let Some(problem) = problems.next() {
        return cursor.field("key").reject(problem);
    }
    let with_key = |name: &String| {
        let key = own.clone().filter(|_| !by_url.contains(&name.as_str()));
        (name.clone(), key)
    };
    match &text.policy {
        RoutePolicy::Name(name) => Some(Choice::always(with_key(name))),
        RoutePolicy::By(choice) => {
            let named = choice.named.iter().map(|(value, name)| (value.clone(), with_key(name)));
            let made = Choice::by(&choice.by, named, with_key(&choice.otherwise));
            checked_choice(made, &choice.by, POLICIES_LIKE, file, &at)
        }
    }
}

/// Why the key of a route does not go with one of its policies.
fn key_problem(
    policy: &str,
    text: &text::Route,
    file: &text::File,
    by_url: &[&str],
) -> Option<&'static str> {
    let (Some(given), Some(text::Policy::Map(options))) = (&text.key, file.policies.get(policy))
    else {
        return None;
    };
    let is_by_url = by_url.contains(&policy);
    if identifiers(options, is_by_url).is_some() {
        return Some("each limit of the policy has a key of its own: remove this one");
    }
    let is_url = matches!(given.as_slice(), [only] if only == "url" || only == "path");
    let message = "the policy follows URLs and counts by them: remove the key";
    (is_by_url && !is_url).then_some(message)
}

fn priority(
    text: &RoutePriority,
    file: &text::File,
    cursor: &Cursor<'_>,
) -> Option<Choice<Priority>> {
    if !map_policies(file).any(|(_, options)| adaptive::has_in_flight(options)) {
        cursor.report("needs the `in_flight` of some policy: otherwise nothing is shed. `proxy.in_flight` has no priorities");
    }
    match text {
        RoutePriority::Word(word) => Some(Choice::always(adaptive::priority(*word))),
        RoutePriority::By(by) => {
            let named = by.named.iter().map(|(value, it)| (value.clone(), adaptive::priority(*it)));
            let made = Choice::by(&by.by, named, adaptive::priority(by.otherwise));
            checked_choice(made, &by.by, PRIORITIES_LIKE, file, cursor)
        }
    }
}

/// Reports why nothing can be chosen: where it is, with an example where something is missing.
fn checked_choice<T>(
    made: Result<Choice<T>, BadChoice>,
    by: &str,
    like: &str,
    file: &text::File,
    cursor: &Cursor<'_>,
) -> Option<Choice<T>> {
    if let Err(why @ BadChoice::Part(_)) = made {
        return cursor.field("by").reject(why);
    }
    check_believed(by, file, cursor);
    cursor.accept(made.map_err(|why| match why {
        BadChoice::Values(0) => format!("{why}, as in `{like}`"),
        why => why.to_string(),
    }))
}

fn is_signed(by: &str) -> bool {
    KeyParts::read([by]).is_ok_and(|parts| parts.reads_tokens())
}

/// Clients could name any plan, so that only trusted proxies are believed, and verified tokens.
fn check_believed(by: &str, file: &text::File, cursor: &Cursor<'_>) {
    if is_signed(by) {
        if lacks_jwt(file) {
            cursor.field("by").report(NEEDS_JWT);
        }
        return;
    }
    let trusts_nobody =
        |it: &text::ClientIp| it.trusted_proxies.is_empty() && it.trusted_hops.is_none();
    if file.client_ip.as_ref().is_none_or(trusts_nobody) {
        cursor.warn(
            "is chosen by what trusted proxies say, and `client_ip.trusted_proxies` names none: over TCP, every request \
             takes `else`",
        );
    }
}

/// Makes a route with the conditions of its text.
fn matched(
    text: &text::Route,
    make: impl FnOnce(Match<'_>) -> Result<Route, Vec<BadMatch>>,
    cursor: &Cursor<'_>,
) -> Option<Route> {
    let matches = text.matches.clone().unwrap_or_default();
    let methods = matches.method.as_ref().map_or(&[][..], OneOrMany::as_slice);
    let methods: Vec<&str> = methods.iter().map(String::as_str).collect();
    let (headers, cookies) = (pairs(&matches.header), pairs(&matches.cookie));
    let query = pairs(&matches.query);
    let count_before = cursor.problem_count();
    let networks = matches.network.as_ref().map_or(Vec::new(), |it| networks(it, cursor));
    let matched = Match {
        path: matches.path.as_deref(),
        methods: &methods,
        host: matches.host.as_deref(),
        assets: matches.assets,
        headers: &headers,
        cookies: &cookies,
        query: &query,
        networks: &networks,
        case: match text.case {
            Some(text::Case::Insensitive) => Case::Insensitive,
            Some(text::Case::Sensitive) | None => Case::Sensitive,
        },
    };
    let report = |bad: &BadMatch| {
        let field = cursor.field(bad.field);
        bad.name.as_ref().map_or(field.clone(), |name| field.field(name)).report(bad);
    };
    let route = make(matched).map_err(|bad| bad.iter().for_each(report)).ok();
    route.filter(|_| cursor.problem_count() == count_before)
}

fn pairs(named: &BTreeMap<String, String>) -> Vec<(&str, &str)> {
    named.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

fn networks(text: &OneOrMany, cursor: &Cursor<'_>) -> Vec<Cidr> {
    let cursor = cursor.field("network");
    if text.as_slice().is_empty() {
        cursor.report("is empty: expected a network like 10.0.0.0/8; without `network`, all match");
    }
    let network = |(index, network): (usize, &String)| {
        let cursor = match text {
            OneOrMany::One(_) => cursor.clone(),
            OneOrMany::Many(_) => cursor.item(index),
        };
        cursor.accept(network.parse::<Cidr>())
    };
    text.as_slice().iter().enumerate().filter_map(network).collect()
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
    let parts = KeyParts::read(text.as_slice().iter().map(String::as_str));
    parts.map_err(|why| {
        let mut words = text.as_slice().iter().flat_map(|part| part.split('|'));
        let meant = words.find_map(|word| Some((word.trim(), meant_part(word.trim())?)));
        meant.map_or(why, |(word, meant)| {
            format!("unknown key part `{}`, did you mean `{meant}`?", printable(word))
        })
    })
}

/// The key part that somebody meant who wrote it as other programs do: `jwt.sub`, `json:$.email`.
fn meant_part(word: &str) -> Option<String> {
    let is_part = |word: &str| KeyParts::read([word]).is_ok();
    let (name, argument) = word.split_once([':', '.']).filter(|_| !is_part(word))?;
    let argument = argument.strip_prefix("$.").unwrap_or(argument);
    let pointer = argument.replace('.', "/");
    let meant =
        if name == "json" { format!("json:/{pointer}") } else { format!("{name}:{argument}") };
    Some(meant).filter(|meant| is_part(meant))
}
