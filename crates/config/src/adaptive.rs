//! From `adaptive` in a file to the plan of an adaptive limit.

mod ramp;
mod source;
mod tuning;

use std::ops::ControlFlow;
use std::time::Duration;

use tidegate::Limit;
use tidegate_core::adaptive::{Chain, Mode, Priority, Ramp, Settings, Signal as SignalKind};
use tidegate_core::{LimitOrShaper, LimitSpec};

use self::source::Kind;
use self::tuning::Tuned;
use super::amount::shed_status;
use super::node::Cursor;
use super::policy::time_zone;
use super::text::{self, Adaptive, AdaptiveMode, OneOrMany, PolicyOptions, RampWord};
use crate::plan::{Follows, Plan, Pool, Signal, Signals, Source, UrlCap};

/// The interval in which limits adapt.
const TICK: Duration = Duration::from_secs(1);

/// One limit as written.
struct Subject<'a> {
    policy: &'a str,
    limit_name: &'a str,
    spec: LimitSpec,
    by_url: bool,
    priority: Option<text::Priority>,
    /// Whether some policy bounds requests in flight: a priority applies to that bound, too.
    has_places: bool,
}

/// Whether a limit of a policy bounds requests in flight.
pub(crate) fn has_in_flight(options: &PolicyOptions) -> bool {
    let members = options.members().filter_map(|member| member.adaptive.as_ref());
    members.chain(&options.adaptive).any(|adaptive| adaptive.in_flight.is_some())
}

/// The priority of a policy's requests: its own, or the lowest of its limits.
pub(crate) fn priority_of(options: &PolicyOptions) -> Option<Priority> {
    let of_members = options.members().filter_map(|it| it.priority.map(priority)).max();
    options.priority.map(priority).or(of_members)
}

/// The adaptive limits of a policy. Problems of the limits themselves are reported with the policy.
pub(crate) fn plans(
    policy: &str,
    options: &PolicyOptions,
    has_places: bool,
    cursor: &Cursor<'_>,
) -> Vec<Plan> {
    let members = [("all", &options.all), ("any", &options.any)];
    let several = members.into_iter().find_map(|(field, it)| Some((field, it.as_ref()?)));
    let Some((field, members)) = several else {
        let by_url = options.key.as_ref().is_some_and(is_url);
        let limit_name = options.name.as_deref().unwrap_or_default();
        let (spec, priority) = (options.limit.spec(), options.priority);
        let subject = Subject { policy, limit_name, spec, by_url, priority, has_places };
        return subject.plan(options.adaptive.as_ref(), cursor).into_iter().collect();
    };
    let message = format!("is given beside `{field}`: move it into one of its limits");
    cursor.report_given(&["adaptive"], &message);
    let plan = |(index, member): (usize, &text::Member)| {
        let by_url = member.key.as_deref() == Some("url");
        let limit_name = member.name.as_deref().unwrap_or_default();
        let inherited = options.priority.filter(|_| member.adaptive.is_some());
        let (spec, priority) = (member.limit.spec(), member.priority.or(inherited));
        let subject = Subject { policy, limit_name, spec, by_url, priority, has_places };
        subject.plan(member.adaptive.as_ref(), &cursor.field(field).item(index))
    };
    members.iter().enumerate().filter_map(plan).collect()
}

