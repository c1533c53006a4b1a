//! From a policy in a file to a policy of the library.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use tidegate::{
    BuildError, Engine, EngineBuilder, OnStoreError, Policy, PolicyProblem, PolicyView, Replicas,
    Unconfirmed, Zone, deadline,
};
use tidegate_core::{Field, FieldError, LimitOrShaper, LimitSpec};

use super::amount::{span, time};
use super::node::Cursor;
use super::text::{self, Member, Mode, OnStoreErrorWord, PolicyOptions};
use crate::door::RESERVED_NAMES;

/// Names are labels in metrics and parts of headers.
const NAME_LEN_MAX: usize = 128;

/// Checks a policy.
pub(crate) fn policy(name: &str, text: &text::Policy, cursor: &Cursor<'_>) -> Option<Policy> {
    if name.is_empty() || name.len() > NAME_LEN_MAX || name.chars().any(char::is_control) {
        cursor.report("expected a name of 1 to 128 bytes without control characters");
    }
    if RESERVED_NAMES.contains(&name) {
        cursor.report("is the name of checks without a policy in metrics: choose another name");
    }
    let count_before = cursor.problem_count();
    let policy = match text {
        text::Policy::Line(line) => {
            let spec = LimitSpec::from_line(line).map_err(|error| error.problem());
            from_limit("", built(&cursor.accept(spec)?, Some(line), cursor)?)
        }
        text::Policy::Map(options) => with_options(options, cursor)?,
    };
    if cursor.problem_count() > count_before {
        return None;
    }
    cursor.accept(built_alone(name, &policy))?;
    Some(policy)
}

/// Whether the library accepts the policy.
pub(crate) fn built_alone(name: &str, policy: &Policy) -> Result<(), PolicyProblem> {
    let built = Engine::builder().policy(name, policy.clone()).build();
    built.map(drop).map_err(|BuildError { problem, .. }| problem)
}

/// Checks all options, also where the limits have problems.
fn with_options(options: &PolicyOptions, cursor: &Cursor<'_>) -> Option<Policy> {
    let limits = limits(options, cursor);
    let has_limits = limits.is_some();
    let mut policy = limits.unwrap_or_else(Policy::all).shadow(options.mode == Some(Mode::Shadow));
    if let Some(on_store_error) = &options.on_store_error {
        let cursor = cursor.field("on_store_error");
        let accepted = cursor.accept(on_error(on_store_error));
        policy = policy.on_store_error(accepted.unwrap_or(OnStoreError::Local));
    }
    if let Some(replicas) = &options.replicas {
        policy = policy.replicas(self::replicas(replicas, &cursor.field("replicas")));
    }
    if let Some(given) = &options.deadline {
        let bounds = deadline::MIN..=deadline::MAX;
        policy = policy.deadline(time(cursor, "deadline", Some(given), bounds, deadline::DEFAULT));
    }
    let quorum = options.quorum.unwrap_or(false);
    if quorum && options.replicas.is_some() {
        cursor.field("replicas").report(
            "goes with one Redis and its replicas: with `quorum: true`, a majority of servers confirms each charge",
        );
    }
    policy = policy.quorum(quorum);
    let deny_cache = options.deny_cache.unwrap_or(true);
    policy = policy.lease(options.lease.unwrap_or(false)).deny_cache(deny_cache);
    has_limits.then_some(policy)
}

