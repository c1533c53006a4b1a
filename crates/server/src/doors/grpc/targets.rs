//! Resolves each descriptor of a request to a counter of a policy.

use smallvec::SmallVec;
use tidegate::{CheckError, FixedWindow, Key, Limit, Op};

use super::Shadow;
use super::answer::DisplayedLimit;
use super::request::{BadRequest, Descriptor, Hits, Request, RequestLimit};
use crate::service::{Handle, InForce};
use tidegate_config::envoy::{CounterKey, Domain, Quantity, Rule, Unit};

/// The domain of the configured policies, unless a rules file defines it.
const NATIVE_DOMAIN: &str = "tidegate";

/// What a descriptor resolves to.
#[derive(Clone, Debug)]
pub(super) enum Target<'a> {
    NoLimit,
    Unlimited,
    /// The rule allows nothing.
    Blocked {
        /// The counter, for metrics and logs.
        counted: CountedTarget<'a>,
        unit: Unit,
        /// Whether the refusal is only reported.
        is_shadow: bool,
    },
    Counted(CountedTarget<'a>),
}

#[derive(Clone, Debug)]
pub(super) struct CountedTarget<'a> {
    pub(super) name: &'a str,
    /// `None` if there is no policy of this name: a blocking rule needs none.
    pub(super) policy: Option<Handle<'a>>,
    pub(super) target_key: TargetKey<'a>,
    pub(super) hits: Hits,
    /// The limit of the rule, if there is one.
    pub(super) limit: Option<&'a Limit>,
    /// The limit sent with the request.
    pub(super) request_limit: Option<Box<Limit>>,
    /// The limit as configured; `None` if only the answer has it.
    pub(super) displayed: Option<DisplayedLimit<'a>>,
    pub(super) role: Role,
    /// Whether the rule itself is in shadow mode.
    pub(super) is_shadow: bool,
}

/// The key of a counter.
#[derive(Clone, Debug)]
pub(super) enum TargetKey<'a> {
    One(CounterKey<'a>),
    Named(SmallVec<[(&'a str, &'a [u8]); 4]>),
}

/// How a refusal affects the whole request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    /// One refusal refuses the request.
    Binds,
    /// The request is refused only if all quotas refuse.
    Quota,
}

/// The targets of a request, in the order of its descriptors.
pub(super) type Targets<'a> = SmallVec<[Target<'a>; 2]>;

pub(super) fn resolve<'a>(
    in_force: &'a InForce,
    request: &Request<'a>,
) -> Result<Targets<'a>, BadRequest> {
    let Some(domain) = in_force.rls.rules.domain(request.domain) else {
        let is_native = request.domain == NATIVE_DOMAIN;
        let target = |(position, descriptor): (usize, &Descriptor<'a>)| {
            if is_native { by_policy(in_force, descriptor, position) } else { Ok(Target::NoLimit) }
        };
        return request.descriptors.iter().enumerate().map(target).collect();
    };
    let all_shadow = in_force.rls.style.shadow == Shadow::AllDoors;
    let found: SmallVec<[Match<'a>; 2]> =
        request.descriptors.iter().map(|descriptor| Match::find(domain, descriptor)).collect();
    let is_replaced = |index: usize| {
        let name = found[index].rule().map_or("", |rule| rule.name.as_str());
        let replaces = |other: &Match<'_>| {
            other.rule().is_some_and(|rule| rule.replaces.iter().any(|replaced| replaced == name))
        };
        // An unlimited rule cannot be replaced, as in envoyproxy/ratelimit.
        let limits = found[index].rule().is_some_and(|rule| !rule.is_unlimited());
        limits && !name.is_empty() && found.iter().any(replaces)
    };
    let replaced: SmallVec<[bool; 2]> = (0..found.len()).map(is_replaced).collect();
    let targets = found.into_iter().zip(replaced).zip(&request.descriptors);
    Ok(targets
        .map(|((found, is_replaced), descriptor)| {
            if is_replaced {
                Target::NoLimit
            } else {
                found.target(in_force, domain, descriptor, all_shadow)
            }
        })
        .collect())
}

