//! What the machine showed while the load ran: processor time, memory, and answers, once a second.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tidegate_bench::{Process, own_cpu_s};
use tidegate_testkit::processes::RedisServer;

use crate::fleet::Fleet;
use crate::load;
use crate::tally::Tally;

const SAMPLE_EVERY: Duration = Duration::from_secs(1);

/// Processor time in seconds, by who took it.
#[derive(Clone, Copy)]
pub(crate) struct Cpu {
    pub(crate) nodes: f64,
    pub(crate) primaries: f64,
    pub(crate) replicas: f64,
    pub(crate) generator: f64,
    pub(crate) sidecar: f64,
    /// The whole machine, other programs included.
    pub(crate) machine: f64,
}

impl Cpu {
    fn so_far(fleet: &Fleet, primaries: &[u16]) -> Self {
        let redis = |is_primary: bool| {
            let is_wanted = |node: &&RedisServer| primaries.contains(&node.port()) == is_primary;
            fleet.cluster.nodes().iter().filter(is_wanted).map(RedisServer::cpu_seconds).sum()
        };
        Self {
            nodes: fleet.nodes.iter().map(Process::cpu_s).sum(),
            primaries: redis(true),
            replicas: redis(false),
            generator: own_cpu_s(),
            sidecar: fleet.sidecar.cpu_s(),
            machine: machine_s(),
        }
    }

    /// Other programs, interrupts, and what the host took.
    pub(crate) fn others(&self) -> f64 {
        let own = self.nodes + self.primaries + self.replicas + self.generator + self.sidecar;
        (self.machine - own).max(0.0)
    }

    fn since(self, before: Self) -> Self {
        Self {
            nodes: self.nodes - before.nodes,
            primaries: self.primaries - before.primaries,
            replicas: self.replicas - before.replicas,
            generator: self.generator - before.generator,
            sidecar: self.sidecar - before.sidecar,
            machine: self.machine - before.machine,
        }
    }
}

/// The busy time of all processors: user, nice, system, interrupts, and what the host took (steal).
fn machine_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/stat").expect("Linux");
    let first = stat.lines().next().expect("a line");
    let ticks: Vec<f64> =
        first.split_whitespace().skip(1).filter_map(|field| field.parse().ok()).collect();
    [0, 1, 2, 5, 6, 7].iter().map(|field| ticks[*field]).sum::<f64>() / 100.0
}

pub(crate) struct Sample {
    pub(crate) at_s: f64,
    pub(crate) answers: u64,
    /// Of each node.
    pub(crate) resident_mb: Vec<f64>,
}

pub(crate) struct Run {
    pub(crate) tally: Tally,
    pub(crate) samples: Vec<Sample>,
    pub(crate) cpu: Cpu,
    /// Decisions by what decided, of all nodes.
    pub(crate) sources: Vec<(String, u64)>,
}

impl Run {
    /// Runs the load in another thread, and watches from this one.
    pub(crate) fn at(fleet: &Fleet, rate: f64, span: Duration) -> Self {
        let primaries: Vec<u16> = fleet.cluster.masters().iter().map(|node| node.port()).collect();
        let (decisions, cpu) = (fleet.decisions(), Cpu::so_far(fleet, &primaries));
        let (answered, start) = (Arc::new(AtomicU64::new(0)), Instant::now());
        let mut samples = Vec::new();
        let tally = std::thread::scope(|scope| {
            let loading = scope.spawn(|| load::run(&fleet.ports, rate, span, &answered));
            while !loading.is_finished() && start.elapsed() < span {
                std::thread::sleep(SAMPLE_EVERY.min(span.saturating_sub(start.elapsed())));
                samples.push(Sample {
                    at_s: start.elapsed().as_secs_f64(),
                    answers: answered.load(Ordering::Relaxed),
                    resident_mb: fleet.nodes.iter().map(Process::resident_mb).collect(),
                });
            }
            loading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        let cpu = Cpu::so_far(fleet, &primaries).since(cpu);
        let before = |source: &str| decisions.get(source).copied().unwrap_or(0);
        let sources = fleet.decisions().into_iter();
        let sources = sources.map(|(source, count)| (count - before(&source), source));
        let sources =
            sources.filter(|(count, _)| *count > 0).map(|(count, source)| (source, count));
        Self { tally, samples, cpu, sources: sources.collect() }
    }

    /// Decisions that the nodes made without Redis, because it failed or was too slow.
    pub(crate) fn without_redis(&self) -> u64 {
        let with = ["store", "lease", "deny-cache"];
        let others = self.sources.iter().filter(|(source, _)| !with.contains(&source.as_str()));
        others.map(|(_, count)| count).sum()
    }

    /// Answers per second in the worst stretch of ten seconds; of the whole run if that is shorter.
    pub(crate) fn lowest_window(&self) -> f64 {
        const WINDOW: usize = 10;
        let rate =
            |from: &Sample, to: &Sample| (to.answers - from.answers) as f64 / (to.at_s - from.at_s);
        let pairs = self.samples.iter().zip(self.samples.iter().skip(WINDOW));
        let lowest = pairs.map(|(from, to)| rate(from, to)).fold(f64::INFINITY, f64::min);
        if lowest.is_finite() { lowest } else { self.tally.rate() }
    }
}
