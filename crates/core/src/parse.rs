//! Limits as people write them: `100/min burst 20`, `sliding-log 5/h`, `quota 100000/month at +02:00`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::algorithm::{
    Concurrency, FixedWindow, Gcra, LeakyBucket, Quota, SlidingLog, SlidingWindow,
};
use crate::calendar::{Every, Zone};
use crate::error::LimitError;
use crate::limit::Limit;

const ALGORITHMS: &str =
    "gcra, token-bucket, fixed-window, sliding-window, sliding-log, quota, concurrency";

impl FromStr for Limit {
    type Err = LimitError;

    /// `[ALGORITHM] RATE [OPTION VALUE]…`; the algorithm is `gcra` unless named, a rate is `N/unit` or
    /// `N/DURATION`.
    ///
    /// | algorithm | options |
    /// |---|---|
    /// | `gcra` | `burst N` (default: the limit) |
    /// | `token-bucket` | `capacity N` (default: the refill) |
    /// | `fixed-window`, `sliding-log` | |
    /// | `sliding-window` | `buckets N` (default 10) |
    /// | `quota` | `N/day`, `N/week`, `N/month` with `at +02:00`; `N/DURATION`; `rolling` |
    /// | `concurrency` | `N lease DURATION` (default 60s) |
    fn from_str(text: &str) -> Result<Self, LimitError> {
        let mut words = Words::new(text)?;
        let algorithm = words.algorithm().unwrap_or("gcra");
        let limit = match algorithm {
            "gcra" => {
                let (limit, period) = words.rate()?;
                Gcra::new(limit, period, words.number("burst")?.unwrap_or(limit))?.into()
            }
            "token-bucket" => {
                let (refill, period) = words.rate()?;
                let capacity = words.number("capacity")?.unwrap_or(refill);
                Self::TokenBucket(Gcra::token_bucket(capacity, refill, period)?)
            }
            "fixed-window" => {
                let (limit, period) = words.rate()?;
                FixedWindow::new(limit, period)?.into()
            }
            "sliding-window" => {
                let (limit, period) = words.rate()?;
                let buckets = words.number("buckets")?;
                let buckets = buckets.unwrap_or(SlidingWindow::DEFAULT_BUCKETS);
                SlidingWindow::new(limit, period, buckets)?.into()
            }
            "sliding-log" => {
                let (limit, period) = words.rate()?;
                SlidingLog::new(limit, period)?.into()
            }
            "quota" => quota(&mut words)?.into(),
            "concurrency" => {
                let limit = words.count()?;
                let lease = words.duration("lease")?.unwrap_or(Duration::from_mins(1));
                Concurrency::new(limit, lease)?.into()
            }
            "leaky-bucket" => {
                let problem =
                    "leaky-bucket delays instead of refusing: it is a Shaper, not a limit";
                return Err(LimitError::syntax(text, problem));
            }
            other => {
                let problem = format!("unknown algorithm `{other}`: expected one of {ALGORITHMS}");
                return Err(LimitError::syntax(text, problem));
            }
        };
        words.finish()?;
        Ok(limit)
    }
}

impl Limit {
    /// This limit with other numbers, as text: it counts as this one does unless it names an algorithm of its own. A quota
    /// is a number alone, and keeps its period; concurrency is one, too.
    ///
    /// ```
    /// # use tidegate_core::{Limit, LimitError};
    /// let log: Limit = "sliding-log 5/h".parse()?;
    /// assert_eq!(log.with_numbers("9/min")?, "sliding-log 9/min".parse()?);
    /// assert_eq!(log.with_numbers("gcra 9/min")?, "9/min".parse()?);
    /// let quota: Limit = "quota 100/day at +02:00".parse()?;
    /// assert_eq!(quota.with_numbers("500")?, "quota 500/day at +02:00".parse()?);
    /// assert!(quota.with_numbers("500/week").is_err());
    /// # Ok::<(), LimitError>(())
    /// ```
    pub fn with_numbers(&self, text: &str) -> Result<Self, LimitError> {
        let mut words = Words::new(text)?;
        if words.algorithm().is_some() {
            return text.parse();
        }
        let mut more = String::new();
        let mut unless_said = |name: &str, value: &dyn fmt::Display| {
            if !words.left.contains(&name) {
                more = format!(" {name} {value}");
            }
        };
        match self {
            Self::Gcra(_) | Self::FixedWindow(_) | Self::SlidingLog(_) => {}
            Self::TokenBucket(bucket) if bucket.burst() == bucket.limit() => {}
            Self::TokenBucket(bucket) => unless_said("capacity", &bucket.burst()),
            Self::SlidingWindow(window) => unless_said("buckets", &window.buckets()),
            Self::Concurrency(places) => {
                unless_said("lease", &format_args!("{}us", places.lease().as_micros()));
            }
            Self::Quota(quota) => {
                let limit = words.count()?;
                words.finish()?;
                return quota.renumbered(limit).map(Self::Quota);
            }
        }
        format!("{} {text}{more}", self.algorithm()).parse()
    }
}

