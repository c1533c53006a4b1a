//! The one grammar of limits: the list of algorithms, limits of one line, and what is built from them.
//!
//! Configuration, vectors, Envoy's rules and overrides become a [`LimitSpec`], each in its own way; this builds them all.

use std::str::FromStr;

use crate::algorithm::{
    LeakyBucket, concurrency, fixed_window, gcra, leaky_bucket, quota, sliding_log, sliding_window,
};
use crate::error::LimitError;
use crate::limit::{Limit, LimitOrShaper};
use crate::spec::{
    Algorithm, Amount, Field, FieldError, LimitSpec, Written, Zones, read_rate, whole,
};
use crate::text::{self, closest, printable};

struct Row {
    algorithm: Algorithm,
    build: fn(&LimitSpec, Zones<'_>) -> Result<LimitOrShaper, FieldError>,
}

macro_rules! algorithms {
    ($($(#[$doc:meta])* $name:ident: $grammar:path => $into:path;)*) => {
        impl Algorithm {
            $($(#[$doc])* pub const $name: Self = Self(&$grammar.description);)*

            /// All of them, the default first.
            ///
            /// ```
            /// # use tidegate_core::Algorithm;
            /// assert_eq!(Algorithm::ALL[0], Algorithm::GCRA);
            /// assert_eq!(Algorithm::ALL.len(), 8);
            /// ```
            pub const ALL: &[Self] = &[$(Self::$name),*];
        }

        const TABLE: &[Row] = &[$(Row {
            algorithm: Algorithm::$name,
            build: |spec, zones| ($grammar.build)(spec, zones).map($into).map(LimitOrShaper::from),
        }),*];
    };
}

algorithms! {
    /// An even pace with a burst; the default.
    GCRA: gcra::GCRA => Limit::Gcra;
    /// The same, written as a bucket with a capacity and a refill.
    TOKEN_BUCKET: gcra::TOKEN_BUCKET => Limit::TokenBucket;
    /// Delays instead of refusing.
    LEAKY_BUCKET: leaky_bucket::GRAMMAR => LimitOrShaper::Shaper;
    /// A counter per window of the clock.
    FIXED_WINDOW: fixed_window::GRAMMAR => Limit::FixedWindow;
    /// Counters in slots that slide.
    SLIDING_WINDOW: sliding_window::GRAMMAR => Limit::SlidingWindow;
    /// One instant per unit: exact.
    SLIDING_LOG: sliding_log::GRAMMAR => Limit::SlidingLog;
    /// A budget with a civil edge.
    QUOTA: quota::GRAMMAR => Limit::Quota;
    /// Requests in flight.
    CONCURRENCY: concurrency::GRAMMAR => Limit::Concurrency;
}

impl FromStr for Algorithm {
    type Err = FieldError;

    fn from_str(name: &str) -> Result<Self, FieldError> {
        let known = || Self::ALL.iter().map(|algorithm| algorithm.name());
        let found = Self::ALL.iter().find(|algorithm| algorithm.name() == name);
        found.copied().ok_or_else(|| {
            let name = printable(name);
            let hint = match closest(&name, known()) {
                Some(meant) => format!(", did you mean `{meant}`?"),
                None => format!(": expected one of {}", known().collect::<Vec<_>>().join(", ")),
            };
            FieldError::text(format!("unknown algorithm `{name}`{hint}")).at(Field::Algorithm)
        })
    }
}

/// The options of a limit of one line.
const OPTIONS: [Field; 7] = [
    Field::Burst,
    Field::Capacity,
    Field::Buckets,
    Field::MaxWait,
    Field::Ttl,
    Field::UtcOffset,
    Field::Rolling,
];

/// What people write as an option of a token bucket.
const REFILL: &str = Field::Refill.name();

/// A value of an option, to show how it is written.
const fn example(option: Field) -> &'static str {
    match option {
        Field::Buckets => "10",
        Field::MaxWait => "5s",
        Field::Ttl => "60s",
        Field::UtcOffset => "+02:00",
        _ => "20",
    }
}

/// More than any limit needs; a bound on what is read from outside.
const LINE_BYTES_MAX: usize = 200;

impl LimitSpec {
    /// Reads a limit of one line: `[ALGORITHM] RATE [OPTION VALUE]…`, as in `100/min burst 20`.
    ///
    /// | algorithm | options |
    /// |---|---|
    /// | `gcra` (the default) | `burst N` (default: the limit) |
    /// | `token-bucket` | `capacity N` (default: the refill) |
    /// | `leaky-bucket` | `max-wait DURATION` or `capacity N` |
    /// | `fixed-window`, `sliding-log` | |
    /// | `sliding-window` | `buckets N` (default 10) |
    /// | `quota` | `N/day`, `N/week`, `N/month` with `at +02:00`; `N/DURATION`; `rolling` |
    /// | `concurrency` | `N lease DURATION` (default 60s) |
    ///
    /// ```
    /// use tidegate_core::{Algorithm, LimitSpec};
    ///
    /// let spec = LimitSpec::from_line("token-bucket 10/s capacity 50")?;
    /// assert_eq!((spec.algorithm, spec.capacity), (Some(Algorithm::TOKEN_BUCKET), Some(50)));
    /// assert_eq!(spec.refill, Some("10/s".into()));
    /// # Ok::<(), tidegate_core::FieldError>(())
    /// ```
    pub fn from_line(line: &str) -> Result<Self, FieldError> {
        let line = line.trim();
        let unreadable = |problem: &str| FieldError::text(problem.to_owned());
        if line.len() > LINE_BYTES_MAX {
            return Err(unreadable("longer than 200 bytes"));
        }
        let mut words = line.split_whitespace().peekable();
        if words.peek().is_none() {
            return Err(unreadable("empty: expected a limit like `100/min burst 20`"));
        }
        let named = words.next_if(|word| word.starts_with(char::is_alphabetic));
        let mut spec = Self { algorithm: named.map(str::parse).transpose()?, ..Self::default() };
        let is_option = |word: &str| word == REFILL || OPTIONS.iter().any(|it| it.option() == word);
        let amount = words.next_if(|word| !is_option(word)).map(Amount::from);
        if spec.algorithm == Some(Algorithm::TOKEN_BUCKET) {
            spec.refill = amount;
        } else {
            spec.limit = amount;
        }
        while let Some(option) = words.next() {
            if option == REFILL {
                return Err(spec.refill_as_option(&words.collect::<Vec<_>>()));
            }
            let field = OPTIONS.into_iter().find(|field| field.option() == option);
            let field = field.ok_or_else(|| unknown_option(option))?;
            let value = if field == Field::Rolling { Some("") } else { words.next() };
            let value = value.ok_or_else(|| {
                let example = example(field);
                FieldError::text(format!("`{option}` lacks its value: write `{option} {example}`"))
            })?;
            if spec.set_option(field, value)? {
                return Err(FieldError::text(format!("`{option}` is given twice: give it once")));
            }
        }
        Ok(spec)
    }

    /// The line that was meant by `token-bucket 100 refill 10/s`: a line has the refill as its rate.
    fn refill_as_option(&self, after: &[&str]) -> FieldError {
        let rate = after.first().filter(|rate| read_rate(rate).is_ok()).unwrap_or(&"10/s");
        let amount = self.refill.as_ref().or(self.limit.as_ref()).map(ToString::to_string);
        let amount = amount.as_deref().and_then(|amount| amount.split('/').next());
        let named = after.iter().skip_while(|word| **word != Field::Capacity.option()).nth(1);
        let held = self.capacity.map(|held| held.to_string());
        let held = held.as_deref().or(named.copied()).or(amount);
        let held = held.filter(|held| whole(held).is_ok()).unwrap_or("100");
        FieldError::text(format!(
            "`{REFILL}` is no option of a line, which begins with the rate: write `token-bucket {rate} capacity {held}`"
        ))
    }

    /// Sets an option from its text. `true` if it was set before.
    fn set_option(&mut self, field: Field, value: &str) -> Result<bool, FieldError> {
        let number = || whole(value).map_err(|error| error.at(field));
        Ok(match field {
            Field::Burst => self.burst.replace(number()?).is_some(),
            Field::Capacity => self.capacity.replace(number()?).is_some(),
            Field::Buckets => self.buckets.replace(number()?).is_some(),
            Field::MaxWait => self.max_wait.replace(value.into()).is_some(),
            Field::Ttl => self.ttl.replace(value.into()).is_some(),
            Field::UtcOffset => self.utc_offset.replace(value.into()).is_some(),
            Field::Rolling => self.rolling.replace(true).is_some(),
            _ => return Err(unknown_option(field.name())),
        })
    }

    /// The limit as one line. `None` where a line has no words for it: a time zone, or fields that exclude each other.
    ///
    /// ```
    /// use tidegate_core::{Limit, LimitSpec};
    ///
    /// let limit: Limit = "quota 500/day at -0330".parse()?;
    /// assert_eq!(limit.spec().to_line().as_deref(), Some("quota 500/day at -03:30"));
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    pub fn to_line(&self) -> Option<String> {
        let mut words = Vec::new();
        words.extend(self.algorithm.map(|algorithm| algorithm.name().to_owned()));
        words.push(match (&self.limit, &self.refill, &self.every) {
            (Some(amount), None, None) | (None, Some(amount), None) => amount.to_string(),
            (Some(amount), None, Some(_)) => {
                format!("{amount}/{}", self.text(Field::Every)?)
            }
            _ => return None,
        });
        if self.time_zone.is_some() {
            return None;
        }
        for field in OPTIONS {
            match self.text(field) {
                None => {}
                Some(_) if field == Field::Rolling && self.rolling == Some(false) => {}
                Some(_) if field == Field::Rolling => words.push(field.option().to_owned()),
                Some(value) => words.extend([field.option().to_owned(), value]),
            }
        }
        Some(words.join(" "))
    }

    /// The fields that are given, with their values as text. A time zone that was given as a table has none.
    ///
    /// ```
    /// use tidegate_core::{Field, Limit};
    ///
    /// let limit: Limit = "token-bucket 10/s capacity 50".parse()?;
    /// let fields = limit.spec().fields();
    /// let text = |(field, text): &(Field, String)| format!("{}: {text}", field.name());
    /// let fields: Vec<_> = fields.iter().map(text).collect();
    /// assert_eq!(fields, ["algorithm: token-bucket", "capacity: 50", "refill: 10/s"]);
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    pub fn fields(&self) -> Vec<(Field, String)> {
        let algorithm = self.algorithm.map(|it| (Field::Algorithm, it.name().to_owned()));
        let given = self.given().into_iter().filter_map(|field| Some((field, self.text(field)?)));
        algorithm.into_iter().chain(given).collect()
    }

    fn text(&self, field: Field) -> Option<String> {
        let number = |number: Option<u64>| Some(number?.to_string());
        match field {
            Field::Algorithm => Some(self.algorithm?.name().to_owned()),
            Field::Limit => Some(self.limit.as_ref()?.to_string()),
            Field::Refill => Some(self.refill.as_ref()?.to_string()),
            Field::Burst => number(self.burst),
            Field::Capacity => number(self.capacity),
            Field::Buckets => number(self.buckets),
            Field::Rolling => Some(self.rolling?.to_string()),
            Field::MaxWait => self.max_wait.as_ref()?.to_text(|it| Some(text::duration(*it))),
            Field::Ttl => self.ttl.as_ref()?.to_text(|it| Some(text::duration(*it))),
            Field::Every => self.every.as_ref()?.to_text(|every| Some(every.to_string())),
            Field::TimeZone => self.time_zone.as_ref()?.to_text(|_| None),
            Field::UtcOffset => self.utc_offset.as_ref()?.to_text(|minutes| {
                let sign = if *minutes < 0 { '-' } else { '+' };
                let minutes = minutes.unsigned_abs();
                Some(format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60))
            }),
        }
    }

    fn given(&self) -> Vec<Field> {
        let given = [
            (Field::Limit, self.limit.is_some()),
            (Field::Burst, self.burst.is_some()),
            (Field::Capacity, self.capacity.is_some()),
            (Field::Refill, self.refill.is_some()),
            (Field::Buckets, self.buckets.is_some()),
            (Field::MaxWait, self.max_wait.is_some()),
            (Field::Every, self.every.is_some()),
            (Field::TimeZone, self.time_zone.is_some()),
            (Field::UtcOffset, self.utc_offset.is_some()),
            (Field::Rolling, self.rolling.is_some()),
            (Field::Ttl, self.ttl.is_some()),
        ];
        given.into_iter().filter_map(|(field, is_given)| is_given.then_some(field)).collect()
    }

    /// The algorithm that is named, or that the fields imply.
    pub fn algorithm(&self) -> Algorithm {
        let implied = if self.refill.is_some() { Algorithm::TOKEN_BUCKET } else { Algorithm::GCRA };
        self.algorithm.unwrap_or(implied)
    }

    /// Checks the fields and builds the limit. `zones` finds time zones by name.
    ///
    /// ```
    /// # use tidegate_core::{Limit, LimitOrShaper, LimitSpec};
    /// let no_zones = |name: &str| Err(format!("`{name}` is unknown"));
    /// let built = LimitSpec::from_line("100/min burst 20")?.build(&no_zones)?;
    /// assert!(matches!(built, LimitOrShaper::Limit(Limit::Gcra(_))));
    /// # Ok::<(), tidegate_core::FieldError>(())
    /// ```
    pub fn build(&self, zones: Zones<'_>) -> Result<LimitOrShaper, FieldError> {
        match self.foreign().next() {
            Some(error) => Err(error),
            None => self.build_fields(zones),
        }
    }

    /// The same with every problem that can be found at once, for a file that is corrected as a whole.
    ///
    /// ```
    /// use tidegate_core::LimitSpec;
    ///
    /// let spec = LimitSpec::from_line("fixed-window 5 burst 7")?;
    /// let errors = spec.check(&|_| Err("no zones".to_owned())).unwrap_err();
    /// let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
    /// assert_eq!(
    ///     errors,
    ///     [
    ///         "burst: does not belong to fixed-window, which has limit",
    ///         "limit: `5` has no time unit: write 5/min",
    ///     ]
    /// );
    /// # Ok::<(), tidegate_core::FieldError>(())
    /// ```
    pub fn check(&self, zones: Zones<'_>) -> Result<LimitOrShaper, Vec<FieldError>> {
        let mut errors: Vec<_> = self.foreign().collect();
        match self.build_fields(zones) {
            Ok(built) if errors.is_empty() => return Ok(built),
            Ok(_) => {}
            Err(error) => errors.push(error),
        }
        Err(errors)
    }

    fn foreign(&self) -> impl Iterator<Item = FieldError> {
        let algorithm = self.algorithm();
        let foreign = self.given().into_iter().filter(move |it| !algorithm.fields().contains(it));
        foreign.map(move |field| FieldError::foreign(field, algorithm))
    }

    fn build_fields(&self, zones: Zones<'_>) -> Result<LimitOrShaper, FieldError> {
        let algorithm = self.algorithm();
        match TABLE.iter().find(|row| row.algorithm == algorithm) {
            Some(row) => (row.build)(self, zones),
            None => Err(FieldError::text("unknown algorithm".to_owned())), // the table has them all
        }
    }

    /// This limit with other numbers: it counts as it did, unless `numbers` name an algorithm of their own. All that they
    /// leave out stays, except for the burst of GCRA, which follows the limit. A `limit` is the refill of a token bucket.
    ///
    /// ```
    /// use tidegate_core::LimitSpec;
    ///
    /// let bucket = LimitSpec::from_line("token-bucket 10/s capacity 50")?;
    /// let numbers = LimitSpec::from_line("20/s")?;
    /// let more = bucket.with_numbers(&numbers);
    /// assert_eq!(more.to_line().as_deref(), Some("token-bucket 20/s capacity 50"));
    /// # Ok::<(), tidegate_core::FieldError>(())
    /// ```
    #[must_use]
    pub fn with_numbers(&self, numbers: &Self) -> Self {
        if numbers.algorithm.is_some() {
            return numbers.clone();
        }
        let mut new = numbers.clone();
        if self.algorithm() == Algorithm::TOKEN_BUCKET && new.refill.is_none() {
            new.refill = new.limit.take();
        }
        let old = self.clone();
        let has_zone = new.time_zone.is_some() || new.utc_offset.is_some();
        Self {
            algorithm: old.algorithm,
            limit: new.limit.or(old.limit.filter(|_| new.refill.is_none())),
            refill: new.refill.or(old.refill),
            burst: new.burst,
            capacity: new.capacity.or(old.capacity),
            buckets: new.buckets.or(old.buckets),
            max_wait: new.max_wait.or(old.max_wait),
            every: new.every.or(old.every),
            time_zone: new.time_zone.or(old.time_zone.filter(|_| !has_zone)),
            utc_offset: new.utc_offset.or(old.utc_offset.filter(|_| !has_zone)),
            rolling: new.rolling.or(old.rolling),
            ttl: new.ttl.or(old.ttl),
        }
    }
}

fn unknown_option(option: &str) -> FieldError {
    let (option, known) = (printable(option), OPTIONS.map(Field::option));
    let (last, others) = known.split_last().unwrap_or((&"", &[]));
    let known = format!("{} or {last}", others.join(", "));
    FieldError::text(format!("unknown option `{option}`: expected {known}"))
}

impl<T> Written<T> {
    fn to_text(&self, show: impl Fn(&T) -> Option<String>) -> Option<String> {
        match self {
            Self::Text(text) => Some(text.clone()),
            Self::Value(value) => show(value),
        }
    }
}

/// A line has no word for a time zone, so that none is ever looked up.
const NO_ZONES: Zones<'static> = &|_| Err("time zones by name need their data".to_owned());

fn limit_of_line(spec: &LimitSpec, line: &str) -> Result<Limit, LimitError> {
    let shaper = "leaky-bucket delays instead of refusing: it is a Shaper, not a limit";
    if spec.algorithm() == Algorithm::LEAKY_BUCKET {
        return Err(LimitError::syntax(line, shaper));
    }
    match spec.build(NO_ZONES).map_err(|error| error.in_line(line))? {
        LimitOrShaper::Limit(limit) => Ok(limit),
        LimitOrShaper::Shaper(_) => Err(LimitError::syntax(line, shaper)),
    }
}

impl Limit {
    /// The limit as a person would write it: fields that have their default are left out.
    ///
    /// ```
    /// use tidegate_core::Limit;
    ///
    /// let limit: Limit = "sliding-window 5/3600s buckets 10".parse()?;
    /// assert_eq!(limit.spec().to_line().as_deref(), Some("sliding-window 5/h"));
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    pub fn spec(&self) -> LimitSpec {
        let full = self.full_spec();
        let clear: [fn(&mut LimitSpec); 4] = [
            |it| it.burst = None,
            |it| it.capacity = None,
            |it| it.buckets = None,
            |it| it.ttl = None,
        ];
        // A default is what the limit is built with where the field is absent.
        clear.into_iter().fold(full, |spec, clear| {
            let mut shorter = spec.clone();
            clear(&mut shorter);
            let is_same = shorter.build(NO_ZONES) == Ok(LimitOrShaper::Limit(self.clone()));
            if is_same { shorter } else { spec }
        })
    }

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
    pub fn with_numbers(&self, line: &str) -> Result<Self, LimitError> {
        let numbers = LimitSpec::from_line(line).map_err(|error| error.in_line(line))?;
        limit_of_line(&self.spec().with_numbers(&numbers), line)
    }
}

impl FromStr for Limit {
    type Err = LimitError;

    /// Reads a limit of one line, as [`LimitSpec::from_line`] describes it.
    fn from_str(line: &str) -> Result<Self, LimitError> {
        let spec = LimitSpec::from_line(line).map_err(|error| error.in_line(line))?;
        limit_of_line(&spec, line)
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
    fn from_str(line: &str) -> Result<Self, LimitError> {
        let mut spec = LimitSpec::from_line(line).map_err(|error| error.in_line(line))?;
        let algorithm = *spec.algorithm.get_or_insert(Algorithm::LEAKY_BUCKET);
        match spec.build(NO_ZONES) {
            _ if algorithm != Algorithm::LEAKY_BUCKET => {}
            Ok(LimitOrShaper::Shaper(shaper)) => return Ok(shaper),
            Ok(LimitOrShaper::Limit(_)) => {}
            Err(error) => return Err(error.in_line(line)),
        }
        Err(LimitError::syntax(line, format!("`{}` is not leaky-bucket", algorithm.name())))
    }
}

macro_rules! try_from_text {
    ($target:ident: $($text:ty),*) => {$(
        impl TryFrom<$text> for $target {
            type Error = LimitError;

            fn try_from(line: $text) -> Result<Self, LimitError> {
                line.parse()
            }
        }
    )*};
}
try_from_text!(Limit: &str, &String, String);
try_from_text!(LeakyBucket: &str, &String, String);
