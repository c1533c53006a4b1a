//! Overrides: limits of single keys and networks.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};

use tidegate::tower::ClientIp;
use tidegate::{Cidr, Override, Policy, PolicyProblem};

use super::doors::ipv6_prefix;
use super::node::Cursor;
use super::policy::{self, built_alone, limit};
use super::{share, text};
use tidegate_core::text::{printable, unknown_limit};
use tidegate_core::{LimitOrShaper, LimitSpec};

/// Adds overrides to the policies; warns of those that no request can match.
pub(crate) fn add(file: &text::File, policies: &mut BTreeMap<String, Policy>, cursor: &Cursor<'_>) {
    let mut seen: HashMap<_, Vec<_>> = HashMap::new();
    // Without overrides, so that each override is checked by itself.
    let plain = policies.clone();
    let shared = share::shared(file);
    for (index, text) in file.overrides.iter().enumerate() {
        let cursor = cursor.item(index);
        let key = cursor.field("key");
        let network = key.accept(network(&text.key)).flatten();
        // Compared by meaning, not by spelling: of two for the same key only the last would apply.
        let meant = network.map_or_else(|| text.key.clone(), |network| network.to_string());
        if let Some(message) =
            given_twice(text, file, seen.entry((&text.policy, meant)).or_default())
        {
            key.report(message);
        }
        if let Some(message) = network.and_then(|network| unmatched(network, text, file)) {
            key.warn(message);
        }
        let Some(value) = override_value(text, file, &cursor) else { continue };
        let Some(policy) = policies.remove(&text.policy) else { continue };
        let add = |policy: Policy| match network {
            Some(network) => policy.with_override_for(network, value.clone()),
            None => policy.with_override(&text.key, value.clone()),
        };
        let is_limit = matches!(value, Override::Limit(_) | Override::OneLimit { .. });
        if shared.contains(text.policy.as_str()) {
            if is_limit {
                cursor.report(PolicyProblem::OverrideOfShared);
            } else if text.key != "global" {
                key.warn("is no key of this policy, which counts `global`: give the override to a policy that shares it");
            }
        } else if let Some(plain) = plain.get(&text.policy).filter(|_| is_limit) {
            cursor.accept(built_alone(&text.policy, &add(plain.clone())));
        }
        policies.insert(text.policy.clone(), add(policy));
    }
}

/// What an override replaces.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Replaced<'f> {
    Whole,
    /// One of several limits.
    Limit(&'f str),
}

/// Why an override cannot stand beside the earlier ones of its policy and key, to which it is added.
fn given_twice<'f>(
    text: &'f text::Override,
    file: &text::File,
    earlier: &mut Vec<Replaced<'f>>,
) -> Option<String> {
    let options = match file.policies.get(&text.policy) {
        Some(text::Policy::Map(options)) => Some(options),
        _ => None,
    };
    let has_several = options.is_some_and(|options| options.members().nth(1).is_some());
    let replaced = match &text.limit_name {
        _ if text.numbers().is_none() => Replaced::Whole,
        Some(name) if has_several => Replaced::Limit(name),
        // Which one is missing, and reported.
        None if has_several => return None,
        // The only limit, named or not.
        _ => Replaced::Whole,
    };
    // One that is allowed by one identifier may be limited by another.
    let has_one_key =
        options.is_none_or(|options| options.members().all(|member| member.key.is_none()));
    let is_whole = |it: &Replaced<'_>| *it == Replaced::Whole;
    let is_same = earlier.contains(&replaced);
    let is_beside = has_one_key && earlier.iter().any(|it| is_whole(it) != is_whole(&replaced));
    earlier.push(replaced);
    let key = printable(&text.key);
    match replaced {
        Replaced::Limit(name) if is_same => {
            let name = printable(name);
            Some(format!("`{key}` has an override of the limit `{name}` already"))
        }
        _ if is_same => Some(format!("`{key}` has an override already")),
        _ if is_beside => Some(format!(
            "`{key}` has an override already: with `allow` or `block` for the whole policy, a limit of its own is never asked"
        )),
        _ => None,
    }
}

/// The override: exactly one of a limit, `allow` and `block`.
fn override_value(
    text: &text::Override,
    file: &text::File,
    cursor: &Cursor<'_>,
) -> Option<Override> {
    let (allow, block) = (text.allow == Some(true), text.block == Some(true));
    let Some(policy) = file.policies.get(&text.policy) else {
        let at = cursor.field("policy");
        let meant = limit_of_policy(&text.policy, file);
        return at.reject(meant.unwrap_or_else(|| policy::unknown(&text.policy, file, &at)));
    };
    if (allow || block) && text.limit_name.is_some() {
        let message =
            "is given with `allow` or `block`, which are for the whole policy: leave it out";
        return cursor.field("limit_name").reject(message);
    }
    match (text.numbers(), allow, block) {
        (Some(numbers), false, false) => {
            let (spec, name) = replaced(text, policy, cursor)?;
            let limit = own_limit(&spec.with_numbers(&numbers), cursor)?;
            Some(match name {
                Some(name) => Override::OneLimit { name, limit },
                None => Override::Limit(limit),
            })
        }
        (None, true, false) => Some(Override::Allow),
        (None, false, true) => Some(Override::Block),
        _ => cursor.reject("expected one of `limit`, `allow: true` and `block: true`"),
    }
}

