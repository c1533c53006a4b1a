//! What single keys and networks get instead of a policy.

use std::collections::{BTreeMap, HashSet};
use std::net::{IpAddr, Ipv6Addr};

use tidegate::tower::ClientIp;
use tidegate::{Cidr, Override, Policy};

use super::adaptive::Notes;
use super::doors::ipv6_prefix;
use super::node::Spot;
use super::policy::{built_alone, limit};
use super::problem::Problem;
use super::text;
use tidegate_core::text::{printable, unknown_policy};
use tidegate_core::{LimitOrShaper, LimitSpec};

/// Adds overrides to the policies; what is wrong is noted, and what will never be asked for.
pub(crate) fn add(
    file: &text::File,
    policies: &mut BTreeMap<String, Policy>,
    spot: &Spot<'_>,
    notes: &mut Notes<'_>,
) {
    let Notes { found, warnings } = notes;
    let mut seen = HashSet::new();
    // As they are without overrides, so that each is checked by itself.
    let plain = policies.clone();
    for (index, text) in file.overrides.iter().enumerate() {
        let spot = spot.item(index);
        let key = spot.of("key");
        let network = key.note(network(&text.key), found).flatten();
        // By who is meant, however that is spelled: of two, only the last would hold.
        let meant = network.map_or_else(|| text.key.clone(), |network| network.to_string());
        if !seen.insert((&text.policy, meant)) {
            found.push(key.problem(format!("`{}` has one already", printable(&text.key))));
        }
        let nobody = network.and_then(|network| nobody(network, text, file));
        warnings.extend(nobody.map(|message| key.problem(message)));
        let Some(instead) = instead(text, file, &spot, found) else { continue };
        let Some(policy) = policies.remove(&text.policy) else { continue };
        let add = |policy: Policy| match network {
            Some(network) => policy.with_override_for(network, instead.clone()),
            None => policy.with_override(&text.key, instead.clone()),
        };
        if let (Override::Limit(_), Some(plain)) = (&instead, plain.get(&text.policy)) {
            spot.note(built_alone(&text.policy, &add(plain.clone())), found);
        }
        policies.insert(text.policy.clone(), add(policy));
    }
}

/// What the key gets: exactly one of a limit, everything and nothing.
fn instead(
    text: &text::Override,
    file: &text::File,
    spot: &Spot<'_>,
    found: &mut Vec<Problem>,
) -> Option<Override> {
    let (allow, block) = (text.allow == Some(true), text.block == Some(true));
    let Some(policy) = file.policies.get(&text.policy) else {
        let names = file.policies.keys().map(String::as_str);
        found.push(spot.of("policy").problem(unknown_policy(&text.policy, names)));
        return None;
    };
    match (text.numbers(), allow, block) {
        (Some(numbers), false, false) => own(&numbers, policy, spot, found).map(Override::Limit),
        (None, true, false) => Some(Override::Allow),
        (None, false, true) => Some(Override::Block),
        _ => {
            found.push(spot.problem("expected one of `limit`, `allow: true` and `block: true`"));
            None
        }
    }
}

/// The policy's own limit with other numbers.
fn own(
    numbers: &LimitSpec,
    policy: &text::Policy,
    spot: &Spot<'_>,
    found: &mut Vec<Problem>,
) -> Option<tidegate::Limit> {
    // The problems of an unreadable line are reported with its policy.
    let spec = policy.limit_spec()?.with_numbers(numbers);
    match limit(&spec, spot, found)? {
        LimitOrShaper::Limit(limit) => Some(limit),
        LimitOrShaper::Shaper(_) => {
            found.push(spot.problem("a leaky bucket has no limits by key: use allow or block"));
            None
        }
    }
}

/// The network that a key names, if it names one. So does an address of IPv6, which has many spellings; one of IPv4 is a
/// key like any other.
pub fn network(key: &str) -> Result<Option<Cidr>, String> {
    let is_network = match key.split_once('/') {
        Some((address, _)) => address.parse::<IpAddr>().is_ok(),
        None => key.parse::<Ipv6Addr>().is_ok(),
    };
    match key {
        "" => Err("is empty: whoever is meant needs a name".to_owned()),
        _ if !is_network => Ok(None),
        _ => key.parse().map(Some).map_err(|error: tidegate::CidrError| error.to_string()),
    }
}

/// What is said of a part of what clients are counted by: requests never have it for a key.
fn nobody(network: Cidr, text: &text::Override, file: &text::File) -> Option<String> {
    let meant = network.to_string();
    let (address, bits) = meant.split_once('/').unwrap_or((&meant, "128"));
    // Those of IPv4 are counted one by one.
    let address: Ipv6Addr = address.parse().ok()?;
    let prefix = ipv6_prefix(file);
    if bits.parse::<u8>().ok()? <= prefix || !counts_clients(&text.policy, file) {
        return None;
    }
    let key = printable(&text.key);
    let client = ClientIp::new().ipv6_prefix(prefix).name(address.into());
    Some(format!(
        "`{key}` is no client by itself: routes count clients of IPv6 by their /{prefix}, so write `{client}`, or raise \
         `client_ip.ipv6_prefix`"
    ))
}

/// Whether a route counts requests of a policy by the client's address alone.
fn counts_clients(policy: &str, file: &text::File) -> bool {
    let own = match file.policies.get(policy) {
        Some(text::Policy::Map(options)) => options.key.as_ref(),
        _ => None,
    };
    let mut keys = file.routes.iter().filter(|route| route.policy == policy);
    keys.any(|route| route.key.as_ref().or(own).is_none_or(|key| key.as_slice() == ["client_ip"]))
}
