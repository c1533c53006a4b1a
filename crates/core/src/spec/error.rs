//! What is wrong with a limit as it is written, and with which of its fields.

use std::fmt;

use super::Algorithm;
use crate::error::LimitError;

/// A field of a limit.
///
/// ```
/// use tidegate_core::{Algorithm, Field};
///
/// assert_eq!(Field::MaxWait.name(), "max_wait");
///
/// use Field::{Algorithm as Kind, Buckets, Burst, Capacity, Every, Limit, Refill, Rolling, TimeZone, Ttl, UtcOffset};
/// assert_eq!(Algorithm::GCRA.fields(), [Limit, Burst]);
/// assert_eq!(Algorithm::TOKEN_BUCKET.fields(), [Capacity, Refill]);
/// assert_eq!(Algorithm::QUOTA.fields(), [Limit, Every, TimeZone, UtcOffset, Rolling, Buckets]);
/// assert_eq!(Algorithm::CONCURRENCY.fields(), [Limit, Ttl]);
/// assert_eq!(Kind.name(), "algorithm"); // every limit has one
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[expect(missing_docs, reason = "LimitSpec describes its fields")]
pub enum Field {
    Algorithm,
    Limit,
    Burst,
    Capacity,
    Refill,
    Buckets,
    MaxWait,
    Every,
    TimeZone,
    UtcOffset,
    Rolling,
    Ttl,
}

impl Field {
    /// Its name in a configuration file and in [`LimitSpec`](crate::LimitSpec).
    pub const fn name(self) -> &'static str {
        match self {
            Self::Algorithm => "algorithm",
            Self::Limit => "limit",
            Self::Burst => "burst",
            Self::Capacity => "capacity",
            Self::Refill => "refill",
            Self::Buckets => "buckets",
            Self::MaxWait => "max_wait",
            Self::Every => "every",
            Self::TimeZone => "time_zone",
            Self::UtcOffset => "utc_offset",
            Self::Rolling => "rolling",
            Self::Ttl => "ttl",
        }
    }

    /// Its name in a limit of one line.
    pub(crate) const fn option(self) -> &'static str {
        match self {
            Self::MaxWait => "max-wait",
            Self::UtcOffset => "at",
            Self::Ttl => "lease",
            other => other.name(),
        }
    }
}

