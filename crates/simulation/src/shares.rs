//! Tenants that contend for one limit: served first come first served, by fixed parts, and by fair shares.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tidegate::{Check, Engine, Key, ManualClock, MemoryStore, Op, Policy, Share};
use tidegate_core::Limit;
use tidegate_core::share::{Demand, Level};

use crate::experiment::{InputError, experiment};
use crate::rng::Rng;
use crate::{StopFlag, float, index};

/// Of all tenants together, in one scenario: three ways decide them in about a second.
const MAX_REQUESTS: u64 = 500_000;
const SECOND_US: u64 = 1_000_000;
/// The second in which tenants begin to contend, and the one from which on shares are looked at.
const CONTENDED: u64 = 1;
const SETTLED: u64 = 2;
/// The time in which shares settle is measured in these.
const SLOT_US: u64 = 250_000;
/// The plan that counts more, and its weight.
const GOLD: (&str, u32) = ("gold", 4);

experiment! {
    Shares -> SharesReport {
        /// The quiet tenants, which together ask for half of the limit.
        tenants: 10 in 1..=500,
        /// Units a second, for all of them.
        limit: 1000 in 100..=10_000,
        /// How many times as much as a quiet tenant the loud one asks for.
        loud: 100 in 1..=10_000,
        /// Nodes on one store, in the scenario `fleet`.
        nodes: 4 in 2..=16,
        seconds: 6 in 4..=20,
        seed: 1,
    }
}

#[derive(Debug, Serialize)]
pub struct SharesReport {
    #[serde(flatten)]
    pub input: Shares,
    pub scenarios: Vec<Scenario>,
}

#[derive(Debug, Serialize)]
pub struct Scenario {
    pub scenario: &'static str,
    pub ways: [SharesRow; 3],
}

#[derive(Debug, Serialize)]
pub struct SharesRow {
    pub way: &'static str,
    /// What the tenant that got the least of its fair share got of it, from a second after the tenants began to contend.
    pub least_percent: f64,
    /// What the tenant that got the most got.
    pub most_percent: f64,
    /// What was admitted of the limit from then on.
    pub used_percent: f64,
    /// How long it took until each kind of tenants, but made-up ones, got four fifths of what it is due, or asked for, in
    /// every quarter of a second that followed; `None` if it never did.
    pub settled_ms: Option<u64>,
    /// What was admitted beyond burst and rate: nothing, where the limit is exact.
    pub over_limit: u64,
}

