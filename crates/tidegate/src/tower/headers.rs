//! What is left, in the headers of draft-ietf-httpapi-ratelimit-headers-11 and in older ones.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{Entry, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use tidegate_core::{Decision, Limit, Timestamp};

use super::retry_after::retry_after_s;

static POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
static STATE: HeaderName = HeaderName::from_static("ratelimit");
static LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
static REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
static RESET: HeaderName = HeaderName::from_static("ratelimit-reset");
static X_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
static X_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
static X_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// What the values of one decision have besides the limit's name: six numbers of 15 digits and what they are.
const VALUES_BYTES: usize = 96;

/// Which headers show what is left: those of a [`Dialect`], and the `X-RateLimit` ones. A refusal has `Retry-After` in
/// any case, unless no wait would help. A header that the service has set itself stays.
///
/// `X-RateLimit-Limit` and `RateLimit-Limit` are the most that there can be at once.
///
/// ```
/// use http::HeaderMap;
/// use tidegate::{Clock, Limiter, ManualClock, tower::{Dialect, Headers, Label, Report, ResetUnit}};
///
/// let clock = ManualClock::default(); // 1,700,000,000 seconds after 1970
/// let limiter = Limiter::builder("100/min burst 20").clock(clock.clone()).build()?;
/// let written = |headers| {
///     let (label, decision) = (Label::new("api", limiter.limit()), limiter.peek("user-42", 1));
///     let mut map = HeaderMap::new();
///     Report { headers, label, decision, now: clock.now() }.write(&mut map);
///     map
/// };
/// assert_eq!(written(Headers::default())["x-ratelimit-reset"], "1700000001");
/// let delta = Headers { x_rate_limit: Some(ResetUnit::Delta), ..Headers::default() };
/// assert_eq!(written(delta)["x-ratelimit-reset"], "1");
/// let older = Headers { dialect: Dialect::Legacy, ..Headers::STANDARD };
/// assert_eq!(written(older)["ratelimit-remaining"], "19");
/// assert!(!written(Headers::STANDARD).contains_key("x-ratelimit-reset"));
/// assert!(written(Headers::OFF).is_empty());
/// # Ok::<(), tidegate::LimitError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Headers {
    /// The `RateLimit` headers.
    pub dialect: Dialect,
    /// The unit of `X-RateLimit-Reset`; `None` for no `X-RateLimit` headers.
    pub x_rate_limit: Option<ResetUnit>,
}

impl Headers {
    /// `RateLimit` and `RateLimit-Policy` only.
    pub const STANDARD: Self = Self { dialect: Dialect::Draft11, x_rate_limit: None };
    /// None: limits stay a secret.
    pub const OFF: Self = Self { dialect: Dialect::Off, x_rate_limit: None };
}

impl Default for Headers {
    /// The standard ones, and the `X-RateLimit` ones with seconds since 1970.
    fn default() -> Self {
        Self { x_rate_limit: Some(ResetUnit::Epoch), ..Self::STANDARD }
    }
}

/// Which `RateLimit` headers there are.
///
/// ```
/// use tidegate::tower::{Dialect, Headers};
///
/// assert_eq!(Headers::default().dialect, Dialect::Draft11);
/// assert_eq!(Headers::OFF.dialect, Dialect::Off);
/// let older = Headers { dialect: Dialect::Legacy, ..Headers::default() };
/// # assert_ne!(older, Headers::default());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dialect {
    /// Of draft-ietf-httpapi-ratelimit-headers-11: `RateLimit-Policy: "api";q=100;w=60` (100 units in 60 seconds) and
    /// `RateLimit: "api";r=19;t=1` (19 left now, everything in 1 second).
    Draft11,
    /// Of its drafts up to 6: `RateLimit-Limit`, `RateLimit-Remaining` and `RateLimit-Reset`, in seconds from now.
    Legacy,
    /// None.
    Off,
}

/// The unit of `X-RateLimit-Reset`.
///
/// ```
/// use tidegate::tower::{Headers, ResetUnit};
///
/// assert_eq!(Headers::default().x_rate_limit, Some(ResetUnit::Epoch));
/// let from_now = Headers { x_rate_limit: Some(ResetUnit::Delta), ..Headers::default() };
/// # assert_ne!(from_now, Headers::default());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResetUnit {
    /// Seconds since 1970, by the limiter's clock.
    Epoch,
    /// Seconds from now.
    Delta,
}

/// A limit's name and rate, as headers spell them.
///
/// ```
/// use http::HeaderMap;
/// use tidegate::{Decision, Limit, Timestamp, tower::{Headers, Label, Report}};
///
/// let (limit, mut headers): (Limit, _) = ("100/min burst 20".parse()?, HeaderMap::new());
/// Report {
///     headers: Headers::STANDARD,
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
    /// Report { headers: Headers::STANDARD, label, decision, now }.write(&mut headers);
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
///     headers: Headers::STANDARD,
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
    /// if a `RateLimit` header is there already, none is added; the same goes for `X-RateLimit`.
    ///
    /// ```
    /// # use http::{HeaderMap, HeaderValue};
    /// # use tidegate::{Decision, Limit, Timestamp, tower::{Headers, Label, Report}};
    /// # let limit: Limit = "100/min".parse()?;
    /// # let (label, decision) = (Label::new("api", &limit), Decision::blocked());
    /// let report = Report { headers: Headers::default(), label, decision, now: Timestamp::EPOCH };
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
        let has_own = [&POLICY, &STATE, &LIMIT, &REMAINING, &RESET].into_iter().any(has);
        let has_own_x = [&X_LIMIT, &X_REMAINING, &X_RESET].into_iter().any(has);
        self.each_value(|name, value| {
            let is_there = match name.as_str() {
                "retry-after" => false,
                name if name.starts_with("x-") => has_own_x,
                _ => has_own,
            };
            if !is_there {
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
    /// let report = Report { headers: Headers::STANDARD, label, decision, now: Timestamp::EPOCH };
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
        let (limit, remaining) = (int(decision.limit()), int(decision.remaining()));
        let reset_s = seconds_up(decision.reset_after());
        match headers.dialect {
            Dialect::Draft11 => {
                put(&POLICY, label.policy.clone());
                values.text(&label.quoted).text(";r=").number(remaining);
                put(&STATE, values.text(";t=").number(int(reset_s)).take());
            }
            Dialect::Legacy => {
                put(&LIMIT, values.number(limit).take());
                put(&REMAINING, values.number(remaining).take());
                put(&RESET, values.number(reset_s).take());
            }
            Dialect::Off => {}
        }
        if let Some(unit) = headers.x_rate_limit {
            let reset = match unit {
                ResetUnit::Epoch => epoch_up(self.now + decision.reset_after()),
                ResetUnit::Delta => reset_s,
            };
            put(&X_LIMIT, values.number(limit).take());
            put(&X_REMAINING, values.number(remaining).take());
            put(&X_RESET, values.number(reset).take());
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
