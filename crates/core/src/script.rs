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
            Self::Gcra(gcra) | Self::TokenBucket(gcra) => write(out, "gcra", &gcra.script()),
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
    pub const fn has_edges(&self) -> bool {
        matches!(self, Self::Quota(quota) if quota.every().is_some())
    }

    /// A letter for the kind of state the limit keeps: limits that share it can read each other's states.
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
    pub fn write_script(&self, out: &mut String) {
        write(out, "leaky", &self.script());
    }

    /// The arrival that a script wrote under this shaper.
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