impl TryFrom<&str> for LeakyBucket {
    type Error = LimitError;

    fn try_from(text: &str) -> Result<Self, LimitError> {
        text.parse()
    }
}

impl TryFrom<&str> for Limit {
    type Error = LimitError;

    fn try_from(text: &str) -> Result<Self, LimitError> {
        text.parse()
    }
}

impl FromStr for LeakyBucket {
    type Err = LimitError;

    /// `[leaky-bucket] RATE max-wait DURATION`, or `capacity N` instead.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate_core::LeakyBucket;
    /// let shaper: LeakyBucket = "2/s max-wait 5s".parse()?;
    /// assert_eq!(shaper.max_wait(), Duration::from_secs(5));
    /// assert_eq!(shaper, "leaky-bucket 2/s capacity 10".parse()?);
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    fn from_str(text: &str) -> Result<Self, LimitError> {
        let mut words = Words::new(text)?;
        match words.algorithm() {
            None | Some("leaky-bucket") => {}
            Some(other) => {
                return Err(LimitError::syntax(text, format!("`{other}` is not leaky-bucket")));
            }
        }
        let (limit, period) = words.rate()?;
        let shaper = match (words.duration("max-wait")?, words.number("capacity")?) {
            (Some(max_wait), None) => Self::new(limit, period, max_wait)?,
            (None, Some(capacity)) => Self::with_capacity(limit, period, capacity)?,
            _ => return Err(words.error("give either `max-wait DURATION` or `capacity N`")),
        };
        words.finish()?;
        Ok(shaper)
    }
}

fn quota(words: &mut Words<'_>) -> Result<Quota, LimitError> {
    let (limit, unit) = words.rate_words()?;
    let every = match unit {
        "day" => Some(Every::Day),
        "week" => Some(Every::Week),
        "month" => Some(Every::Month),
        _ => None,
    };
    let rolling = words.flag("rolling");
    let offset = words
        .value("at")
        .map(|at| {
            offset_minutes(at).ok_or_else(|| {
                words.error(format!("offset `{at}`: expected hours and minutes like +02:00"))
            })
        })
        .transpose()?;
    match every {
        Some(every) if !rolling => Quota::calendar(limit, every, Zone::fixed(offset.unwrap_or(0))?),
        _ if offset.is_some() => {
            Err(words.error("`at` goes with a calendar day, week or month that is not rolling"))
        }
        _ => {
            let period = match every {
                Some(every) => every.nominal(),
                None => words.period(unit)?,
            };
            if rolling {
                let buckets = words.number("buckets")?;
                let buckets = buckets.unwrap_or(SlidingWindow::DEFAULT_BUCKETS);
                Quota::rolling(limit, period, buckets)
            } else {
                Quota::fixed(limit, period)
            }
        }
    }
}

/// Reads a duration: whole numbers with their units, as in `90s`, `250ms` or `1h30min`.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::parse_duration;
///
/// assert_eq!(parse_duration("1h30min"), Some(Duration::from_secs(5400)));
/// assert_eq!(parse_duration("250ms"), Some(Duration::from_millis(250)));
/// assert_eq!(parse_duration("90"), None);
/// ```
pub fn parse_duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, tail) = rest.split_at(digits);
        let letters = tail.bytes().take_while(|byte| !byte.is_ascii_digit()).count();
        let (name, tail) = tail.split_at(letters);
        let unit_us = unit_us(name)?;
        let us = number.parse::<u64>().ok()?.checked_mul(unit_us)?;
        total = total.checked_add(Duration::from_micros(us))?;
        rest = tail;
    }
    (!text.is_empty()).then_some(total)
}

fn unit_us(name: &str) -> Option<u64> {
    Some(match name {
        "us" | "µs" => 1,
        "ms" => 1_000,
        "s" | "sec" | "second" => 1_000_000,
        "m" | "min" | "minute" => 60_000_000,
        "h" | "hour" => 3_600_000_000,
        "d" | "day" => 86_400_000_000,
        "week" => 7 * 86_400_000_000,
        _ => return None,
    })
}

