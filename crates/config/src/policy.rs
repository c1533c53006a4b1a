//! From a policy in a file to a policy of the library.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::time::Duration;

use tidegate::store_kit::DENY_CACHE_TTL;
use tidegate::{
    BuildError, Engine, EngineBuilder, OnStoreError, Percent, PercentError, Policy, PolicyProblem,
    PolicyView, Replicas, Share, Unconfirmed, Zone, deadline,
};
use tidegate_core::text::{printable, unknown_policy};
use tidegate_core::{Field, FieldError, LimitOrShaper, LimitSpec};

use super::amount::{span, time};
use super::node::Cursor;
use super::text::{
    self, DenyCache, DenyCacheOptions, Member, Mode, OnStoreErrorWord, OneOrMany, Percentage,
    PolicyOptions, Weights,
};
use crate::door::RESERVED_NAMES;

/// Names are labels in metrics and parts of headers.
const NAME_LEN_MAX: usize = 128;

/// How long refusals may be remembered.
const TTL_BOUNDS: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_mins(1);

/// Checks a policy. The limit of one that is shared counts everybody together, whatever key a caller gives.
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
            let spec = LimitSpec::from_line(line);
            let spec =
                spec.map_err(|error| needs_map(name, line).unwrap_or_else(|| error.problem()));
            from_limit("", built(&cursor.accept(spec)?, Some(line), cursor)?)
        }
        text::Policy::Map(options) => with_options(options, cursor)?,
    };
    if cursor.problem_count() > count_before {
        return None;
    }
    let is_share = matches!(text, text::Policy::Map(options) if options.share.is_some());
    if !is_share {
        cursor.accept(built_alone(name, &policy))?;
    }
    Some(policy)
}

/// What a policy in one line cannot have, each with an example.
const OF_MAPS: [(&str, &str); 5] = [
    ("deadline", "20ms"),
    ("enforce", "10%"),
    ("key", "client_ip"),
    ("mode", "shadow"),
    ("on_store_error", "deny"),
];

/// The map to write where a line has a key of one. It repeats nothing of the line, which may hold secrets.
fn needs_map(name: &str, line: &str) -> Option<String> {
    let (key, value) = OF_MAPS.into_iter().find(|(key, _)| line.split(' ').any(|it| it == *key))?;
    let name = printable(name);
    Some(format!(
        "`{key}` does not go into a line: write a map, as in `{name}: {{ limit: 100/min, {key}: {value} }}`"
    ))
}

/// As many problems as `tidegate validate` prints.
const SUGGESTIONS_MAX: usize = 100;

/// The message for a policy that the file does not have. What was meant is searched for among all names, so only for the
/// first problems: otherwise the time would grow with the product of both.
pub(crate) fn unknown(name: &str, file: &text::File, at: &Cursor<'_>) -> String {
    let searched = if at.problem_count() < SUGGESTIONS_MAX { usize::MAX } else { 0 };
    unknown_policy(name, file.policies.keys().map(String::as_str).take(searched))
}

/// Whether the library accepts the policy.
pub(crate) fn built_alone(name: &str, policy: &Policy) -> Result<(), PolicyProblem> {
    let built = Engine::builder().policy(name, policy.clone()).build();
    built.map(drop).map_err(|BuildError { problem, .. }| problem)
}

/// Checks all options, also where the limits have problems.
fn with_options(options: &PolicyOptions, cursor: &Cursor<'_>) -> Option<Policy> {
    let limits = match &options.share {
        Some(share) => Some(self::share(share, options, cursor)),
        None => limits(options, cursor),
    };
    let has_limits = limits.is_some();
    let mut policy = limits.unwrap_or_else(Policy::all).shadow(options.mode == Some(Mode::Shadow));
    if let Some(part) = &options.enforce {
        let cursor = cursor.field("enforce");
        if options.mode == Some(Mode::Shadow) {
            cursor.report("goes with `mode: enforce`: leave out `mode: shadow`, or `enforce`");
        }
        policy = cursor.accept(percent(part)).map_or(policy.clone(), |part| policy.enforce(part));
    }
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
    policy = policy.lease(options.lease.unwrap_or(false));
    policy = match &options.deny_cache {
        None | Some(DenyCache::Switch(true)) => policy,
        Some(DenyCache::Switch(false)) => policy.deny_cache(false),
        Some(DenyCache::Map(DenyCacheOptions { ttl })) => {
            let cursor = cursor.field("deny_cache");
            policy.deny_cache_ttl(time(&cursor, "ttl", ttl.as_ref(), TTL_BOUNDS, DENY_CACHE_TTL))
        }
    };
    has_limits.then_some(policy)
}