/// A kind of tenants.
#[derive(Clone, Copy)]
struct Kind {
    count: u64,
    /// Of each of them, per second.
    rate: u64,
    plan: (&'static str, u32),
    /// The second in which they begin.
    since: u64,
    names: Names,
}

/// How long a tenant goes by one name.
#[derive(Clone, Copy)]
enum Names {
    Always,
    /// Others come in their place each second.
    Second,
    /// Each request has a name of its own.
    Request,
}

impl Names {
    /// Which of its names a tenant has.
    const fn at(self, at_us: u64, request: usize) -> u64 {
        match self {
            Self::Always => 0,
            Self::Second => at_us / SECOND_US,
            Self::Request => request as u64,
        }
    }
}

/// A request: when, and of which tenant.
type Arrival = (u64, usize);

struct Requests {
    kinds: Vec<Kind>,
    nodes: u64,
    /// Sorted.
    arrivals: Vec<Arrival>,
}

const WAYS: [&str; 3] = ["one limit", "fixed parts", "shares"];

fn simulate(input: &Shares, stop: &StopFlag) -> Result<SharesReport, InputError> {
    let &Shares { tenants, limit, loud, nodes, .. } = input;
    let quiet_rate = (limit / 2 / tenants).max(1);
    let quiet =
        Kind { count: tenants, rate: quiet_rate, plan: ("", 1), since: 0, names: Names::Always };
    let hog = Kind { count: 1, rate: quiet_rate.saturating_mul(loud), since: CONTENDED, ..quiet };
    let gold = Kind { count: 2, rate: limit * 2, plan: GOLD, since: CONTENDED, ..quiet };
    let plain = Kind { plan: ("", 1), ..gold };
    let scenarios: [(&'static str, Vec<Kind>, u64); 5] = [
        ("one is loud", vec![quiet, hog], 1),
        ("weights 4:1", vec![gold, plain], 1),
        ("come and go", vec![Kind { names: Names::Second, ..quiet }, hog], 1),
        ("made-up names", vec![quiet, Kind { names: Names::Request, ..hog }], 1),
        ("fleet", vec![quiet, hog], nodes),
    ];
    let mut report = SharesReport { input: *input, scenarios: Vec::new() };
    for (name, kinds, nodes) in scenarios {
        let asked: u64 = kinds.iter().map(|kind| kind.count * kind.rate).sum();
        if asked * input.seconds > MAX_REQUESTS {
            let expected = format!("at most {MAX_REQUESTS} requests of all tenants together");
            return Err(InputError::new("loud", expected));
        }
        let requests = Requests::new(kinds, nodes, input);
        let mut ways = Vec::new();
        for way in WAYS {
            ways.push(SharesRow::new(way, input, &requests, stop)?);
        }
        if let Ok(ways) = ways.try_into() {
            report.scenarios.push(Scenario { scenario: name, ways });
        }
    }
    Ok(report)
}

impl Requests {
    /// Each tenant's requests come at random, at its rate.
    fn new(kinds: Vec<Kind>, nodes: u64, input: &Shares) -> Self {
        let mut arrivals = Vec::new();
        let (mut tenant, end_us) = (0, input.seconds * SECOND_US);
        for kind in &kinds {
            for _ in 0..kind.count {
                let mut rng = Rng::new(input.seed, tenant as u64);
                let mut at = (kind.since << 32) + rng.exponential() / kind.rate;
                // In units of 2^−32 s.
                while let at_us = (u128::from(at) * u128::from(SECOND_US)) >> 32
                    && at_us < u128::from(end_us)
                {
                    arrivals.push((u64::try_from(at_us).unwrap_or(end_us), tenant));
                    at += rng.exponential() / kind.rate;
                }
                tenant += 1;
            }
        }
        arrivals.sort_unstable();
        Self { kinds, nodes, arrivals }
    }

    /// The kind of each tenant, and its number.
    fn tenants(&self) -> impl Iterator<Item = (usize, Kind)> {
        let kinds = self.kinds.iter().enumerate();
        kinds.flat_map(|(number, kind)| (0..kind.count).map(move |_| (number, *kind)))
    }

    /// What each tenant may use in a second, whether it asks for that or not.
    fn fair(&self, limit: u64) -> Vec<f64> {
        let demand = |(_, kind): (_, Kind)| Demand { units: kind.rate, weight: kind.plan.1 };
        let level = Level::find(self.tenants().map(demand), limit).map(|level| level.fraction());
        let fair = |(_, kind): (_, Kind)| match level {
            Some((units, weights)) => float(units) * f64::from(kind.plan.1) / float(weights),
            None => float(limit),
        };
        self.tenants().map(fair).collect()
    }
}

impl SharesRow {
    fn new(
        way: &'static str,
        input: &Shares,
        requests: &Requests,
        stop: &StopFlag,
    ) -> Result<Self, InputError> {
        let clock = ManualClock::default();
        let engines = engines(way, input, requests, &clock)?;
        let tenants: Vec<(usize, Kind)> = requests.tenants().collect();
        let mut meter = Meter::new(input, requests);
        let mut now_us = 0;
        for (count, &(at_us, tenant)) in stop.until(&requests.arrivals).enumerate() {
            clock.advance(Duration::from_micros(at_us - std::mem::replace(&mut now_us, at_us)));
            let (kind, Kind { plan: (plan, _), names, .. }) = tenants[tenant];
            let name = format!("{tenant} {}", names.at(at_us, count));
            let keys = [("tenant", name.as_bytes()), ("plan", plan.as_bytes())];
            let check = Check { policy: "api", key: Key::Named(&keys), cost: 1 };
            let answer = engines[count % engines.len()].ask(&check, Op::Take).now();
            let allowed = answer.is_ok_and(|answer| answer.decision.allowed());
            meter.note(at_us, tenant, kind, allowed);
        }
        Ok(meter.row(way))
    }
}

/// What was asked for and admitted in one run.
struct Meter {
    limit: u64,
    seconds: u64,
    /// Once shares have settled, by tenant: due at most in a second, asked for, admitted.
    tenants: Vec<(f64, u64, u64)>,
    /// By kind and quarter of a second: asked for, due at most, admitted.
    slots: Vec<Vec<(u64, f64, u64)>>,
    admitted: u64,
    over_limit: u64,
}

impl Meter {
    fn new(input: &Shares, requests: &Requests) -> Self {
        let fair = requests.fair(input.limit);
        let count = index(input.seconds * SECOND_US / SLOT_US);
        let slots = |kind: usize| {
            let tenants = requests.tenants().zip(&fair).filter(|((it, _), _)| *it == kind);
            // Nobody is owed the part of a flood in each quarter: it gets what the others leave.
            let is_owed = |kind: &Kind| !matches!(kind.names, Names::Request);
            let due = tenants.filter(|((_, kind), _)| is_owed(kind)).map(|(_, fair)| fair);
            let due: f64 = due.sum();
            vec![(0, due * float(SLOT_US) / float(SECOND_US), 0); count]
        };
        Self {
            limit: input.limit,
            seconds: input.seconds,
            slots: (0..requests.kinds.len()).map(slots).collect(),
            tenants: fair.into_iter().map(|fair| (fair, 0, 0)).collect(),
            admitted: 0,
            over_limit: 0,
        }
    }

    fn note(&mut self, at_us: u64, tenant: usize, kind: usize, allowed: bool) {
        let allowed = u64::from(allowed);
        self.admitted += allowed;
        // Whole units of which the first is there at the start.
        let most = self.limit + 1 + self.limit * at_us / SECOND_US;
        self.over_limit = self.over_limit.max(self.admitted.saturating_sub(most));
        let (asked, _, admitted) = &mut self.slots[kind][index(at_us / SLOT_US)];
        (*asked, *admitted) = (*asked + 1, *admitted + allowed);
        if at_us >= SETTLED * SECOND_US {
            let (_, asked, admitted) = &mut self.tenants[tenant];
            (*asked, *admitted) = (*asked + 1, *admitted + allowed);
        }
    }

    fn row(self, way: &'static str) -> SharesRow {
        let seconds = float(self.seconds - SETTLED);
        let part = |&(fair, asked, got): &(f64, u64, u64)| {
            float(got) * 100.0 / (fair * seconds).min(float(asked)).max(1.0)
        };
        let parts = || self.tenants.iter().map(part);
        let later: u64 = self.tenants.iter().map(|(_, _, got)| got).sum();
        let is_short =
            |&(asked, due, got): &(u64, f64, u64)| float(got) < 0.8 * due.min(float(asked));
        let settled = self.slots.iter().map(|slots| slots.iter().rposition(is_short));
        let settled = settled.map(|last| last.map_or(0, |slot| slot + 1)).max().unwrap_or(0);
        let count = self.slots.first().map_or(0, Vec::len);
        SharesRow {
            way,
            least_percent: parts().fold(f64::MAX, f64::min),
            most_percent: parts().fold(0.0, f64::max),
            used_percent: float(later) * 100.0 / (float(self.limit) * seconds),
            settled_ms: (settled < count)
                .then(|| (settled as u64 * SLOT_US).saturating_sub(CONTENDED * SECOND_US) / 1000),
            over_limit: self.over_limit,
        }
    }
}

/// The nodes, on one store.
fn engines(
    way: &str,
    input: &Shares,
    requests: &Requests,
    clock: &ManualClock,
) -> Result<Vec<Engine<ManualClock>>, InputError> {
    let whole = format!("{}/s", input.limit).parse::<Limit>()?;
    let total = || Policy::all().limit_by("total", "global", whole.clone());
    let policy = match way {
        "one limit" => total(),
        "fixed parts" => {
            let tenants = u32::try_from(requests.tenants().count()).ok().and_then(NonZeroU32::new);
            let part = whole.share(tenants.unwrap_or(NonZeroU32::MIN));
            total().limit_by("part", "tenant", part)
        }
        _ => Policy::share(Share::of("total", "tenant").weights("plan", [GOLD], 1)),
    };
    let store = Arc::new(MemoryStore::default());
    let nodes = u32::try_from(requests.nodes).ok().and_then(NonZeroU32::new);
    let nodes = nodes.unwrap_or(NonZeroU32::MIN);
    let node = |_| {
        let engine = Engine::builder().store(store.clone()).clock(clock.clone()).nodes(nodes);
        let engine = engine.policy("total", total()).policy("api", policy.clone()).build();
        engine.map_err(|error| InputError::new("limit", error.to_string()))
    };
    (0..nodes.get()).map(node).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Experiment;

    #[test]
    fn shares_are_fair_within_a_second_and_the_limit_stays_exact() {
        for seed in 1..=5 {
            let report = Shares { seed, ..Shares::default() }.run().unwrap();
            for Scenario { scenario, ways: [one, parts, shares] } in &report.scenarios {
                let all = format!("{scenario} with seed {seed}: {one:?} {parts:?} {shares:?}");
                assert!([one, parts, shares].iter().all(|way| way.over_limit == 0), "{all}");
                assert!(shares.least_percent >= 90.0 && shares.used_percent >= 95.0, "{all}");
                assert!(shares.settled_ms.is_some_and(|ms| ms <= 1_000), "{all}");
                // The others are not: so the figures can tell.
                assert!(one.least_percent < 70.0 && one.settled_ms.is_none(), "{all}");
                assert!(parts.used_percent < 75.0 || parts.least_percent < 70.0, "{all}");
            }
        }
    }

    #[test]
    fn the_same_seed_is_the_same_run() {
        let run = || serde_json::to_string(&Shares::default().run().unwrap()).unwrap();
        assert_eq!(run(), run());
    }

    #[test]
    fn parameters_out_of_bounds_are_refused() {
        let valid = Shares::default();
        for (input, field) in [
            (Shares { tenants: 0, ..valid }, "tenants"),
            (Shares { limit: 10_001, ..valid }, "limit"),
            (Shares { nodes: 1, ..valid }, "nodes"),
            (Shares { seconds: 3, ..valid }, "seconds"),
            (Shares { loud: 10_000, ..valid }, "loud"),
        ] {
            assert_eq!(input.run().unwrap_err().field, field, "{input:?}");
        }
        Shares { tenants: 500, limit: 100, ..valid }.run().unwrap();
    }
}
