//! Rules, and which of them a descriptor matches.

use std::collections::HashMap;
use std::time::Duration;

use smallvec::SmallVec;
use tidegate::{FixedWindow, Limit, OnStoreError, Policy};
use tidegate_core::Wildcard;

use super::Error;
use super::unit::Unit;

/// The key of a rule with one counter for all.
const GLOBAL_KEY: &[u8] = b"global";
/// Enough for most entries; longer ones cost an allocation.
const COMPOSITE_INLINE: usize = 120;

/// The period of the placeholder for limits that come with a request.
const UNSET_PERIOD: Duration = Duration::from_secs(1);

/// All rules, by domain.
#[derive(Debug, Default)]
pub struct Rules {
    pub(super) domains: HashMap<Box<str>, Domain>,
    /// Keys in the wrong place, which do nothing.
    pub warnings: Vec<Error>,
}

/// The rules of one domain.
#[derive(Debug, Default)]
pub struct Domain {
    pub(super) root: Level,
    /// The policy of limits that come with a request: they have counters of their own.
    pub own_limits: String,
}

/// The rules for one entry of a descriptor, after the entries before it have matched.
#[derive(Debug, Default)]
pub(super) struct Level {
    pub(super) nodes: Vec<Node>,
    /// By `key_value`, or by the key alone; patterns by their text.
    pub(super) exact: HashMap<Box<[u8]>, usize>,
    /// In the order of the file.
    pub(super) patterns: Vec<(Wildcard, usize)>,
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) rule: Option<Rule>,
    pub(super) below: Level,
    pub(super) counts: Counts,
}

/// Which counters an entry has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counts {
    /// One for all matches.
    Together,
    /// One per value.
    ByValue,
    /// One per key and value, for patterns in a key.
    ByKeyAndValue,
}

/// The rule of one descriptor in the file.
#[derive(Debug)]
pub struct Rule {
    /// The name of its policy.
    pub policy: String,
    pub quantity: Quantity,
    /// Its `name`; empty if it has none.
    pub name: String,
    pub replaces: Vec<String>,
    pub is_shadow: bool,
    pub is_quota: bool,
    pub on_store_error: OnStoreError,
}

/// How much a rule admits.
#[derive(Debug)]
pub enum Quantity {
    Unlimited,
    /// `requests_per_unit: 0` has no limit: it admits nothing.
    PerUnit {
        requests: u32,
        unit: Unit,
        limit: Option<Limit>,
    },
}

/// One entry of a request's descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Entry<'a> {
    pub key: &'a str,
    pub value: &'a str,
}

/// The key of a counter within a policy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CounterKey<'a> {
    One(&'a [u8]),
    /// Several values, or one that looks like several or like none: each with its length before it, so that the key is
    /// unique.
    Several(Vec<u8>),
}

impl Rules {
    pub fn domain(&self, name: &str) -> Option<&Domain> {
        self.domains.get(name)
    }

    /// Whether a policy is the placeholder for limits that come with a request.
    pub fn is_placeholder(&self, policy: &str) -> bool {
        self.domains.values().any(|domain| domain.own_limits == policy)
    }

    /// Every rule, with the counters of each descriptor on the path to it.
    pub fn all(&self) -> Vec<(&Rule, Vec<Counts>)> {
        let mut all = Vec::new();
        self.domains.values().for_each(|domain| domain.root.all(&[], &mut all));
        all
    }

    /// The rules that admit nothing. They are not policies, because there is nothing to count.
    pub fn blocking(&self) -> Vec<&str> {
        let admits_nothing =
            |(rule, _): &(&Rule, _)| matches!(rule.quantity, Quantity::PerUnit { limit: None, .. });
        let blocking = self.all().into_iter().filter(admits_nothing);
        blocking.map(|(rule, _)| rule.policy.as_str()).collect()
    }

