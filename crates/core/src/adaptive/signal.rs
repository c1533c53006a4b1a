//! What is read of a target, which of it is valid, and what counts while it is missing.

use super::AdaptiveError;
use std::time::Duration;

/// What kind of number a signal is, and so which numbers are none.
///
/// ```
/// use tidegate_core::adaptive::Signal;
///
/// assert_eq!(Signal::Number.sanitise(-3.0), Some(-3.0));
/// assert_eq!(Signal::Share.sanitise(-3.0), Some(0.0));
/// assert_eq!(Signal::Millis.sanitise(-3.0), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Signal {
    /// A part of a whole, like a pressure, the use of a processor or a pool, or a ratio of errors: cut to 0..1.
    Share,
    /// A time in milliseconds: never negative.
    Millis,
    /// Any finite number, like the answer to a query.
    Number,
}

impl Signal {
    /// The number, if it is one: NaN, infinities and negative times are missing.
    ///
    /// ```
    /// use tidegate_core::adaptive::Signal;
    ///
    /// assert_eq!(Signal::Share.sanitise(1.7), Some(1.0));
    /// assert_eq!(Signal::Share.sanitise(f64::NAN), None);
    /// assert_eq!(Signal::Millis.sanitise(-3.0), None);
    /// assert_eq!(Signal::Number.sanitise(f64::INFINITY), None);
    /// ```
    pub fn sanitise(self, raw: f64) -> Option<f64> {
        match self {
            _ if !raw.is_finite() => None,
            Self::Share => Some(raw.clamp(0.0, 1.0)),
            Self::Millis => (raw >= 0.0).then_some(raw),
            Self::Number => Some(raw),
        }
    }
}

/// The reading of a source at one tick.
///
/// ```
/// use tidegate_core::Timestamp;
/// use tidegate_core::adaptive::{Chain, Controller, Reading, Settings};
///
/// let mut controller = Controller::new(Settings::from_chains([Chain::pressure("db")])?, 100)?;
/// let mut step = |reading, second: u64| {
///     controller.step(&[reading], Timestamp::from_micros(second * 1_000_000))
/// };
/// assert_eq!(step(Reading::Value(0.4), 0).limit, 60);
/// assert_eq!(step(Reading::Missing, 1).limit, 60); // no news
/// step(Reading::Failed, 2);
/// step(Reading::Failed, 3);
/// assert!(step(Reading::Failed, 4).limit < 60); // too sick to answer
/// # Ok::<(), tidegate_core::adaptive::AdaptiveError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub enum Reading {
    /// A number, to be sanitised.
    Value(f64),
    /// Nothing: no answer was due, or none came.
    #[default]
    Missing,
    /// The source was asked and is too sick to answer: a timeout, or a 5xx.
    Failed,
}

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
