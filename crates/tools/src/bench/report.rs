//! What was measured, for people and for programs.

mod ratio;
mod text;

use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;

use self::ratio::Ratios;
pub(super) use self::text::grouped;
use super::histogram::Histogram;
use super::plan::Plan;
use super::rounds::Measured;
use super::tally::Tally;
use tidegate_simulation::float;

#[derive(Debug, Serialize)]
pub(super) struct Report {
    door: &'static str,
    /// `closed`, or `open` with a rate.
    r#loop: &'static str,
    rate_per_second: Option<u32>,
    connections: u32,
    pipeline: u32,
    policy: String,
    cost: u32,
    keys: u32,
    distribution: &'static str,
    warm_up_seconds: f64,
    /// Whether somebody ended it early.
    stopped: bool,
    /// The server that was asked for, and then what it is compared with.
    servers: Vec<Row>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ratios: Option<Ratios>,
}

#[derive(Debug, Serialize)]
struct Row {
    name: String,
    requests: u64,
    seconds: f64,
    /// Decisions: an error is none.
    per_second: f64,
    allowed: u64,
    denied: u64,
    errors: u64,
    errors_by_kind: Vec<ErrorRow>,
    /// Open loop: due, and not sent before the end.
    unsent: u64,
    /// `null` if nothing was decided.
    latency_us: Option<Latency>,
    histogram: Vec<Bar>,
    /// Of the server that was started for the run.
    server_cpu_us_per_request: Option<f64>,
}

#[derive(Debug, Serialize)]
struct ErrorRow {
    kind: &'static str,
    count: u64,
    first: String,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Latency {
    min: f64,
    mean: f64,
    p50: f64,
    p90: f64,
    p99: f64,
    p99_9: f64,
    max: f64,
}

/// How many took so long.
#[derive(Clone, Copy, Debug, Serialize)]
struct Bar {
    from_us: f64,
    to_us: f64,
    count: u64,
}

impl Report {
    pub(super) fn new(plan: &Plan, measured: &[Measured], stopped: bool) -> Self {
        Self {
            door: plan.door.name(),
            r#loop: if plan.stretch.rate.is_some() { "open" } else { "closed" },
            rate_per_second: plan.stretch.rate,
            connections: plan.connections,
            pipeline: plan.pipeline,
            policy: plan.question.policy.clone(),
            cost: plan.question.cost,
            keys: plan.key_count,
            distribution: plan.distribution.name(),
            warm_up_seconds: plan.warm_up.as_secs_f64(),
            stopped,
            servers: measured.iter().map(Row::of).collect(),
            ratios: match measured {
                [ours, theirs] => Ratios::of(&ours.rounds, &theirs.rounds),
                _ => None,
            },
        }
    }

    pub(super) fn has_errors(&self) -> bool {
        self.servers.iter().any(|row| row.errors > 0)
    }

    pub(super) fn json(&self, out: &mut Vec<u8>) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        out.write_all(b"\n")
    }
}

impl Row {
    fn of(measured: &Measured) -> Self {
        let mut tally = Tally::default();
        measured.rounds.iter().for_each(|round| tally.merge(&round.outcome.tally));
        let took: Duration = measured.rounds.iter().map(|round| round.outcome.took).sum();
        let cpu: Option<Duration> = measured.rounds.iter().map(|round| round.cpu).sum();
        let (requests, seconds) = (tally.requests(), took.as_secs_f64());
        let error = |(kind, (count, first)): (&super::door::Kind, &(u64, String))| ErrorRow {
            kind: kind.name(),
            count: *count,
            first: first.clone(),
        };
        Self {
            name: measured.name.clone(),
            requests,
            seconds,
            per_second: float(tally.times.count()) / seconds,
            allowed: tally.allowed,
            denied: tally.denied,
            errors: tally.errors(),
            errors_by_kind: tally.errors.iter().map(error).collect(),
            unsent: measured.rounds.iter().map(|round| round.outcome.unsent).sum(),
            latency_us: Latency::of(&tally.times),
            histogram: bars(&tally.times),
            server_cpu_us_per_request: cpu
                .filter(|_| requests > 0)
                .map(|cpu| cpu.as_secs_f64() * 1e6 / float(requests)),
        }
    }
}

fn us(ns: u64) -> f64 {
    float(ns) / 1000.0
}

impl Latency {
    fn of(times: &Histogram) -> Option<Self> {
        let (min, max) = times.ends_ns()?;
        let at = |permille| times.quantile_ns(permille).map(us);
        Some(Self {
            min: us(min),
            mean: us(times.mean_ns()?),
            p50: at(500)?,
            p90: at(900)?,
            p99: at(990)?,
            p99_9: at(999)?,
            max: us(max),
        })
    }
}

/// In steps of 1, 2, 5, 10 and so on, from the shortest to the longest.
fn bars(times: &Histogram) -> Vec<Bar> {
    // The last is beyond the longest that is told apart.
    let edges = (0..13).flat_map(|power| [1, 2, 5].map(|digit| digit * 10_u64.pow(power)));
    let edges: Vec<u64> = std::iter::once(0).chain(edges).collect();
    let bar = |pair: &[u64]| Bar {
        from_us: us(pair[0]),
        to_us: us(pair[1]),
        count: times.between(pair[0], pair[1]),
    };
    let bars: Vec<Bar> = edges.windows(2).map(bar).collect();
    let first = bars.iter().position(|bar| bar.count > 0);
    let last = bars.iter().rposition(|bar| bar.count > 0);
    let (Some(first), Some(last)) = (first, last) else { return Vec::new() };
    bars[first..=last].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bars_hold_everything() {
        let mut times = Histogram::default();
        for ns in [0, 1, 17, 1_500, 90_000, 90_001, 3_000_000_000, u64::MAX] {
            times.add(ns, 3);
        }
        let bars = bars(&times);
        assert_eq!(bars.iter().map(|bar| bar.count).sum::<u64>(), times.count());
        assert!(bars.windows(2).all(|pair| pair[0].to_us.to_bits() == pair[1].from_us.to_bits()));
        assert!(super::bars(&Histogram::default()).is_empty());
    }
}
