//! A limit as a person writes it: named fields that may be absent, and errors that name the field.
//!
//! This is the vocabulary of the one grammar. Each algorithm's file says which fields it has and how it is built from
//! them; `grammar.rs` holds the list of algorithms and the form in one line.

mod error;
mod read;

use std::fmt;
use std::time::Duration;

pub use error::{Field, FieldError};
pub(crate) use read::whole;
pub use read::{Period, duration as read_duration, parse_duration, rate as read_rate};

use crate::calendar::Zone;
use crate::error::LimitError;
use crate::text;

/// A limit as it is written: every field may be absent, and nothing is checked yet. The names are those of the
/// configuration file.
///
/// ```
/// use tidegate_core::{Algorithm, Amount, Limit, LimitOrShaper, LimitSpec, Period};
///
/// let no_zones = |name: &str| Err(format!("`{name}` is unknown"));
/// let written = LimitSpec { limit: Some("100/min".into()), burst: Some(20), ..LimitSpec::default() };
/// let limit: Limit = "100/min burst 20".parse()?;
/// assert_eq!(written.build(&no_zones), Ok(LimitOrShaper::Limit(limit)));
///
/// // Each algorithm has fields of its own.
/// let bucket = LimitSpec { capacity: Some(50), refill: Some("10/s".into()), ..LimitSpec::default() };
/// let bucket_line: Limit = "token-bucket 10/s capacity 50".parse()?;
/// assert_eq!(bucket.build(&no_zones), Ok(bucket_line.into()));
/// let quota = LimitSpec {
///     algorithm: Some(Algorithm::QUOTA),
///     limit: Some(Amount::Count(1000)),
///     every: Some("day".into()),
///     utc_offset: Some("+02:00".into()), // or a `time_zone`; a `rolling` quota has `buckets` instead
///     ..LimitSpec::default()
/// };
/// let quota_line: Limit = "quota 1000/day at +02:00".parse()?;
/// assert_eq!(quota.build(&no_zones), Ok(quota_line.into()));
/// let exports = LimitSpec { ttl: Some("30s".into()), ..LimitSpec::from_line("concurrency 4")? };
/// let exports_line: Limit = "concurrency 4 lease 30s".parse()?;
/// assert_eq!(exports.build(&no_zones), Ok(exports_line.into()));
///
/// // The same from numbers.
/// let minute = Period::Length(std::time::Duration::from_secs(60));
/// let numbers = LimitSpec { limit: Some(Amount::Rate(100, minute)), ..written.clone() };
/// assert_eq!(numbers.build(&no_zones), written.build(&no_zones));
///
/// let wrong = LimitSpec { algorithm: Some(Algorithm::SLIDING_LOG), ..written };
/// let error = wrong.build(&no_zones).unwrap_err();
/// assert_eq!(error.field().map(|field| field.name()), Some("burst"));
/// assert_eq!(error.problem(), "does not belong to sliding-log, which has limit");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LimitSpec {
    /// How it counts. Absent: `token-bucket` where there is a `refill`, `gcra` otherwise.
    pub algorithm: Option<Algorithm>,
    /// A rate like `100/min`, or a number for quotas and concurrency.
    pub limit: Option<Amount>,
    /// The most at once (gcra). Absent: the limit.
    pub burst: Option<u64>,
    /// What the bucket holds (token-bucket; absent: the refill), or how many may wait (leaky-bucket).
    pub capacity: Option<u64>,
    /// How fast the bucket fills again: a rate (token-bucket).
    pub refill: Option<Amount>,
    /// The slots of a sliding window or a rolling quota. Absent: 10.
    pub buckets: Option<u64>,
    /// The longest delay (leaky-bucket).
    pub max_wait: Option<Written<Duration>>,
    /// The period of a budget: `day`, `week`, `month` or a duration (quota).
    pub every: Option<Written<Period>>,
    /// The zone whose midnight ends a day, week or month (quota). Absent: UTC.
    pub time_zone: Option<Written<Zone>>,
    /// The same as a fixed offset from UTC, in minutes, instead of a zone (quota).
    pub utc_offset: Option<Written<i64>>,
    /// Whether the period slides instead of ending for everybody at once (quota). Absent: no.
    pub rolling: Option<bool>,
    /// How long a permit lives that is never given back (concurrency). Absent: 60 s.
    pub ttl: Option<Written<Duration>>,
}

/// How much, and in what time where that matters.
///
/// ```
/// use tidegate_core::{Amount, Every, Period};
///
/// assert_eq!(Amount::from("100/min").to_string(), "100/min");
/// assert_eq!(Amount::Rate(5, Period::Calendar(Every::Month)).to_string(), "5/month");
/// assert_eq!(Amount::Count(7).to_string(), "7");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Amount {
    /// As it is written.
    Text(String),
    /// A number alone.
    Count(u64),
    /// A number of units per period.
    Rate(u64, Period),
}

