//! What single keys and networks get instead of a policy.

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;

use tidegate::{Cidr, Override, Policy};

use super::limit::{self, Checked};
use super::line;
use super::node::Spot;
use super::policy::built_alone;
use super::problem::Problem;
use super::text;
use crate::text::{closest, printable};

/// Adds overrides to the policies; what is wrong is noted.
pub(crate) fn add(
    file: &text::File,
    policies: &mut BTreeMap<String, Policy>,
    spot: &Spot<'_>,
    found: &mut Vec<Problem>,
) {
    let mut seen = HashSet::new();
    // As they are without overrides, so that each is checked by itself.
    let plain = policies.clone();
    for (index, text) in file.overrides.iter().enumerate() {
        let spot = spot.item(index);
        if !seen.insert((&text.policy, &text.key)) {
            let message = format!("`{}` has one already", printable(&text.key));
            found.push(spot.of("key").problem(message));
        }
        let Some(instead) = instead(text, file, &spot, found) else { continue };
        let Some(policy) = policies.remove(&text.policy) else { continue };
        let network = spot.of("key").note(network(&text.key), found).flatten();
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
    let own_limit = text.limit.is_some() || text.refill.is_some();
    let extra = text.burst.is_some() || text.capacity.is_some();
    let (allow, block) = (text.allow == Some(true), text.block == Some(true));
    let Some(policy) = file.policies.get(&text.policy) else {
        let names = file.policies.keys().map(String::as_str);
        found.push(spot.of("policy").problem(unknown_policy(&text.policy, names)));
        return None;
    };
    match (own_limit || extra, allow, block) {
        (true, false, false) => own(text, policy, spot, found).map(Override::Limit),
        (false, true, false) => Some(Override::Allow),
        (false, false, true) => Some(Override::Block),
        _ => {
            found.push(spot.problem("expected one of `limit`, `allow: true` and `block: true`"));
            None
        }
    }
}

/// The policy's own limit with other numbers.
fn own(
    text: &text::Override,
    policy: &text::Policy,
    spot: &Spot<'_>,
    found: &mut Vec<Problem>,
) -> Option<tidegate::Limit> {
    let mut limit = match policy {
        // Its own problems are told with the policy.
        text::Policy::Line(line) => line::limit(line).ok()?,
        text::Policy::Map(options) => options.limit_text(),
    };
    limit.limit = text.limit.clone().or(limit.limit.filter(|_| text.refill.is_none()));
    limit.refill = text.refill.clone().or(limit.refill);
    (limit.burst, limit.capacity) = (text.burst, text.capacity.or(limit.capacity));
    match limit::limit(&limit, spot, found)? {
        Checked::Limit(limit) => Some(limit),
        Checked::Shaper(_) => {
            found.push(spot.problem("a leaky bucket has no limits by key: use allow or block"));
            None
        }
    }
}

/// The network that a key names, if it names one. A single address is a key like any other.
fn network(key: &str) -> Result<Option<Cidr>, String> {
    match key.split_once('/') {
        Some((address, _)) if address.parse::<IpAddr>().is_ok() => {
            key.parse().map(Some).map_err(|error: tidegate::CidrError| error.to_string())
        }
        _ if key.is_empty() => Err("is empty: whoever is meant needs a name".to_owned()),
        _ => Ok(None),
    }
}

/// What is said of a policy that nobody has defined.
pub(crate) fn unknown_policy<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let name = printable(name);
    match closest(&name, known) {
        Some(meant) => format!("no policy is called `{name}`, did you mean `{meant}`?"),
        None => format!("no policy is called `{name}`"),
    }
}
