//! The ramp: from what is read to what share of a limit it leaves.

use super::AdaptiveError;
use super::number::{float, units};

/// What is left of a URL that takes longest, per minute.
const URL_UNITS_MIN: f64 = 4.0;

/// The two ends of a [`Ramp`]: `y_lo` up to `x_lo`, `y_hi` from `x_hi` on.
///
/// ```
/// use tidegate_core::adaptive::{Ends, Ramp};
///
/// let Ends { x_lo, x_hi, y_lo, y_hi } = Ramp::cpu().ends();
/// assert_eq!([x_lo, x_hi, y_lo, y_hi], [0.8, 1.0, 1.0, 0.5]);
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ends {
    /// Up to this reading all is well.
    pub x_lo: f64,
    /// From this reading on it cannot get worse.
    pub x_hi: f64,
    /// The share of the limit where all is well, at most 1.
    pub y_lo: f64,
    /// The share of the limit that is left at worst.
    pub y_hi: f64,
}

/// A linear fall between two ends, both exact.
///
/// ```
/// use tidegate_core::adaptive::Ramp;
///
/// let pressure = Ramp::pressure();
/// assert_eq!([0.0, 0.3, 0.5, 0.995, 1.0].map(|p| pressure.limit(p, 100)), [100, 70, 50, 1, 1]);
/// let cpu = Ramp::cpu();
/// assert_eq!([0.5, 0.8, 0.9, 1.0].map(|share| cpu.limit(share, 1000)), [1000, 1000, 750, 500]);
/// let url = Ramp::latency_per_url();
/// assert_eq!([300.0, 5000.0, 9150.0, 18_000.0].map(|ms| url.limit(ms, 240)), [240, 177, 122, 4]);
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ramp(Ends);

impl Ramp {
    /// A ramp between these ends.
    ///
    /// ```
    /// use tidegate_core::adaptive::{AdaptiveError, Ends, Ramp};
    ///
    /// let ends = Ends { x_lo: 20.0, x_hi: 200.0, y_lo: 1.0, y_hi: 0.05 };
    /// assert_eq!(Ramp::new(ends)?, Ramp::queue_wait());
    /// let flat = Ramp::new(Ends { x_hi: 20.0, ..ends });
    /// assert_eq!(flat, Err(AdaptiveError::RampFlat { x_lo: 20.0, x_hi: 20.0 }));
    /// # Ok::<(), AdaptiveError>(())
    /// ```
    pub fn new(ends: Ends) -> Result<Self, AdaptiveError> {
        let Ends { x_lo, x_hi, y_lo, y_hi } = ends;
        if !x_lo.is_finite() || !x_hi.is_finite() || !(x_hi - x_lo).is_finite() {
            return Err(AdaptiveError::RampNotFinite { x_lo, x_hi });
        }
        if x_lo >= x_hi {
            return Err(AdaptiveError::RampFlat { x_lo, x_hi });
        }
        for share in [y_lo, y_hi] {
            if !(0.0..=1.0).contains(&share) {
                return Err(AdaptiveError::RampShare(share));
            }
        }
        if y_lo < y_hi {
            return Err(AdaptiveError::RampRises { y_lo, y_hi });
        }
        Ok(Self(ends))
    }

    /// A pressure from 0 to 1 takes as much off the limit.
    pub const fn pressure() -> Self {
        Self(Ends { x_lo: 0.0, x_hi: 1.0, y_lo: 1.0, y_hi: 0.0 })
    }

    /// From 80 % of the processor on, down to half of the limit.
    pub const fn cpu() -> Self {
        Self(Ends { x_lo: 0.8, x_hi: 1.0, y_lo: 1.0, y_hi: 0.5 })
    }

    /// The mean response time of a URL, from 300 ms to 18 s: from 240 to 4 per minute.
    ///
    /// ```
    /// use tidegate_core::adaptive::{AdaptiveError, Ends, Ramp};
    ///
    /// let ends = Ends { x_lo: 300.0, x_hi: 18_000.0, y_lo: 1.0, y_hi: 4.0 / 240.0 };
    /// assert_eq!(Ramp::new(ends)?, Ramp::latency_per_url());
    /// let above = Ramp::new(Ends { y_lo: 500.0 / 240.0, ..ends });
    /// assert!(matches!(above, Err(AdaptiveError::RampShare(share)) if share > 2.0));
    /// # Ok::<(), AdaptiveError>(())
    /// ```
    pub const fn latency_per_url() -> Self {
        Self(Ends { x_lo: 300.0, x_hi: 18_000.0, y_lo: 1.0, y_hi: URL_UNITS_MIN / 240.0 })
    }

    /// The same from another number per minute, also to 4.
    ///
    /// ```
    /// # use tidegate_core::adaptive::Ramp;
    /// assert_eq!(Ramp::latency_per_url_from(240), Ramp::latency_per_url());
    /// let busy = Ramp::latency_per_url_from(6000);
    /// assert_eq!([300.0, 9150.0, 18_000.0].map(|ms| busy.limit(ms, 6000)), [6000, 3002, 4]);
    /// assert_eq!(Ramp::latency_per_url_from(2).limit(18_000.0, 2), 2); // nothing to take away
    /// ```
    pub fn latency_per_url_from(units: u64) -> Self {
        let y_hi = (URL_UNITS_MIN / float(units.max(1))).min(1.0);
        Self(Ends { y_hi, ..Self::latency_per_url().0 })
    }

    /// The wait in a queue, from 20 to 200 ms: down to a twentieth.
    pub const fn queue_wait() -> Self {
        Self(Ends { x_lo: 20.0, x_hi: 200.0, y_lo: 1.0, y_hi: 0.05 })
    }

    /// The share of requests that fail, from 2 to 50 %: down to a twentieth.
    ///
    /// ```
    /// # use tidegate_core::adaptive::Ramp;
    /// assert_eq!([0.02, 0.26, 0.5].map(|share| Ramp::errors().limit(share, 1000)), [1000, 525, 50]);
    /// ```
    pub const fn errors() -> Self {
        Self(Ends { x_lo: 0.02, x_hi: 0.5, y_lo: 1.0, y_hi: 0.05 })
    }

    /// Its ends.
    pub const fn ends(&self) -> Ends {
        self.0
    }

    /// How far along the ramp a reading is: 0 and below is well, 1 and above the worst.
    pub(super) fn position(&self, x: f64) -> f64 {
        (x - self.0.x_lo) / (self.0.x_hi - self.0.x_lo)
    }

    /// The share that is left at a position.
    pub(super) fn share_at(&self, position: f64) -> f64 {
        let Ends { y_lo, y_hi, .. } = self.0;
        if position <= 0.0 {
            y_lo
        } else if position >= 1.0 {
            y_hi
        } else {
            (y_lo + position * (y_hi - y_lo)).clamp(y_hi, y_lo)
        }
    }

    /// The share of a limit that a reading leaves. NaN leaves the least, since it was not sanitised.
    pub fn share(&self, x: f64) -> f64 {
        if x.is_nan() { self.0.y_hi } else { self.share_at(self.position(x)) }
    }

    /// What a reading leaves of a limit, in whole units and at least 1.
    pub fn limit(&self, x: f64, limit: u64) -> u64 {
        units(self.share(x), limit, 1)
    }
}
