//! Limits as a store's script reads them: a name and its numbers. The scripts decide as the functions here do, bit for
//! bit, and these are the numbers they need.

use std::fmt::Write;

use crate::algorithm::LeakyBucket;
use crate::limit::Limit;
use crate::state::Arrival;
use crate::time::Timestamp;

impl Limit {
    /// Appends the limit as a script reads it, like `window,100,60000000`. Calendar quotas pass the edges of the
    /// periods `around` an instant: the one that holds it and the two after.
    ///
    /// ```
    /// use tidegate_core::{Limit, Timestamp};
    ///
    /// let limit: Limit = "3/s burst 2".parse()?;
    /// let mut text = String::new();
    /// limit.write_script(Timestamp::EPOCH, &mut text);
    /// assert_eq!(text, "gcra,1000000,3,1,2,2000000"); // 1,000,000/3 µs per unit
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    pub fn write_script(&self, around: Timestamp, out: &mut String) {
        match self {
            Self::Gcra(gcra) | Self::TokenBucket(gcra) => {
                let (numbers, count) = gcra.script();
                write(out, "gcra", &numbers[..count]);
            }
            Self::FixedWindow(window) => write(out, "window", &window.script()),
            Self::SlidingWindow(window) => write(out, "slots", &window.script()),
            Self::SlidingLog(log) => write(out, "log", &[log.limit(), micros(log.period())]),
            Self::Quota(quota) => {
                let (name, numbers) = quota.script(around);
                write(out, name, &numbers);
            }
            Self::Concurrency(limit) => {
                write(out, "permits", &[limit.limit(), micros(limit.lease())]);
            }
        }
    }

    /// Whether [`Limit::write_script`] depends on its instant.
    ///
    /// ```
    /// # use tidegate_core::Limit;
    /// let calendar: Limit = "quota 1000/month".parse()?;
    /// assert!(calendar.has_edges()); // months differ in length
    /// let window: Limit = "fixed-window 1000/h".parse()?;
    /// assert!(!window.has_edges());
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    pub const fn has_edges(&self) -> bool {
        matches!(self, Self::Quota(quota) if quota.every().is_some())
    }

    /// A letter for the kind of state the limit keeps: limits that share it can read each other's states.
    ///
    /// ```
    /// # use tidegate_core::{Limit, LimitError};
    /// let letter = |text: &str| text.parse().map(|limit: Limit| limit.state_letter());
    /// assert_eq!(letter("5/h")?, letter("token-bucket 9/h")?); // both keep an arrival
    /// assert_ne!(letter("5/h")?, letter("sliding-log 5/h")?);
    /// # Ok::<(), LimitError>(())
    /// ```
    pub const fn state_letter(&self) -> char {
        match self {
            Self::Gcra(_) | Self::TokenBucket(_) => 'a',
            Self::FixedWindow(_) => 'w',
            Self::Quota(quota) if !quota.is_rolling() => 'w',
            Self::Quota(_) | Self::SlidingWindow(_) => 's',
            Self::SlidingLog(_) => 'l',
            Self::Concurrency(_) => 'p',
        }
    }
}

impl LeakyBucket {
    /// Appends the shaper as a script reads it.
    ///
    /// ```
    /// # use tidegate_core::LeakyBucket;
    /// let shaper: LeakyBucket = "2/s max-wait 5s".parse()?;
    /// let mut text = String::new();
    /// shaper.write_script(&mut text);
    /// assert!(text.starts_with("leaky,500000,1,1,2,5000000,")); // every 500,000 µs, for 5 s at most
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    pub fn write_script(&self, out: &mut String) {
        write(out, "leaky", &self.script());
    }

    /// The arrival that a script wrote under this shaper.
    ///
    /// ```
    /// # use tidegate_core::{LeakyBucket, State, Timestamp};
    /// # let now = Timestamp::from_micros(1_700_000_000_000_000);
    /// let shaper: LeakyBucket = "3/s max-wait 5s".parse()?;
    /// let mut state = State::Empty;
    /// let _ = shaper.reserve(&mut state, now, 1);
    /// // A third of a second ahead: 333,333 µs and one third.
    /// assert_eq!(state.arrival(), Some(shaper.arrival(now.as_micros() + 333_333, 1)));
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    pub const fn arrival(&self, ticks: u64, frac: u64) -> Arrival {
        let (scale, tick_us) = self.ticks();
        Arrival { ticks, frac, scale, tick_us }
    }
}

fn write(out: &mut String, name: &str, numbers: &[u64]) {
    out.push_str(name);
    for number in numbers {
        // To a string nothing can fail.
        let _ = write!(out, ",{number}");
    }
}

fn micros(span: std::time::Duration) -> u64 {
    crate::time::micros_up(span)
}
