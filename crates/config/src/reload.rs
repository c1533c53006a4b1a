//! What a reload from one configuration to another forgets: counters that the new one does not find again. Pure: two
//! checked configurations in, findings out.

use std::collections::BTreeMap;
use std::fmt;

use tidegate::driver::{MemoryOptions, StoreDrivers};
use tidegate::{Engine, PolicyView};

use crate::secret::SecretSource;
use crate::store::StoreChoice;
use crate::{Config, policy};

/// One thing that a reload forgets. It reads as a sentence about the new configuration.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Forgotten {
    /// Everything: other keys.
    Prefix,
    /// Everything, if the URL names another server.
    Store,
    /// Everything: identifiers have other hashes.
    Hashes,
    /// The counters of identifiers that are hashed because they are long or no plain text.
    OddHashes,
    /// Everything that the memory store has saved. It is saved to another file now, or to none.
    Snapshot { moved: bool },
    /// What no longer fits into the memory store.
    MaxBytes,
    /// A policy is not there any more. Another one has the same limits, and was not there before.
    Policy { policy: String, renamed: Option<String> },
    /// A limit of a policy is not there any more. Another one is the same, and was not there before.
    Limit { policy: String, limit: String, renamed: Option<String> },
    /// Another algorithm keeps another kind of state.
    Algorithm { policy: String, limit: String, from: &'static str, to: &'static str },
    /// A limit counts another identifier.
    Identifier { policy: String, limit: String },
    /// The other store counts it: the quorum from now on, or the main store.
    Quorum { policy: String, into: bool },
    /// Its limits count several identifiers, or do not any more: in a cluster its keys have another tag.
    Tag { policy: String, sure: bool },
}

/// A limit as a counter depends on it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Counter {
    key: Option<String>,
    letter: char,
    algorithm: &'static str,
    /// With all its numbers, to recognise it under another name.
    line: String,
}

/// A policy as its counters depend on it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Counters {
    by_limit: BTreeMap<String, Counter>,
    is_together: bool,
    /// Whether a second store counts it.
    is_in_quorum: bool,
}

/// What a reload from `old` to `new` forgets, sorted.
pub fn forgotten(old: &Config, new: &Config, stores: StoreDrivers) -> Vec<Forgotten> {
    let mut found = Vec::new();
    if old.key_prefix != new.key_prefix {
        found.push(Forgotten::Prefix);
    }
    if old.store.url != new.store.url || old.store.quorum != new.store.quorum {
        found.push(Forgotten::Store);
    }
    found.extend(of_hashes(&old.store, &new.store, stores));
    if old.store.url == new.store.url {
        found.extend(of_snapshot(&old.store.memory, &new.store.memory));
    }
    let (before, after) = (counters(old), counters(new));
    for (policy, counters) in &before {
        match after.get(policy) {
            None => found.push(Forgotten::Policy {
                policy: policy.clone(),
                renamed: other_name(counters, &before, &after),
            }),
            Some(now) => compare(policy, counters, now, in_cluster(new, stores), &mut found),
        }
    }
    found.sort();
    found
}

/// What another secret of the hashes forgets.
fn of_hashes(old: &StoreChoice, new: &StoreChoice, stores: StoreDrivers) -> Option<Forgotten> {
    let hashes = |store: &StoreChoice| store.hash_key.clone().filter(|_| store.hash_keys);
    // Only stores over the network have identifiers in their keys.
    let is_local = matches!(&new.url, SecretSource::Given(url) if stores.is_local(&url.0));
    if hashes(old) != hashes(new) {
        Some(Forgotten::Hashes)
    } else if old.hash_key != new.hash_key && !is_local {
        Some(Forgotten::OddHashes)
    } else {
        None
    }
}

/// What the next start does not restore. Without a snapshot, every restart forgets everything.
fn of_snapshot(old: &MemoryOptions, new: &MemoryOptions) -> Option<Forgotten> {
    let saved = old.snapshot.as_ref()?;
    let bytes = |memory: &MemoryOptions| memory.max_bytes.unwrap_or(MemoryOptions::MAX_BYTES);
    match &new.snapshot {
        Some(restored) if restored == saved => {
            (bytes(new) < bytes(old)).then_some(Forgotten::MaxBytes)
        }
        other => Some(Forgotten::Snapshot { moved: other.is_some() }),
    }
}

