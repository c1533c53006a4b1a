//! What a configuration says about limits that move: checked, and not yet at work.

use std::time::Duration;

use http::{StatusCode, Uri};
use tidegate_core::adaptive::{AdaptiveError, Cap, Chain, Mode, Priority, Ramp};

/// The target of all that is observed, whatever it is called.
pub const ALL: &str = "all";

/// One limit that follows something.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    pub policy: String,
    /// Its name among the limits of the policy.
    pub limit: String,
    /// All of its units.
    pub units: u64,
    pub mode: Mode,
    pub by: By,
    /// What a refusal is told with while part of it is taken away.
    pub shed_status: StatusCode,
}

/// What it follows.
#[derive(Clone, PartialEq, Debug)]
pub enum By {
    /// Every URL its own response time.
    Urls { ramp: Ramp, target: String },
    /// All keys alike the signals of what is protected.
    Signals(Signals),
}

/// Signals, and what they share.
#[derive(Clone, PartialEq, Debug)]
pub struct Signals {
    pub each: Vec<Signal>,
    pub floor: u64,
    pub warm_up_on_start: bool,
    pub priority: Option<Priority>,
    /// The pool of the observed target, which bounds how many are under way.
    pub pool: Option<Pool>,
}

/// How many a target can work on at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pool {
    /// So many.
    Known(u64),
    /// So many at least, and perhaps four times as many.
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

    /// The most that may ever be under way.
    pub const fn most(self) -> u64 {
        match self {
            Self::Known(places) => places.saturating_mul(2),
            Self::Guessed(places) => places.saturating_mul(4),
        }
    }
}

/// One signal, and what is made of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Signal {
    pub chain: Chain,
    pub ramp: Ramp,
    pub source: Source,
    /// What it is a signal of, as operators call it.
    pub target: String,
}

/// Where a signal comes from.
#[derive(Clone, PartialEq, Debug)]
pub enum Source {
    /// How long requests wait in the queue of the target.
    QueueWait,
    /// The share of its requests that fail.
    Errors,
    /// How long they took on average in the last minute.
    MeanLatency,
    /// How full its pool is said to be.
    Pool,
    /// The processors of this machine.
    Cpu,
    /// Always the same pressure.
    Fixed(f64),
    /// Somebody who is asked.
    Asked(Ask),
}

/// Whom to ask over HTTP, and how.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ask {
    pub uri: Uri,
    pub answer: AnswerKind,
    pub every: Duration,
    pub timeout: Duration,
    /// So many failures in a row are a sign.
    pub failures: u32,
}

/// Where the number is in an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AnswerKind {
    /// Behind a JSON pointer; a number alone is one without.
    Pointer(String),
    /// In the first sample of a query of Prometheus.
    Prometheus,
}

impl Plan {
    /// Every URL follows its own response time, down to a sixtieth of the limit.
    pub fn by_url(policy: &str, limit: &str, units: u64) -> Self {
        Self {
            policy: policy.to_owned(),
            limit: limit.to_owned(),
            units,
            mode: Mode::Enforce,
            by: By::Urls { ramp: Ramp::latency_per_url(), target: ALL.to_owned() },
            shed_status: StatusCode::TOO_MANY_REQUESTS,
        }
    }

    /// What its limit is governed as. No two spell the same: the name of a policy has no control characters.
    pub fn name(&self) -> String {
        if self.limit.is_empty() {
            self.policy.clone()
        } else {
            format!("{}\u{1}{}", self.policy, self.limit)
        }
    }

    /// The same, for people.
    pub fn shown(&self) -> String {
        if self.limit.is_empty() {
            self.policy.clone()
        } else {
            format!("{}/{}", self.policy, self.limit)
        }
    }

    /// The targets that it follows, as operators call them.
    pub fn targets(&self) -> impl Iterator<Item = &str> {
        let (url, signals) = match &self.by {
            By::Urls { target, .. } => (Some(target.as_str()), &[][..]),
            By::Signals(signals) => (None, &signals.each[..]),
        };
        url.into_iter().chain(signals.iter().map(|signal| signal.target.as_str()))
    }

    /// Those of them that doors tell about.
    pub fn observed(&self) -> impl Iterator<Item = &str> {
        let (url, signals) = match &self.by {
            By::Urls { target, .. } => (Some(target.as_str()), &[][..]),
            By::Signals(signals) => (None, &signals.each[..]),
        };
        let observed = signals.iter().filter(|signal| signal.source.is_observed());
        url.into_iter().chain(observed.map(|signal| signal.target.as_str()))
    }

    /// The pool of a target, if it says so.
    pub fn pool_of(&self, target: &str) -> Option<Pool> {
        let By::Signals(signals) = &self.by else { return None };
        let queues = |it: &Signal| it.source == Source::QueueWait && it.target == target;
        signals.pool.filter(|_| signals.each.iter().any(queues))
    }

    /// The share of the limit that is left at least.
    #[expect(clippy::cast_precision_loss, reason = "limits are at most 2^53")]
    pub fn floor_share(&self) -> f64 {
        let floor = match &self.by {
            By::Urls { .. } => 1,
            By::Signals(signals) => signals.floor,
        };
        floor.min(self.units) as f64 / self.units.max(1) as f64
    }
}

impl Source {
    const fn is_observed(&self) -> bool {
        matches!(self, Self::QueueWait | Self::Errors | Self::MeanLatency)
    }
}

impl Signal {
    /// The reading that stands for a pressure from 0 to 1.
    pub fn at(&self, pressure: f64) -> f64 {
        let ends = self.ramp.ends();
        ends.x_lo + pressure * (ends.x_hi - ends.x_lo)
    }
}

/// The share of a limit that is left at a pressure.
pub fn share_at(ramp: &Ramp, pressure: f64) -> f64 {
    let ends = ramp.ends();
    (ends.y_lo + pressure * (ends.y_hi - ends.y_lo)).clamp(ends.y_hi, ends.y_lo)
}