impl Subject<'_> {
    fn plan(&self, text: Option<&Adaptive>, cursor: &Cursor<'_>) -> Option<Plan> {
        let Some(text) = text else {
            if self.priority.is_some() && !self.has_places {
                let message = "needs `adaptive`, or an `in_flight` of another policy: \
                               otherwise nothing is shed";
                cursor.field("priority").report(message);
            }
            return None;
        };
        let cursor = &cursor.field("adaptive");
        // The errors of the limit are reported with its policy.
        let limit = match self.spec.build(&time_zone).ok()? {
            LimitOrShaper::Limit(limit) if limit.follows_load() => limit,
            LimitOrShaper::Limit(_) | LimitOrShaper::Shaper(_) => {
                let name = self.spec.algorithm().name();
                let message = format!("{name} cannot be adaptive: remove the key");
                return cursor.reject(message);
            }
        };
        let count_before = cursor.problem_count();
        let shed_status = shed_status(text.shed_status, cursor);
        let follows = self.follows(text, &limit, cursor)?;
        let mode = match text.mode {
            Some(AdaptiveMode::Off) => Mode::Off,
            Some(AdaptiveMode::Shadow) => Mode::Shadow,
            Some(AdaptiveMode::Enforce) | None => Mode::Enforce,
        };
        let (policy, units) = (self.policy.to_owned(), limit.units());
        let limit = self.limit_name.to_owned();
        let plan = Plan { policy, limit, units, mode, follows, shed_status };
        (cursor.problem_count() == count_before).then_some(plan)
    }

    fn follows(&self, text: &Adaptive, limit: &Limit, cursor: &Cursor<'_>) -> Option<Follows> {
        let (smoothing, hysteresis) = (text.smoothing.as_ref(), text.hysteresis.as_ref());
        let tuned = Tuned::default().with(smoothing, hysteresis, text.absence.as_ref(), cursor)?;
        let mut each = Vec::new();
        match (&text.source, &text.chains) {
            (Some(source), None) => {
                let (ramp, by_url) = (text.ramp.as_ref(), self.by_url);
                let one = Written { name: None, source, ramp, by_url, limit };
                match self.signals(&one, tuned, cursor)? {
                    ControlFlow::Continue(signals) => each = signals,
                    ControlFlow::Break(by_url) => {
                        self.reject_signal_fields(cursor);
                        return Some(by_url);
                    }
                }
            }
            (None, Some(chains)) => {
                let message = "is given beside `chains`: move it into one of them";
                cursor.report_given(&["ramp"], message);
                let cursor = cursor.field("chains");
                for (index, chain) in chains.iter().enumerate() {
                    let cursor = cursor.item(index);
                    let signals = self.chain(chain, limit, tuned, &cursor);
                    each.extend(signals.into_iter().flatten());
                }
            }
            _ => return cursor.reject("expected one of `source` and `chains`"),
        }
        let settings = Settings::from_chains(each.iter().map(|signal| signal.chain.clone()));
        cursor.accept(settings)?;
        let pool = match &text.in_flight {
            Some(pool) => Some(self::pool(pool, &each, &cursor.field("in_flight"))?),
            None => None,
        };
        Some(Follows::Signals(Signals {
            each,
            floor: text.floor.unwrap_or(1),
            warm_up_on_start: text.warm_up_on_start.unwrap_or(false),
            priority: self.priority.map(priority),
            pool,
        }))
    }

    fn chain(
        &self,
        text: &text::Chain,
        limit: &Limit,
        tuned: Tuned,
        cursor: &Cursor<'_>,
    ) -> Option<Vec<Signal>> {
        let (smoothing, hysteresis) = (text.smoothing.as_ref(), text.hysteresis.as_ref());
        let tuned = tuned.with(smoothing, hysteresis, text.absence.as_ref(), cursor)?;
        let (name, source, ramp) = (text.name.as_deref(), &text.source, text.ramp.as_ref());
        // Limits per URL have no chains.
        let written = Written { name, source, ramp, by_url: false, limit };
        self.signals(&written, tuned, cursor)?.continue_value()
    }

    /// The signals of one source, or the response times of URLs.
    fn signals(
        &self,
        written: &Written<'_>,
        tuned: Tuned,
        cursor: &Cursor<'_>,
    ) -> Option<ControlFlow<Follows, Vec<Signal>>> {
        let Written { source, by_url, limit, .. } = *written;
        let (at, failures) = (cursor.field("source"), tuned.failures);
        let checked = source::source(source, self.policy, failures, &at)?;
        let default = checked.kind.default_ramp(by_url).map(text::Ramp::Word);
        let Some(ramp_text) = written.ramp.or(default.as_ref()) else {
            return cursor.reject("`ramp` is missing: a query has no default");
        };
        let is_queue = matches!(ramp_text, text::Ramp::Word(RampWord::Default));
        let unit = checked.kind.unit();
        let (ramp, signal) = ramp::ramp(ramp_text, unit, limit, &cursor.field("ramp"))?;
        let is_latency = matches!(checked.kind, Kind::Latency);
        if is_latency && by_url && !is_queue {
            let (target, cap) = (checked.target, UrlCap::Units);
            return Some(ControlFlow::Break(Follows::Urls { ramp, target, cap }));
        }
        let name = written.name.unwrap_or(checked.name);
        let make = |name: &str, signal, ramp, source: Source| {
            let chain = cursor.accept(Chain::new(name, signal, ramp))?;
            let chain = tuned.tune(chain)?;
            warn_of_oscillation(&chain, &ramp, &source, cursor);
            Some(Signal { chain, ramp, source, target: checked.target.clone() })
        };
        let source = match checked.kind {
            Kind::Latency if is_queue => Source::QueueWait,
            Kind::Latency => Source::MeanLatency,
            Kind::Cpu => Source::Cpu,
            Kind::Pool => Source::Pool,
            Kind::Fixed(pressure) => Source::Fixed(pressure),
            Kind::Asked(ask) => Source::Asked(ask),
        };
        let mut each = vec![make(name, signal, ramp, source)?];
        if is_latency {
            // A failing target may respond fast.
            let errors =
                if written.name.is_some() { format!("{name} errors") } else { "errors".into() };
            each.push(make(&errors, SignalKind::Share, Ramp::errors(), Source::Errors)?);
        }
        Some(ControlFlow::Continue(each))
    }

    /// Limits per URL follow the mean of a minute and have no further options.
    fn reject_signal_fields(&self, cursor: &Cursor<'_>) {
        let others =
            ["smoothing", "hysteresis", "absence", "floor", "in_flight", "warm_up_on_start"];
        let message = "does not belong to limits per URL, which follow the mean of a minute";
        cursor.report_given(&others, message);
        if self.priority.is_some() && !self.has_places {
            let message = "follows URLs, where a `priority` applies to requests in flight only: no policy \
                           has an `in_flight`";
            cursor.report(message);
        }
    }
}