    /// Every rule that limits, as a policy by its name.
    pub fn policies(&self) -> Vec<(&str, Policy)> {
        let mut all = Vec::new();
        for (name, domain) in &self.domains {
            domain.root.policies(name, &mut all);
            if let Ok(unset) = FixedWindow::new(u32::MAX.into(), UNSET_PERIOD) {
                let policy = Policy::from(Limit::from(unset)).tagged(&**name);
                all.push((&domain.own_limits, policy));
            }
        }
        all
    }
}

impl Rule {
    pub const fn is_unlimited(&self) -> bool {
        matches!(self.quantity, Quantity::Unlimited)
    }
}

impl Domain {
    /// The rule that a descriptor matches, and its counter. The descriptor must be as deep as the rule.
    pub fn find<'a>(&self, entries: &[Entry<'a>]) -> Option<(&Rule, CounterKey<'a>)> {
        let (last, before) = entries.split_last()?;
        let mut level = &self.root;
        let mut counted = SmallVec::<[&'a [u8]; 4]>::new();
        for entry in before {
            level = &level.find(entry, &mut counted)?.below;
        }
        let node = level.find(last, &mut counted)?;
        node.rule.as_ref().map(|rule| (rule, CounterKey::from_values(&counted)))
    }
}

impl Level {
    /// The node that an entry matches: exactly first, then by pattern, then by its key alone.
    fn find<'a>(&self, entry: &Entry<'a>, counted: &mut SmallVec<[&'a [u8]; 4]>) -> Option<&Node> {
        let (key, value) = (entry.key.as_bytes(), entry.value.as_bytes());
        let mut composite = SmallVec::<[u8; COMPOSITE_INLINE]>::new();
        composite.extend_from_slice(key);
        composite.push(b'_');
        composite.extend_from_slice(value);
        let exact = self.exact.get(&*composite);
        let by_pattern = || {
            let found = self.patterns.iter().find(|(pattern, _)| pattern.matches(&composite));
            found.map(|(_, index)| index)
        };
        let index = exact.or_else(by_pattern).or_else(|| self.exact.get(key))?;
        let node = self.nodes.get(*index)?;
        match node.counts {
            Counts::Together => {}
            Counts::ByValue => counted.push(value),
            Counts::ByKeyAndValue => counted.extend([key, value]),
        }
        Some(node)
    }

    fn all<'r>(&'r self, before: &[Counts], all: &mut Vec<(&'r Rule, Vec<Counts>)>) {
        for node in &self.nodes {
            let way = [before, &[node.counts]].concat();
            node.below.all(&way, all);
            all.extend(node.rule.as_ref().map(|rule| (rule, way)));
        }
    }

    fn policies<'r>(&'r self, domain: &str, all: &mut Vec<(&'r str, Policy)>) {
        for node in &self.nodes {
            if let Some(rule) = &node.rule
                && let Quantity::PerUnit { limit: Some(limit), .. } = &rule.quantity
            {
                let policy = Policy::from(limit.clone()).shadow(rule.is_shadow);
                let policy = policy.on_store_error(rule.on_store_error);
                // All of a domain are charged in one step, and are kept together for that.
                all.push((&rule.policy, policy.tagged(domain)));
            }
            node.below.policies(domain, all);
        }
    }
}

impl<'a> CounterKey<'a> {
    /// The counter of these values.
    pub fn from_values(values: &[&'a [u8]]) -> Self {
        match values {
            [] => Self::One(GLOBAL_KEY),
            [only] if !Self::needs_length(only) => Self::One(only),
            several => {
                let mut key = Vec::with_capacity(64);
                for value in several {
                    key.extend_from_slice(value.len().to_string().as_bytes());
                    key.push(b':');
                    key.extend_from_slice(value);
                }
                Self::Several(key)
            }
        }
    }

    /// Whether a single value looks like the key of several values, or of none.
    pub fn needs_length(value: &[u8]) -> bool {
        let digits = value.iter().take_while(|byte| byte.is_ascii_digit()).count();
        value == GLOBAL_KEY || (digits > 0 && value.get(digits) == Some(&b':'))
    }

    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::One(key) => key,
            Self::Several(key) => key,
        }
    }
}
