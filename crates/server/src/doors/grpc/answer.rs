//! What was decided, before it is written as protobuf or as JSON.

use smallvec::SmallVec;
use tidegate::{Answer, Limit, Source};

use super::wire;
use tidegate_config::envoy::Unit;

/// An answer to a whole request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Ruling<'a> {
    pub(super) overall: Code,
    /// In the order of the descriptors.
    pub(super) statuses: SmallVec<[Status<'a>; 2]>,
    /// Headers for the client.
    pub(super) headers: SmallVec<[(&'static str, u64); 1]>,
}

/// An answer to one descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Status<'a> {
    pub(super) code: Code,
    /// `None` where no limit had a say.
    pub(super) limit: Option<Shown<'a>>,
    pub(super) remaining: u32,
    pub(super) reset_after_us: u64,
    pub(super) retry_after_us: Option<u64>,
    /// Whether it is only admitted because its limit is tried out.
    pub(super) shadow_denied: bool,
    /// Who decided; `None` where nobody was asked.
    pub(super) source: Option<Source>,
}

/// A limit, as clients see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shown<'a> {
    pub(super) requests_per_unit: u32,
    /// `None` for a period that Envoy has no name for.
    pub(super) unit: Option<Unit>,
    pub(super) name: &'a str,
}

impl<'a> Shown<'a> {
    /// As far as Envoy's message can express it.
    pub(super) fn from_limit(limit: &Limit, name: &'a str) -> Self {
        let period = limit.period();
        let unit = Some(period.as_secs()).filter(|_| period.subsec_nanos() == 0);
        Self {
            requests_per_unit: u32::try_from(limit.units()).unwrap_or(u32::MAX),
            unit: unit.and_then(Unit::lasting),
            name,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Code {
    Ok,
    OverLimit,
}

impl Code {
    pub(super) const fn from_allowed(allowed: bool) -> Self {
        if allowed { Self::Ok } else { Self::OverLimit }
    }

    pub(super) const fn number(self) -> i32 {
        match self {
            Self::Ok => 1,
            Self::OverLimit => 2,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::OverLimit => "OVER_LIMIT",
        }
    }
}

impl<'a> Status<'a> {
    /// No rule is met.
    pub(super) const NO_LIMIT: Self = Self {
        code: Code::Ok,
        limit: None,
        remaining: 0,
        reset_after_us: 0,
        retry_after_us: None,
        shadow_denied: false,
        source: None,
    };

    /// A rule is met that admits everything.
    pub(super) const UNLIMITED: Self = Self { remaining: u32::MAX, ..Self::NO_LIMIT };

    pub(super) fn from_answer(answer: &Answer<'_>, limit: Option<Shown<'a>>) -> Self {
        let decision = &answer.decision;
        Self {
            code: Code::from_allowed(decision.allowed()),
            limit,
            shadow_denied: answer.shadow_denied,
            source: Some(answer.source),
            remaining: u32::try_from(decision.remaining()).unwrap_or(u32::MAX),
            reset_after_us: decision.reset_after_us(),
            retry_after_us: decision.retry_after_us(),
        }
    }

    /// When to come back, in seconds rounded up. What a limit will never admit is told its reset: then at least somebody
    /// else may have changed the limit. `None` for whom an override blocks: no wait helps.
    pub(super) fn retry_after_s(&self) -> Option<u64> {
        let reset_us = self.limit.map(|_| self.reset_after_us);
        self.retry_after_us.or(reset_us).map(|us| seconds_up(us).max(1))
    }

    pub(super) const fn reset_after_s(&self) -> u64 {
        seconds_up(self.reset_after_us)
    }
}

/// Rounded up: who waits that long has waited long enough.
const fn seconds_up(us: u64) -> u64 {
    us.div_ceil(1_000_000)
}

impl Ruling<'_> {
    /// Adds what the client is to be told. On a refusal when to come back, if that is any use: Envoy does not say so by
    /// itself.
    pub(super) fn add_headers(&mut self, with_limits: bool) {
        let over = |status: &&Status<'_>| status.code == Code::OverLimit;
        if self.overall == Code::OverLimit {
            let mut waits = self.statuses.iter().filter(over).map(Status::retry_after_s);
            let longest = waits.try_fold(1, |longest, wait| Some(wait?.max(longest)));
            self.headers.extend(longest.map(|wait| ("retry-after", wait)));
        }
        if !with_limits {
            return;
        }
        let limited = self.statuses.iter().filter_map(|status| Some((status, status.limit?)));
        let tightest =
            limited.min_by_key(|(status, _)| (status.code == Code::Ok, status.remaining));
        if let Some((status, limit)) = tightest {
            self.headers.extend([
                ("ratelimit-limit", u64::from(limit.requests_per_unit)),
                ("ratelimit-remaining", u64::from(status.remaining)),
                ("ratelimit-reset", status.reset_after_s()),
            ]);
        }
    }
}

impl From<&Ruling<'_>> for wire::RateLimitResponse {
    fn from(ruling: &Ruling<'_>) -> Self {
        let header = |(key, value): &(&str, u64)| wire::HeaderValue {
            key: (*key).to_owned(),
            value: value.to_string(),
        };
        Self {
            overall_code: ruling.overall.number(),
            statuses: ruling.statuses.iter().map(Into::into).collect(),
            response_headers_to_add: ruling.headers.iter().map(header).collect(),
        }
    }
}

impl From<&Status<'_>> for wire::DescriptorStatus {
    fn from(status: &Status<'_>) -> Self {
        let limit = |limit: Shown<'_>| wire::RateLimit {
            requests_per_unit: limit.requests_per_unit,
            unit: limit.unit.map_or(0, |unit| i32::from(unit.number())),
            name: limit.name.to_owned(),
        };
        Self {
            code: status.code.number(),
            current_limit: status.limit.map(limit),
            limit_remaining: status.remaining,
            duration_until_reset: status.limit.map(|_| wire::seconds(status.reset_after_s())),
        }
    }
}
