//! The page of a scrape: everything that is counted, gathered and written.

use tidegate::{BreakerState, CallTimes, LeaseStats, MemoryStats, RedisStats, Source, Trouble};

use super::catalog as the;
use super::histogram::BOUNDS_NS;
use super::load;
use super::policies::Status;
use super::process::Process;
use super::text::Text;
use super::{DoorName, Metrics, Relaxed};
use crate::gate::Snapshot;
use crate::logs::Events;

impl Metrics {
    /// Everything, in Prometheus' text format.
    pub(crate) fn render(&self, snapshot: &Snapshot, events: &Events) -> String {
        let mut text = Text::default();
        self.checks(&mut text);
        self.doors(&mut text);
        self.store_errors(&mut text);
        let store = self.store();
        breaker(&mut text, store.as_ref().and_then(|store| store.breaker()));
        redis(&mut text, store.as_ref().and_then(|store| store.redis()).unwrap_or_default());
        if let Some(stats) = store.as_ref().and_then(|store| store.memory()) {
            memory(&mut text, stats);
        }
        leases(&mut text, snapshot.engine.lease_stats());
        load::write(&mut text, &snapshot.follower);
        text.family(&the::RELOADS);
        text.sample(&the::RELOADS, &["ok"], self.reloads.ok.load(Relaxed));
        text.sample(&the::RELOADS, &["error"], self.reloads.error.load(Relaxed));
        text.family(&the::UNSAID);
        for (event, count) in events.unsaid() {
            text.sample(&the::UNSAID, &[event], count);
        }
        text.family(&the::BUILD);
        text.sample(&the::BUILD, &[env!("CARGO_PKG_VERSION")], 1);
        if let Some(now) = Process::now() {
            process(&mut text, &now);
        }
        text.finish()
    }

    /// All that can be of a known policy, also what has never been: a rate of a series that just began is lost.
    fn checks(&self, text: &mut Text) {
        let policies = self.policies.read();
        text.family(&the::REQUESTS);
        for (policy, counts) in &policies {
            for status in Status::ALL {
                text.sample(&the::REQUESTS, &[policy, status.as_str()], counts.ended(status));
            }
        }
        text.family(&the::DECISIONS);
        for (policy, counts) in &policies {
            for source in Source::ALL {
                text.sample(&the::DECISIONS, &[policy, source.as_str()], counts.decided_by(source));
            }
        }
    }

    fn doors(&self, text: &mut Text) {
        let doors =
            || DoorName::ALL.iter().map(|door| ([door.as_str()], &self.doors[*door as usize]));
        text.family(&the::CHECK_DURATION);
        let bounds_s = BOUNDS_NS.map(|ns| seconds(ns, 1e9));
        for (label, door) in doors() {
            let (counts, sum_ns) = door.times.read();
            let sum_s = seconds(sum_ns, 1e9);
            text.histogram(&the::CHECK_DURATION, &label, (&bounds_s, &counts), sum_s);
        }
        text.family(&the::CONNECTIONS);
        for (label, door) in doors() {
            // In this order: one that closes in between must not be subtracted twice.
            let closed = door.closed.load(Relaxed);
            let open = door.accepted.load(Relaxed).saturating_sub(closed);
            text.sample(&the::CONNECTIONS, &label, open);
        }
        text.family(&the::CONNECTIONS_TOTAL);
        for (label, door) in doors() {
            text.sample(&the::CONNECTIONS_TOTAL, &label, door.accepted.load(Relaxed));
        }
    }

    fn store_errors(&self, text: &mut Text) {
        text.family(&the::STORE_ERRORS);
        for (trouble, count) in Trouble::ALL.iter().zip(self.store_errors.read()) {
            text.sample(&the::STORE_ERRORS, &[trouble.as_str()], count);
        }
    }
}

fn breaker(text: &mut Text, breaker: Option<(BreakerState, u64)>) {
    let (state, opened) = breaker.unwrap_or((BreakerState::Closed, 0));
    let number = match state {
        BreakerState::Closed => 0,
        BreakerState::Probing => 1,
        _ => 2,
    };
    text.single(&the::BREAKER_STATE, number);
    text.single(&the::BREAKER_OPENED, opened);
}

fn redis(text: &mut Text, (stats, times): (RedisStats, CallTimes)) {
    text.family(&the::LUA_DURATION);
    let bounds_s = CallTimes::BOUNDS_US.map(|us| seconds(us, 1e6));
    let sum_s = seconds(times.total_us, 1e6);
    text.histogram(&the::LUA_DURATION, &[], (&bounds_s, &times.counts), sum_s);
    for (family, value) in [
        (the::NOSCRIPT, stats.noscript),
        (the::UNREPLICATED, stats.unreplicated),
        (the::REDIS_QUESTIONS, stats.questions),
        (the::REDIS_CALLS, stats.calls),
        (the::REDIS_RETRIES, stats.retries),
        (the::REDIS_TIMEOUTS, stats.timeouts + stats.not_sent),
        (the::REDIS_DISCONNECTS, stats.disconnects),
        (the::REDIS_REFRESHES, stats.refreshes),
    ] {
        text.single(&family, value);
    }
    text.family(&the::REDIS_CONNECTS);
    text.sample(&the::REDIS_CONNECTS, &["ok"], stats.connects);
    text.sample(&the::REDIS_CONNECTS, &["error"], stats.connect_failures);
}

fn memory(text: &mut Text, stats: MemoryStats) {
    text.single(&the::KEYS, stats.keys);
    text.single(&the::MEMORY_BYTES, stats.bytes);
    text.single(&the::GIVEN_UP, stats.given_up);
}

fn leases(text: &mut Text, stats: LeaseStats) {
    let LeaseStats { keys, requests, granted, returned, decided } = stats;
    text.single(&the::LEASES_KEYS, keys);
    text.single(&the::LEASES_REQUESTS, requests);
    text.single(&the::LEASES_GRANTED, granted);
    text.single(&the::LEASES_RETURNED, returned);
    text.single(&the::LEASES_DECIDED, decided);
}

fn process(text: &mut Text, now: &Process) {
    text.single(&the::CPU, now.cpu_s);
    text.single(&the::RESIDENT, now.resident_bytes);
    text.single(&the::OPEN_FDS, now.open_fds);
    if let Some(max) = now.max_fds {
        text.single(&the::MAX_FDS, max);
    }
    text.single(&the::START, now.start_s);
    text.single(&the::THREADS, now.threads);
}

/// Exact up to 2^53, which is a century of nanoseconds for one request a second.
#[expect(clippy::cast_precision_loss, reason = "a sum of durations is read as a float anyway")]
fn seconds(count: u64, per_second: f64) -> f64 {
    count as f64 / per_second
}
