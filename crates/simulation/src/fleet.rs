//! Many nodes, one store, and a network between them: one call per check, leases, and a naive cache.

mod arrivals;
mod meter;
mod strategies;
mod world;

use serde::Serialize;
use tidegate_core::{LeaseError, Limit, Terms};

use self::arrivals::Arrivals;
use self::meter::Meter;
use self::strategies::{Leased, Naive, Strict};
use self::world::{Strategy, World};
use crate::{StopFlag, micros};

/// What the command line asks for, in integers.
#[derive(Clone, Debug)]
pub struct FleetSettings {
    pub nodes: u64,
    pub keys: u64,
    pub demand_milli: u64,
    pub latency_us: u64,
    pub loss_ppm: u64,
    pub kills: u64,
    pub duration_us: u64,
    pub seed: u64,
}

impl FleetSettings {
    /// How many checks arrive, on average.
    pub fn checks(&self, limit: &Limit) -> u128 {
        let units = u128::from(limit.units()) * u128::from(self.demand_milli * self.keys);
        units * u128::from(self.duration_us) / limit.period().as_micros() / 1000
    }
}

/// One fleet with one strategy.
#[derive(Debug, Serialize)]
pub struct FleetRow {
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

/// Runs one fleet with each of the three strategies, on checks at random.
pub fn run(settings: &FleetSettings, limit: &Limit) -> Result<[FleetRow; 3], LeaseError> {
    let naive = Naive { every_us: micros(Terms::from_limits([limit])?.ttl()) };
    let (random, stop) = (|| arrivals::random(settings, limit), &StopFlag::default());
    let [strict, lease] = strict_and_leased(settings, limit, random, stop)?;
    Ok([strict, lease, simulate("naive", settings, (limit, limit), &naive, random(), stop)])
}

/// Runs one call per check, and leases, on the same given checks: µs since the start, and the node.
pub fn run_requests(
    settings: &FleetSettings,
    limit: &Limit,
    checks: &[(u64, usize)],
    stop: &StopFlag,
) -> Result<[FleetRow; 2], LeaseError> {
    strict_and_leased(settings, limit, || arrivals::given(checks, limit), stop)
}

fn strict_and_leased(
    settings: &FleetSettings,
    limit: &Limit,
    arrivals: impl Fn() -> Arrivals,
    stop: &StopFlag,
) -> Result<[FleetRow; 2], LeaseError> {
    let terms = Terms::from_limits([limit])?;
    let kept = limit.leased(terms.ttl())?;
    Ok([
        simulate("strict", settings, (limit, limit), &Strict, arrivals(), stop),
        simulate("lease", settings, (limit, &kept), &Leased(terms), arrivals(), stop),
    ])
}

fn simulate<S: Strategy>(
    way: &'static str,
    settings: &FleetSettings,
    limits: (&Limit, &Limit),
    strategy: &S,
    arrivals: Arrivals,
    stop: &StopFlag,
) -> FleetRow {
    let (meters, counters) = World::run(settings, limits, strategy, arrivals, stop);
    let admitted: u64 = meters.iter().map(Meter::admitted).sum();
    let steady = meters.iter().map(Meter::utilisation);
    let (used, usable) = steady.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    FleetRow {
        way,
        nodes: settings.nodes,
        offered: counters.offered,
        admitted,
        utilisation: ratio(used, usable),
        overshoot: meters.iter().map(Meter::overshoot).max().unwrap_or(0),
        calls: counters.calls,
        calls_per_admission: ratio(counters.calls, admitted),
        calls_per_second: ratio(counters.calls * 1_000_000, settings.duration_us),
        in_process: ratio(counters.in_process, counters.offered),
        units_lost: counters.charged.saturating_sub(admitted + counters.returned),
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