/// A limit that is written wrong: which field, what is wrong with it, and what to write instead.
///
/// ```
/// use tidegate_core::{Field, FieldError, LimitSpec};
///
/// let spec = LimitSpec { limit: Some("100".into()), ..LimitSpec::default() };
/// let error: FieldError = spec.build(&|_| Err("no zones".to_owned())).unwrap_err();
/// assert_eq!(error.field(), Some(Field::Limit));
/// assert_eq!(error.problem(), "`100` has no time unit: write 100/min");
/// assert_eq!(error.to_string(), "limit: `100` has no time unit: write 100/min");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FieldError {
    field: Option<Field>,
    problem: Problem,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Problem {
    /// The field is not there.
    Missing { expected: &'static str },
    /// The algorithm has no such field.
    Foreign(Algorithm),
    /// The field excludes another one.
    Both(Field),
    /// The field needs another one.
    GoesWith(&'static str),
    /// The value has to be something else.
    Expected { got: String, expected: &'static str },
    /// Anything else, in whole words.
    Text(String),
    /// The fields can be read, but make no limit.
    Invalid(LimitError),
}

impl FieldError {
    pub(crate) const fn missing(field: Field, expected: &'static str) -> Self {
        Self { field: Some(field), problem: Problem::Missing { expected } }
    }

    pub(crate) const fn foreign(field: Field, algorithm: Algorithm) -> Self {
        Self { field: Some(field), problem: Problem::Foreign(algorithm) }
    }

    pub(crate) const fn both(field: Field, other: Field) -> Self {
        Self { field: Some(field), problem: Problem::Both(other) }
    }

    pub(crate) const fn goes_with(field: Field, what: &'static str) -> Self {
        Self { field: Some(field), problem: Problem::GoesWith(what) }
    }

    pub(crate) const fn invalid(field: Field, error: LimitError) -> Self {
        Self { field: Some(field), problem: Problem::Invalid(error) }
    }

    pub(crate) fn expected(got: &str, expected: &'static str) -> Self {
        let got = crate::text::printable(got);
        Self { field: None, problem: Problem::Expected { got, expected } }
    }

    pub(crate) const fn text(problem: String) -> Self {
        Self { field: None, problem: Problem::Text(problem) }
    }

    /// The same about a field.
    pub(crate) fn at(self, field: Field) -> Self {
        Self { field: Some(field), ..self }
    }

    /// The field to correct. `None` if a field is missing, or if a line could not be read at all.
    pub const fn field(&self) -> Option<Field> {
        match self.problem {
            Problem::Missing { .. } => None,
            _ => self.field,
        }
    }

    /// What is wrong, for a message that names [the field](Self::field) itself.
    pub fn problem(&self) -> String {
        self.problem_with(Field::name)
    }

    /// The same where fields have other names.
    ///
    /// ```
    /// use tidegate_core::{Amount, LimitSpec, Period};
    ///
    /// let spec = LimitSpec::from_line("leaky-bucket 2/s")?;
    /// let error = spec.build(&|_| Err("no zones".to_owned())).unwrap_err();
    /// assert_eq!(error.problem(), "`max_wait` is missing: the longest delay, like 5s");
    /// let problem = error.problem_with(|_| "max_wait_us");
    /// assert_eq!(problem, "`max_wait_us` is missing: the longest delay, like 5s");
    /// # Ok::<(), tidegate_core::FieldError>(())
    /// ```
    pub fn problem_with(&self, name: impl Fn(Field) -> &'static str) -> String {
        match &self.problem {
            Problem::Missing { expected } => {
                format!("`{}` is missing: {expected}", self.field.map_or("", name))
            }
            Problem::Foreign(algorithm) => {
                let fields: Vec<_> = algorithm.fields().iter().map(|field| name(*field)).collect();
                let (algorithm, fields) = (algorithm.name(), fields.join(", "));
                let advice = match self.field {
                    Some(Field::MaxWait) => ": only leaky-bucket delays, name that algorithm",
                    _ => "",
                };
                format!("does not belong to {algorithm}, which has {fields}{advice}")
            }
            Problem::Both(other) => {
                format!("and `{}` are both given: give one of them", name(*other))
            }
            Problem::GoesWith(what) => format!("goes with {what}"),
            Problem::Expected { got, expected } => format!("`{got}`: expected {expected}"),
            Problem::Text(problem) => problem.clone(),
            Problem::Invalid(error) => error.to_string(),
        }
    }

    /// The same about a limit that was written as this line, with the whole line where a part of it is missing.
    ///
    /// ```
    /// use tidegate_core::LimitSpec;
    ///
    /// let line = "leaky-bucket 2/s";
    /// let error = LimitSpec::from_line(line)?.build(&|_| Err("no zones".to_owned())).unwrap_err();
    /// let problem = error.problem_in_line(line);
    /// assert_eq!(problem, "`max-wait` is missing: write `leaky-bucket 2/s max-wait 5s`");
    /// # Ok::<(), tidegate_core::FieldError>(())
    /// ```
    pub fn problem_in_line(&self, line: &str) -> String {
        match (&self.problem, self.field) {
            (Problem::Missing { .. }, Some(Field::MaxWait)) => {
                let line = crate::text::printable(line.trim());
                format!("`max-wait` is missing: write `{line} max-wait 5s`")
            }
            (Problem::Missing { .. }, Some(Field::Refill)) => {
                "the rate of its refill is missing: write `token-bucket 10/s capacity 100`"
                    .to_owned()
            }
            _ => self.problem_with(Field::option),
        }
    }

    /// The error of a limit that was written as one line.
    pub(crate) fn in_line(self, line: &str) -> LimitError {
        let problem = self.problem_in_line(line);
        let option = self.field.map_or("", Field::option);
        match self.problem {
            Problem::Invalid(error) => error,
            Problem::Foreign(_) | Problem::Both(_) | Problem::GoesWith(_) => {
                LimitError::syntax(line, format!("`{option}` {problem}"))
            }
            Problem::Expected { .. } => LimitError::syntax(line, format!("{option} {problem}")),
            Problem::Missing { .. } | Problem::Text(_) => LimitError::syntax(line, problem),
        }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field() {
            Some(field) => write!(f, "{}: {}", field.name(), self.problem()),
            None => f.write_str(&self.problem()),
        }
    }
}

impl std::error::Error for FieldError {}
