//! Gathers all metrics for a scrape.

use std::collections::BTreeMap;

use tidegate::driver::{CallTimes, NetworkStats, SnapshotStats};
use tidegate::{BreakerState, LeaseStats, MemoryStats, ShareStatus, Source, StoreErrorKind};
use tidegate_core::adaptive::UrlSummary;
use tidegate_request::BadToken;

use super::catalog::Family;
use super::histogram::BOUNDS_NS;
use super::policies::Status;
use super::process::Process;
use super::sink::Sink;
use super::text::Text;

use super::{Door, InFlightFigures, Metrics, Relaxed, Shed, UpstreamView, catalog, upstreams};

/// What other modules count, at one instant.
#[derive(Debug)]
pub(crate) struct Figures<'a> {
    pub(crate) upstreams: Vec<UpstreamView<'a>>,
    /// The load pressure of each target: 0 healthy, 1 overloaded.
    pub(crate) pressures: BTreeMap<String, f64>,
    /// Whether each probe and query fails, by target and signal.
    pub(crate) failing_signals: BTreeMap<[String; 2], bool>,
    /// The units in force of each limit that follows the load.
    pub(crate) effective: Vec<(String, u64)>,
    /// How tenants share a limit, by policy.
    pub(crate) shares: Vec<(String, ShareStatus)>,
    /// The 99th percentile latency of each target.
    pub(crate) p99_us: Vec<(String, u64)>,
    /// The busiest URLs; `None` stands for all others.
    pub(crate) urls: Vec<(Option<String>, UrlSummary)>,
    pub(crate) in_flight: Option<InFlightFigures>,
    pub(crate) leases: LeaseStats,
    /// Log lines that were not written, by event.
    pub(crate) dropped_log_lines: [(&'static str, u64); 6],
}

/// Calls a function with the current figures.
#[cfg(feature = "otlp")]
pub(crate) type WithFigures =
    std::sync::Arc<dyn Fn(&mut dyn FnMut(&Figures<'_>)) + Send + Sync + 'static>;

impl Metrics {
    /// Everything, in Prometheus' text format.
    pub(crate) fn render(&self, figures: &Figures<'_>) -> String {
        let mut text = Text::default();
        self.gather(figures, &mut text);
        text.finish()
    }

    pub(super) fn gather(&self, figures: &Figures<'_>, to: &mut impl Sink) {
        self.checks(to);
        self.doors(to);
        self.bad_tokens(to);
        self.store_errors(to);
        self.store_outage(to);
        self.quorum_servers(to);
        upstreams::render(to, &figures.upstreams);
        if !figures.upstreams.is_empty() {
            self.shed_by_proxy(to);
        }
        if let Some(in_flight) = figures.in_flight {
            places(to, in_flight);
        }
        load(to, figures);
        shares(to, &figures.shares);
        upstreams::render_urls(to, &figures.urls);
        let store = self.store().map(|store| store.report()).unwrap_or_default();
        breaker(to, store.breaker);
        let (stats, times) =
            (store.network.unwrap_or_default(), store.call_times.unwrap_or_default());
        let none = (NetworkStats::default(), CallTimes::default());
        let is_redis = self.store().is_none_or(|store| store.kind == "redis");
        let (of_redis, of_others) =
            if is_redis { ((stats, times), none) } else { (none, (stats, times)) };
        redis(to, of_redis.0, &of_redis.1);
        other_network_store(to, of_others.0, &of_others.1);
        if let Some(stats) = store.memory {
            memory(to, stats);
        }
        if let Some(stats) = store.snapshots {
            snapshots(to, stats);
        }
        leases(to, figures.leases);
        let reloads = [("ok", &self.reloads.ok), ("error", &self.reloads.error)];
        let reloads = reloads.map(|(outcome, count)| ([outcome], count.load(Relaxed)));
        to.samples(&catalog::RELOADS, reloads);
        to.single(&catalog::RELOAD_REFUSED, u64::from(self.reloads.refused.load(Relaxed)));
        let dropped = figures.dropped_log_lines.map(|(event, count)| ([event], count));
        to.samples(&catalog::LOG_LINES_DROPPED, dropped);
        to.samples(&catalog::BUILD, [([env!("CARGO_PKG_VERSION")], 1_u64)]);
        if let Some(now) = Process::now() {
            process(to, &now);
        }
    }

    /// Writes every status and source of a policy, also with count 0: Prometheus cannot compute the rate of a series that
    /// has just begun.
    fn checks(&self, to: &mut impl Sink) {
        let policies = self.policies.read();
        to.family(&catalog::REQUESTS);
        for (policy, counts) in &policies {
            for status in Status::ALL {
                to.sample(&catalog::REQUESTS, &[policy, status.as_str()], counts.ended(status));
            }
        }
        to.family(&catalog::DECISIONS);
        for (policy, counts) in &policies {
            for source in Source::ALL {
                let labels = [policy.as_str(), source.as_str()];
                to.sample(&catalog::DECISIONS, &labels, counts.decided_by(source));
            }
        }
    }

    fn doors(&self, to: &mut impl Sink) {
        let doors = || Door::ALL.iter().map(|door| ([door.as_str()], &self.doors[*door as usize]));
        to.family(&catalog::CHECK_DURATION);
        let bounds_s = BOUNDS_NS.map(|ns| seconds(ns, 1e9));
        for (label, door) in doors() {
            let times = door.times.read();
            let buckets = (&bounds_s[..], &times.counts()[..]);
            to.histogram(&catalog::CHECK_DURATION, &label, buckets, seconds(times.sum(), 1e9));
        }
        to.samples(&catalog::CONNECTIONS, doors().map(|(label, door)| (label, door.open())));
        let accepted = doors().map(|(label, door)| (label, door.accepted.load(Relaxed)));
        to.samples(&catalog::CONNECTIONS_TOTAL, accepted);
        let refused = doors().map(|(label, door)| (label, door.refused.load(Relaxed)));
        to.samples(&catalog::CONNECTIONS_REFUSED, refused);
        let failed = doors().map(|(label, door)| (label, door.auth_failures.load(Relaxed)));
        to.samples(&catalog::AUTH_FAILURES, failed);
    }

    fn bad_tokens(&self, to: &mut impl Sink) {
        let bad = BadToken::ALL.iter().zip(self.bad_tokens.read());
        to.samples(&catalog::BAD_TOKENS, bad.map(|(why, count)| ([why.as_str()], count)));
    }

    fn shed_by_proxy(&self, to: &mut impl Sink) {
        let shed = Shed::ALL.iter().zip(self.shed.read());
        to.samples(&catalog::SHED, shed.map(|(why, count)| ([why.as_str()], count)));
    }

    fn store_errors(&self, to: &mut impl Sink) {
        let errors = StoreErrorKind::ALL.iter().zip(self.store_errors.read());
        to.samples(&catalog::STORE_ERRORS, errors.map(|(kind, count)| ([kind.as_str()], count)));
    }
}

/// The bound on requests at the upstreams.
fn places(to: &mut impl Sink, figures: InFlightFigures) {
    let InFlightFigures { max, in_use, spare, is_local, .. } = figures;
    to.samples(&catalog::PLACES, [(["in_use"], in_use), (["spare"], spare)]);
    to.single(&catalog::PLACES_MAX, max);
    to.single(&catalog::PLACES_LOCAL, u64::from(is_local));
}

/// How tenants share limits. Their names are no labels.
fn shares(to: &mut impl Sink, shares: &[(String, ShareStatus)]) {
    let count = |active: usize| u64::try_from(active).unwrap_or(u64::MAX);
    let each = || shares.iter().map(|(policy, status)| ([policy], status));
    to.samples(&catalog::SHARE_TENANTS, each().map(|(policy, it)| (policy, count(it.active))));
    let contended = each().map(|(policy, it)| (policy, u64::from(it.level.is_some())));
    to.samples(&catalog::SHARE_CONTENDED, contended);
    to.samples(&catalog::SHARE_LEVEL, each().map(|(policy, it)| (policy, it.level.unwrap_or(1.0))));
}

/// The pressure of targets, and the units in force of the limits that follow it.
fn load(to: &mut impl Sink, figures: &Figures<'_>) {
    let Figures { pressures, failing_signals, effective, p99_us, .. } = figures;
    to.samples(&catalog::PRESSURE, pressures.iter().map(|(target, value)| ([target], *value)));
    let failing = failing_signals.iter();
    let failing = failing.map(|(names, failing)| (names.each_ref(), u64::from(*failing)));
    to.samples(&catalog::SIGNAL_FAILING, failing);
    to.samples(&catalog::EFFECTIVE, effective.iter().map(|(limit, units)| ([limit], *units)));
    let p99_s = p99_us.iter().map(|(target, p99_us)| ([target], seconds(*p99_us, 1e6)));
    to.samples(&catalog::DOWNSTREAM_P99, p99_s);
}

fn breaker(to: &mut impl Sink, breaker: Option<(BreakerState, u64)>) {
    let (state, opened) = breaker.unwrap_or((BreakerState::Closed, 0));
    let number: u64 = match state {
        BreakerState::Closed => 0,
        BreakerState::Probing => 1,
        _ => 2,
    };
    to.single(&catalog::BREAKER_STATE, number);
    to.single(&catalog::BREAKER_OPENED, opened);
}

fn call_times(to: &mut impl Sink, family: &Family, times: &CallTimes) {
    to.family(family);
    let bounds_s = CallTimes::BOUNDS_US.map(|us| seconds(us, 1e6));
    let sum_s = seconds(times.total_us, 1e6);
    to.histogram(family, &[], (&bounds_s, &times.counts), sum_s);
}

/// A store that is not Redis, over a network.
fn other_network_store(to: &mut impl Sink, stats: NetworkStats, times: &CallTimes) {
    call_times(to, &catalog::STORE_DURATION, times);
    for (family, value) in [
        (catalog::STORE_QUESTIONS, stats.requests),
        (catalog::STORE_CALLS, stats.calls),
        (catalog::STORE_CONFLICTS, stats.conflicts),
        (catalog::STORE_TIMEOUTS, stats.timeouts + stats.not_sent),
        (catalog::STORE_DISCONNECTS, stats.disconnects),
    ] {
        to.single(&family, value);
    }
    let connects = [(["ok"], stats.connects), (["error"], stats.connect_failures)];
    to.samples(&catalog::STORE_CONNECTS, connects);
}

fn redis(to: &mut impl Sink, stats: NetworkStats, times: &CallTimes) {
    call_times(to, &catalog::LUA_DURATION, times);
    for (family, value) in [
        (catalog::NOSCRIPT, stats.noscript),
        (catalog::UNREPLICATED, stats.unreplicated),
        (catalog::REDIS_QUESTIONS, stats.requests),
        (catalog::REDIS_CALLS, stats.calls),
        (catalog::REDIS_RETRIES, stats.retries),
        (catalog::REDIS_TIMEOUTS, stats.timeouts + stats.not_sent),
        (catalog::REDIS_DISCONNECTS, stats.disconnects),
        (catalog::REDIS_REFRESHES, stats.refreshes),
    ] {
        to.single(&family, value);
    }
    let connects = [(["ok"], stats.connects), (["error"], stats.connect_failures)];
    to.samples(&catalog::REDIS_CONNECTS, connects);
}

fn memory(to: &mut impl Sink, stats: MemoryStats) {
    to.single(&catalog::KEYS, stats.keys);
    to.single(&catalog::MEMORY_BYTES, stats.bytes);
    to.single(&catalog::GIVEN_UP, stats.given_up);
}

fn snapshots(to: &mut impl Sink, stats: SnapshotStats) {
    let SnapshotStats { written, failed, set_aside, last_us } = stats;
    let results = [(["ok"], written), (["error"], failed), (["unreadable"], set_aside)];
    to.samples(&catalog::SNAPSHOTS, results);
    to.single(&catalog::SNAPSHOT_TIME, seconds(last_us, 1e6));
}

fn leases(to: &mut impl Sink, stats: LeaseStats) {
    let LeaseStats { keys, requests, granted, returned, decided } = stats;
    to.single(&catalog::LEASES_KEYS, keys);
    to.single(&catalog::LEASES_REQUESTS, requests);
    to.single(&catalog::LEASES_GRANTED, granted);
    to.single(&catalog::LEASES_RETURNED, returned);
    to.single(&catalog::LEASES_DECIDED, decided);
}

fn process(to: &mut impl Sink, now: &Process) {
    to.single(&catalog::CPU, now.cpu_s);
    to.single(&catalog::RESIDENT, now.resident_bytes);
    to.single(&catalog::OPEN_FDS, now.open_fds);
    if let Some(max) = now.max_fds {
        to.single(&catalog::MAX_FDS, max);
    }
    to.single(&catalog::START, now.start_s);
    to.single(&catalog::THREADS, now.threads);
}

/// Exact up to 2^53.
#[expect(clippy::cast_precision_loss, reason = "a sum of durations is read as a float anyway")]
pub(super) fn seconds(count: u64, per_second: f64) -> f64 {
    count as f64 / per_second
}
