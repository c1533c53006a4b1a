//! Hysteresis: small movements change nothing, and after a close nothing opens for a while.

use std::time::Duration;

use super::AdaptiveError;

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
