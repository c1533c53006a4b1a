//! The answer to a request, before it is encoded as protobuf or JSON.

use std::time::Duration;

use smallvec::SmallVec;
use tidegate::tower::retry_after_s;
use tidegate::{Answer, Limit, Source};

use super::wire;
use tidegate_config::envoy::Unit;

/// The answer to a whole request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct RlsAnswer<'a> {
    pub(super) overall: Code,
    /// In the order of the descriptors.
    pub(super) statuses: SmallVec<[DescriptorAnswer<'a>; 2]>,
    /// Headers for the client.
    pub(super) headers: SmallVec<[(&'static str, u64); 1]>,
}

/// The answer to one descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct DescriptorAnswer<'a> {
    pub(super) code: Code,
    /// `None` if no limit applied.
    pub(super) limit: Option<DisplayedLimit<'a>>,
    pub(super) remaining: u32,
    pub(super) reset_after_us: u64,
    pub(super) retry_after_us: Option<u64>,
    /// Whether it is allowed only because its limit is in shadow mode.
    pub(super) shadow_denied: bool,
    /// What decided; `None` if the engine was not asked.
    pub(super) source: Option<Source>,
    /// What one hit takes of the limit.
    pub(super) cost: u32,
}

/// A limit as clients see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct DisplayedLimit<'a> {
    pub(super) requests_per_unit: u32,
    /// `None` for a period that Envoy has no unit for.
    pub(super) unit: Option<Unit>,
    pub(super) name: &'a str,
}

impl<'a> DisplayedLimit<'a> {
    /// Converts a limit as far as Envoy's message can express it.
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

impl<'a> DescriptorAnswer<'a> {
    /// No rule matches.
    pub(super) const NO_LIMIT: Self = Self {
        code: Code::Ok,
        limit: None,
        remaining: 0,
        reset_after_us: 0,
        retry_after_us: None,
        shadow_denied: false,
        source: None,
        cost: 1,
    };

    /// A matching rule allows everything.
    pub(super) const UNLIMITED: Self = Self { remaining: u32::MAX, ..Self::NO_LIMIT };

    pub(super) fn from_answer(
        answer: &Answer<'_>,
        limit: Option<DisplayedLimit<'a>>,
        cost: u64,
    ) -> Self {
        let decision = &answer.decision;
        Self {
            code: Code::from_allowed(decision.allowed()),
            limit,
            shadow_denied: answer.shadow_denied,
            source: Some(answer.source),
            remaining: u32::try_from(decision.remaining()).unwrap_or(u32::MAX),
            reset_after_us: decision.reset_after_us(),
            retry_after_us: decision.retry_after_us(),
            cost: u32::try_from(cost).unwrap_or(u32::MAX).max(1),
        }
    }

    /// The time until a retry. A cost above the limit is never allowed, so its reset is reported. `None` for a key blocked
    /// by an override: waiting does not help.
    fn wait_us(&self) -> Option<u64> {
        let reset_us = self.limit.map(|_| self.reset_after_us);
        self.retry_after_us.or(reset_us)
    }

    pub(super) const fn reset_after_s(&self) -> u64 {
        seconds_up(self.reset_after_us)
    }
}

/// Rounded up, so that a client that waits that long is not too early.
const fn seconds_up(us: u64) -> u64 {
    us.div_ceil(1_000_000)
}

impl RlsAnswer<'_> {
    /// Adds response headers. A refusal gets `retry-after` if waiting helps, because Envoy does not add it.
    pub(super) fn add_headers(&mut self, with_limits: bool) {
        let over = |status: &&DescriptorAnswer<'_>| status.code == Code::OverLimit;
        if self.overall == Code::OverLimit {
            let mut waits = self.statuses.iter().filter(over).map(DescriptorAnswer::wait_us);
            let longest_us = waits.try_fold(0, |longest, wait| Some(wait?.max(longest)));
            let seconds = longest_us.map(|us| retry_after_s(Duration::from_micros(us)));
            self.headers.extend(seconds.map(|seconds| ("retry-after", seconds)));
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

impl From<&RlsAnswer<'_>> for wire::RateLimitResponse {
    fn from(answer: &RlsAnswer<'_>) -> Self {
        let header = |(key, value): &(&str, u64)| wire::HeaderValue {
            key: (*key).to_owned(),
            value: value.to_string(),
        };
        Self {
            overall_code: answer.overall.number(),
            statuses: answer.statuses.iter().map(Into::into).collect(),
            response_headers_to_add: answer.headers.iter().map(header).collect(),
        }
    }
}

impl From<&DescriptorAnswer<'_>> for wire::DescriptorStatus {
    fn from(status: &DescriptorAnswer<'_>) -> Self {
        let limit = |limit: DisplayedLimit<'_>| wire::RateLimit {
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