/// A value as a person wrote it, or as a program knows it.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::{LimitSpec, Written};
///
/// let shaper = "leaky-bucket 2/s max-wait 5s";
/// let mut spec = LimitSpec::from_line(shaper)?;
/// assert_eq!(spec.max_wait, Some(Written::Text("5s".to_owned())));
/// spec.max_wait = Some(Written::Value(Duration::from_secs(5)));
/// assert_eq!(spec.to_line().as_deref(), Some(shaper));
/// # Ok::<(), tidegate_core::FieldError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Written<T> {
    /// As it is written.
    Text(String),
    /// The value itself.
    Value(T),
}

/// Where time zones come from: the core has no table of them.
///
/// ```
/// use tidegate_core::{Amount, LimitSpec, Zone, Zones};
///
/// let zones: Zones = &|name| match name {
///     "Asia/Kolkata" => Zone::fixed(330).map_err(|error| error.to_string()),
///     _ => Err(format!("`{name}` is unknown")),
/// };
/// let quota = LimitSpec::from_line("quota 1000/day")?;
/// let of = |zone: &str| LimitSpec { time_zone: Some(zone.into()), ..quota.clone() }.build(zones);
/// assert!(of("Asia/Kolkata").is_ok());
/// assert_eq!(of("Atlantis").unwrap_err().to_string(), "time_zone: `Atlantis` is unknown");
/// # Ok::<(), tidegate_core::FieldError>(())
/// ```
pub type Zones<'a> = &'a dyn Fn(&str) -> Result<Zone, String>;

/// The name of an algorithm, with the fields that it has. The constants are the algorithms there are.
///
/// ```
/// use tidegate_core::{Algorithm, Field};
///
/// assert_eq!("sliding-log".parse(), Ok(Algorithm::SLIDING_LOG));
/// assert_eq!(Algorithm::GCRA.name(), "gcra");
/// assert_eq!(Algorithm::GCRA.fields(), [Field::Limit, Field::Burst]);
/// assert!(Algorithm::ALL.iter().all(|algorithm| !algorithm.summary().is_empty()));
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Algorithm(pub(crate) &'static Description);

/// What is known of an algorithm beside its arithmetic.
#[derive(PartialEq, Eq)]
pub(crate) struct Description {
    pub(crate) name: &'static str,
    /// One sentence for a schema or a help page.
    pub(crate) summary: &'static str,
    pub(crate) fields: &'static [Field],
}

/// How an algorithm is built from what is written. Each algorithm's file has one.
pub(crate) struct Grammar<T> {
    pub(crate) description: Description,
    pub(crate) build: fn(&LimitSpec, Zones<'_>) -> Result<T, FieldError>,
    /// The way back, with every field that has a value.
    pub(crate) spec: fn(&T) -> LimitSpec,
}

impl Algorithm {
    /// The name that configuration, answers and metrics use.
    pub const fn name(self) -> &'static str {
        self.0.name
    }

    /// What it does, in one sentence.
    pub const fn summary(self) -> &'static str {
        self.0.summary
    }

    /// The fields that it has.
    pub const fn fields(self) -> &'static [Field] {
        self.0.fields
    }
}

impl fmt::Debug for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl<T> From<&str> for Written<T> {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<&str> for Amount {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Count(count) => write!(f, "{count}"),
            Self::Rate(units, Period::Calendar(every)) => write!(f, "{units}/{}", every.as_str()),
            // `1day` and not `day`, which is a day of the calendar where that makes a difference.
            Self::Rate(units, period @ Period::Length(_)) => write!(f, "{units}/{period}"),
        }
    }
}

impl<T> Written<T> {
    fn read(
        &self,
        field: Field,
        read: impl Fn(&str) -> Result<T, FieldError>,
    ) -> Result<T, FieldError>
    where
        T: Clone,
    {
        match self {
            Self::Text(text) => read(text.trim()).map_err(|error| error.at(field)),
            Self::Value(value) => Ok(value.clone()),
        }
    }
}

impl LimitSpec {
    /// The same with all its units multiplied: rate, burst and capacity.
    ///
    /// ```
    /// # use tidegate_core::LimitSpec;
    /// let tenfold = |line| LimitSpec::from_line(line)?.times(10).map(|spec| spec.to_line());
    /// assert_eq!(tenfold("240/min burst 20")?.as_deref(), Some("2400/min burst 200"));
    /// assert_eq!(tenfold("concurrency 4 lease 30s")?.as_deref(), Some("concurrency 40 lease 30s"));
    /// assert!(tenfold("240").is_ok() && tenfold("240/fortnight").is_err());
    /// # Ok::<(), tidegate_core::FieldError>(())
    /// ```
    pub fn times(&self, factor: u64) -> Result<Self, FieldError> {
        let units = |units: u64| units.saturating_mul(factor);
        let amount = |amount: &Amount| {
            Ok(match amount {
                Amount::Text(text) if text.contains('/') => {
                    let (count, period) = read::rate(text)?;
                    Amount::Rate(units(count), period)
                }
                Amount::Text(text) => Amount::Count(units(read::count(text)?)),
                Amount::Count(count) => Amount::Count(units(*count)),
                Amount::Rate(count, period) => Amount::Rate(units(*count), *period),
            })
        };
        Ok(Self {
            limit: self.limit.as_ref().map(amount).transpose()?,
            refill: self.refill.as_ref().map(amount).transpose()?,
            burst: self.burst.map(units),
            capacity: self.capacity.map(units),
            ..self.clone()
        })
    }
}

