//! What a reload makes of a setting that differs.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use tidegate::driver::StoreDrivers;
use tidegate::{Engine, PolicyView};
use tidegate_core::text::printable;

use super::ORDER;
use crate::proxy::InFlightScope;
use crate::reload::{Forgotten, begun, forgotten};
use crate::{Config, policy};

/// These take effect at the next start.
const NEEDS_RESTART: [&str; 4] = ["store", "listen", "key_prefix", "telemetry"];

const AT_ONCE: &str = "takes effect at once";
const KEPT: &str = "counters are kept";
const FROM_ZERO: &str = "starts from zero";

/// What decides which counter `proxy.in_flight` has.
const OF_IN_FLIGHT: [&str; 2] = ["in_flight.scope", "upstream"];

/// What effects depend on, of both configurations.
pub(super) struct Effects {
    forgotten: Vec<Forgotten>,
    /// The policies and limits that only the new one has, of policies that both have.
    begun: Vec<(String, String)>,
    /// Whether a policy that both have is enforced for more callers, or for fewer.
    enforced: BTreeMap<String, Ordering>,
    /// The entries of routes and policies that count by the same keys as before.
    same_keys: BTreeSet<String>,
    /// Whether requests at the upstreams have another counter.
    in_flight_anew: bool,
}

/// A setting that differs.
#[derive(Clone, Copy)]
pub(super) struct Setting<'a> {
    /// The policy, route or section that it belongs to.
    pub(super) entry: &'a str,
    /// Where it is in there.
    pub(super) path: &'a str,
    /// Whether it is the whole entry, which only one of the files has.
    pub(super) is_whole: bool,
    /// Whether the old file has it, and the new one.
    pub(super) is_there: (bool, bool),
}

impl Effects {
    pub(super) fn new(
        old: &Config,
        new: &Config,
        same_keys: BTreeSet<String>,
        stores: StoreDrivers,
    ) -> Self {
        let (before, after) = (enforced(old), enforced(new));
        let compared = before.into_iter().filter_map(|(policy, part)| {
            let order = after.get(&policy)?.cmp(&part);
            Some((policy, order))
        });
        Self {
            forgotten: forgotten(old, new, stores),
            begun: begun(old, new),
            enforced: compared.collect(),
            same_keys,
            in_flight_anew: in_flight_counter(old)
                .zip(in_flight_counter(new))
                .is_some_and(|(old, new)| old != new),
        }
    }

    pub(super) fn of(&self, setting: Setting<'_>) -> String {
        let Setting { entry, path, is_whole, .. } = setting;
        let section = entry.split(['.', '[']).next().unwrap_or(entry);
        let effect = match section {
            _ if NEEDS_RESTART.contains(&section) => "takes effect at the next start",
            "policies" if is_whole => return self.of_whole_policy(setting),
            "policies" => return self.of_policy(setting),
            "mode" => return self.of_mode(),
            "routes" if is_whole => AT_ONCE,
            "routes" if path == "key" && self.same_keys.contains(entry) => KEPT,
            "routes" if path == "key" => {
                "its requests are counted under other keys, which start from zero"
            }
            "routes" if path == "policy" => "its requests are counted by another policy",
            "routes" if path.starts_with("policy.") => {
                "some of its requests are counted by another policy"
            }
            "routes" if path == ORDER => {
                "requests that several of these match take the first of them"
            }
            "proxy" if self.in_flight_anew && OF_IN_FLIGHT.contains(&path) => {
                "requests at the upstreams are counted from zero: those under way are not counted any more"
            }
            "client_ip" | "jwt" => "clients may be counted under other keys, which start from zero",
            _ => AT_ONCE,
        };
        effect.to_owned()
    }

    /// Of the mode of all policies together.
    fn of_mode(&self) -> String {
        let differs = |it: &&Ordering| it.is_ne();
        let refused = self.enforced.values().find(differs).and_then(|it| refused(*it));
        refused.map_or_else(|| AT_ONCE.to_owned(), |refused| format!("{refused}; {KEPT}"))
    }

    /// Of a policy that only one of the files has.
    fn of_whole_policy(&self, setting: Setting<'_>) -> String {
        if setting.is_there.1 {
            return FROM_ZERO.to_owned();
        }
        let renamed = self.forgotten.iter().find_map(|it| match it {
            Forgotten::Policy { policy, renamed } if setting.is_of(policy) => renamed.as_ref(),
            _ => None,
        });
        match renamed {
            Some(name) => format!("is called {name} now: what it has counted is forgotten"),
            None => "checks of it are errors, and what it has counted is forgotten".to_owned(),
        }
    }

