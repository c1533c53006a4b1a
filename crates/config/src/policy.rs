//! From a policy in a file to a policy of the library.

use std::num::NonZeroU32;

use tidegate::{
    BuildError, Engine, OnStoreError, Policy, PolicyProblem, Replicas, Unconfirmed, Zone,
};
use tidegate_core::{Field, FieldError, LimitOrShaper, LimitSpec};

use super::amount::{span, span_within};
use super::node::Cursor;
use super::problem::Problem;
use super::text::{self, Member, Mode, OnStoreErrorWord, PolicyOptions};
use crate::door::RESERVED_NAMES;

/// Names are labels in metrics and parts of headers.
const NAME_LEN_MAX: usize = 128;

/// Checks a policy.
pub(crate) fn policy(
    name: &str,
    text: &text::Policy,
    cursor: &Cursor<'_>,
    problems: &mut Vec<Problem>,
) -> Option<Policy> {
    if name.is_empty() || name.len() > NAME_LEN_MAX || name.chars().any(char::is_control) {
        problems
            .push(cursor.problem("expected a name of 1 to 128 bytes without control characters"));
    }
    if RESERVED_NAMES.contains(&name) {
        problems.push(
            cursor
                .problem("is the name of checks without a policy in metrics: choose another name"),
        );
    }
    let count_before = problems.len();
    let policy = match text {
        text::Policy::Line(line) => {
            let spec = LimitSpec::from_line(line).map_err(|error| error.problem());
            from_limit("", limit(&cursor.accept(spec, problems)?, cursor, problems)?)
        }
        text::Policy::Map(options) => with_options(options, cursor, problems)?,
    };
    if problems.len() > count_before {
        return None;
    }
    cursor.accept(built_alone(name, &policy), problems)?;
    Some(policy)
}

/// Whether the library accepts the policy.
pub(crate) fn built_alone(name: &str, policy: &Policy) -> Result<(), PolicyProblem> {
    let built = Engine::builder().policy(name, policy.clone()).build();
    built.map(drop).map_err(|BuildError { problem, .. }| problem)
}

fn with_options(
    options: &PolicyOptions,
    cursor: &Cursor<'_>,
    problems: &mut Vec<Problem>,
) -> Option<Policy> {
    let mut policy = limits(options, cursor, problems)?;
    policy = policy.shadow(options.mode == Some(Mode::Shadow));
    if let Some(on_store_error) = &options.on_store_error {
        let cursor = cursor.field("on_store_error");
        policy = policy.on_store_error(cursor.accept(on_error(on_store_error), problems)?);
    }
    if let Some(replicas) = &options.replicas {
        policy = policy.replicas(self::replicas(replicas, &cursor.field("replicas"), problems)?);
    }
    if let Some(deadline) = &options.deadline {
        let within = span_within(deadline, tidegate::deadline::MIN, tidegate::deadline::MAX);
        policy = policy.deadline(cursor.field("deadline").accept(within, problems)?);
    }
    let deny_cache = options.deny_cache.unwrap_or(true);
    Some(policy.lease(options.lease.unwrap_or(false)).deny_cache(deny_cache))
}

/// One limit, or several by `all` or `any`.
fn limits(
    options: &PolicyOptions,
    cursor: &Cursor<'_>,
    problems: &mut Vec<Problem>,
) -> Option<Policy> {
    let own = options.limit_spec();
    let (field, policy, members) = match (&options.all, &options.any) {
        (None, None) => {
            let name = options.name.as_deref().unwrap_or_default();
            return limit(&own, cursor, problems).map(|built| from_limit(name, built));
        }
        (Some(members), None) => ("all", Policy::all(), members),
        (None, Some(members)) => ("any", Policy::any(), members),
        (Some(_), Some(_)) => {
            return cursor
                .field("any")
                .reject("and `all` are both given: give one of them", problems);
        }
    };
    let own_fields = own.fields().into_iter().map(|(field, _)| field.name());
    let named = options.name.as_ref().map(|_| "name");
    for beside in own_fields.chain(named) {
        let message = format!("is given beside `{field}`: move it into one of its limits");
        problems.push(cursor.field(beside).problem(message));
    }
    let cursor = cursor.field(field);
    let add = |policy: Option<Policy>, (index, member): (usize, &Member)| {
        let (cursor, problems) = (cursor.item(index), &mut *problems);
        let checked = one_of_many(member, members.len(), &cursor, problems);
        Some(member_of(policy?, member, checked?))
    };
    members.iter().enumerate().fold(Some(policy), add)
}

/// Checks one of several limits.
fn one_of_many(
    member: &Member,
    count: usize,
    cursor: &Cursor<'_>,
    problems: &mut Vec<Problem>,
) -> Option<tidegate::Limit> {
    if member.name.as_ref().is_none_or(String::is_empty) && count > 1 {
        problems.push(cursor.problem("`name` is missing: each of several limits needs one"));
    }
    match limit(&member.limit_spec(), cursor, problems)? {
        LimitOrShaper::Limit(limit) => Some(limit),
        LimitOrShaper::Shaper(_) => {
            cursor.field("algorithm").reject(PolicyProblem::ShaperAmongLimits, problems)
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

/// Builds a limit; reports each problem at the position of its field.
pub(crate) fn limit(
    spec: &LimitSpec,
    cursor: &Cursor<'_>,
    problems: &mut Vec<Problem>,
) -> Option<LimitOrShaper> {
    let problem = |error: FieldError| match error.field() {
        Some(field) => cursor.field(field.name()).problem(error.problem()),
        None => cursor.problem(error.problem()),
    };
    spec.check(&time_zone).map_err(|errors| problems.extend(errors.into_iter().map(problem))).ok()
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

fn replicas(
    text: &text::Replicas,
    cursor: &Cursor<'_>,
    problems: &mut Vec<Problem>,
) -> Option<Replicas> {
    let mut replicas = Replicas::default();
    if let Some(wait) = text.wait.and_then(NonZeroU32::new) {
        replicas.wait = wait;
    }
    if let Some(timeout) = &text.timeout {
        let within = span_within(timeout, tidegate::deadline::MIN, tidegate::deadline::MAX);
        replicas.timeout = cursor.field("timeout").accept(within, problems)?;
    }
    if text.unconfirmed == Some(text::Unconfirmed::Deny) {
        replicas.unconfirmed = Unconfirmed::Deny;
    }
    Some(replicas)
}
