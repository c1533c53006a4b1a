//! Warm-up: a service whose limit was near closed has cold caches and pools, so its limit opens slowly.

use std::time::Duration;

/// Up to this share of the limit it is *near closed*. Below the share that a warm-up begins with, so that a warm-up never
/// lowers a limit.
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

    /// Whether a fresh start is one too. By default it begins with the whole limit.
    #[must_use]
    pub const fn on_start(self, yes: bool) -> Self {
        Self { on_start: yes, ..self }
    }

    pub(super) fn start(&self) -> Warmth {
        Warmth { near_closed: Duration::ZERO, warming: self.on_start.then_some(Duration::ZERO) }
    }
}

/// The state of a warm-up.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Warmth {
    /// For how long it has been near closed.
    pub(super) near_closed: Duration,
    /// For how long it has been warming up.
    pub(super) warming: Option<Duration>,
}

impl Warmth {
    /// The highest share of the limit, while the chains would give `share`. While a signal is stale, the warm-up pauses.
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
            BEGINS_WITH + (1.0 - BEGINS_WITH) * (since.as_secs_f64() / settings.over.as_secs_f64())
        })
    }
}
