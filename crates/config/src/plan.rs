//! Adaptive limits of a configuration: checked data, without behaviour.

use std::path::PathBuf;
use std::time::Duration;

use http::{StatusCode, Uri};
use tidegate_core::adaptive::{AdaptiveError, Cap, Chain, Mode, Priority, Ramp};

use crate::secret::SecretSource;

/// The target that stands for all observed targets.
pub const ALL: &str = "all";

/// One adaptive limit.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    pub policy: String,
    /// Its name among the limits of the policy.
    pub limit: String,
    /// The units of the whole limit.
    pub units: u64,
    pub mode: Mode,
    pub follows: Follows,
    /// The status of a refusal while the limit is reduced.
    pub shed_status: StatusCode,
}

/// What an adaptive limit follows.
#[derive(Clone, PartialEq, Debug)]
pub enum Follows {
    /// Every URL has a limit that follows its own response time.
    Urls { ramp: Ramp, target: String, cap: UrlCap },
    /// All keys have one limit that follows the signals of the protected service.
    Signals(Signals),
}

/// What a URL may have while its responses are fast.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UrlCap {
    /// All units of the limit.
    Units,
    /// As many as come. Slow URLs fall from their busiest fast minute, or from `least` if that is more.
    None { least: u64 },
}

/// Signals, and their common settings.
#[derive(Clone, PartialEq, Debug)]
pub struct Signals {
    pub each: Vec<Signal>,
    pub floor: u64,
    pub warm_up_on_start: bool,
    pub priority: Option<Priority>,
    /// The pool of the observed target, which bounds requests in flight.
    pub pool: Option<Pool>,
}

/// The number of requests that a target can process at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pool {
    /// This many.
    Known(u64),
    /// At least this many, at most four times as many.
    Guessed(u64),
}

impl Pool {
    pub fn cap(self) -> Result<Cap, AdaptiveError> {
        match self {
            Self::Known(places) => Cap::fixed(places),
            Self::Guessed(places) => Cap::gradient(places),
        }
    }

    pub const fn known(self) -> Option<u64> {
        match self {
            Self::Known(places) => Some(places),
            Self::Guessed(_) => None,
        }
    }

    /// The most requests in flight.
    pub const fn most(self) -> u64 {
        match self {
            Self::Known(places) => places.saturating_mul(2),
            Self::Guessed(places) => places.saturating_mul(4),
        }
    }
}

/// One signal, and how it is processed.
#[derive(Clone, PartialEq, Debug)]
pub struct Signal {
    pub chain: Chain,
    pub ramp: Ramp,
    pub source: Source,
    /// The name of its target.
    pub target: String,
}

/// Where a signal comes from.
#[derive(Clone, PartialEq, Debug)]
pub enum Source {
    /// The time that requests wait in the queue of the target.
    QueueWait,
    /// The share of its requests that fail.
    Errors,
    /// The mean response time of the last minute.
    MeanLatency,
    /// The reported saturation of its pool.
    Pool,
    /// The processors of this machine.
    Cpu,
    /// A constant pressure.
    Fixed(f64),
    /// An HTTP endpoint that is polled.
    Asked(Box<Ask>),
}

/// An HTTP endpoint that is polled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ask {
    pub uri: Uri,
    pub answer: AnswerKind,
    pub every: Duration,
    pub timeout: Duration,
    /// This many failures in a row are a signal.
    pub failures: u32,
    /// The certificate authorities of an `https://` URL, instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// Sent as `Authorization: Bearer`.
    pub token: Option<SecretSource>,
}

/// The format of an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AnswerKind {
    /// The number at a JSON pointer, or a number alone.
    Pointer(String),
    /// The first sample of a Prometheus query.
    Prometheus,
    /// Any: how long it takes is the pressure.
    Timed(LatencyScale),
}

/// The times at which a probe is a pressure of 0 and of 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LatencyScale {
    pub healthy: Duration,
    /// Above `healthy`.
    pub overloaded: Duration,
}

