//! Tells clients what is left, in the headers of draft-ietf-httpapi-ratelimit-headers-11 and the older ones.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use tidegate_core::{Decision, Limit, Timestamp};

static POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
static STATE: HeaderName = HeaderName::from_static("ratelimit");
static LEGACY_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
static LEGACY_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
static LEGACY_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// Which headers tell the client what is left. A refusal has `Retry-After` in any case, unless no wait would help.
///
/// The standard headers are `RateLimit-Policy: "api";q=100;w=60` (100 units in 60 seconds) and
/// `RateLimit: "api";r=19;t=1` (19 left now, everything in 1 second). The legacy ones are `X-RateLimit-Limit`,
/// `-Remaining` and `-Reset`, of which `Limit` is the most that there can be at once. A header that the service
/// has set itself stays.
///
/// ```
/// use tidegate::{Limiter, tower::{Headers, RateLimitLayer}};
///
/// let limit = RateLimitLayer::new(Limiter::new("100/min burst 20")?).headers(Headers::LegacyDelta);
/// # Ok::<(), tidegate::LimitError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Headers {
    /// The standard and the legacy ones, with `X-RateLimit-Reset` in seconds since 1970 by the limiter's
    /// clock.
    #[default]
    LegacyEpoch,
    /// The standard and the legacy ones, with `X-RateLimit-Reset` in seconds from now.
    LegacyDelta,
    /// The standard ones only.
    Standard,
    /// None: limits stay a secret.
    Off,
}

/// A limit's name and rate, as headers spell them.
#[derive(Clone, Debug)]
pub struct Label {
    quoted: Arc<str>,
    policy: Option<HeaderValue>,
}

impl Label {
    /// The label of a limit. What a header cannot hold of the name becomes `?`.
    pub fn new(name: &str, limit: &Limit) -> Self {
        let quoted: Arc<str> = quote(name).into();
        let policy = policy(&quoted, limit);
        Self { quoted, policy }
    }

    /// The label of a key that has a limit of its own.
    pub(super) fn with_limit(&self, limit: &Limit) -> Self {
        Self { quoted: self.quoted.clone(), policy: policy(&self.quoted, limit) }
    }
}

/// What there is to tell about one decision, for those who write an answer by hand.
///
/// ```
/// use http::HeaderMap;
/// use tidegate::{Clock, Limiter, SystemClock, tower::{Headers, Label, Report}};
///
/// let limiter = Limiter::new("100/min burst 20")?;
/// let report = Report {
///     headers: Headers::Standard,
///     label: Label::new("api", limiter.limit()),
///     decision: limiter.check("user-42"),
///     now: SystemClock.now(),
/// };
/// let mut headers = HeaderMap::new();
/// report.write(&mut headers);
/// assert_eq!(headers["ratelimit"], "\"api\";r=19;t=1");
/// # Ok::<(), tidegate::LimitError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Report {
    /// Which headers there are.
    pub headers: Headers,
    /// The limit that decided.
    pub label: Label,
    /// What it decided.
    pub decision: Decision,
    /// When it did.
    pub now: Timestamp,
}

impl Report {
    /// Adds what is left, and `Retry-After` on a refusal. What is there already stays.
    pub fn write(&self, to: &mut HeaderMap) {
        if !self.decision.allowed() {
            write_retry_after(to, self.decision.retry_after());
        }
        if self.headers == Headers::Off {
            return;
        }
        add(to, &POLICY, self.label.policy.clone());
        add(to, &STATE, self.state());
        if let Some(reset) = self.legacy_reset() {
            add(to, &LEGACY_LIMIT, Some(int(self.decision.limit()).into()));
            add(to, &LEGACY_REMAINING, Some(int(self.decision.remaining()).into()));
            add(to, &LEGACY_RESET, Some(reset.into()));
        }
    }

    fn state(&self) -> Option<HeaderValue> {
        let remaining = int(self.decision.remaining());
        let reset = int(seconds_up(self.decision.reset_after()));
        HeaderValue::try_from(format!("{};r={remaining};t={reset}", self.label.quoted)).ok()
    }

    fn legacy_reset(&self) -> Option<u64> {
        let reset_after = self.decision.reset_after();
        match self.headers {
            Headers::LegacyEpoch => Some(epoch_up(self.now + reset_after)),
            Headers::LegacyDelta => Some(seconds_up(reset_after)),
            Headers::Standard | Headers::Off => None,
        }
    }
}

/// Adds `Retry-After`: whole seconds, at least one, plus up to a fifth by chance, so that those who were refused
/// together do not come back together. Nothing for a wait that would never end.
pub fn write_retry_after(to: &mut HeaderMap, wait: Option<Duration>) {
    let wait = wait.map(|wait| jittered(seconds_up(wait).max(1)));
    add(to, &RETRY_AFTER, wait.map(HeaderValue::from));
}

fn add(to: &mut HeaderMap, name: &HeaderName, value: Option<HeaderValue>) {
    if let Some(value) = value
        && !to.contains_key(name)
    {
        // A map that is full already has no room for courtesies.
        let _ = to.try_insert(name, value);
    }
}

/// A window that is no whole number of seconds is left out: the draft has no word for it. Concurrency has none.
fn policy(quoted: &str, limit: &Limit) -> Option<HeaderValue> {
    let (quota, period) = (int(limit.units()), limit.period());
    let windowless = period.subsec_nanos() > 0 || matches!(limit, Limit::Concurrency(_));
    let window = if windowless { String::new() } else { format!(";w={}", int(period.as_secs())) };
    HeaderValue::try_from(format!("{quoted};q={quota}{window}")).ok()
}

/// A structured field's string, which is ASCII.
fn quote(name: &str) -> String {
    let escaped = name.chars().fold(String::from('"'), |mut text, c| {
        if matches!(c, '"' | '\\') {
            text.push('\\');
        }
        text.push(if matches!(c, ' '..='~') { c } else { '?' });
        text
    });
    escaped + "\""
}

/// Integers of structured fields have at most 15 digits.
fn int(number: u64) -> u64 {
    number.min(999_999_999_999_999)
}

fn seconds_up(span: Duration) -> u64 {
    span.as_secs() + u64::from(span.subsec_nanos() > 0)
}

fn epoch_up(instant: Timestamp) -> u64 {
    instant.as_micros().div_ceil(1_000_000)
}

fn jittered(seconds: u64) -> u64 {
    // Each `RandomState` has keys of its own: that is all the randomness that is needed.
    let random = RandomState::new().hash_one(seconds);
    seconds.saturating_add(random % (seconds / 5 + 1))
}
