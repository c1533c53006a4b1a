//! Overrides: limits of single keys and networks.

use std::collections::{BTreeMap, HashSet};
use std::net::{IpAddr, Ipv6Addr};

use tidegate::tower::ClientIp;
use tidegate::{Cidr, Override, Policy};

use super::doors::ipv6_prefix;
use super::node::Cursor;
use super::policy::{built_alone, limit};
use super::text;
use tidegate_core::text::{printable, unknown_policy};
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
        if !seen.insert((&text.policy, meant)) {
            key.report(format!("`{}` has an override already", printable(&text.key)));
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
        if let (Override::Limit(_), Some(plain)) = (&value, plain.get(&text.policy)) {
            cursor.accept(built_alone(&text.policy, &add(plain.clone())));
        }
        policies.insert(text.policy.clone(), add(policy));
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
        let names = file.policies.keys().map(String::as_str);
        return cursor.field("policy").reject(unknown_policy(&text.policy, names));
    };
    match (text.numbers(), allow, block) {
        (Some(numbers), false, false) => own_limit(&numbers, policy, cursor).map(Override::Limit),
        (None, true, false) => Some(Override::Allow),
        (None, false, true) => Some(Override::Block),
        _ => cursor.reject("expected one of `limit`, `allow: true` and `block: true`"),
    }
}

/// The policy's own limit with other numbers.
fn own_limit(
    numbers: &LimitSpec,
    policy: &text::Policy,
    cursor: &Cursor<'_>,
) -> Option<tidegate::Limit> {
    // The problems of an unreadable line are reported with its policy.
    let spec = policy.limit_spec()?.with_numbers(numbers);
    match limit(&spec, cursor)? {
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
