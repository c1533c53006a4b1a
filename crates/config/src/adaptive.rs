//! From `adaptive` as it is written to what moves a limit.

mod ramp;
mod source;
mod tuning;

use std::time::Duration;

use http::StatusCode;
use tidegate::Limit;
use tidegate_core::adaptive::{Chain, Mode, Priority, Ramp, Settings, Signal as SignalKind};
use tidegate_core::{LimitOrShaper, LimitSpec};

use self::source::Kind;
use self::tuning::{Tuned, Tuning};
use super::node::Spot;
use super::policy::time_zone;
use super::problem::Problem;
use super::text::{self, Adaptive, AdaptiveMode, OneOrMany, PolicyOptions, RampWord};
use crate::plan::{By, Plan, Pool, Signal, Signals, Source};

/// How often a limit follows.
const TICK: Duration = Duration::from_secs(1);

/// What is found on the way: what is wrong, and what will not do well.
pub(crate) struct Notes<'a> {
    pub found: &'a mut Vec<Problem>,
    pub warnings: &'a mut Vec<Problem>,
}

/// One limit that is to move.
struct Subject<'a> {
    policy: &'a str,
    limit_name: &'a str,
    limit: Limit,
    by_url: bool,
    priority: Option<text::Priority>,
    /// Whether some policy bounds how many are under way: then a priority says who finds a place.
    has_places: bool,
}

/// Whether any limit of a policy bounds how many are under way.
pub(crate) fn bounds_places(options: &PolicyOptions) -> bool {
    let members = options.all.iter().chain(&options.any).flatten();
    let all = members.filter_map(|member| member.adaptive.as_ref()).chain(&options.adaptive);
    all.into_iter().any(|adaptive| adaptive.in_flight.is_some())
}

/// Who of all requests finds a place first: as a policy says, or the last among its limits.
pub(crate) fn class_of(options: &PolicyOptions) -> Option<Priority> {
    let members = options.all.iter().chain(&options.any).flatten();
    let of_members = members.filter_map(|member| member.priority.map(priority)).max();
    options.priority.map(priority).or(of_members)
}

/// All limits of a policy that move. Limits that are wrong have been told by whoever reads limits.
pub(crate) fn plans(
    policy: &str,
    options: &PolicyOptions,
    has_places: bool,
    spot: &Spot<'_>,
    notes: &mut Notes<'_>,
) -> Vec<Plan> {
    let members = [("all", &options.all), ("any", &options.any)];
    let several = members.into_iter().find_map(|(field, it)| Some((field, it.as_ref()?)));
    let Some((field, members)) = several else {
        let by_url = options.key.as_ref().is_some_and(is_url);
        let (name, spec) = (options.name.as_deref().unwrap_or_default(), options.limit_spec());
        let adaptive = options.adaptive.as_ref();
        let own = Own { name, spec: &spec, adaptive, by_url, has_places };
        return own.plan(policy, options.priority, spot, notes).into_iter().collect();
    };
    if options.adaptive.is_some() {
        let message = format!("stands beside `{field}`: give it to one of the limits in there");
        notes.found.push(spot.of("adaptive").problem(message));
    }
    let plan = |(index, member): (usize, &text::Member)| {
        let by_url = member.key.as_deref() == Some("url");
        let (name, spec) = (member.name.as_deref().unwrap_or_default(), member.limit_spec());
        let adaptive = member.adaptive.as_ref();
        let own = Own { name, spec: &spec, adaptive, by_url, has_places };
        let inherited = options.priority.filter(|_| member.adaptive.is_some());
        let priority = member.priority.or(inherited);
        own.plan(policy, priority, &spot.of(field).item(index), notes)
    };
    members.iter().enumerate().filter_map(plan).collect()
}

/// What is written about one limit.
struct Own<'a> {
    name: &'a str,
    spec: &'a LimitSpec,
    adaptive: Option<&'a Adaptive>,
    by_url: bool,
    has_places: bool,
}

