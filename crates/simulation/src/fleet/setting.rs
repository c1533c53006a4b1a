//! What a fleet is given, and what is counted of it.

use tidegate_core::Limit;

/// What was chosen on the command line, in integers.
#[derive(Clone, Debug)]
pub struct Setting {
    pub nodes: u64,
    pub keys: u64,
    pub demand_milli: u64,
    pub latency_us: u64,
    pub loss_ppm: u64,
    pub kills: u64,
    pub duration_us: u64,
    pub seed: u64,
}

impl Setting {
    /// How many checks come, on average.
    pub fn checks(&self, limit: &Limit) -> u128 {
        let units = u128::from(limit.units()) * u128::from(self.demand_milli * self.keys);
        units * u128::from(self.duration_us) / limit.period().as_micros() / 1000
    }
}

/// What was counted, beside what was admitted.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) offered: u64,
    pub(super) calls: u64,
    pub(super) in_process: u64,
    /// Units charged at the store, and given back to it.
    pub(super) charged: u64,
    pub(super) returned: u64,
}