    /// Of a setting of a policy that both files have.
    fn of_policy(&self, setting: Setting<'_>) -> String {
        if let Some(gone) = self.gone_limit(setting) {
            return gone;
        }
        let begins = |(policy, limit): &(String, String)| setting.is_in(policy, limit);
        let is_new = self.begun.iter().any(begins) || self.is_forgotten(setting);
        let counters = match setting.path {
            _ if is_new => FROM_ZERO,
            "key" | "share.by" if !self.same_keys.contains(setting.entry) => {
                "counters are kept; requests may be counted under other keys, which start from zero"
            }
            _ => KEPT,
        };
        match self.refused_by(setting) {
            Some(refused) => format!("{refused}; {counters}"),
            None => counters.to_owned(),
        }
    }

    fn refused_by(&self, setting: Setting<'_>) -> Option<&'static str> {
        let decides = matches!(setting.path, "mode" | "enforce");
        let mut of_policy = self.enforced.iter().filter(|(policy, _)| setting.is_of(policy));
        of_policy.next().filter(|_| decides).and_then(|(_, order)| refused(*order))
    }

    /// Of a setting that is gone with its limit.
    fn gone_limit(&self, setting: Setting<'_>) -> Option<String> {
        let (_, false) = setting.is_there else { return None };
        let renamed = self.forgotten.iter().find_map(|it| match it {
            Forgotten::Limit { policy, limit, renamed } if setting.is_in(policy, limit) => {
                Some(renamed.as_deref())
            }
            _ => None,
        })?;
        let what = renamed.map(|name| format!("is called {} now", printable(name)));
        let what = what.unwrap_or_else(|| "is gone".to_owned());
        Some(format!("{what}: what it has counted is forgotten"))
    }

    /// Whether counters of a policy, or of the limit that a path is in, are forgotten.
    fn is_forgotten(&self, setting: Setting<'_>) -> bool {
        self.forgotten.iter().any(|it| match it {
            Forgotten::Prefix
            | Forgotten::Store
            | Forgotten::Hashes
            | Forgotten::OddHashes
            | Forgotten::Snapshot { .. }
            | Forgotten::MaxBytes => false,
            Forgotten::Policy { policy, .. }
            | Forgotten::Tag { policy, .. }
            | Forgotten::Quorum { policy, .. } => setting.is_of(policy),
            Forgotten::Limit { policy, limit, .. }
            | Forgotten::Algorithm { policy, limit, .. }
            | Forgotten::Identifier { policy, limit } => {
                setting.is_of(policy) && (limit.is_empty() || setting.is_in(policy, limit))
            }
        })
    }
}

impl Setting<'_> {
    fn is_of(self, policy: &str) -> bool {
        self.entry.strip_prefix("policies.") == Some(&*printable(policy))
    }

    /// Whether it belongs to this limit. One without a name is the policy's only one.
    fn is_in(self, policy: &str, limit: &str) -> bool {
        let is_in = match limit {
            "" => !self.path.contains('['),
            limit => self.path.contains(&format!("[{}]", printable(limit))),
        };
        is_in && self.is_of(policy)
    }
}

/// What it means for callers that a policy is enforced for more of them, or for fewer.
const fn refused(order: Ordering) -> Option<&'static str> {
    match order {
        Ordering::Greater => Some("more callers are refused"),
        Ordering::Less => Some("fewer callers are refused"),
        Ordering::Equal => None,
    }
}

/// What the requests at the upstreams are counted by: this node, or the upstreams of a fleet in any order.
fn in_flight_counter(config: &Config) -> Option<BTreeSet<String>> {
    let proxy = config.proxy.as_ref()?;
    Some(match proxy.in_flight?.scope {
        InFlightScope::Node => BTreeSet::new(),
        InFlightScope::Fleet => proxy.upstreams.iter().map(ToString::to_string).collect(),
    })
}

/// The part of the callers that each policy may refuse, in millionths.
fn enforced(config: &Config) -> BTreeMap<String, u32> {
    let part = |view: PolicyView<'_>| match view.enforce() {
        _ if view.is_shadow() => 0,
        Some(part) => part.millionths(),
        None => 1_000_000,
    };
    // Checked policies can be built.
    let engine = policy::engine(&config.policies);
    let policies = engine.iter().flat_map(Engine::policies);
    policies.map(|view| (view.name().to_owned(), part(view))).collect()
}