impl LatencyScale {
    /// The pressure of a probe that took this long: linear between the two times.
    pub fn pressure(&self, took: Duration) -> f64 {
        let beyond = |time: Duration| time.saturating_sub(self.healthy).as_secs_f64();
        (beyond(took) / beyond(self.overloaded)).clamp(0.0, 1.0)
    }
}

/// The units a minute of URLs that have no cap: more than any server passes on, since a limit needs a number.
pub const UNCAPPED_UNITS: u64 = 100_000_000;

impl Plan {
    /// Every URL follows its own response time, from so many units a minute down to 4.
    pub fn by_url(policy: &str, limit: &str, units: u64, cap: UrlCap) -> Self {
        let ramp = Ramp::latency_per_url_from(units);
        Self {
            policy: policy.to_owned(),
            limit: limit.to_owned(),
            units,
            mode: Mode::Enforce,
            follows: Follows::Urls { ramp, target: ALL.to_owned(), cap },
            shed_status: StatusCode::TOO_MANY_REQUESTS,
        }
    }

    /// Its unique name: policy and limit, joined by a control character, which no policy name has.
    pub fn name(&self) -> String {
        self.joined_by("\u{1}")
    }

    /// Its name for people.
    pub fn display_name(&self) -> String {
        self.joined_by("/")
    }

    fn joined_by(&self, separator: &str) -> String {
        let separator = if self.limit.is_empty() { "" } else { separator };
        [&self.policy, separator, &self.limit].concat()
    }

    /// The names of the targets that it follows.
    pub fn targets(&self) -> impl Iterator<Item = &str> {
        self.targets_from(|_| true)
    }

    /// Those of them that the doors measure.
    pub fn observed(&self) -> impl Iterator<Item = &str> {
        self.targets_from(Source::is_observed)
    }

    /// Those of them that reports to `/v1/observe` move: what the doors measure, and pools.
    pub fn reported(&self) -> impl Iterator<Item = &str> {
        self.targets_from(|source| source.is_observed() || *source == Source::Pool)
    }

    fn targets_from(&self, wanted: fn(&Source) -> bool) -> impl Iterator<Item = &str> {
        let (url, signals) = match &self.follows {
            Follows::Urls { target, .. } => (Some(target.as_str()), &[][..]),
            Follows::Signals(signals) => (None, &signals.each[..]),
        };
        let wanted = signals.iter().filter(move |signal| wanted(&signal.source));
        url.into_iter().chain(wanted.map(|signal| signal.target.as_str()))
    }

    /// The pool of a target, if it is configured.
    pub fn pool_of(&self, target: &str) -> Option<Pool> {
        let Follows::Signals(signals) = &self.follows else { return None };
        let queues = |it: &Signal| it.source == Source::QueueWait && it.target == target;
        signals.pool.filter(|_| signals.each.iter().any(queues))
    }

    /// The lowest share of the limit.
    #[expect(clippy::cast_precision_loss, reason = "limits are at most 2^53")]
    pub fn floor_share(&self) -> f64 {
        let floor = match &self.follows {
            Follows::Urls { .. } => 1,
            Follows::Signals(signals) => signals.floor,
        };
        floor.min(self.units) as f64 / self.units.max(1) as f64
    }
}

impl Source {
    fn is_observed(&self) -> bool {
        matches!(self, Self::QueueWait | Self::Errors | Self::MeanLatency)
    }
}

impl Signal {
    /// The reading that corresponds to a pressure from 0 to 1.
    pub fn at(&self, pressure: f64) -> f64 {
        let ends = self.ramp.ends();
        ends.x_lo + pressure * (ends.x_hi - ends.x_lo)
    }
}

/// The share of a limit that remains at a pressure.
pub fn share_at(ramp: &Ramp, pressure: f64) -> f64 {
    let ends = ramp.ends();
    (ends.y_lo + pressure * (ends.y_hi - ends.y_lo)).clamp(ends.y_hi, ends.y_lo)
}
