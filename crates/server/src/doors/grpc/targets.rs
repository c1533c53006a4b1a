//! What each descriptor of a request means: which counter of which policy, and what its answer is good for.

use smallvec::SmallVec;
use tidegate::{CheckError, FixedWindow, Key, Limit, Op};

use super::Shadow;
use super::answer::Shown;
use super::request::{Bad, Descriptor, Hits, OwnLimit, Request};
use crate::service::{Handle, InForce};
use tidegate_config::envoy::{CounterKey, Domain, Quantity, Rule, Unit};

/// The domain that speaks of the configured policies, where no file has rules for it.
const NATIVE_DOMAIN: &str = "tidegate";

/// What a descriptor means.
#[derive(Clone, Debug)]
pub(super) enum Target<'a> {
    NoLimit,
    Unlimited,
    /// Nothing is ever admitted.
    Blocked {
        /// What would be asked, if there were anything to count.
        counted: Counted<'a>,
        unit: Unit,
        /// Then it is only reported, for whatever reason.
        is_shadow: bool,
    },
    Counted(Counted<'a>),
}

/// A counter.
#[derive(Clone, Debug)]
pub(super) struct Counted<'a> {
    pub(super) name: &'a str,
    /// `None` where there is none of this name: a rule that blocks needs none.
    pub(super) policy: Option<Handle<'a>>,
    pub(super) who: Who<'a>,
    pub(super) hits: Hits,
    /// The rule's limit, where there is a rule.
    pub(super) limit: Option<&'a Limit>,
    /// A limit instead of the policy's.
    pub(super) own: Option<Box<Limit>>,
    /// The limit as it is written; `None` where only the answer knows it.
    pub(super) shown: Option<Shown<'a>>,
    pub(super) role: Role,
    /// Whether its rule is a shadow by itself, and not only because all are.
    pub(super) is_shadow: bool,
}

/// Who is counted.
#[derive(Clone, Debug)]
pub(super) enum Who<'a> {
    One(CounterKey<'a>),
    Named(SmallVec<[(&'a str, &'a [u8]); 4]>),
}

/// What a refusal does to the whole request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    /// It refuses the whole.
    Binds,
    /// Only all of this kind together refuse the whole.
    Quota,
}

/// All that a request means, in the order of its descriptors.
pub(super) type Targets<'a> = SmallVec<[Target<'a>; 2]>;

/// Looks every descriptor up.
pub(super) fn resolve<'a>(
    in_force: &'a InForce,
    request: &Request<'a>,
) -> Result<Targets<'a>, Bad> {
    let Some(domain) = in_force.rls.rules.domain(request.domain) else {
        let is_native = request.domain == NATIVE_DOMAIN;
        let target = |(spot, descriptor): (usize, &Descriptor<'a>)| {
            if is_native { by_policy(in_force, descriptor, spot) } else { Ok(Target::NoLimit) }
        };
        return request.descriptors.iter().enumerate().map(target).collect();
    };
    let all_shadow = in_force.rls.manner.shadow == Shadow::Everybody;
    let found: SmallVec<[Found<'a>; 2]> =
        request.descriptors.iter().map(|descriptor| Found::find(domain, descriptor)).collect();
    let is_replaced = |index: usize| {
        let name = found[index].rule().map_or("", |rule| rule.name.as_str());
        let replaces = |other: &Found<'_>| {
            other.rule().is_some_and(|rule| rule.replaces.iter().any(|replaced| replaced == name))
        };
        // Nobody can replace what does not limit: as in the original it is unlimited still.
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

/// What is found for a descriptor.
enum Found<'a> {
    Nothing,
    Rule(&'a Rule, CounterKey<'a>),
    /// The descriptor has a limit of its own, and no rule is looked for.
    Own(OwnLimit),
}

impl<'a> Found<'a> {
    fn find(domain: &'a Domain, descriptor: &Descriptor<'a>) -> Self {
        match descriptor.limit {
            Some(own) => Self::Own(own),
            None => domain
                .find(&descriptor.entries)
                .map_or(Self::Nothing, |(rule, key)| Self::Rule(rule, key)),
        }
    }

