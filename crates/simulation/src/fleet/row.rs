//! What a fleet did, in one way.

use serde::Serialize;

use super::meter::Meter;
use super::setting::{Setting, Tally};

/// One fleet in one way.
#[derive(Debug, Serialize)]
pub struct Row {
    pub way: &'static str,
    pub nodes: u64,
    pub offered: u64,
    pub admitted: u64,
    pub utilisation: f64,
    pub overshoot: u64,
    pub calls: u64,
    pub calls_per_admission: f64,
    pub calls_per_second: f64,
    pub in_process: f64,
    pub units_lost: u64,
}

impl Row {
    pub(super) fn new(
        way: &'static str,
        setting: &Setting,
        meters: &[Meter],
        tally: &Tally,
    ) -> Self {
        let admitted: u64 = meters.iter().map(Meter::admitted).sum();
        let steady = meters.iter().map(Meter::utilisation);
        let (used, usable) = steady.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let used_up = admitted + tally.returned;
        Self {
            way,
            nodes: setting.nodes,
            offered: tally.offered,
            admitted,
            utilisation: ratio(used, usable),
            overshoot: meters.iter().map(Meter::overshoot).max().unwrap_or(0),
            calls: tally.calls,
            calls_per_admission: ratio(tally.calls, admitted),
            calls_per_second: ratio(tally.calls * 1_000_000, setting.duration_us),
            in_process: ratio(tally.in_process, tally.offered),
            units_lost: tally.charged.saturating_sub(used_up),
        }
    }
}

/// To four decimals, so that it prints the same everywhere.
pub fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        return 0.0;
    }
    let tenths_of_thousandths = u128::from(part) * 10_000 / u128::from(whole);
    u32::try_from(tenths_of_thousandths).map_or(f64::INFINITY, f64::from) / 10_000.0
}