impl Own<'_> {
    fn plan(
        &self,
        policy: &str,
        priority: Option<text::Priority>,
        spot: &Spot<'_>,
        notes: &mut Notes<'_>,
    ) -> Option<Plan> {
        let Some(adaptive) = self.adaptive else {
            if priority.is_some() && !self.has_places {
                let message = "goes with `adaptive`, or with an `in_flight` of another policy: \
                               without them nothing gives way";
                notes.found.push(spot.of("priority").problem(message));
            }
            return None;
        };
        let spot = &spot.of("adaptive");
        // The errors of the limit are reported with its policy.
        let limit = match self.spec.build(&time_zone).ok()? {
            LimitOrShaper::Limit(Limit::Quota(_) | Limit::Concurrency(_))
            | LimitOrShaper::Shaper(_) => {
                let name = self.spec.algorithm().name();
                notes
                    .found
                    .push(spot.problem(format!("{name} does not follow the load: leave it out")));
                return None;
            }
            LimitOrShaper::Limit(limit) => limit,
        };
        let Self { name: limit_name, by_url, has_places, .. } = *self;
        let subject = Subject { policy, limit_name, limit, by_url, priority, has_places };
        subject.plan(adaptive, spot, notes)
    }
}

impl Subject<'_> {
    fn plan(&self, text: &Adaptive, spot: &Spot<'_>, notes: &mut Notes<'_>) -> Option<Plan> {
        let count_before = notes.found.len();
        let shed_status = match text.shed_status {
            None | Some(429) => StatusCode::TOO_MANY_REQUESTS,
            Some(503) => StatusCode::SERVICE_UNAVAILABLE,
            Some(_) => {
                notes.found.push(spot.of("shed_status").problem("expected 429 or 503"));
                return None;
            }
        };
        let by = self.by(text, spot, notes)?;
        let mode = match text.mode {
            Some(AdaptiveMode::Off) => Mode::Off,
            Some(AdaptiveMode::Shadow) => Mode::Shadow,
            Some(AdaptiveMode::Enforce) | None => Mode::Enforce,
        };
        let (policy, limit) = (self.policy.to_owned(), self.limit_name.to_owned());
        let plan = Plan { policy, limit, units: self.limit.units(), mode, by, shed_status };
        (notes.found.len() == count_before).then_some(plan)
    }

    fn by(&self, text: &Adaptive, spot: &Spot<'_>, notes: &mut Notes<'_>) -> Option<By> {
        let shared = Tuning {
            smoothing: text.smoothing.as_ref(),
            hysteresis: text.hysteresis.as_ref(),
            absence: text.absence.as_ref(),
        };
        let tuned = Tuned::default().with(shared, spot, notes.found)?;
        let mut each = Vec::new();
        match (&text.source, &text.chains) {
            (Some(source), None) => {
                let one = Written { name: None, source, ramp: text.ramp.as_ref() };
                match self.signals(&one, tuned, spot, notes)? {
                    By::Urls { ramp, target } => {
                        self.of_urls_alone(text, spot, notes.found);
                        return Some(By::Urls { ramp, target });
                    }
                    By::Signals(signals) => each = signals.each,
                }
            }
            (None, Some(chains)) => {
                if text.ramp.is_some() {
                    let message = "stands beside `chains`: give it to one of them";
                    notes.found.push(spot.of("ramp").problem(message));
                }
                let spot = spot.of("chains");
                for (index, chain) in chains.iter().enumerate() {
                    let spot = spot.item(index);
                    each.extend(self.chain(chain, tuned, &spot, notes).into_iter().flatten());
                }
            }
            _ => {
                notes.found.push(spot.problem("expected one of `source` and `chains`"));
                return None;
            }
        }
        let settings = Settings::from_chains(each.iter().map(|signal| signal.chain.clone()));
        spot.note(settings, notes.found)?;
        let pool = match &text.in_flight {
            Some(pool) => Some(self::pool(pool, &each, &spot.of("in_flight"), notes.found)?),
            None => None,
        };
        Some(By::Signals(Signals {
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
        tuned: Tuned,
        spot: &Spot<'_>,
        notes: &mut Notes<'_>,
    ) -> Option<Vec<Signal>> {
        let own = Tuning {
            smoothing: text.smoothing.as_ref(),
            hysteresis: text.hysteresis.as_ref(),
            absence: text.absence.as_ref(),
        };
        let tuned = tuned.with(own, spot, notes.found)?;
        let (name, source, ramp) = (text.name.as_deref(), &text.source, text.ramp.as_ref());
        // URLs have limits of their own, and no chain has.
        let alike = Subject { by_url: false, limit: self.limit.clone(), ..*self };
        match alike.signals(&Written { name, source, ramp }, tuned, spot, notes)? {
            By::Signals(signals) => Some(signals.each),
            By::Urls { .. } => None,
        }
    }

    /// What one source says, and what it is made of.
    fn signals(
        &self,
        written: &Written<'_>,
        tuned: Tuned,
        spot: &Spot<'_>,
        notes: &mut Notes<'_>,
    ) -> Option<By> {
        let source_spot = spot.of("source");
        let checked =
            source::source(written.source, self.policy, tuned.failures, &source_spot, notes.found)?;
        let usual = checked.kind.usual_ramp(self.by_url).map(text::Ramp::Word);
        let Some(ramp_text) = written.ramp.or(usual.as_ref()) else {
            notes.found.push(spot.problem("`ramp` is missing: what the answers to the query mean"));
            return None;
        };
        let is_queue = matches!(ramp_text, text::Ramp::Word(RampWord::Default));
        let unit = checked.kind.unit();
        let (ramp, signal) =
            ramp::ramp(ramp_text, unit, &self.limit, &spot.of("ramp"), notes.found)?;
        let is_latency = matches!(checked.kind, Kind::Latency);
        if is_latency && self.by_url && !is_queue {
            return Some(By::Urls { ramp, target: checked.target });
        }
        let name = written.name.unwrap_or(checked.name);
        let mut make = |name: &str, signal, ramp, source: Source| {
            let chain = spot.note(Chain::new(name, signal, ramp), notes.found)?;
            let chain = tuned.tune(chain)?;
            warn_of_swings(&chain, &ramp, &source, spot, notes.warnings);
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
            // Whoever fails fast is not well.
            let errors =
                if written.name.is_some() { format!("{name} errors") } else { "errors".into() };
            each.push(make(&errors, SignalKind::Share, Ramp::errors(), Source::Errors)?);
        }
        let none = Signals { each, floor: 1, warm_up_on_start: false, priority: None, pool: None };
        Some(By::Signals(none))
    }

    /// The mean of a minute is the smoothing of a URL: nothing else is made of it.
    fn of_urls_alone(&self, text: &Adaptive, spot: &Spot<'_>, found: &mut Vec<Problem>) {
        let fields = [
            ("smoothing", text.smoothing.is_some()),
            ("hysteresis", text.hysteresis.is_some()),
            ("absence", text.absence.is_some()),
            ("floor", text.floor.is_some()),
            ("in_flight", text.in_flight.is_some()),
            ("warm_up_on_start", text.warm_up_on_start.is_some()),
        ];
        for (field, _) in fields.into_iter().filter(|(_, is_given)| *is_given) {
            let message =
                "does not belong to URLs, whose limits are what the mean of a minute says";
            found.push(spot.of(field).problem(message));
        }
        if self.priority.is_some() && !self.has_places {
            let message = "follows URLs, where a `priority` only says who finds a place: no policy has \
                           an `in_flight`";
            found.push(spot.problem(message));
        }
    }
}

fn pool(
    text: &text::InFlight,
    each: &[Signal],
    spot: &Spot<'_>,
    found: &mut Vec<Problem>,
) -> Option<Pool> {
    let pool = match text {
        text::InFlight::Pool(places) => Pool::Known(*places),
        text::InFlight::Map(options) => Pool::Guessed(options.gradient),
    };
    spot.note(pool.cap(), found)?;
    let is_observed = |signal: &Signal| signal.source == Source::QueueWait;
    if !each.iter().any(is_observed) {
        let message =
            "goes with `source: latency` and `ramp: default`, whose target it is the pool of";
        found.push(spot.problem(message));
        return None;
    }
    Some(pool)
}

/// What is written about one signal.
struct Written<'a> {
    name: Option<&'a str>,
    source: &'a text::AdaptiveSource,
    ramp: Option<&'a text::Ramp>,
}

/// Says so before it does. A target is taken to feel each part of its load alike; what is asked for every few seconds is
/// as old by then.
fn warn_of_swings(
    chain: &Chain,
    ramp: &Ramp,
    source: &Source,
    spot: &Spot<'_>,
    warnings: &mut Vec<Problem>,
) {
    let ends = ramp.ends();
    let dead_ticks = match source {
        Source::Asked(ask) => u32::try_from(ask.every.as_secs()).unwrap_or(u32::MAX),
        _ => 1,
    };
    let swings = chain.smoothed().oscillation(TICK, ends.y_lo - ends.y_hi, dead_ticks);
    warnings.extend(swings.map(|swings| spot.problem(swings)));
}

fn is_url(key: &OneOrMany) -> bool {
    matches!(key.as_slice(), [only] if only == "url")
}

const fn priority(text: text::Priority) -> Priority {
    match text {
        text::Priority::Critical => Priority::Critical,
        text::Priority::Default => Priority::Default,
        text::Priority::Batch => Priority::Batch,
        text::Priority::BestEffort => Priority::BestEffort,
    }
}