/// What to write instead of a policy and its limit in one name, as metrics have them.
fn limit_of_policy(name: &str, file: &text::File) -> Option<String> {
    let (policy, limit) = name.split_once(['.', '/'])?;
    let text::Policy::Map(options) = file.policies.get(policy)? else { return None };
    options.members().find(|member| member.name.as_deref() == Some(limit))?;
    let [name, policy, limit] = [name, policy, limit].map(printable);
    Some(format!("no policy is called `{name}`: write `policy: {policy}, limit_name: {limit}`"))
}

/// The limit of the policy that an override replaces, and its name where the policy has several.
fn replaced(
    text: &text::Override,
    policy: &text::Policy,
    cursor: &Cursor<'_>,
) -> Option<(LimitSpec, Option<String>)> {
    let (own_name, members) = match policy {
        text::Policy::Line(_) => (None, Vec::new()),
        text::Policy::Map(options) => (options.name.as_deref(), options.members().collect()),
    };
    let names: Vec<_> = members.iter().filter_map(|member| member.name.as_deref()).collect();
    let policy_name = printable(&text.policy);
    match (&text.limit_name, &*members) {
        (None, []) => {}
        (Some(name), []) if own_name == Some(name) => {}
        (Some(_), []) => {
            let message = format!("policy `{policy_name}` has one limit: leave `limit_name` out");
            return cursor.field("limit_name").reject(message);
        }
        (None, [only]) => return Some((only.limit.spec(), None)),
        (None, _) => {
            let names = names.join(", ");
            return cursor.field("limit").reject(format!(
                "replaces one limit, and policy `{policy_name}` has several: add `limit_name`, one of {names}"
            ));
        }
        (Some(name), _) => {
            let found = members.iter().find(|member| member.name.as_ref() == Some(name));
            return match found {
                Some(member) => Some((member.limit.spec(), Some(name.clone()))),
                None => cursor.field("limit_name").reject(unknown_limit(name, &names)),
            };
        }
    }
    // The problems of an unreadable line are reported with its policy.
    Some((policy.limit_spec()?, None))
}

/// A limit of the policy with other numbers.
fn own_limit(spec: &LimitSpec, cursor: &Cursor<'_>) -> Option<tidegate::Limit> {
    match limit(spec, cursor)? {
        LimitOrShaper::Limit(limit) => Some(limit),
        LimitOrShaper::Shaper(_) => {
            cursor.reject("a leaky bucket cannot have limits by key: use allow or block")
        }
    }
}

/// The network that a key names, if any. An IPv6 address counts as one, because it has many spellings; an IPv4 address is
/// a plain key.
pub fn network(key: &str) -> Result<Option<Cidr>, String> {
    let is_network = match key.split_once('/') {
        Some((address, _)) => address.parse::<IpAddr>().is_ok(),
        None => key.parse::<Ipv6Addr>().is_ok(),
    };
    match key {
        "" => Err("is empty: expected a key or a network".to_owned()),
        _ if !is_network => Ok(None),
        _ => key.parse().map(Some).map_err(|error: tidegate::CidrError| error.to_string()),
    }
}

/// The warning for a network that is smaller than a client: no request ever has it as its key.
fn unmatched(network: Cidr, text: &text::Override, file: &text::File) -> Option<String> {
    let meant = network.to_string();
    let (address, bits) = meant.split_once('/').unwrap_or((&meant, "128"));
    // IPv4 clients are counted by their whole address.
    let address: Ipv6Addr = address.parse().ok()?;
    let prefix = ipv6_prefix(file);
    if bits.parse::<u8>().ok()? <= prefix || !counts_clients(&text.policy, file) {
        return None;
    }
    let key = printable(&text.key);
    let client = ClientIp::new().ipv6_prefix(prefix).name(address.into());
    Some(format!(
        "`{key}` never matches: routes count IPv6 clients by their /{prefix}: write `{client}`, or raise \
         `client_ip.ipv6_prefix`"
    ))
}

/// Whether a route counts requests of a policy by the client's address alone.
fn counts_clients(policy: &str, file: &text::File) -> bool {
    let own = match file.policies.get(policy) {
        Some(text::Policy::Map(options)) => options.key.as_ref(),
        _ => None,
    };
    let mut keys =
        file.routes.iter().filter(|route| route.policy.names().any(|(_, name)| name == policy));
    keys.any(|route| route.key.as_ref().or(own).is_none_or(|key| key.as_slice() == ["client_ip"]))
}
