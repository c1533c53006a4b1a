//! Admissions and denials over time, in a bounded number of steps: the longer the log, the longer each step.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde::Serialize;

/// The most steps that a picture can show.
const STEPS_MAX: u64 = 120;
/// Most logs have whole seconds.
const FIRST_STEP_US: u64 = 1_000_000;

/// Counts by steps that double whenever there would be too many of them.
pub(super) struct Timeline {
    step_us: u64,
    /// By the number of the step since 1970, without empty ones.
    steps: BTreeMap<u64, Step>,
}

/// What was decided within one step.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize)]
pub(super) struct Step {
    pub admitted: u64,
    pub denied: u64,
}

/// Steps of equal length, with empty ones.
#[derive(Debug, Default, Serialize)]
pub struct TimelineSteps {
    /// Where the first begins, since 1970.
    from_ms: u64,
    step_ms: u64,
    steps: Vec<Step>,
}

impl Step {
    const fn add(&mut self, other: Self) {
        self.admitted += other.admitted;
        self.denied += other.denied;
    }
}

impl Default for Timeline {
    fn default() -> Self {
        Self { step_us: FIRST_STEP_US, steps: BTreeMap::new() }
    }
}

impl Timeline {
    pub(super) fn add(&mut self, at_us: u64, denied: bool) {
        let now = Step { admitted: u64::from(!denied), denied: u64::from(denied) };
        match self.steps.entry(at_us / self.step_us) {
            Entry::Occupied(mut step) => step.get_mut().add(now),
            Entry::Vacant(step) => {
                step.insert(now);
                while self.count() > STEPS_MAX {
                    self.double();
                }
            }
        }
    }

    /// From the first to the last.
    fn count(&self) -> u64 {
        let ends = self.steps.first_key_value().zip(self.steps.last_key_value());
        ends.map_or(0, |((first, _), (last, _))| last - first + 1)
    }

    fn double(&mut self) {
        self.step_us = self.step_us.saturating_mul(2);
        for (number, step) in std::mem::take(&mut self.steps) {
            self.steps.entry(number / 2).or_default().add(step);
        }
    }

    pub(super) fn steps(&self) -> TimelineSteps {
        let Some((&first, _)) = self.steps.first_key_value() else {
            return TimelineSteps::default();
        };
        let step = |number| self.steps.get(&number).copied().unwrap_or_default();
        TimelineSteps {
            from_ms: first.saturating_mul(self.step_us) / 1000,
            step_ms: self.step_us / 1000,
            steps: (first..first + self.count()).map(step).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn seconds_stay_seconds_while_there_is_room_for_them() {
        let mut timeline = Timeline::default();
        for (second, denied) in [(5, false), (7, true), (5, true), (6, false)] {
            timeline.add(second * 1_000_000 + 3, denied);
        }
        let TimelineSteps { from_ms, step_ms, steps } = timeline.steps();
        let step = |admitted, denied| Step { admitted, denied };
        assert_eq!((from_ms, step_ms), (5000, 1000));
        assert_eq!(steps, [step(1, 1), step(1, 0), step(0, 1)]);
        assert_eq!(Timeline::default().steps().steps, []);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_no_log_has_too_many_steps(
            events in proptest::collection::vec((any::<u64>(), any::<bool>()), 1..200),
        ) {
            let mut timeline = Timeline::default();
            for &(at_us, denied) in &events {
                timeline.add(at_us, denied);
            }
            let timeline = timeline.steps();
            prop_assert!(timeline.steps.len() as u64 <= STEPS_MAX);
            let denied = events.iter().filter(|(_, denied)| *denied).count() as u64;
            prop_assert_eq!(timeline.steps.iter().map(|step| step.denied).sum::<u64>(), denied);
            let admitted = events.len() as u64 - denied;
            prop_assert_eq!(timeline.steps.iter().map(|step| step.admitted).sum::<u64>(), admitted);
        }
    }
}