fn pool(text: &text::InFlight, each: &[Signal], cursor: &Cursor<'_>) -> Option<Pool> {
    let pool = match text {
        text::InFlight::Pool(places) => Pool::Known(*places),
        text::InFlight::Map(options) => Pool::Guessed(options.gradient),
    };
    cursor.accept(pool.cap())?;
    let is_observed = |signal: &Signal| signal.source == Source::QueueWait;
    if !each.iter().any(is_observed) {
        let message = "needs `source: latency` and `ramp: default`: it is the pool of their target";
        return cursor.reject(message);
    }
    Some(pool)
}

/// The keys of one signal.
struct Written<'a> {
    name: Option<&'a str>,
    source: &'a text::AdaptiveSource,
    ramp: Option<&'a text::Ramp>,
    by_url: bool,
    limit: &'a Limit,
}

/// Warns of a limit that will oscillate. Assumes a load that is proportional to the limit, and readings as old as their
/// interval.
fn warn_of_oscillation(chain: &Chain, ramp: &Ramp, source: &Source, cursor: &Cursor<'_>) {
    let ends = ramp.ends();
    let dead_ticks = match source {
        Source::Asked(ask) => u32::try_from(ask.every.as_secs()).unwrap_or(u32::MAX),
        _ => 1,
    };
    let swings = chain.smoothed().oscillation(TICK, ends.y_lo - ends.y_hi, dead_ticks);
    if let Some(swings) = swings {
        cursor.warn(swings);
    }
}

fn is_url(key: &OneOrMany) -> bool {
    matches!(key.as_slice(), [only] if only == "url")
}

pub(crate) const fn priority(text: text::Priority) -> Priority {
    match text {
        text::Priority::Critical => Priority::Critical,
        text::Priority::Default => Priority::Default,
        text::Priority::Batch => Priority::Batch,
        text::Priority::BestEffort => Priority::BestEffort,
    }
}