/// The policies and limits that only `new` has, of policies that both have.
pub(crate) fn begun(old: &Config, new: &Config) -> Vec<(String, String)> {
    let (before, mut found) = (counters(old), Vec::new());
    for (policy, now) in counters(new) {
        let Some(known) = before.get(&policy) else { continue };
        let limits = now.by_limit.into_keys().filter(|limit| !known.by_limit.contains_key(limit));
        found.extend(limits.map(|limit| (policy.clone(), limit)));
    }
    found
}

/// Compares a policy that keeps its name.
fn compare(
    policy: &str,
    before: &Counters,
    now: &Counters,
    in_cluster: Option<bool>,
    found: &mut Vec<Forgotten>,
) {
    let policy = || policy.to_owned();
    for (name, counter) in &before.by_limit {
        let limit = name.clone();
        match now.by_limit.get(name) {
            None => {
                let renamed = other_name(counter, &before.by_limit, &now.by_limit);
                found.push(Forgotten::Limit { policy: policy(), limit, renamed });
            }
            Some(same) if same.letter != counter.letter => {
                let (from, to) = (counter.algorithm, same.algorithm);
                found.push(Forgotten::Algorithm { policy: policy(), limit, from, to });
            }
            Some(same) if same.key != counter.key => {
                found.push(Forgotten::Identifier { policy: policy(), limit });
            }
            Some(_) => {}
        }
    }
    if before.is_in_quorum != now.is_in_quorum {
        found.push(Forgotten::Quorum { policy: policy(), into: now.is_in_quorum });
    }
    if before.is_together != now.is_together && in_cluster != Some(false) {
        found.push(Forgotten::Tag { policy: policy(), sure: in_cluster.is_some() });
    }
}

/// The only new name of something, if it is there once under a name that is new.
fn other_name<T: PartialEq>(
    wanted: &T,
    before: &BTreeMap<String, T>,
    after: &BTreeMap<String, T>,
) -> Option<String> {
    let mut same = after.iter().filter(|(name, it)| *it == wanted && !before.contains_key(*name));
    let (name, _) = same.next()?;
    same.next().is_none().then(|| name.clone())
}

/// Whether the store spreads keys over nodes; `None` if its URL is in a file, which is not read.
fn in_cluster(config: &Config, stores: StoreDrivers) -> Option<bool> {
    match &config.store.url {
        SecretSource::Given(url) => Some(stores.spreads_keys(&url.0)),
        SecretSource::File(_) => None,
    }
}

fn counters(config: &Config) -> BTreeMap<String, Counters> {
    // Checked policies can be built.
    let engine = policy::engine(&config.policies);
    let has_quorum = config.store.quorum.is_some();
    let counters = |view: PolicyView<'_>| (view.name().to_owned(), of_policy(view, has_quorum));
    engine.iter().flat_map(Engine::policies).map(counters).collect()
}

fn of_policy(view: PolicyView<'_>, has_quorum: bool) -> Counters {
    let mut by_limit: BTreeMap<String, Counter> = view
        .members()
        .map(|member| {
            let limit = &member.limit;
            let counter = Counter {
                key: member.key.clone(),
                letter: limit.state_letter(),
                algorithm: limit.algorithm(),
                line: limit.full_spec().to_line().unwrap_or_default(),
            };
            (member.name.clone(), counter)
        })
        .collect();
    if let Some(shaper) = view.shaper() {
        // A shaper keeps an arrival, as GCRA does.
        let (key, letter, line) = (None, 'a', format!("{shaper:?}"));
        let counter = Counter { key, letter, algorithm: "leaky-bucket", line };
        by_limit.insert(String::new(), counter);
    }
    let is_in_quorum = has_quorum && view.is_in_quorum();
    Counters { by_limit, is_together: view.is_together(), is_in_quorum }
}

