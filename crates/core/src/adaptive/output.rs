//! What a step says.

use super::number::units;
use super::{Mode, Priority};

/// What is in force from now on. Small, and read by whoever decides.
///
/// ```
/// use tidegate_core::Timestamp;
/// use tidegate_core::adaptive::{Chain, Controller, Reading, Settings};
///
/// let settings = Settings::of([Chain::cpu(), Chain::pressure("db")])?.guard(10_000)?;
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
    /// The worst pressure of all chains, from 0, well, to 1.
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
    /// What is in force for a key that has a limit of its own.
    ///
    /// ```
    /// # use tidegate_core::Timestamp;
    /// # use tidegate_core::adaptive::{Chain, Controller, Reading, Settings};
    /// let mut controller = Controller::new(Settings::of([Chain::pressure("db")])?, 100)?;
    /// let output = controller.step(&[Reading::Value(0.3)], Timestamp::EPOCH);
    /// assert_eq!((output.limit, output.of(5000)), (70, 3500));
    /// # Ok::<(), tidegate_core::adaptive::AdaptiveError>(())
    /// ```
    pub fn of(&self, limit: u64) -> u64 {
        self.enforced(units(self.share, limit, self.floor), limit)
    }

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
    /// let mut controller = Controller::new(Settings::of([Chain::pressure("db")])?, 100)?;
    /// let output = controller.step(&[Reading::Value(0.3)], Timestamp::EPOCH);
    /// let left = Priority::ALL.map(|class| output.of_priority(class, 100));
    /// assert_eq!(left, [100, 100, 50, 1]);
    /// # Ok::<(), tidegate_core::adaptive::AdaptiveError>(())
    /// ```
    pub fn of_priority(&self, priority: Priority, limit: u64) -> u64 {
        self.enforced(self.computed_of_priority(priority, limit), limit)
    }

    /// What it would be if it were enforced.
    ///
    /// ```
    /// # use tidegate_core::Timestamp;
    /// # use tidegate_core::adaptive::{Chain, Controller, Mode, Priority, Reading, Settings};
    /// let settings = Settings::of([Chain::pressure("db")])?.mode(Mode::Shadow);
    /// let output = Controller::new(settings, 100)?.step(&[Reading::Value(0.3)], Timestamp::EPOCH);
    /// assert_eq!(output.of_priority(Priority::Batch, 100), 100);
    /// assert_eq!(output.computed_of_priority(Priority::Batch, 100), 50);
    /// # Ok::<(), tidegate_core::adaptive::AdaptiveError>(())
    /// ```
    pub fn computed_of_priority(&self, priority: Priority, limit: u64) -> u64 {
        units(priority.share(self.pressure).min(self.ceiling), limit, self.floor)
    }

    fn enforced(&self, computed: u64, limit: u64) -> u64 {
        match self.mode {
            Mode::Enforce => computed,
            Mode::Off | Mode::Shadow => limit,
        }
    }
}