/// One limit, or several by `all` or `any`.
fn limits(options: &PolicyOptions, cursor: &Cursor<'_>) -> Option<Policy> {
    let own = options.limit.spec();
    let (field, policy, members) = match (&options.all, &options.any) {
        (None, None) => {
            let name = options.name.as_deref().unwrap_or_default();
            return limit(&own, cursor).map(|built| from_limit(name, built));
        }
        (Some(members), None) => ("all", Policy::all(), members),
        (None, Some(members)) => ("any", Policy::any(), members),
        (Some(_), Some(_)) => {
            return cursor.field("any").reject("and `all` are both given: give one of them");
        }
    };
    let own_fields = own.fields().into_iter().map(|(field, _)| field.name());
    let named = options.name.as_ref().map(|_| "name");
    for beside in own_fields.chain(named) {
        let message = format!("is given beside `{field}`: move it into one of its limits");
        cursor.field(beside).report(message);
    }
    let cursor = cursor.field(field);
    let add = |policy: Option<Policy>, (index, member): (usize, &Member)| {
        let checked = one_of_many(member, members.len(), &cursor.item(index));
        Some(member_of(policy?, member, checked?))
    };
    members.iter().enumerate().fold(Some(policy), add)
}

/// Checks one of several limits.
fn one_of_many(member: &Member, count: usize, cursor: &Cursor<'_>) -> Option<tidegate::Limit> {
    if member.name.as_ref().is_none_or(String::is_empty) && count > 1 {
        cursor.report("`name` is missing: each of several limits needs one");
    }
    match limit(&member.limit.spec(), cursor)? {
        LimitOrShaper::Limit(limit) => Some(limit),
        LimitOrShaper::Shaper(_) => {
            cursor.field("algorithm").reject(PolicyProblem::ShaperAmongLimits)
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
pub(crate) fn limit(spec: &LimitSpec, cursor: &Cursor<'_>) -> Option<LimitOrShaper> {
    built(spec, None, cursor)
}

/// The same, of a map or of a line.
fn built(spec: &LimitSpec, line: Option<&str>, cursor: &Cursor<'_>) -> Option<LimitOrShaper> {
    let report = |error: &FieldError| match (error.field(), line) {
        (Some(field), _) => cursor.field(field.name()).report(error.problem()),
        (None, Some(line)) => cursor.report(error.problem_in_line(line)),
        (None, None) => cursor.report(error.problem()),
    };
    spec.check(&time_zone).map_err(|errors| errors.iter().for_each(report)).ok()
}

/// A limit in one line, as a file has it: `100/min burst 20`.
pub fn limit_from_line(line: &str) -> Result<LimitOrShaper, String> {
    limit_from_line_times(line, 1)
}

/// The same with its units multiplied.
pub fn limit_from_line_times(line: &str, factor: u64) -> Result<LimitOrShaper, String> {
    let spec = LimitSpec::from_line(line);
    // Its own form is checked first, so that an error names what was written.
    let built = spec.and_then(|spec| {
        spec.build(&time_zone)?;
        spec.times(factor)?.build(&time_zone)
    });
    built.map_err(|error| match error.field() {
        None | Some(Field::Limit | Field::Refill) => error.problem_in_line(line),
        Some(_) => error.to_string(),
    })
}

/// The policies with a limit whose burst is the whole limit, and what that means.
pub fn first_periods(policies: &BTreeMap<String, Policy>) -> Vec<(String, String)> {
    let add = |builder: EngineBuilder, (name, policy): (&String, &Policy)| {
        builder.policy(name.clone(), policy.clone())
    };
    let engine = policies.iter().fold(Engine::builder(), add).build();
    let said = |policy: PolicyView<'_>| {
        let said = policy.members().find_map(|member| member.limit.first_period())?;
        Some((policy.name().to_owned(), said))
    };
    // Checked policies can be built.
    engine.iter().flat_map(Engine::policies).filter_map(said).collect()
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

fn replicas(text: &text::Replicas, cursor: &Cursor<'_>) -> Replicas {
    let mut replicas = Replicas::default();
    replicas.wait = text.wait.and_then(NonZeroU32::new).unwrap_or(replicas.wait);
    let (given, bounds) = (text.timeout.as_ref(), deadline::MIN..=deadline::MAX);
    replicas.timeout = time(cursor, "timeout", given, bounds, replicas.timeout);
    if text.unconfirmed == Some(text::Unconfirmed::Deny) {
        replicas.unconfirmed = Unconfirmed::Deny;
    }
    replicas
}
