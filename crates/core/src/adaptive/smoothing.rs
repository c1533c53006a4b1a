//! Smoothing and hysteresis: noise and small movements change nothing.

use super::AdaptiveError;
use super::number::float;
use std::fmt;
use std::time::Duration;

/// A longer gap between two ticks counts as this: after a pause one reading must not decide alone.
const GAP_MAX: Duration = Duration::from_secs(5);

/// How readings are averaged over time.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::adaptive::Smoothing;
///
/// let (second, smoothing) = (Duration::from_secs(1), Smoothing::default());
/// let (closed, opened) = (smoothing.next(0.0, 1.0, second), smoothing.next(1.0, 0.0, second));
/// assert!(closed > 9.0 * (1.0 - opened)); // nine times as far, and more
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Smoothing(Kind);

#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    /// Time constants in seconds: α = 1 − exp(−Δt/τ).
    Asymmetric { close_s: f64, open_s: f64 },
    /// The same weight for every reading, whenever it comes.
    Fixed(f64),
}

impl Default for Smoothing {
    /// 1.5 s when it gets worse, 20 s when it gets better.
    fn default() -> Self {
        Self(Kind::Asymmetric { close_s: 1.5, open_s: 20.0 })
    }
}

impl Smoothing {
    /// Every reading counts as it is.
    pub const NONE: Self = Self(Kind::Fixed(1.0));

    /// An average with these time constants: `close` when it gets worse, `open` when it gets better.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate_core::adaptive::{AdaptiveError, Smoothing};
    ///
    /// let second = Duration::from_secs(1);
    /// assert!(Smoothing::asymmetric(second, 10 * second).is_ok());
    /// let reckless = Smoothing::asymmetric(10 * second, second);
    /// assert_eq!(reckless, Err(AdaptiveError::OpensFaster { close: 10 * second, open: second }));
    /// ```
    pub fn asymmetric(close: Duration, open: Duration) -> Result<Self, AdaptiveError> {
        if close.is_zero() || open.is_zero() {
            return Err(AdaptiveError::ZeroTimeConstant);
        }
        if open < close {
            return Err(AdaptiveError::OpensFaster { close, open });
        }
        Ok(Self(Kind::Asymmetric { close_s: close.as_secs_f64(), open_s: open.as_secs_f64() }))
    }

    /// Every reading has this weight, above 0 and at most 1.
    ///
    /// ```
    /// use tidegate_core::adaptive::{AdaptiveError, Smoothing};
    ///
    /// assert_eq!(Smoothing::fixed(1.0), Ok(Smoothing::NONE));
    /// assert_eq!(Smoothing::fixed(0.0), Err(AdaptiveError::Alpha(0.0)));
    /// ```
    pub fn fixed(alpha: f64) -> Result<Self, AdaptiveError> {
        if alpha > 0.0 && alpha <= 1.0 {
            Ok(Self(Kind::Fixed(alpha)))
        } else {
            Err(AdaptiveError::Alpha(alpha))
        }
    }

    /// The next average, `passed` after the last.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate_core::adaptive::Smoothing;
    ///
    /// let second = Duration::from_secs(1);
    /// let (worse, better) = (Smoothing::default(), Smoothing::default());
    /// assert!(worse.next(0.0, 1.0, second) > 0.48);
    /// assert!(better.next(1.0, 0.0, second) > 0.95);
    /// ```
    pub fn next(&self, average: f64, reading: f64, passed: Duration) -> f64 {
        average + self.weight(reading > average, passed) * (reading - average)
    }

    /// As [`Smoothing::next`], at the pace of opening whichever way it goes.
    pub(super) fn drift(&self, average: f64, target: f64, passed: Duration) -> f64 {
        average + self.weight(false, passed) * (target - average)
    }

    fn weight(&self, closes: bool, passed: Duration) -> f64 {
        match self.0 {
            Kind::Fixed(alpha) => alpha,
            Kind::Asymmetric { close_s, open_s } => {
                let constant_s = if closes { close_s } else { open_s };
                -(-passed.min(GAP_MAX).as_secs_f64() / constant_s).exp_m1()
            }
        }
    }

