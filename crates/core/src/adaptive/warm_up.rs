//! Warm-up: what was closed for long comes back cold, with empty caches and pools.

use std::time::Duration;

use super::AdaptiveError;
use super::number::seconds;

/// Not more than this share of the limit is *near closed*. Below where a warm-up begins, so that it never takes
/// away what was there before it.
const NEAR_CLOSED: f64 = 0.2;
/// The share of the limit that a warm-up begins with.
const BEGINS_WITH: f64 = 1.0 / 3.0;

/// From a third of the limit to all of it, after it was near closed for a while.
///
/// ```
/// use tidegate_core::Timestamp;
/// use tidegate_core::adaptive::{Chain, Controller, Reading, Settings, WarmUp};
///
/// let start = |warm_up| -> Result<_, tidegate_core::adaptive::AdaptiveError> {
///     let settings = Settings::from_chains([Chain::pressure("db")])?.warm_up(warm_up);
///     Ok(Controller::new(settings, 90)?.step(&[Reading::Value(0.0)], Timestamp::EPOCH).limit)
/// };
/// assert_eq!(start(WarmUp::default())?, 90);
/// assert_eq!(start(WarmUp::default().on_start(true))?, 30);
/// assert_eq!(start(WarmUp::NONE)?, 90);
/// # Ok::<(), tidegate_core::adaptive::AdaptiveError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct WarmUp {
    after: Duration,
    over: Duration,
    on_start: bool,
}

impl Default for WarmUp {
    /// Over 10 s, after at least 10 s near closed.
    fn default() -> Self {
        let span = Duration::from_secs(10);
        Self { after: span, over: span, on_start: false }
    }
}

impl WarmUp {
    /// None.
    pub const NONE: Self =
        Self { after: Duration::MAX, over: Duration::from_secs(1), on_start: false };

    /// A warm-up over `over`, after at least `after` near closed.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate_core::adaptive::{AdaptiveError, WarmUp};
    ///
    /// let span = Duration::from_secs(10);
    /// assert_eq!(WarmUp::new(span, span), Ok(WarmUp::default()));
    /// assert_eq!(WarmUp::new(span, Duration::ZERO), Err(AdaptiveError::ZeroWarmUp));
    /// ```
    pub fn new(after: Duration, over: Duration) -> Result<Self, AdaptiveError> {
        if over.is_zero() {
            return Err(AdaptiveError::ZeroWarmUp);
        }
        Ok(Self { after, over, on_start: false })
    }

    /// Whether a fresh start is one too. By default it begins with the whole limit.
    #[must_use]
    pub const fn on_start(self, yes: bool) -> Self {
        Self { on_start: yes, ..self }
    }

    pub(super) fn start(&self) -> Warmth {
        Warmth { near_closed: Duration::ZERO, warming: self.on_start.then_some(Duration::ZERO) }
    }
}

/// How warm a limit is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Warmth {
    /// For how long it has been near closed.
    pub(super) near_closed: Duration,
    /// For how long it has been warming up.
    pub(super) warming: Option<Duration>,
}

impl Warmth {
    /// The most that is given, as a share of the limit, while the chains would give `share`. What is stale does
    /// not get warmer.
    pub(super) fn next(
        &mut self,
        settings: &WarmUp,
        share: f64,
        passed: Duration,
        stale: bool,
    ) -> f64 {
        if share <= NEAR_CLOSED {
            self.near_closed = self.near_closed.saturating_add(passed);
            if self.near_closed >= settings.after {
                self.warming = Some(Duration::ZERO);
            }
        } else if !self.near_closed.is_zero() {
            self.near_closed = Duration::ZERO;
        } else if !stale {
            self.warming = self.warming.map(|since| since.saturating_add(passed));
        }
        self.warming = self.warming.filter(|since| *since < settings.over);
        self.warming.map_or(1.0, |since| {
            BEGINS_WITH + (1.0 - BEGINS_WITH) * (seconds(since) / seconds(settings.over))
        })
    }
}
