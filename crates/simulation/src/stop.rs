//! A run that its caller can end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Ends a run early. Every loop of an experiment and of a replay reads it. A stopped run returns at once; its report
/// covers a part of the work, and whoever stopped it discards it.
#[derive(Clone, Debug, Default)]
pub struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The items up to where the run is stopped.
    pub(crate) fn until<I: IntoIterator>(&self, items: I) -> impl Iterator<Item = I::Item> {
        items.into_iter().take_while(|_| !self.is_stopped())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms::Algorithms;
    use crate::boundary::Boundary;
    use crate::clock_skew::ClockSkew;
    use crate::overload::{self, Overload};
    use crate::race::Race;
    use crate::sync_lag::SyncLag;
    use crate::{Experiment, float};

    #[test]
    fn a_stopped_experiment_decides_nothing() {
        let stop = &StopFlag::default();
        stop.stop();
        let algorithms = Algorithms::default().run_until(stop).unwrap().algorithms;
        assert!(algorithms.iter().all(|row| row.admitted == 0), "{algorithms:?}");
        let boundary = Boundary::default().run_until(stop).unwrap().algorithms;
        assert!(boundary.iter().all(|row| row.first + row.second == 0), "{boundary:?}");
        let clocks = ClockSkew::default().run_until(stop).unwrap().algorithms;
        assert!(clocks.iter().all(|row| row.store_clock.admitted == 0), "{clocks:?}");
        let race = Race::default().run_until(stop).unwrap().ways;
        assert!(race.iter().all(|way| way.runs_by_over_limit.iter().all(|runs| *runs == 0)));
        let lag = SyncLag::default().run_until(stop).unwrap().ways;
        assert!(lag.iter().all(|way| way.admitted == 0), "{lag:?}");
        let all = Overload { seeds: 2, ..Overload::default() };
        let report = overload::run(&all, 1, stop, |_, _| {}).unwrap();
        let rows = report.scenarios.iter().flat_map(|scenario| &scenario.controllers);
        assert!(rows.fold(0.0, |sum, row| sum + row.goodput) < float(1));
    }
}