impl fmt::Display for Forgotten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let renamed = |it: &Option<String>| match it {
            Some(name) => format!("is called `{name}` now"),
            None => "is gone".to_owned(),
        };
        match self {
            Self::Prefix => {
                f.write_str("`key_prefix` is another one: after a restart, every counter starts from zero")
            }
            Self::Store => f.write_str(
                "`store` has another URL: after a restart, if it is another server, every counter starts from zero",
            ),
            Self::Hashes => f.write_str(
                "`store.hash_keys` or its secret is another one: after a restart, every counter starts from zero, and \
                 overrides set at run time no longer match",
            ),
            Self::OddHashes => f.write_str(
                "`store.hash_key_file` is another one: after a restart, counters of identifiers that are long or no plain \
                 text start from zero",
            ),
            Self::Snapshot { moved: true } => f.write_str(
                "`store.snapshot` is another file: after a restart, unless you move the old one there, every counter \
                 starts from zero, and overrides set at run time are gone",
            ),
            Self::Snapshot { moved: false } => f.write_str(
                "`store.snapshot` is gone: after a restart, every counter starts from zero, and overrides set at run \
                 time are gone",
            ),
            Self::MaxBytes => f.write_str(
                "`store.max_bytes` is lower: after a restart, what no longer fits is forgotten, idle keys first",
            ),
            Self::Policy { policy, renamed: name } => {
                write!(f, "policy `{policy}` {}: what it has counted is forgotten", renamed(name))
            }
            Self::Limit { policy, limit, renamed: name } => {
                let limit = Named { policy, limit };
                write!(f, "{limit} {}: what it has counted is forgotten", renamed(name))
            }
            Self::Algorithm { policy, limit, from, to } => {
                let limit = Named { policy, limit };
                if from == to {
                    return write!(f, "{limit} is another kind of {to}: it starts from zero");
                }
                write!(f, "{limit} is {to} instead of {from}: it starts from zero")
            }
            Self::Identifier { policy, limit } => {
                let limit = Named { policy, limit };
                write!(f, "{limit} counts another identifier: it starts from zero")
            }
            Self::Quorum { policy, into } => {
                let store = if *into { "the quorum" } else { "the main store" };
                write!(f, "policy `{policy}` is counted by {store} now: it starts from zero")
            }
            Self::Tag { policy, sure } => {
                let when = if *sure { "in this cluster" } else { "if the store is a cluster," };
                write!(
                    f,
                    "policy `{policy}` changes between limits on one identifier and on several: {when} its keys \
                     move to another slot, and all its limits start from zero; nodes with the old and the new file \
                     count apart"
                )
            }
        }
    }
}

