//! What counts while a signal is missing.

use std::time::Duration;

use super::AdaptiveError;

/// What counts while a signal is missing. Nothing opens meanwhile: silence is no good news.
///
/// A signal that misses a few ticks is held. Then it is *stale*: nothing opens, neither a warm-up nor a cap.
/// After `drift_after` it drifts to `unknown`. A source that was asked and failed `failures` times in a row
/// counts as `failed`: a database too sick to answer must not look healthy.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::adaptive::Absence;
///
/// let usual = Absence::default();
/// assert_eq!((usual.hold_ticks, usual.drift_after), (3, Duration::from_secs(10)));
/// assert_eq!((usual.unknown, usual.failures, usual.failed), (0.25, 3, 0.8));
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Absence {
    /// How many ticks a signal may miss before it is stale.
    pub hold_ticks: u32,
    /// After how long it drifts to `unknown`.
    pub drift_after: Duration,
    /// The pressure of what is not known, from 0 to 1.
    pub unknown: f64,
    /// How many failures in a row are a sign.
    pub failures: u32,
    /// The pressure that they are a sign of, from 0 to 1.
    pub failed: f64,
}

impl Default for Absence {
    fn default() -> Self {
        Self {
            hold_ticks: 3,
            drift_after: Duration::from_secs(10),
            unknown: 0.25,
            failures: 3,
            failed: 0.8,
        }
    }
}

impl Absence {
    pub(super) fn check(self) -> Result<Self, AdaptiveError> {
        for pressure in [self.unknown, self.failed] {
            if !(0.0..=1.0).contains(&pressure) {
                return Err(AdaptiveError::AbsencePressure(pressure));
            }
        }
        if self.failures == 0 {
            return Err(AdaptiveError::ZeroFailures);
        }
        Ok(self)
    }
}
