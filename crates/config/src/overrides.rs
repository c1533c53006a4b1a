//! Overrides: limits of single keys and networks.

use std::collections::{BTreeMap, HashSet};
use std::net::{IpAddr, Ipv6Addr};

use tidegate::tower::ClientIp;
use tidegate::{Cidr, Override, Policy};

use super::doors::ipv6_prefix;
use super::node::Cursor;
use super::policy::{self, built_alone, limit};
use super::text;
use tidegate_core::text::{printable, unknown_limit};
use tidegate_core::{LimitOrShaper, LimitSpec};

/// Adds overrides to the policies; warns of those that no request can match.
pub(crate) fn add(file: &text::File, policies: &mut BTreeMap<String, Policy>, cursor: &Cursor<'_>) {
    let mut seen = HashSet::new();
    // Without overrides, so that each override is checked by itself.
    let plain = policies.clone();
    for (index, text) in file.overrides.iter().enumerate() {
        let cursor = cursor.item(index);
        let key = cursor.field("key");
        let network = key.accept(network(&text.key)).flatten();
        // Compared by meaning, not by spelling: of two for the same key only the last would apply.
        let meant = network.map_or_else(|| text.key.clone(), |network| network.to_string());
        let limit_name = limit_meant(text, file);
        if !seen.insert((&text.policy, meant, limit_name)) {
            let of = limit_name.map(|name| format!(" of the limit `{}`", printable(name)));
            let (key_text, of) = (printable(&text.key), of.unwrap_or_default());
            key.report(format!("`{key_text}` has an override{of} already"));
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
        if let Some(plain) = plain.get(&text.policy).filter(|_| is_limit) {
            cursor.accept(built_alone(&text.policy, &add(plain.clone())));
        }
        policies.insert(text.policy.clone(), add(policy));
    }
}

/// The name of the limit that an override replaces, also where it may be left out.
fn limit_meant<'f>(text: &'f text::Override, file: &'f text::File) -> Option<&'f str> {
    let only = match file.policies.get(&text.policy) {
        Some(text::Policy::Map(options)) => {
            let mut members = options.members();
            let first = members.next().and_then(|member| member.name.as_deref());
            options.name.as_deref().or(first.filter(|_| members.next().is_none()))
        }
        _ => None,
    };
    let named = text.limit_name.as_deref();
    named.or(only.filter(|_| text.numbers().is_some()))
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
        return at.reject(policy::unknown(&text.policy, file, &at));
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