/// A limit as people call it.
struct Named<'a> {
    policy: &'a str,
    limit: &'a str,
}

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { policy, limit: "" } => write!(f, "the limit of policy `{policy}`"),
            Self { policy, limit } => write!(f, "limit `{limit}` of policy `{policy}`"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        Config::parse(text, &|_| None, StoreDrivers::MEMORY).expect(text)
    }

    fn lines(old: &str, new: &str) -> Vec<String> {
        let found = forgotten(&config(old), &config(new), StoreDrivers::MEMORY);
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_keeps_its_names_and_its_kind_of_state_is_kept() {
        for (old, new) in [
            ("policies: { api: 5/h }", "policies: { api: 500/min burst 3, more: 1/s }"),
            ("policies: { api: 5/h }", "store: { hash_key_file: /k }\npolicies: { api: 5/h }"),
            // Without a snapshot, every restart forgets everything.
            ("policies: { api: 5/h }", "store: { snapshot: /s }\npolicies: { api: 5/h }"),
            ("policies: { api: 5/h }", "store: { max_bytes: 1MiB }\npolicies: { api: 5/h }"),
            (
                "store: { snapshot: /s, max_bytes: 1MiB }\npolicies: { api: 5/h }",
                "store: { snapshot: /s, max_bytes: 1GiB, every: 5s }\npolicies: { api: 5/h }",
            ),
            ("policies: { api: 5/h }", "policies: { api: token-bucket 5/h capacity 9 }"),
            ("policies: { api: fixed-window 5/h }", "policies: { api: quota 7/day }"),
            (
                "policies: { api: { name: hour, limit: 5/h } }",
                "policies: { api: { all: [{ name: hour, limit: 5/h }, { name: day, limit: 9/day }] } }",
            ),
            (
                "policies: { p: { all: [{ name: ip, key: ip, limit: 5/h }] } }",
                "policies: { p: { all: [{ name: ip, key: ip, limit: 5/h }, { name: m, key: m, limit: 5/h }] } }",
            ),
        ] {
            assert_eq!(lines(old, new), [""; 0], "{new}");
        }
    }

    #[test]
    fn what_is_forgotten_is_said() {
        for (old, new, expected) in [
            (
                "policies: { api: 5/h, b: 1/s }",
                "policies: { b: 1/s }",
                "policy `api` is gone: what it has counted is forgotten",
            ),
            (
                "policies: { api: 5/h, b: 1/s }",
                "policies: { web: 5/h, b: 1/s }",
                "policy `api` is called `web` now: what it has counted is forgotten",
            ),
            (
                "policies: { api: 5/h }",
                "policies: { api: sliding-log 5/h }",
                "the limit of policy `api` is sliding-log instead of gcra: it starts from zero",
            ),
            // A policy's only limit has no name, unless it is given one.
            (
                "policies: { api: 5/h }",
                "policies: { api: { all: [{ name: hour, limit: 5/h }, { name: day, limit: 9/day }] } }",
                "the limit of policy `api` is called `hour` now: what it has counted is forgotten",
            ),
            (
                "policies: { p: { all: [{ name: a, limit: 5/h }, { name: b, limit: 9/day }] } }",
                "policies: { p: { all: [{ name: a, limit: 5/h }] } }",
                "limit `b` of policy `p` is gone: what it has counted is forgotten",
            ),
            (
                "policies: { p: { all: [{ name: a, key: ip, limit: 5/h }] } }",
                "policies: { p: { all: [{ name: a, key: user, limit: 5/h }] } }",
                "limit `a` of policy `p` counts another identifier: it starts from zero",
            ),
            (
                "policies: { t: { limit: 5/s, key: global }, a: { share: { of: t, by: x } } }",
                "policies: { t: { limit: 5/s, key: global }, a: { share: { of: t, by: y } } }",
                "the limit of policy `a` counts another identifier: it starts from zero",
            ),
            (
                "policies: { t: { limit: 5/s, key: global }, a: { share: { of: t, by: x } } }",
                "policies: { t: { limit: 5/s, key: global } }",
                "policy `a` is gone: what it has counted is forgotten",
            ),
            (
                "policies: { t: { limit: 5/s, key: global }, a: 5/s }",
                "policies: { t: { limit: 5/s, key: global }, a: { share: { of: t, by: x } } }",
                "the limit of policy `a` counts another identifier: it starts from zero",
            ),
            (
                "policies: { api: 5/h }",
                "key_prefix: other\npolicies: { api: 5/h }",
                "`key_prefix` is another one: after a restart, every counter starts from zero",
            ),
            (
                "policies: { api: 5/h }",
                "store: { hash_keys: true, hash_key_file: /k }\npolicies: { api: 5/h }",
                "`store.hash_keys` or its secret is another one: after a restart, every counter starts from zero, and \
                 overrides set at run time no longer match",
            ),
            (
                "store: { snapshot: /s }\npolicies: { api: 5/h }",
                "store: { snapshot: /t }\npolicies: { api: 5/h }",
                "`store.snapshot` is another file: after a restart, unless you move the old one there, every counter \
                 starts from zero, and overrides set at run time are gone",
            ),
            (
                "store: { snapshot: /s }\npolicies: { api: 5/h }",
                "policies: { api: 5/h }",
                "`store.snapshot` is gone: after a restart, every counter starts from zero, and overrides set at run \
                 time are gone",
            ),
            (
                "store: { snapshot: /s }\npolicies: { api: 5/h }",
                "store: { snapshot: /s, max_bytes: 255MiB }\npolicies: { api: 5/h }",
                "`store.max_bytes` is lower: after a restart, what no longer fits is forgotten, idle keys first",
            ),
            (
                "store: { url_file: /u }\npolicies: { api: 5/h }",
                "store: { url_file: /u, hash_key_file: /k }\npolicies: { api: 5/h }",
                "`store.hash_key_file` is another one: after a restart, counters of identifiers that are long or no plain \
                 text start from zero",
            ),
            (
                "store: { url_file: /u, hash_keys: true, hash_key_file: /j }\npolicies: { api: 5/h }",
                "store: { url_file: /u, hash_keys: true, hash_key_file: /k }\npolicies: { api: 5/h }",
                "`store.hash_keys` or its secret is another one: after a restart, every counter starts from zero, and \
                 overrides set at run time no longer match",
            ),
        ] {
            assert_eq!(lines(old, new), [expected], "{new}");
        }
    }
}