/// What a descriptor matches.
enum Match<'a> {
    Nothing,
    Rule(&'a Rule, CounterKey<'a>),
    /// The descriptor has its own limit, and no rule is looked up.
    RequestLimit(RequestLimit),
}

impl<'a> Match<'a> {
    fn find(domain: &'a Domain, descriptor: &Descriptor<'a>) -> Self {
        match descriptor.limit {
            Some(sent) => Self::RequestLimit(sent),
            None => domain
                .find(&descriptor.entries)
                .map_or(Self::Nothing, |(rule, key)| Self::Rule(rule, key)),
        }
    }

    fn rule(&self) -> Option<&'a Rule> {
        match self {
            Self::Rule(rule, _) => Some(rule),
            Self::Nothing | Self::RequestLimit(_) => None,
        }
    }

    fn target(
        self,
        in_force: &'a InForce,
        domain: &'a Domain,
        descriptor: &Descriptor<'a>,
        all_shadow: bool,
    ) -> Target<'a> {
        match self {
            Self::Nothing => Target::NoLimit,
            Self::Rule(rule, key) => by_rule(in_force, rule, key, descriptor.hits, all_shadow),
            Self::RequestLimit(sent) => {
                by_request_limit(in_force, domain, sent, descriptor, all_shadow)
            }
        }
    }
}

fn by_rule<'a>(
    in_force: &'a InForce,
    rule: &'a Rule,
    key: CounterKey<'a>,
    hits: Hits,
    all_shadow: bool,
) -> Target<'a> {
    let Quantity::PerUnit { requests, unit, limit } = &rule.quantity else {
        return Target::Unlimited;
    };
    // A shadow rule binds as any other: its policy allows what it would refuse.
    let is_shadow = rule.is_shadow || all_shadow;
    let role = if rule.is_quota && !is_shadow { Role::Quota } else { Role::Binds };
    let displayed =
        DisplayedLimit { requests_per_unit: *requests, unit: Some(*unit), name: &rule.name };
    let (target_key, displayed) = (TargetKey::One(key), Some(displayed));
    let counted = CountedTarget {
        name: &rule.policy,
        policy: limit.as_ref().and_then(|_| in_force.policy(&rule.policy)),
        target_key,
        hits,
        limit: limit.as_ref(),
        request_limit: None,
        displayed,
        role,
        is_shadow: rule.is_shadow,
    };
    match limit {
        None => Target::Blocked { counted, unit: *unit, is_shadow },
        Some(_) => Target::Counted(counted),
    }
}

/// A limit sent with the request has its own counters, one per unit and descriptor.
fn by_request_limit<'a>(
    in_force: &'a InForce,
    domain: &'a Domain,
    sent: RequestLimit,
    descriptor: &Descriptor<'a>,
    all_shadow: bool,
) -> Target<'a> {
    let RequestLimit { requests_per_unit, unit } = sent;
    let displayed = DisplayedLimit { requests_per_unit, unit: Some(unit), name: "" };
    let mut values = SmallVec::<[&'a [u8]; 8]>::new();
    values.push(unit.name().as_bytes());
    let both =
        |entry: &tidegate_config::envoy::Entry<'a>| [entry.key.as_bytes(), entry.value.as_bytes()];
    values.extend(descriptor.entries.iter().flat_map(both));
    let counted = CountedTarget {
        name: &domain.own_limits,
        policy: in_force.policy(&domain.own_limits),
        target_key: TargetKey::One(CounterKey::from_values(&values)),
        hits: descriptor.hits,
        limit: None,
        request_limit: None,
        displayed: Some(displayed),
        role: Role::Binds,
        is_shadow: false,
    };
    let period = std::time::Duration::from_secs(unit.seconds());
    match FixedWindow::new(requests_per_unit.into(), period).map(Limit::from) {
        Ok(limit) => {
            Target::Counted(CountedTarget { request_limit: Some(Box::new(limit)), ..counted })
        }
        Err(_) => Target::Blocked { counted, unit, is_shadow: all_shadow },
    }
}

