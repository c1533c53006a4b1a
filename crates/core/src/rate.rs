//! Rates that are written in code: `Limit::per_minute(100).burst(20)`.

use std::time::Duration;

use crate::algorithm::Gcra;
use crate::error::LimitError;
use crate::limit::Limit;

/// So many units per period, spread evenly, with a burst: a limit by GCRA that is written in code and not checked yet.
///
/// Whatever takes a limit takes a rate, and checks it: it is the same limit as the text.
///
/// ```
/// use tidegate_core::{Limit, LimitError, Rate};
///
/// const API: Rate = Limit::per_minute(100).burst(20);
/// assert_eq!(API.build()?, "100/min burst 20".parse()?);
/// assert_eq!(Limit::try_from(API)?, API.build()?);
/// assert_eq!(Limit::per_hour(0).build(), Err(LimitError::ZeroLimit));
/// # Ok::<(), LimitError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[must_use = "a rate limits nothing until a limit is built from it"]
pub struct Rate {
    limit: u64,
    period: Duration,
    burst: Option<u64>,
}

impl Rate {
    const fn new(limit: u64, period: Duration) -> Self {
        Self { limit, period, burst: None }
    }

    /// At most so many at once; by default as many as the limit.
    ///
    /// ```
    /// # use tidegate_core::Limit;
    /// assert_eq!(Limit::per_hour(100).build()?.ceiling(), 100);
    /// assert_eq!(Limit::per_hour(100).burst(5).build()?.ceiling(), 5);
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    pub const fn burst(self, burst: u64) -> Self {
        Self { burst: Some(burst), ..self }
    }

    /// The limit; an error if it makes no sense.
    ///
    /// ```
    /// # use tidegate_core::{Limit, LimitError};
    /// assert_eq!(Limit::per_second(5).burst(0).build(), Err(LimitError::ZeroBurst));
    /// ```
    pub fn build(self) -> Result<Limit, LimitError> {
        let burst = self.burst.unwrap_or(self.limit);
        Gcra::new(self.limit, self.period, burst).map(Limit::Gcra)
    }
}

impl Limit {
    /// So many a second, by GCRA: `100/s`.
    ///
    /// ```
    /// # use tidegate_core::Limit;
    /// assert_eq!(Limit::per_second(100).build()?, "100/s".parse()?);
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    pub const fn per_second(limit: u64) -> Rate {
        Rate::new(limit, Duration::from_secs(1))
    }

    /// So many a minute, by GCRA: `100/min`.
    ///
    /// ```
    /// # use tidegate_core::Limit;
    /// assert_eq!(Limit::per_minute(100).burst(20).build()?, "100/min burst 20".parse()?);
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    pub const fn per_minute(limit: u64) -> Rate {
        Rate::new(limit, Duration::from_mins(1))
    }

    /// So many an hour, by GCRA: `100/h`.
    ///
    /// ```
    /// # use tidegate_core::Limit;
    /// assert_eq!(Limit::per_hour(100).build()?, "100/h".parse()?);
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    pub const fn per_hour(limit: u64) -> Rate {
        Rate::new(limit, Duration::from_hours(1))
    }

    /// So many in 24 hours, by GCRA: `100/day`. A budget that starts anew at midnight is a [`Quota`](crate::Quota).
    ///
    /// ```
    /// # use tidegate_core::Limit;
    /// assert_eq!(Limit::per_day(100).build()?, "100/day".parse()?);
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    pub const fn per_day(limit: u64) -> Rate {
        Rate::new(limit, Duration::from_hours(24))
    }
}

impl TryFrom<Rate> for Limit {
    type Error = LimitError;

    fn try_from(rate: Rate) -> Result<Self, LimitError> {
        rate.build()
    }
}