    fn rule(&self) -> Option<&'a Rule> {
        match self {
            Self::Rule(rule, _) => Some(rule),
            Self::Nothing | Self::Own(_) => None,
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
            Self::Own(own) => with_own(in_force, domain, own, descriptor, all_shadow),
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
    // A shadow binds as any other: its policy knows that it refuses nothing.
    let is_shadow = rule.is_shadow || all_shadow;
    let role = if rule.is_quota && !is_shadow { Role::Quota } else { Role::Binds };
    let shown = Shown { requests_per_unit: *requests, unit: Some(*unit), name: &rule.name };
    let (who, shown) = (Who::One(key), Some(shown));
    let counted = Counted {
        name: &rule.policy,
        policy: limit.as_ref().and_then(|_| in_force.policy(&rule.policy)),
        who,
        hits,
        limit: limit.as_ref(),
        own: None,
        shown,
        role,
        is_shadow: rule.is_shadow,
    };
    match limit {
        None => Target::Blocked { counted, unit: *unit, is_shadow },
        Some(_) => Target::Counted(counted),
    }
}

/// A limit that came with the request has counters of its own, one for each unit and all that the descriptor says.
fn with_own<'a>(
    in_force: &'a InForce,
    domain: &'a Domain,
    own: OwnLimit,
    descriptor: &Descriptor<'a>,
    all_shadow: bool,
) -> Target<'a> {
    let OwnLimit { requests_per_unit, unit } = own;
    let shown = Shown { requests_per_unit, unit: Some(unit), name: "" };
    let mut values = SmallVec::<[&'a [u8]; 8]>::new();
    values.push(unit.name().as_bytes());
    let both =
        |entry: &tidegate_config::envoy::Entry<'a>| [entry.key.as_bytes(), entry.value.as_bytes()];
    values.extend(descriptor.entries.iter().flat_map(both));
    let counted = Counted {
        name: &domain.own_limits,
        policy: in_force.policy(&domain.own_limits),
        who: Who::One(CounterKey::of(&values)),
        hits: descriptor.hits,
        limit: None,
        own: None,
        shown: Some(shown),
        role: Role::Binds,
        is_shadow: false,
    };
    let period = std::time::Duration::from_secs(unit.seconds());
    match FixedWindow::new(requests_per_unit.into(), period).map(Limit::from) {
        Ok(limit) => Target::Counted(Counted { own: Some(Box::new(limit)), ..counted }),
        Err(_) => Target::Blocked { counted, unit, is_shadow: all_shadow },
    }
}

/// A policy of the configuration, asked by Envoy without rules of its own: `policy=NAME` is the descriptor's first entry,
/// and who is asking the others. Nothing if it names no policy. `spot` is where the descriptor stands.
fn by_policy<'a>(
    in_force: &'a InForce,
    descriptor: &Descriptor<'a>,
    spot: usize,
) -> Result<Target<'a>, Bad> {
    if descriptor.limit.is_some() {
        return Err(Bad::new(format!(
            "descriptors[{spot}].limit: the limits of this domain are those of its policies: leave it out"
        )));
    }
    let Some((first, others)) = descriptor.entries.split_first() else {
        return Ok(Target::NoLimit);
    };
    if first.key != "policy" {
        return Ok(Target::NoLimit);
    }
    let (name, policy) = (first.value, in_force.policy(first.value));
    // Or all whom nobody knows would share what one may have.
    if let Some(index) = others.iter().position(|entry| entry.value.is_empty()) {
        let (key, index) = (tidegate_core::text::printable(others[index].key), index + 1);
        return Err(Bad::new(format!(
            "descriptors[{spot}].entries[{index}].value: `{key}` is empty: whoever is limited needs a name"
        )));
    }
    let named: SmallVec<[(&'a str, &'a [u8]); 4]> =
        others.iter().map(|entry| (entry.key, entry.value.as_bytes())).collect();
    let who = match &named[..] {
        [] => Who::One(CounterKey::of(&[])),
        [_] => Who::Named(named),
        several if policy.is_some_and(|policy| counts_one(&policy, several)) => {
            let values: SmallVec<[&[u8]; 4]> = several.iter().map(|(_, value)| *value).collect();
            Who::One(CounterKey::of(&values))
        }
        _ => Who::Named(named),
    };
    Ok(Target::Counted(Counted {
        name,
        policy,
        who,
        hits: descriptor.hits,
        limit: None,
        own: None,
        shown: None,
        role: Role::Binds,
        is_shadow: false,
    }))
}

/// Whether a policy counts callers by one identifier, and not by names.
fn counts_one(policy: &Handle<'_>, keys: &[(&str, &[u8])]) -> bool {
    let error = policy.validate(Key::Named(keys), Op::Take).err();
    matches!(error, Some(CheckError::MissingKey { key, .. }) if key == "key")
}

impl<'a> Target<'a> {
    /// The counter, if there is one or could be.
    pub(super) const fn counted(&self) -> Option<&Counted<'a>> {
        match self {
            Self::NoLimit | Self::Unlimited => None,
            Self::Blocked { counted, .. } | Self::Counted(counted) => Some(counted),
        }
    }

    /// What its refusal does; `None` where nothing can refuse.
    pub(super) fn role(&self) -> Option<Role> {
        self.counted().map(|counted| counted.role)
    }
}

impl<'a> Counted<'a> {
    /// The limit that decided, for the client: as it is written, unless an override came before that. `name` is for those
    /// that are not written here.
    pub(super) fn shown_by(&self, decided: &Limit, name: &'a str) -> Shown<'a> {
        match self.shown {
            Some(written) if self.own.as_deref().or(self.limit) == Some(decided) => written,
            Some(written) => Shown::from_limit(decided, written.name),
            None => Shown::from_limit(decided, name),
        }
    }

    /// Who is counted.
    pub(super) fn key(&self) -> Key<'_> {
        match &self.who {
            Who::One(key) => Key::One(key.as_bytes()),
            Who::Named(keys) => Key::Named(keys),
        }
    }
}
