//! What limits follow, and what comes of it.

use tidegate::{Clock, SystemClock};

use super::catalog as the;
use super::sink::Sink;
use crate::adaptive::Follower;

pub(super) fn write(to: &mut impl Sink, follower: &Follower) {
    to.family(&the::PRESSURE);
    for (target, pressure) in follower.pressures() {
        to.sample(&the::PRESSURE, &[&target], pressure);
    }
    to.family(&the::EFFECTIVE);
    for moving in follower.limits() {
        to.sample(&the::EFFECTIVE, &[&moving.shown()], moving.in_force());
    }
    to.family(&the::DOWNSTREAM_P99);
    for (target, seen) in follower.observed().summaries(SystemClock.now()) {
        to.sample(&the::DOWNSTREAM_P99, &[&target], seconds(seen.p99_us));
    }
}

#[expect(clippy::cast_precision_loss, reason = "an hour in microseconds is exact")]
fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}
