//! The baseline latency of a target, without queueing: the 10th percentile of five healthy minutes.

use std::collections::VecDeque;

/// Five minutes of ticks. Only those with enough traffic for a median, so that a quiet night does not erase it.
const TICKS: usize = 300;

/// The latency of a target without queueing.
#[derive(Clone, PartialEq, Default, Debug)]
pub(super) struct Baseline {
    well: VecDeque<f64>,
    pub(super) ms: Option<f64>,
}

impl Baseline {
    /// Records the median of a tick. While there is pressure the baseline can only fall: waits of a long overload must not
    /// raise it.
    pub(super) fn note(&mut self, median_ms: f64, pressure: f64) -> f64 {
        let before = self.ms.unwrap_or(median_ms);
        if pressure > 0.0 && median_ms >= before {
            return before;
        }
        if self.well.len() == TICKS {
            self.well.pop_front();
        }
        self.well.push_back(median_ms);
        let tenth = self.tenth().unwrap_or(median_ms);
        let now = if pressure > 0.0 { tenth.min(before) } else { tenth };
        self.ms = Some(now);
        now
    }

    fn tenth(&self) -> Option<f64> {
        let mut sorted: Vec<f64> = self.well.iter().copied().collect();
        let rank = sorted.len() / 10;
        (rank < sorted.len()).then(|| *sorted.select_nth_unstable_by(rank, f64::total_cmp).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_never_becomes_the_measure() {
        let mut baseline = Baseline::default();
        assert!((baseline.note(30.0, 0.0) - 30.0).abs() < 1e-9);
        for _ in 0..1000 {
            assert!((baseline.note(300.0, 0.5) - 30.0).abs() < 1e-9);
        }
        assert!(baseline.note(10.0, 0.5) < 30.0, "it may fall");
    }

    fn well(baseline: &mut Baseline, median_ms: f64, ticks: usize) {
        for _ in 0..ticks {
            baseline.note(median_ms, 0.0);
        }
    }

    #[test]
    fn a_slower_target_that_is_well_is_learnt_in_five_minutes() {
        let mut baseline = Baseline::default();
        well(&mut baseline, 30.0, 300);
        well(&mut baseline, 40.0, 269);
        assert_eq!(baseline.ms, Some(30.0));
        well(&mut baseline, 40.0, 2);
        assert_eq!(baseline.ms, Some(40.0));
    }
}
