//! What is left, in the headers of draft-ietf-httpapi-ratelimit-headers-11 and the older ones.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{Entry, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use tidegate_core::{Decision, Limit, Timestamp};

use super::retry_after::retry_after_s;

static POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
static STATE: HeaderName = HeaderName::from_static("ratelimit");
static LEGACY_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
static LEGACY_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
static LEGACY_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// What the values of one decision have besides the limit's name: six numbers of 15 digits and what they are.
const VALUES_BYTES: usize = 96;

/// Which headers show what is left. A refusal has `Retry-After` in any case, unless no wait would help.
///
/// The standard headers are `RateLimit-Policy: "api";q=100;w=60` (100 units in 60 seconds) and
/// `RateLimit: "api";r=19;t=1` (19 left now, everything in 1 second). The legacy ones are `X-RateLimit-Limit`,
/// `-Remaining` and `-Reset`, of which `Limit` is the most that there can be at once. A header that the service
/// has set itself stays.
///
/// ```
/// use http::HeaderMap;
/// use tidegate::{Clock, Limiter, ManualClock, tower::{Headers, Label, Report}};
///
/// let clock = ManualClock::default(); // 1,700,000,000 seconds after 1970
/// let limiter = Limiter::builder("100/min burst 20").clock(clock.clone()).build()?;
/// let written = |headers| {
///     let (label, decision) = (Label::new("api", limiter.limit()), limiter.peek("user-42", 1));
///     let mut map = HeaderMap::new();
///     Report { headers, label, decision, now: clock.now() }.write(&mut map);
///     map
/// };
/// assert_eq!(written(Headers::LegacyEpoch)["x-ratelimit-reset"], "1700000001");
/// assert_eq!(written(Headers::LegacyDelta)["x-ratelimit-reset"], "1");
/// assert!(!written(Headers::Standard).contains_key("x-ratelimit-reset"));
/// assert!(written(Headers::Off).is_empty());
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
///
/// ```
/// use http::HeaderMap;
/// use tidegate::{Decision, Limit, Timestamp, tower::{Headers, Label, Report}};
///
/// let (limit, mut headers): (Limit, _) = ("100/min burst 20".parse()?, HeaderMap::new());
/// Report {
///     headers: Headers::Standard,
///     label: Label::new("api", &limit),
///     decision: Decision::blocked(),
///     now: Timestamp::EPOCH,
/// }
/// .write(&mut headers);
/// assert_eq!(headers["ratelimit-policy"], "\"api\";q=100;w=60");
/// # Ok::<(), tidegate::LimitError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Label(Arc<Texts>);

#[derive(Debug)]
struct Texts {
    quoted: String,
    policy: HeaderValue,
}

impl Label {
    /// The label of a limit. What a header cannot hold of the name becomes `?`.
    ///
    /// ```
    /// # use http::HeaderMap;
    /// # use tidegate::{Decision, Limit, Timestamp, tower::{Headers, Label, Report}};
    /// # let (decision, now, mut headers) = (Decision::blocked(), Timestamp::EPOCH, HeaderMap::new());
    /// let limit: Limit = "100/min".parse()?;
    /// let label = Label::new("café", &limit);
    /// Report { headers: Headers::Standard, label, decision, now }.write(&mut headers);
    /// assert_eq!(headers["ratelimit-policy"], "\"caf?\";q=100;w=60");
    /// # Ok::<(), tidegate::LimitError>(())
    /// ```
    pub fn new(name: &str, limit: &Limit) -> Self {
        let quoted = quote(name);
        let policy = policy(&quoted, limit);
        Self(Arc::new(Texts { quoted, policy }))
    }
}

/// The headers for one decision, for responses that the layer does not write.
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
    /// When it was asked: resets in seconds since 1970 are rounded up from there.
    pub now: Timestamp,
}

impl Report {
    /// Adds what is left, and `Retry-After` on a refusal. Headers of the service itself stay, and are not mixed with these:
    /// if one of the standard headers is there already, none of them is added; the same goes for the legacy ones.
    ///
    /// ```
    /// # use http::{HeaderMap, HeaderValue};
    /// # use tidegate::{Decision, Limit, Timestamp, tower::{Headers, Label, Report}};
    /// # let limit: Limit = "100/min".parse()?;
    /// # let (label, decision) = (Label::new("api", &limit), Decision::blocked());
    /// let report = Report { headers: Headers::LegacyDelta, label, decision, now: Timestamp::EPOCH };
    /// let mut headers = HeaderMap::new();
    /// headers.insert("x-ratelimit-limit", HeaderValue::from_static("7")); // the service's own word
    /// report.write(&mut headers);
    /// assert_eq!(headers["x-ratelimit-limit"], "7");
    /// assert!(!headers.contains_key("x-ratelimit-remaining"));
    /// assert_eq!(headers["ratelimit"], "\"api\";r=0;t=0");
    /// # Ok::<(), tidegate::LimitError>(())
    /// ```
    pub fn write(&self, to: &mut HeaderMap) {
        let has = |name| to.contains_key(name);
        let standard = has(&POLICY) || has(&STATE);
        let legacy = has(&LEGACY_LIMIT) || has(&LEGACY_REMAINING) || has(&LEGACY_RESET);
        self.each_value(|name, value| {
            let is_said = match name.as_str() {
                "retry-after" => false,
                name if name.starts_with("x-") => legacy,
                _ => standard,
            };
            if !is_said {
                add(to, name, value);
            }
        });
    }

