//! From a policy as it is written to one of the library.

use std::num::NonZeroU32;
use std::time::Duration;

use tidegate::{
    BuildError, Engine, OnStoreError, Policy, PolicyProblem, Replicas, Unconfirmed, Zone,
};
use tidegate_core::{Field, FieldError, LimitOrShaper, LimitSpec};

use super::amount::{span, span_within};
use super::node::Spot;
use super::problem::Problem;
use super::text::{self, Member, Mode, OnStoreErrorWord, PolicyOptions};
use crate::door::RESERVED_NAMES;

/// Longer names are no names: they are labels of metrics and parts of headers.
const NAME_LEN_MAX: usize = 128;

/// Checks a policy; what is wrong is noted.
pub(crate) fn policy(
    name: &str,
    text: &text::Policy,
    spot: &Spot<'_>,
    found: &mut Vec<Problem>,
) -> Option<Policy> {
    if name.is_empty() || name.len() > NAME_LEN_MAX || name.chars().any(char::is_control) {
        found.push(spot.problem("expected a name of 1 to 128 bytes without control characters"));
    }
    if RESERVED_NAMES.contains(&name) {
        found.push(spot.problem("is what metrics call checks of no policy: choose another name"));
    }
    let count_before = found.len();
    let policy = match text {
        text::Policy::Line(line) => {
            let spec = LimitSpec::from_line(line).map_err(|error| error.problem());
            from_limit("", limit(&spot.note(spec, found)?, spot, found)?)
        }
        text::Policy::Map(options) => with_options(options, spot, found)?,
    };
    if found.len() > count_before {
        return None;
    }
    spot.note(built_alone(name, &policy), found)?;
    Some(policy)
}

/// Whether the library takes it.
pub(crate) fn built_alone(name: &str, policy: &Policy) -> Result<(), PolicyProblem> {
    let built = Engine::builder().policy(name, policy.clone()).build();
    built.map(drop).map_err(|BuildError { problem, .. }| problem)
}

fn with_options(
    options: &PolicyOptions,
    spot: &Spot<'_>,
    found: &mut Vec<Problem>,
) -> Option<Policy> {
    let mut policy = limits(options, spot, found)?;
    policy = policy.shadow(options.mode == Some(Mode::Shadow));
    if let Some(on_store_error) = &options.on_store_error {
        let spot = spot.of("on_store_error");
        policy = policy.on_store_error(spot.note(on_error(on_store_error), found)?);
    }
    if let Some(replicas) = &options.replicas {
        policy = policy.replicas(self::replicas(replicas, &spot.of("replicas"), found)?);
    }
    if let Some(deadline) = &options.deadline {
        let within = span_within(deadline, Duration::from_millis(1), Duration::from_mins(1));
        policy = policy.deadline(spot.of("deadline").note(within, found)?);
    }
    let deny_cache = options.deny_cache.unwrap_or(true);
    Some(policy.lease(options.lease.unwrap_or(false)).deny_cache(deny_cache))
}

/// One limit, or several by `all` or `any`.
fn limits(options: &PolicyOptions, spot: &Spot<'_>, found: &mut Vec<Problem>) -> Option<Policy> {
    let own = options.limit_spec();
    let (field, policy, members) = match (&options.all, &options.any) {
        (None, None) => {
            let name = options.name.as_deref().unwrap_or_default();
            return limit(&own, spot, found).map(|built| from_limit(name, built));
        }
        (Some(members), None) => ("all", Policy::all(), members),
        (None, Some(members)) => ("any", Policy::any(), members),
        (Some(_), Some(_)) => {
            found.push(spot.of("any").problem("and `all` are both given: give one of them"));
            return None;
        }
    };
    let own_fields = own.fields().into_iter().map(|(field, _)| field.name());
    let named = options.name.as_ref().map(|_| "name");
    for beside in own_fields.chain(named) {
        let message = format!("stands beside `{field}`: give it to one of the limits in there");
        found.push(spot.of(beside).problem(message));
    }
    let spot = spot.of(field);
    let add = |policy: Option<Policy>, (index, member): (usize, &Member)| {
        let (spot, found) = (spot.item(index), &mut *found);
        let checked = one_of_many(member, members.len(), &spot, found);
        Some(member_of(policy?, member, checked?))
    };
    members.iter().enumerate().fold(Some(policy), add)
}

