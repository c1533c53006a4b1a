//! The measured figures.

mod ratio;
mod text;

use std::time::Duration;

use serde::Serialize;

use self::ratio::Ratios;
use super::config::BenchConfig;
use super::error::ErrorKind;
use super::rounds::Contender;
use super::stats::{Latencies, Stats};
use crate::output::value_name;
use tidegate_simulation::float;

#[derive(Debug, Serialize)]
pub(super) struct BenchReport {
    door: String,
    /// `closed`, or `open` with a rate.
    r#loop: &'static str,
    rate_per_second: Option<u32>,
    connections: u32,
    pipeline: u32,
    /// `null` if the routes of the server choose it.
    policy: Option<String>,
    cost: u32,
    keys: u32,
    distribution: String,
    warm_up_seconds: f64,
    /// Whether a signal ended it early.
    stopped: bool,
    /// The first server, and then the one it is compared with.
    servers: Vec<ServerReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ratios: Option<Ratios>,
}

#[derive(Debug, Serialize)]
struct ServerReport {
    name: String,
    requests: u64,
    seconds: f64,
    /// Decisions, without errors.
    per_second: f64,
    allowed: u64,
    denied: u64,
    errors: u64,
    errors_by_kind: Vec<ErrorReport>,
    /// Open loop: due, but not sent before the end.
    unsent: u64,
    /// `null` if nothing was decided.
    latency_us: Option<Latency>,
    histogram: Vec<Bar>,
    /// Of the local server.
    server_cpu_us_per_request: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
}

#[derive(Debug, Serialize)]
struct ErrorReport {
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

#[derive(Clone, Copy, Debug, Serialize)]
struct Bar {
    from_us: f64,
    to_us: f64,
    count: u64,
}

impl BenchReport {
    pub(super) fn new(config: &BenchConfig, measured: &[Contender], stopped: bool) -> Self {
        Self {
            door: value_name(&config.door),
            r#loop: if config.phase.rate.is_some() { "open" } else { "closed" },
            rate_per_second: config.phase.rate,
            connections: config.connections,
            pipeline: config.pipeline,
            policy: config.policy_asked().map(str::to_owned),
            cost: config.request.cost,
            keys: config.key_count,
            distribution: value_name(&config.distribution),
            warm_up_seconds: config.warm_up.as_secs_f64(),
            stopped,
            servers: measured.iter().map(ServerReport::new).collect(),
            ratios: match measured {
                [ours, theirs] => Ratios::new(&ours.rounds, &theirs.rounds),
                _ => None,
            },
        }
    }

    pub(super) fn has_errors(&self) -> bool {
        self.servers.iter().any(|row| row.errors > 0)
    }
}

impl ServerReport {
    fn new(measured: &Contender) -> Self {
        let mut stats = Stats::default();
        measured.rounds.iter().for_each(|round| stats.merge(&round.stats));
        let took: Duration = measured.rounds.iter().map(|round| round.took).sum();
        let cpu: Option<Duration> = measured.rounds.iter().map(|round| round.cpu).sum();
        let (requests, seconds) = (stats.requests(), took.as_secs_f64());
        let error = |(kind, (count, first)): (&ErrorKind, &(u64, String))| ErrorReport {
            kind: kind.name(),
            count: *count,
            first: first.clone(),
        };
        Self {
            name: measured.endpoint.name.clone(),
            requests,
            seconds,
            per_second: float(stats.times.count()) / seconds,
            allowed: stats.allowed,
            denied: stats.denied,
            errors: stats.errors(),
            errors_by_kind: stats.errors.iter().map(error).collect(),
            unsent: measured.rounds.iter().map(|round| round.unsent).sum(),
            latency_us: Latency::from_times(&stats.times),
            histogram: bars(&stats.times),
            server_cpu_us_per_request: cpu
                .filter(|_| requests > 0)
                .map(|cpu| cpu.as_secs_f64() * 1e6 / float(requests)),
            note: measured.endpoint.note,
        }
    }
}

fn us(ns: u64) -> f64 {
    float(ns) / 1000.0
}

impl Latency {
    fn from_times(times: &Latencies) -> Option<Self> {
        let (min, max) = times.range()?;
        let at = |permille| times.quantile(permille).map(us);
        Some(Self {
            min: us(min),
            mean: us(times.mean()?),
            p50: at(500)?,
            p90: at(900)?,
            p99: at(990)?,
            p99_9: at(999)?,
            max: us(max),
        })
    }
}

/// Bars with bounds 1, 2, 5, 10 and so on, from the shortest latency to the longest.
fn bars(times: &Latencies) -> Vec<Bar> {
    // The last bound is above the range of the histogram.
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
        let mut times = Latencies::default();
        for ns in [0, 1, 17, 1_500, 90_000, 90_001, 3_000_000_000, u64::MAX] {
            times.record(ns, 3);
        }
        let bars = bars(&times);
        assert_eq!(bars.iter().map(|bar| bar.count).sum::<u64>(), times.count());
        assert!(bars.windows(2).all(|pair| pair[0].to_us.to_bits() == pair[1].from_us.to_bits()));
        assert!(super::bars(&Latencies::default()).is_empty());
    }
}