/// A share of a file. What it shares is [checked](super::share::check) with all policies.
fn share(share: &text::Share, options: &PolicyOptions, cursor: &Cursor<'_>) -> Policy {
    let own = options.limit.spec();
    let own = own.fields().into_iter().map(|(field, _)| field.name());
    let given = [
        ("all", options.all.is_some()),
        ("any", options.any.is_some()),
        ("name", options.name.is_some()),
    ];
    for beside in own.chain(given.into_iter().filter_map(|(name, given)| given.then_some(name))) {
        let message = format!("is given beside `share`: move it into the policy `{}`", share.of);
        cursor.field(beside).report(message);
    }
    if options.adaptive.is_some() {
        cursor.field("adaptive").report(PolicyProblem::AdaptiveShare(share.of.clone()));
    }
    let tenants = Share::of(&share.of, &share.by);
    Policy::share(match &share.weights {
        Some(Weights { by, otherwise, named }) => {
            let named = named.iter().map(|(value, weight)| (value.clone(), *weight));
            tenants.weights(by, named, *otherwise)
        }
        None => tenants,
    })
}

/// One limit, or several by `all` or `any`.
fn limits(options: &PolicyOptions, cursor: &Cursor<'_>) -> Option<Policy> {
    let own = options.limit.spec();
    let (field, policy, members) = match (&options.all, &options.any) {
        (None, None) => {
            let name = options.name.as_deref().unwrap_or_default();
            let key = options.key.as_ref().map_or(&[][..], OneOrMany::as_slice);
            let by_all = matches!(key, [only] if only == "global");
            return limit(&own, cursor).map(|built| match built {
                LimitOrShaper::Limit(limit) if by_all => {
                    Policy::all().limit_by(name, "global", limit)
                }
                built => from_limit(name, built),
            });
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
        LimitOrShaper::Limit(limit) => {
            let (cost, ceiling) = (member.cost.unwrap_or(1), limit.ceiling());
            if cost > ceiling && cost > 1 {
                let limit = member.name.clone().unwrap_or_default();
                let never = PolicyProblem::CostAboveLimit { limit, cost, ceiling };
                return cursor.field("cost").reject(never);
            }
            Some(limit)
        }
        LimitOrShaper::Shaper(_) => {
            cursor.field("algorithm").reject(PolicyProblem::ShaperAmongLimits)
        }
    }
}

fn member_of(policy: Policy, member: &Member, limit: tidegate::Limit) -> Policy {
    let name = member.name.as_deref().unwrap_or_default();
    let policy = match &member.key {
        Some(key) => policy.limit_by(name, key, limit),
        None => policy.limit(name, limit),
    };
    policy.cost(name, member.cost.unwrap_or(1))
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

/// All policies together, as shares need them; `None` if some problem was reported.
pub(crate) fn engine(policies: &BTreeMap<String, Policy>) -> Option<Engine> {
    let add = |builder: EngineBuilder, (name, policy): (&String, &Policy)| {
        builder.policy(name.clone(), policy.clone())
    };
    policies.iter().fold(Engine::builder(), add).build().ok()
}

/// The policies with a limit whose burst is the whole limit, and what that means.
pub fn first_periods(policies: &BTreeMap<String, Policy>) -> Vec<(String, String)> {
    // Checked policies can be built.
    let engine = engine(policies);
    // The limit that a share divides is that of another policy.
    let has_own = |policy: &PolicyView<'_>| policy.share_status().is_none();
    let said = |policy: PolicyView<'_>| {
        let said = policy.members().find_map(|member| member.limit.first_period())?;
        Some((policy.name().to_owned(), said))
    };
    engine.iter().flat_map(Engine::policies).filter(has_own).filter_map(said).collect()
}

/// Time zones by name, for the grammar of limits.
pub(crate) fn time_zone(name: &str) -> Result<Zone, String> {
    tidegate::zone(name).map_err(|error| error.to_string())
}

/// A part of all callers, or what to write instead.
fn percent(text: &Percentage) -> Result<Percent, String> {
    let written = match text {
        Percentage::Text(text) => text.trim().to_owned(),
        Percentage::Number(number) => number.to_string(),
    };
    let is_percent = |text: &String| text.parse::<Percent>().is_ok();
    let signed = Some(format!("{written}%")).filter(is_percent);
    // In millionths, the smallest part, so that 0.07 is 7%.
    let of_one = |part: f64| Some(format!("{}%", (part * 1e6).round() / 1e4)).filter(is_percent);
    let part = written.parse::<f64>().ok().filter(|part| *part > 0.0 && *part < 1.0);
    let of_one = part.and_then(of_one);
    let told = |error| match (error, &signed, &of_one) {
        (PercentError::NoSign, Some(signed), Some(part)) => format!(
            "has no percent sign: write `enforce: {signed}`, or `enforce: {part}` for that part of 1"
        ),
        (PercentError::NoSign, Some(right), None) | (PercentError::NoSign, None, Some(right)) => {
            format!("has no percent sign: write `enforce: {right}`")
        }
        (PercentError::Zero, ..) => "enforces nothing: write `mode: shadow` instead".to_owned(),
        (error, ..) => error.to_string(),
    };
    written.parse().map_err(told)
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