/// Resolves a descriptor of the native domain: the first entry is `policy=NAME`, the others are keys. `NoLimit` if it
/// names no policy. `position` is that of the descriptor.
fn by_policy<'a>(
    in_force: &'a InForce,
    descriptor: &Descriptor<'a>,
    position: usize,
) -> Result<Target<'a>, BadRequest> {
    if descriptor.limit.is_some() {
        return Err(BadRequest::new(format!(
            "descriptors[{position}].limit: this domain uses the limits of its policies: leave it out"
        )));
    }
    let Some((first, others)) = descriptor.entries.split_first() else {
        return Ok(Target::NoLimit);
    };
    if first.key != "policy" {
        return Ok(Target::NoLimit);
    }
    let (name, policy) = (first.value, in_force.policy(first.value));
    // All unknown callers would share one budget otherwise.
    if let Some(index) = others.iter().position(|entry| entry.value.is_empty()) {
        let (key, index) = (tidegate_core::text::printable(others[index].key), index + 1);
        return Err(BadRequest::new(format!(
            "descriptors[{position}].entries[{index}].value: `{key}` is empty: give the name of the caller"
        )));
    }
    let named: SmallVec<[(&'a str, &'a [u8]); 4]> =
        others.iter().map(|entry| (entry.key, entry.value.as_bytes())).collect();
    let target_key = match &named[..] {
        // Those without a tenant are not one: they are told what is missing.
        [] if policy.is_some_and(|policy| policy.share().is_some()) => TargetKey::Named(named),
        [] => TargetKey::One(CounterKey::from_values(&[])),
        [(_, value)] if !CounterKey::needs_length(value) => TargetKey::Named(named),
        several if policy.is_some_and(|policy| counts_one(&policy)) => {
            let values: SmallVec<[&[u8]; 4]> = several.iter().map(|(_, value)| *value).collect();
            TargetKey::One(CounterKey::from_values(&values))
        }
        _ => TargetKey::Named(named),
    };
    Ok(Target::Counted(CountedTarget {
        name,
        policy,
        target_key,
        hits: descriptor.hits,
        limit: None,
        request_limit: None,
        displayed: None,
        role: Role::Binds,
        is_shadow: false,
    }))
}

/// Whether a policy counts by one key, not by named keys.
fn counts_one(policy: &Handle<'_>) -> bool {
    let error = policy.validate(Key::Named(&[]), 1, Op::Take).err();
    matches!(error, Some(CheckError::MissingKey { key, .. }) if key == "key")
}

impl<'a> Target<'a> {
    pub(super) const fn counted(&self) -> Option<&CountedTarget<'a>> {
        match self {
            Self::NoLimit | Self::Unlimited => None,
            Self::Blocked { counted, .. } | Self::Counted(counted) => Some(counted),
        }
    }

    pub(super) fn role(&self) -> Option<Role> {
        self.counted().map(|counted| counted.role)
    }
}

impl<'a> CountedTarget<'a> {
    /// The limit that decided, for the client: as configured, or the override's. `name` is used for limits without a
    /// configured name.
    pub(super) fn displayed_limit(&self, decided: &Limit, name: &'a str) -> DisplayedLimit<'a> {
        match self.displayed {
            Some(configured) if self.request_limit.as_deref().or(self.limit) == Some(decided) => {
                configured
            }
            Some(configured) => DisplayedLimit::from_limit(decided, configured.name),
            None => DisplayedLimit::from_limit(decided, name),
        }
    }

    pub(super) fn key(&self) -> Key<'_> {
        match &self.target_key {
            TargetKey::One(key) => Key::One(key.as_bytes()),
            TargetKey::Named(keys) => Key::Named(keys),
        }
    }
}
