//! The output of a step: what is in force, for each priority.

use super::Mode;
use super::number::units;
use super::number::{float, whole};

/// What is in force from now on: small, so that every decision can read it.
///
/// ```
/// use tidegate_core::Timestamp;
/// use tidegate_core::adaptive::{Chain, Controller, Reading, Settings};
///
/// let settings = Settings::from_chains([Chain::cpu(), Chain::pressure("db")])?.guard(10_000)?;
/// let mut controller = Controller::new(settings, 100)?;
/// let output = controller.step(&[Reading::Value(0.5), Reading::Value(0.3)], Timestamp::EPOCH);
/// assert_eq!((output.limit, output.computed, output.pressure), (70, 70, 0.3));
/// assert_eq!((output.share, output.binding), (0.7, Some(1))); // the second chain
/// assert_eq!((output.guard, output.version), (Some(7000), 1));
/// assert!(!output.is_warming && !output.is_stale);
/// # Ok::<(), tidegate_core::adaptive::AdaptiveError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Output {
    /// The limit in force: at least the floor, at most the limit as it was declared.
    pub limit: u64,
    /// What it would be if it were enforced: differs from `limit` in shadow mode only.
    pub computed: u64,
    /// The share of the limit that was computed, from 0 to 1, before it was made whole.
    pub share: f64,
    /// The highest pressure of all chains: 0 healthy, 1 overloaded.
    pub pressure: f64,
    /// Which chain binds, if any takes something away.
    pub binding: Option<usize>,
    /// Whether it is a warm-up that binds.
    pub is_warming: bool,
    /// Whether a signal has been missing for so long that nothing opens.
    pub is_stale: bool,
    /// What all keys together may have, where a guard was set.
    pub guard: Option<u64>,
    /// How many steps it took.
    pub version: u64,
    pub(super) mode: Mode,
    pub(super) floor: u64,
    /// The most that a warm-up leaves.
    pub(super) ceiling: f64,
}

impl Output {
    /// Whether what was computed counts.
    ///
    /// ```
    /// # use tidegate_core::adaptive::{Controller, Mode, Settings};
    /// let shadow = Controller::new(Settings::default().mode(Mode::Shadow), 100)?;
    /// assert_eq!(shadow.output().mode(), Mode::Shadow);
    /// # Ok::<(), tidegate_core::adaptive::AdaptiveError>(())
    /// ```
    pub const fn mode(&self) -> Mode {
        self.mode
    }

    /// What is in force for requests of this priority, of a limit.
    ///
    /// ```
    /// # use tidegate_core::Timestamp;
    /// # use tidegate_core::adaptive::{Chain, Controller, Priority, Reading, Settings};
    /// let mut controller = Controller::new(Settings::from_chains([Chain::pressure("db")])?, 100)?;
    /// let output = controller.step(&[Reading::Value(0.3)], Timestamp::EPOCH);
    /// let left = Priority::ALL.map(|class| output.for_priority(class, 100));
    /// assert_eq!(left, [100, 100, 50, 1]);
    /// # Ok::<(), tidegate_core::adaptive::AdaptiveError>(())
    /// ```
    pub fn for_priority(&self, priority: Priority, limit: u64) -> u64 {
        self.enforced(self.computed_for_priority(priority, limit), limit)
    }

    /// What it would be if it were enforced.
    ///
    /// ```
    /// # use tidegate_core::Timestamp;
    /// # use tidegate_core::adaptive::{Chain, Controller, Mode, Priority, Reading, Settings};
    /// let settings = Settings::from_chains([Chain::pressure("db")])?.mode(Mode::Shadow);
    /// let output = Controller::new(settings, 100)?.step(&[Reading::Value(0.3)], Timestamp::EPOCH);
    /// assert_eq!(output.for_priority(Priority::Batch, 100), 100);
    /// assert_eq!(output.computed_for_priority(Priority::Batch, 100), 50);
    /// # Ok::<(), tidegate_core::adaptive::AdaptiveError>(())
    /// ```
    pub fn computed_for_priority(&self, priority: Priority, limit: u64) -> u64 {
        units(priority.share(self.pressure).min(self.ceiling), limit, self.floor)
    }

    fn enforced(&self, computed: u64, limit: u64) -> u64 {
        match self.mode {
            Mode::Enforce => computed,
            Mode::Off | Mode::Shadow => limit,
        }
    }
}

/// The share of an in-flight cap that is reserved for critical requests.
const RESERVED_FOR_CRITICAL: f64 = 0.2;

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
    /// From 0 to 0.3.
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

    /// How many slots of an in-flight cap requests of this priority may take: a fifth is reserved for critical ones.
    ///
    /// ```
    /// use tidegate_core::adaptive::Priority;
    ///
    /// assert_eq!(Priority::ALL.map(|class| class.slots(32)), [32, 25, 25, 25]);
    /// assert_eq!(Priority::Batch.slots(1), 1);
    /// ```
    pub fn slots(self, cap: u64) -> u64 {
        match self {
            Self::Critical => cap,
            _ => whole(float(cap) * (1.0 - RESERVED_FOR_CRITICAL)).max(cap.min(1)),
        }
    }
}
