//! A chain: one signal, and everything between its reading and the pressure it makes.

use std::time::Duration;

use super::state::ChainState;
use super::{Absence, AdaptiveError, Hysteresis, Ramp, Reading, Signal, Smoothing};

/// The lowest position on its ramp that a reading counts as: a very healthy target must not take longer to close, and the
/// average of a recovered one reaches 0 after a while.
const POSITION_MIN: f64 = -0.1;
/// A position below this counts as 0: averages only approach 0, and a limit has to become whole again.
const NEAR_ZERO: f64 = 1e-4;

/// One signal, its ramp, and how it is smoothed.
///
/// ```
/// use tidegate_core::adaptive::{Chain, Hysteresis, Ramp, Signal, Smoothing};
///
/// let queue = Chain::new("replica lag", Signal::Millis, Ramp::queue_wait())?
///     .smoothing(Smoothing::fixed(0.3)?)
///     .hysteresis(Hysteresis::NONE);
/// assert_eq!(queue.name(), "replica lag");
/// # Ok::<(), tidegate_core::adaptive::AdaptiveError>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Chain {
    name: String,
    signal: Signal,
    ramp: Ramp,
    smoothing: Smoothing,
    hysteresis: Hysteresis,
    absence: Absence,
}

impl Chain {
    /// A signal with its ramp, smoothed as is usual.
    pub fn new(name: impl Into<String>, signal: Signal, ramp: Ramp) -> Result<Self, AdaptiveError> {
        let name = name.into();
        if name.is_empty() || name.len() > 64 {
            return Err(AdaptiveError::ChainName(name));
        }
        Ok(Self::named(name, signal, ramp))
    }

    fn named(name: String, signal: Signal, ramp: Ramp) -> Self {
        let (smoothing, hysteresis) = (Smoothing::default(), Hysteresis::default());
        Self { name, signal, ramp, smoothing, hysteresis, absence: Absence::default() }
    }

    /// The wait in the queue of a target, as [`Observed`](super::Observed) sees it: 20 to 200 ms.
    pub fn queue_wait() -> Self {
        Self::named("queue wait".to_owned(), Signal::Millis, Ramp::queue_wait())
    }

    /// The share of requests that fail: 2 to 50 %.
    ///
    /// ```
    /// # use tidegate_core::adaptive::Chain;
    /// assert_eq!(Chain::errors().name(), "errors");
    /// ```
    pub fn errors() -> Self {
        Self::named("errors".to_owned(), Signal::Share, Ramp::errors())
    }

    /// The use of a processor, from 80 %.
    pub fn cpu() -> Self {
        Self::named("cpu".to_owned(), Signal::Share, Ramp::cpu())
    }

    /// A pressure from 0 to 1 that a target reports. A name that is too long is cut.
    ///
    /// ```
    /// # use tidegate_core::adaptive::Chain;
    /// assert_eq!(Chain::pressure("db").name(), "db");
    /// assert_eq!(Chain::pressure(&"x".repeat(100)).name().len(), 64);
    /// ```
    pub fn pressure(name: &str) -> Self {
        let mut end = name.len().min(64);
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        let name = if end == 0 { "pressure" } else { &name[..end] };
        Self::named(name.to_owned(), Signal::Share, Ramp::pressure())
    }

    /// Smooths otherwise.
    #[must_use]
    pub const fn smoothing(mut self, smoothing: Smoothing) -> Self {
        self.smoothing = smoothing;
        self
    }

    /// With another hysteresis.
    #[must_use]
    pub const fn hysteresis(mut self, hysteresis: Hysteresis) -> Self {
        self.hysteresis = hysteresis;
        self
    }

    /// With other rules for a signal that is missing.
    ///
    /// ```
    /// # use tidegate_core::adaptive::{Absence, AdaptiveError, Chain};
    /// let daring = Chain::cpu().absence(Absence { unknown: 0.0, ..Absence::default() });
    /// assert!(daring.is_ok());
    /// let odd = Chain::cpu().absence(Absence { unknown: 7.0, ..Absence::default() });
    /// assert_eq!(odd, Err(AdaptiveError::AbsencePressure(7.0)));
    /// ```
    pub fn absence(mut self, absence: Absence) -> Result<Self, AdaptiveError> {
        self.absence = absence.check()?;
        Ok(self)
    }

    /// With another ramp.
    ///
    /// ```
    /// # use tidegate_core::adaptive::{Chain, Ramp, Signal};
    /// let steep = Chain::new("errors", Signal::Share, Ramp::pressure())?;
    /// assert_eq!(steep.ramp(Ramp::errors()), Chain::errors());
    /// # Ok::<(), tidegate_core::adaptive::AdaptiveError>(())
    /// ```
    #[must_use]
    pub const fn ramp(mut self, ramp: Ramp) -> Self {
        self.ramp = ramp;
        self
    }

    /// What it is called where it binds.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What kind of number it reads.
    ///
    /// ```
    /// # use tidegate_core::adaptive::{Chain, Signal};
    /// assert_eq!((Chain::cpu().signal(), Chain::queue_wait().signal()), (Signal::Share, Signal::Millis));
    /// ```
    pub const fn signal(&self) -> Signal {
        self.signal
    }

    /// How it is smoothed, for a warning before it swings.
    ///
    /// ```
    /// # use tidegate_core::adaptive::{Chain, Smoothing};
    /// assert_eq!(*Chain::cpu().smoothed(), Smoothing::default());
    /// ```
    pub const fn smoothed(&self) -> &Smoothing {
        &self.smoothing
    }

    /// The share of the limit that is left at this pressure.
    pub(super) fn share(&self, state: &ChainState) -> f64 {
        self.ramp.share_at(state.pressure)
    }

    /// One tick: the reading moves the pressure. Nothing opens without a value.
    pub(super) fn step(&self, state: &mut ChainState, reading: Reading, passed: Duration) {
        state.held = state.held.saturating_sub(passed);
        let value = match reading {
            Reading::Value(raw) => self.signal.sanitise(raw),
            Reading::Missing | Reading::Failed => None,
        };
        if let Some(value) = value {
            (state.missed, state.failed, state.silent) = (0, 0, Duration::ZERO);
            let position = self.ramp.position(value).clamp(POSITION_MIN, 1.0);
            let average = state
                .average
                .map_or(position, |average| self.smoothing.next(average, position, passed));
            state.average = Some(average);
            self.follow(state, average);
        } else {
            self.missing(state, reading == Reading::Failed, passed);
        }
    }

    fn follow(&self, state: &mut ChainState, average: f64) {
        let position = if average < NEAR_ZERO { 0.0 } else { average };
        state.pressure = self.hysteresis.next(state.pressure, position, &mut state.held);
    }

    fn missing(&self, state: &mut ChainState, failed: bool, passed: Duration) {
        state.missed = state.missed.saturating_add(1);
        state.silent = state.silent.saturating_add(passed);
        state.failed = if failed { state.failed.saturating_add(1) } else { 0 };
        let average = state.average.unwrap_or(0.0);
        let next = if state.failed >= self.absence.failures {
            self.smoothing.next(average, self.absence.failed.max(average), passed)
        } else if state.silent >= self.absence.drift_after {
            self.smoothing.drift(average, self.absence.unknown.max(average), passed)
        } else {
            return;
        };
        state.average = Some(next);
        if next > state.pressure {
            self.follow(state, next);
        }
    }

    /// Whether the signal has been missing for so long that nothing may open.
    pub(super) const fn is_stale(&self, state: &ChainState) -> bool {
        state.missed > self.absence.hold_ticks
    }
}
