//! The page of a scrape: everything that is counted.

use std::collections::BTreeMap;

use tidegate::driver::{CallTimes, NetworkStats};
use tidegate::{BreakerState, LeaseStats, MemoryStats, Source, StoreErrorKind};
use tidegate_core::adaptive::UrlSummary;

use super::catalog;
use super::histogram::BOUNDS_NS;
use super::policies::Status;
use super::process::Process;
use super::sink::Sink;
use super::text::Text;
use super::upstreams;
use super::{DoorName, Metrics, Relaxed, Shed, UpstreamView};

/// What others count, at one instant.
#[derive(Debug)]
pub(crate) struct Figures<'a> {
    pub(crate) upstreams: Vec<UpstreamView<'a>>,
    /// The load pressure of each target: 0 healthy, 1 overloaded.
    pub(crate) pressures: BTreeMap<String, f64>,
    /// The units in force of each limit that follows the load.
    pub(crate) effective: Vec<(String, u64)>,
    /// How long each target took, in microseconds.
    pub(crate) p99_us: Vec<(String, u64)>,
    /// The busiest URLs; `None` stands for all others.
    pub(crate) urls: Vec<(Option<String>, UrlSummary)>,
    pub(crate) leases: LeaseStats,
    /// How many lines of the log were left out, by event.
    pub(crate) dropped_log_lines: [(&'static str, u64); 2],
}

/// Hands over the figures of now.
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

    /// Everything there is.
    pub(super) fn gather(&self, figures: &Figures<'_>, to: &mut impl Sink) {
        self.checks(to);
        self.doors(to);
        self.store_errors(to);
        upstreams::render(to, &figures.upstreams);
        if !figures.upstreams.is_empty() {
            self.shed_by_proxy(to);
        }
        load(to, figures);
        upstreams::render_urls(to, &figures.urls);
        let store = self.store().map(|store| store.report()).unwrap_or_default();
        breaker(to, store.breaker);
        network(to, store.network.unwrap_or_default(), store.call_times.unwrap_or_default());
        if let Some(stats) = store.memory {
            memory(to, stats);
        }
        leases(to, figures.leases);
        to.family(&catalog::RELOADS);
        to.sample(&catalog::RELOADS, &["ok"], self.reloads.ok.load(Relaxed));
        to.sample(&catalog::RELOADS, &["error"], self.reloads.error.load(Relaxed));
        to.family(&catalog::RELOAD_REFUSED);
        to.sample(&catalog::RELOAD_REFUSED, &[], u64::from(self.reloads.refused.load(Relaxed)));
        to.family(&catalog::LOG_LINES_DROPPED);
        for (event, count) in figures.dropped_log_lines {
            to.sample(&catalog::LOG_LINES_DROPPED, &[event], count);
        }
        to.family(&catalog::BUILD);
        to.sample(&catalog::BUILD, &[env!("CARGO_PKG_VERSION")], 1_u64);
        if let Some(now) = Process::now() {
            process(to, &now);
        }
    }

    /// All that can be of a known policy, also what has never been: a rate of a series that just began is lost.
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
                to.sample(
                    &catalog::DECISIONS,
                    &[policy, source.as_str()],
                    counts.decided_by(source),
                );
            }
        }
    }

    fn doors(&self, to: &mut impl Sink) {
        let doors =
            || DoorName::ALL.iter().map(|door| ([door.as_str()], &self.doors[*door as usize]));
        to.family(&catalog::CHECK_DURATION);
        let bounds_s = BOUNDS_NS.map(|ns| seconds(ns, 1e9));
        for (label, door) in doors() {
            let times = door.times.read().0;
            let buckets = (&bounds_s[..], &times.counts()[..]);
            to.histogram(&catalog::CHECK_DURATION, &label, buckets, seconds(times.sum(), 1e9));
        }
        to.family(&catalog::CONNECTIONS);
        for (label, door) in doors() {
            // In this order: one that closes in between must not be subtracted twice.
            let closed = door.closed.load(Relaxed);
            let open = door.accepted.load(Relaxed).saturating_sub(closed);
            to.sample(&catalog::CONNECTIONS, &label, open);
        }
        to.family(&catalog::CONNECTIONS_TOTAL);
        for (label, door) in doors() {
            to.sample(&catalog::CONNECTIONS_TOTAL, &label, door.accepted.load(Relaxed));
        }
    }

    fn shed_by_proxy(&self, to: &mut impl Sink) {
        to.family(&catalog::SHED);
        for (why, count) in Shed::ALL.iter().zip(self.shed.read()) {
            to.sample(&catalog::SHED, &[why.as_str()], count);
        }
    }

    fn store_errors(&self, to: &mut impl Sink) {
        to.family(&catalog::STORE_ERRORS);
        for (trouble, count) in StoreErrorKind::ALL.iter().zip(self.store_errors.read()) {
            to.sample(&catalog::STORE_ERRORS, &[trouble.as_str()], count);
        }
    }
}

/// What limits follow, and how much of them is in force.
fn load(to: &mut impl Sink, figures: &Figures<'_>) {
    to.family(&catalog::PRESSURE);
    for (target, pressure) in &figures.pressures {
        to.sample(&catalog::PRESSURE, &[target], *pressure);
    }
    to.family(&catalog::EFFECTIVE);
    for (limit, units) in &figures.effective {
        to.sample(&catalog::EFFECTIVE, &[limit], *units);
    }
    to.family(&catalog::DOWNSTREAM_P99);
    for (target, p99_us) in &figures.p99_us {
        to.sample(&catalog::DOWNSTREAM_P99, &[target], seconds(*p99_us, 1e6));
    }
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

fn network(to: &mut impl Sink, stats: NetworkStats, times: CallTimes) {
    to.family(&catalog::LUA_DURATION);
    let bounds_s = CallTimes::BOUNDS_US.map(|us| seconds(us, 1e6));
    let sum_s = seconds(times.total_us, 1e6);
    to.histogram(&catalog::LUA_DURATION, &[], (&bounds_s, &times.counts), sum_s);
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
    to.family(&catalog::REDIS_CONNECTS);
    to.sample(&catalog::REDIS_CONNECTS, &["ok"], stats.connects);
    to.sample(&catalog::REDIS_CONNECTS, &["error"], stats.connect_failures);
}

fn memory(to: &mut impl Sink, stats: MemoryStats) {
    to.single(&catalog::KEYS, stats.keys);
    to.single(&catalog::MEMORY_BYTES, stats.bytes);
    to.single(&catalog::GIVEN_UP, stats.given_up);
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

/// Exact up to 2^53, which is a century of nanoseconds for one request a second.
#[expect(clippy::cast_precision_loss, reason = "a sum of durations is read as a float anyway")]
pub(super) fn seconds(count: u64, per_second: f64) -> f64 {
    count as f64 / per_second
}