/// What the algorithms read their fields with.
impl LimitSpec {
    /// A number of units per length of time.
    pub(crate) fn rate(&self, field: Field) -> Result<(u64, Duration), FieldError> {
        let (units, period) = match self.amount(field, "expected one like 100/min")? {
            Amount::Text(text) => read::rate(text).map_err(|error| error.at(field))?,
            Amount::Count(count) => return Err(read::no_time_unit(&count.to_string()).at(field)),
            Amount::Rate(units, period) => (*units, *period),
        };
        Ok((units, period.length().map_err(|error| error.at(field))?))
    }

    /// A number alone.
    pub(crate) fn count(&self, field: Field) -> Result<u64, FieldError> {
        match self.amount(field, "expected one like 10")? {
            Amount::Text(text) => read::count(text).map_err(|error| error.at(field)),
            Amount::Count(count) => Ok(*count),
            rate @ Amount::Rate(..) => Err(read::not_a_count(&rate.to_string()).at(field)),
        }
    }

    /// A number of units and the period they are for: `every`, or what stands behind the slash of the limit.
    pub(crate) fn budget(&self) -> Result<(u64, Period), FieldError> {
        let amount = self.amount(Field::Limit, "expected one like 100000")?;
        if let Some(every) = &self.every {
            let every = every.read(Field::Every, read::every)?;
            return Ok((self.count(Field::Limit)?, every));
        }
        match amount {
            Amount::Text(text) if text.contains('/') => {
                read::rate(text).map_err(|error| error.at(Field::Limit))
            }
            Amount::Rate(units, period) => Ok((*units, *period)),
            _ => {
                let periods = "day, week, month or a duration like 90s";
                Err(FieldError::missing(Field::Every, periods))
            }
        }
    }

    pub(crate) fn duration(
        field: Field,
        value: Option<&Written<Duration>>,
    ) -> Result<Option<Duration>, FieldError> {
        value.map(|value| value.read(field, read::duration)).transpose()
    }

    /// The zone that ends the days of a quota; `None` where none is written.
    pub(crate) fn zone(&self, zones: Zones<'_>) -> Result<Option<Zone>, FieldError> {
        let by_name =
            |name: &str| zones(name).map_err(|problem| FieldError::text(text::printable(&problem)));
        match (&self.time_zone, &self.utc_offset) {
            (None, None) => Ok(None),
            (Some(zone), None) => zone.read(Field::TimeZone, by_name).map(Some),
            (None, Some(offset)) => {
                let minutes = offset.read(Field::UtcOffset, read::offset_minutes)?;
                Zone::fixed(minutes).map(Some).map_err(|error| self.invalid(error))
            }
            (Some(_), Some(_)) => Err(FieldError::both(Field::UtcOffset, Field::TimeZone)),
        }
    }

    /// The field that a limit cannot be built with.
    pub(crate) fn invalid(&self, error: LimitError) -> FieldError {
        let amount = if self.refill.is_some() { Field::Refill } else { Field::Limit };
        let or = |field, is_given: bool| if is_given { field } else { amount };
        let field = match error {
            LimitError::ZeroPeriod | LimitError::PeriodTooLong(_) => {
                or(Field::Every, self.every.is_some())
            }
            LimitError::ZeroBurst | LimitError::BurstInexact { .. } if self.capacity.is_some() => {
                Field::Capacity
            }
            LimitError::ZeroBurst | LimitError::BurstInexact { .. } => {
                or(Field::Burst, self.burst.is_some())
            }
            LimitError::MaxWaitTooLong(_) => {
                if self.max_wait.is_some() {
                    Field::MaxWait
                } else {
                    Field::Capacity
                }
            }
            LimitError::Buckets(_) | LimitError::BucketsDoNotDivide { .. } => {
                or(Field::Buckets, self.buckets.is_some())
            }
            LimitError::OffsetOutOfRange(_) => Field::UtcOffset,
            LimitError::ZoneInvalid => Field::TimeZone,
            LimitError::ZeroLease | LimitError::LeaseTooLong(_) => Field::Ttl,
            _ => amount,
        };
        FieldError::invalid(field, error)
    }

    fn amount(&self, field: Field, example: &'static str) -> Result<&Amount, FieldError> {
        let amount = if field == Field::Refill { &self.refill } else { &self.limit };
        amount.as_ref().ok_or_else(|| FieldError::missing(field, example))
    }
}