    /// Whether a loop with this smoothing will swing: `gain` is how much of the limit comes back as load (the
    /// limit divided by what the target can do, times the steepness of the ramp), `dead_ticks` how many ticks
    /// late a reading is.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate_core::adaptive::Smoothing;
    ///
    /// let second = Duration::from_secs(1);
    /// assert!(Smoothing::default().oscillation(second, 1.1, 5).is_none());
    /// let swings = Smoothing::NONE.oscillation(second, 1.1, 2).unwrap();
    /// assert!(swings.to_string().starts_with("will oscillate: 1 × (1 + 1.1) × (2 + 1) = 6.3"));
    /// ```
    pub fn oscillation(&self, tick: Duration, gain: f64, dead_ticks: u32) -> Option<Oscillation> {
        let alpha_open = self.weight(false, tick);
        let found = Oscillation { alpha_open, gain, dead_ticks };
        (found.swing() > 1.0).then_some(found)
    }
}

/// Why a loop will swing: α of opening × (1 + gain) × (dead ticks + 1) is above 1.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::adaptive::{Oscillation, Smoothing};
///
/// let found = Smoothing::NONE.oscillation(Duration::from_secs(1), 1.5, 1);
/// assert_eq!(found, Some(Oscillation { alpha_open: 1.0, gain: 1.5, dead_ticks: 1 }));
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Oscillation {
    /// The weight of one reading that opens.
    pub alpha_open: f64,
    /// The gain of the loop.
    pub gain: f64,
    /// How many ticks late a reading is.
    pub dead_ticks: u32,
}

impl Oscillation {
    fn swing(&self) -> f64 {
        self.alpha_open * (1.0 + self.gain) * (float(self.dead_ticks.into()) + 1.0)
    }
}

impl fmt::Display for Oscillation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let to_three = |number: f64| (number * 1000.0).round() / 1000.0;
        write!(
            f,
            "will oscillate: {} × (1 + {}) × ({} + 1) = {} is above 1; open more slowly, use a \
             flatter ramp or a fresher signal",
            to_three(self.alpha_open),
            to_three(self.gain),
            self.dead_ticks,
            to_three(self.swing()),
        )
    }
}

/// How far a reading may fall, and how long ago it may have risen, before a limit opens.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::adaptive::Hysteresis;
///
/// assert_eq!(Hysteresis::default(), Hysteresis::new(0.05, Duration::from_secs(3))?);
/// # Ok::<(), tidegate_core::adaptive::AdaptiveError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Hysteresis {
    play: f64,
    hold: Duration,
}

impl Default for Hysteresis {
    /// A play of 0.05, and 3 s after a close.
    fn default() -> Self {
        Self { play: 0.05, hold: Duration::from_secs(3) }
    }
}

impl Hysteresis {
    /// None: what is read is followed at once.
    pub const NONE: Self = Self { play: 0.0, hold: Duration::ZERO };

    /// A play from 0 to 0.5 of the ramp, and a hold after each close.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate_core::adaptive::{AdaptiveError, Hysteresis};
    ///
    /// assert_eq!(Hysteresis::new(0.0, Duration::ZERO), Ok(Hysteresis::NONE));
    /// assert_eq!(Hysteresis::new(0.6, Duration::ZERO), Err(AdaptiveError::Play(0.6)));
    /// ```
    pub fn new(play: f64, hold: Duration) -> Result<Self, AdaptiveError> {
        if !(0.0..=0.5).contains(&play) {
            return Err(AdaptiveError::Play(play));
        }
        if hold > Duration::from_hours(1) {
            return Err(AdaptiveError::HoldTooLong(hold));
        }
        Ok(Self { play, hold })
    }

    /// The next pressure `h` for a reading `x` that is 0 or more. At `x` = 0 there is no play: what is well gets
    /// all of its limit.
    pub(super) fn next(&self, h: f64, x: f64, held: &mut Duration) -> f64 {
        let next = h.clamp(x, x + self.play.min(x));
        if next > h {
            *held = self.hold;
        }
        if held.is_zero() { next } else { next.max(h) }
    }
}
