//! Who gives way first.

use super::number::{float, whole};

/// The share of an in-flight cap that is kept for what is critical.
const KEPT_FOR_CRITICAL: f64 = 0.2;

/// How important a request is: those below give way first, each on a ramp of its own over the same pressure.
///
/// ```
/// use tidegate_core::adaptive::Priority;
///
/// let at = |pressure| Priority::ALL.map(|class| (class.share(pressure) * 100.0).round());
/// assert_eq!(at(0.0), [100.0, 100.0, 100.0, 100.0]);
/// assert_eq!(at(0.5), [100.0, 67.0, 0.0, 0.0]); // critical, default, batch, best effort
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub enum Priority {
    /// Gives way last, from a pressure of 0.8 on.
    Critical,
    /// From 0.3 to 0.9.
    #[default]
    Default,
    /// From 0.1 to 0.5.
    Batch,
    /// From the first sign, and is gone at 0.3.
    BestEffort,
}

impl Priority {
    /// All of them, the most important first.
    pub const ALL: [Self; 4] = [Self::Critical, Self::Default, Self::Batch, Self::BestEffort];

    /// The share of a limit that is left for it at a pressure from 0 to 1.
    ///
    /// ```
    /// use tidegate_core::adaptive::Priority;
    ///
    /// assert_eq!(Priority::Critical.share(0.8), 1.0);
    /// assert_eq!(Priority::Default.share(0.9), 0.0);
    /// assert_eq!(Priority::BestEffort.share(0.3), 0.0);
    /// ```
    pub fn share(self, pressure: f64) -> f64 {
        let (from, to) = match self {
            Self::Critical => (0.8, 1.0),
            Self::Default => (0.3, 0.9),
            Self::Batch => (0.1, 0.5),
            Self::BestEffort => (0.0, 0.3),
        };
        if pressure <= from {
            1.0
        } else if pressure < to {
            (to - pressure) / (to - from)
        } else {
            0.0
        }
    }

    /// How many places of an in-flight cap it may fill: a fifth is kept for what is critical.
    ///
    /// ```
    /// use tidegate_core::adaptive::Priority;
    ///
    /// assert_eq!(Priority::ALL.map(|class| class.places(32)), [32, 25, 25, 25]);
    /// assert_eq!(Priority::Batch.places(1), 1);
    /// ```
    pub fn places(self, cap: u64) -> u64 {
        match self {
            Self::Critical => cap,
            _ => whole(float(cap) * (1.0 - KEPT_FOR_CRITICAL)).max(cap.min(1)),
        }
    }
}