    /// Passes the headers that [`Report::write`] adds one by one, for callers without a header map.
    ///
    /// ```
    /// # use tidegate::{Decision, Limit, Timestamp, tower::{Headers, Label, Report}};
    /// # let limit: Limit = "100/min".parse()?;
    /// # let (label, decision) = (Label::new("api", &limit), Decision::blocked());
    /// let report = Report { headers: Headers::Standard, label, decision, now: Timestamp::EPOCH };
    /// let mut lines = String::new();
    /// report.each(|name, value| lines += &format!("{name}: {value}\n"));
    /// assert_eq!(lines, "ratelimit-policy: \"api\";q=100;w=60\nratelimit: \"api\";r=0;t=0\n");
    /// # Ok::<(), tidegate::LimitError>(())
    /// ```
    pub fn each(&self, mut put: impl FnMut(&HeaderName, &str)) {
        self.each_value(|name, value| put(name, value.to_str().unwrap_or_default()));
    }

    fn each_value(&self, mut put: impl FnMut(&HeaderName, HeaderValue)) {
        let Self { headers, label: Label(label), decision, .. } = self;
        let mut values = Values(BytesMut::with_capacity(label.quoted.len() + VALUES_BYTES));
        if let Some(wait) = retry_after_of(decision) {
            put(&RETRY_AFTER, values.number(wait).take());
        }
        if *headers == Headers::Off {
            return;
        }
        put(&POLICY, label.policy.clone());
        let (remaining, reset) = (int(decision.remaining()), seconds_up(decision.reset_after()));
        values.text(&label.quoted).text(";r=").number(remaining).text(";t=").number(int(reset));
        put(&STATE, values.take());
        if let Some(reset) = self.legacy_reset() {
            put(&LEGACY_LIMIT, values.number(int(decision.limit())).take());
            put(&LEGACY_REMAINING, values.number(remaining).take());
            put(&LEGACY_RESET, values.number(reset).take());
        }
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

/// Values that share one allocation, written without `format!`: either would cost as much as the decision.
struct Values(BytesMut);

impl Values {
    fn text(&mut self, text: &str) -> &mut Self {
        self.0.extend_from_slice(text.as_bytes());
        self
    }

    fn number(&mut self, number: u64) -> &mut Self {
        self.text(itoa::Buffer::new().format(number))
    }

    /// The value that was written since the last one.
    fn take(&mut self) -> HeaderValue {
        to_value(self.0.split().freeze())
    }
}

/// Labels are ASCII, and so is every number.
pub(super) fn to_value(text: impl Into<Bytes>) -> HeaderValue {
    HeaderValue::from_maybe_shared(text.into()).unwrap_or(HeaderValue::from_static(""))
}

/// Adds `Retry-After`, as [`retry_after_s`] has it. Nothing for a wait that would never end.
///
/// ```
/// use std::time::Duration;
/// use http::HeaderMap;
/// use tidegate::tower::write_retry_after;
///
/// let mut headers = HeaderMap::new();
/// write_retry_after(&mut headers, None); // never: there is no time to wait for
/// assert!(headers.is_empty());
/// write_retry_after(&mut headers, Some(Duration::from_millis(300)));
/// assert!(["1", "2"].contains(&headers["retry-after"].to_str()?));
/// # Ok::<(), http::header::ToStrError>(())
/// ```
pub fn write_retry_after(to: &mut HeaderMap, wait: Option<Duration>) {
    if let Some(wait) = wait {
        add(to, &RETRY_AFTER, retry_after_s(wait).into());
    }
}

/// The `Retry-After` of a refusal, unless no wait would help.
fn retry_after_of(decision: &Decision) -> Option<u64> {
    decision.retry_after().filter(|_| !decision.allowed()).map(retry_after_s)
}

fn add(to: &mut HeaderMap, name: &HeaderName, value: HeaderValue) {
    // A map may be full already.
    if let Ok(Entry::Vacant(entry)) = to.try_entry(name) {
        let _ = entry.try_insert(value);
    }
}

/// A window that is no whole number of seconds is left out: the draft has no word for it. Concurrency has none.
fn policy(quoted: &str, limit: &Limit) -> HeaderValue {
    let (quota, period) = (int(limit.units()), limit.period());
    let windowless = period.subsec_nanos() > 0 || limit.grants_permits();
    let window = if windowless { String::new() } else { format!(";w={}", int(period.as_secs())) };
    to_value(format!("{quoted};q={quota}{window}"))
}

/// A structured field's string, which is ASCII.
fn quote(name: &str) -> String {
    let escaped = name.chars().fold(String::from('"'), |mut text, c| {
        if matches!(c, '"' | '\\') {
            text.push('\\');
        }
        text.push(ascii(c));
        text
    });
    escaped + "\""
}

/// A text for a header of its own.
pub(super) fn printable_ascii(text: &str) -> String {
    text.chars().map(ascii).collect()
}

const fn ascii(c: char) -> char {
    if matches!(c, ' '..='~') { c } else { '?' }
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