/// `+02:00`, `-0330`, `+2` or `Z` as minutes.
fn offset_minutes(text: &str) -> Option<i64> {
    if text == "Z" || text == "UTC" {
        return Some(0);
    }
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let digits = &text[1..];
    let (hours, minutes) = match digits.split_once(':') {
        Some(parts) => parts,
        None if digits.len() == 4 && digits.is_ascii() => digits.split_at(2),
        None => (digits, "0"),
    };
    let number = |part: &str| -> Option<i64> {
        (part.len() <= 2 && part.bytes().all(|byte| byte.is_ascii_digit()))
            .then(|| part.parse().ok())?
    };
    let minutes = number(minutes).filter(|minutes| *minutes < 60)?;
    Some(sign * (number(hours)? * 60 + minutes))
}

/// The words of a limit, taken one option at a time; what is left over is an error.
struct Words<'a> {
    text: &'a str,
    left: Vec<&'a str>,
}

impl<'a> Words<'a> {
    /// More than any limit needs; a bound on what is read from outside.
    const MAX_LEN: usize = 200;

    fn new(text: &'a str) -> Result<Self, LimitError> {
        if text.len() > Self::MAX_LEN {
            return Err(LimitError::syntax(text, "longer than 200 bytes"));
        }
        let left: Vec<&str> = text.split_whitespace().collect();
        if left.is_empty() {
            return Err(LimitError::syntax(
                text,
                "empty: expected a limit like `100/min burst 20`",
            ));
        }
        Ok(Self { text, left })
    }

    fn error(&self, problem: impl Into<String>) -> LimitError {
        LimitError::syntax(self.text, problem)
    }

    /// The algorithm, if the first word is one and not a number.
    fn algorithm(&mut self) -> Option<&'a str> {
        let named = self.left.first().is_some_and(|word| word.starts_with(char::is_alphabetic));
        named.then(|| self.left.remove(0))
    }

    fn rate(&mut self) -> Result<(u64, Duration), LimitError> {
        let (limit, unit) = self.rate_words()?;
        Ok((limit, self.period(unit)?))
    }

    fn rate_words(&mut self) -> Result<(u64, &'a str), LimitError> {
        let expected = "expected a rate like `100/min` or `30/90s`";
        if self.left.is_empty() {
            return Err(self.error(expected));
        }
        let word = self.left.remove(0);
        let Some((number, unit)) = word.split_once('/') else {
            return Err(self.error(format!("`{word}` is no rate: {expected}")));
        };
        Ok((self.whole("limit", number)?, unit))
    }

    fn count(&mut self) -> Result<u64, LimitError> {
        if self.left.is_empty() {
            return Err(self.error("expected a number of places, as in `concurrency 10`"));
        }
        let word = self.left.remove(0);
        self.whole("limit", word)
    }

    fn period(&self, unit: &str) -> Result<Duration, LimitError> {
        let whole = unit_us(unit).map(Duration::from_micros).or_else(|| parse_duration(unit));
        whole.ok_or_else(|| {
            self.error(format!("period `{unit}`: expected s, min, h, day or a duration like 90s"))
        })
    }

    /// Takes `name VALUE` out, wherever it stands.
    fn value(&mut self, name: &str) -> Option<&'a str> {
        let at = self.left.iter().position(|word| *word == name)?;
        if at + 1 >= self.left.len() {
            return None; // the name stays behind, and `finish` reports it
        }
        self.left.remove(at);
        Some(self.left.remove(at))
    }

    fn number(&mut self, name: &str) -> Result<Option<u64>, LimitError> {
        self.value(name).map(|value| self.whole(name, value)).transpose()
    }

    fn duration(&mut self, name: &str) -> Result<Option<Duration>, LimitError> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let problem =
            || self.error(format!("{name} `{value}`: expected a duration like 5s or 250ms"));
        parse_duration(value).map(Some).ok_or_else(problem)
    }

    fn flag(&mut self, name: &str) -> bool {
        let at = self.left.iter().position(|word| *word == name);
        at.map(|at| self.left.remove(at)).is_some()
    }

    fn whole(&self, field: &str, text: &str) -> Result<u64, LimitError> {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|_| digits).ok_or_else(|| {
            self.error(format!("{field} `{text}`: expected a whole number from 1 to 2^53"))
        })
    }

    fn finish(self) -> Result<(), LimitError> {
        match self.left.first() {
            None => Ok(()),
            Some(word) => {
                Err(self.error(format!("`{word}` does not belong here or lacks its value")))
            }
        }
    }
}