/// Goes on after a problem, so that those of the other limits are told as well.
fn one_of_many(
    member: &Member,
    count: usize,
    spot: &Spot<'_>,
    found: &mut Vec<Problem>,
) -> Option<tidegate::Limit> {
    if member.name.as_ref().is_none_or(String::is_empty) && count > 1 {
        found.push(spot.problem("`name` is missing: answers and counters tell limits apart by it"));
    }
    match limit(&member.limit_spec(), spot, found)? {
        LimitOrShaper::Limit(limit) => Some(limit),
        LimitOrShaper::Shaper(_) => {
            found.push(spot.of("algorithm").problem(PolicyProblem::ShaperAmongLimits));
            None
        }
    }
}

fn member_of(policy: Policy, member: &Member, limit: tidegate::Limit) -> Policy {
    let name = member.name.clone().unwrap_or_default();
    match &member.key {
        Some(key) => policy.limit_by(name, key, limit),
        None => policy.limit(name, limit),
    }
}

fn from_limit(name: &str, built: LimitOrShaper) -> Policy {
    match built {
        LimitOrShaper::Limit(limit) => Policy::all().limit(name, limit),
        LimitOrShaper::Shaper(shaper) => Policy::shaper(shaper),
    }
}

/// Builds a limit; notes every problem with the position of its field.
pub(crate) fn limit(
    spec: &LimitSpec,
    spot: &Spot<'_>,
    found: &mut Vec<Problem>,
) -> Option<LimitOrShaper> {
    let problem = |error: FieldError| match error.field() {
        Some(field) => spot.of(field.name()).problem(error.problem()),
        None => spot.problem(error.problem()),
    };
    spec.check(&time_zone).map_err(|errors| found.extend(errors.into_iter().map(problem))).ok()
}

/// A limit in one line, as a file has it: `100/min burst 20`.
pub fn limit_from_line(line: &str) -> Result<LimitOrShaper, String> {
    let spec = LimitSpec::from_line(line);
    spec.and_then(|spec| spec.build(&time_zone)).map_err(|error| match error.field() {
        None | Some(Field::Limit | Field::Refill) => error.problem(),
        Some(_) => error.to_string(),
    })
}

/// Time zones by name, for the grammar of limits.
pub(crate) fn time_zone(name: &str) -> Result<Zone, String> {
    tidegate::zone(name).map_err(|error| error.to_string())
}

fn on_error(text: &text::OnStoreError) -> Result<OnStoreError, String> {
    Ok(match text {
        text::OnStoreError::Word(OnStoreErrorWord::Allow) => OnStoreError::Allow,
        text::OnStoreError::Word(OnStoreErrorWord::Deny) => OnStoreError::DENY,
        text::OnStoreError::Word(OnStoreErrorWord::Local) => OnStoreError::Local,
        text::OnStoreError::Map(deny) => OnStoreError::Deny { retry_after: span(&deny.deny)? },
    })
}

fn replicas(text: &text::Replicas, spot: &Spot<'_>, found: &mut Vec<Problem>) -> Option<Replicas> {
    let mut replicas = Replicas::default();
    if let Some(wait) = text.wait.and_then(NonZeroU32::new) {
        replicas.wait = wait;
    }
    if let Some(timeout) = &text.timeout {
        let within = span_within(timeout, Duration::from_millis(1), Duration::from_mins(1));
        replicas.timeout = spot.of("timeout").note(within, found)?;
    }
    if text.unconfirmed == Some(text::Unconfirmed::Deny) {
        replicas.unconfirmed = Unconfirmed::Deny;
    }
    Some(replicas)
}
