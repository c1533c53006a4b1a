//! What limits follow, and what comes of it.

use tidegate::{Clock, SystemClock};

use super::catalog as the;
use super::render::seconds;
use super::sink::Sink;
use crate::adaptive::Follower;

pub(super) fn write(to: &mut impl Sink, follower: &Follower) {
    to.family(&the::PRESSURE);
    for (target, pressure) in follower.pressures() {
        to.sample(&the::PRESSURE, &[&target], pressure);
    }
    to.family(&the::EFFECTIVE);
    for moving in follower.limits() {
        to.sample(&the::EFFECTIVE, &[&moving.label()], moving.in_force());
    }
    to.family(&the::DOWNSTREAM_P99);
    for (target, seen) in follower.observed().summaries(SystemClock.now()) {
        to.sample(&the::DOWNSTREAM_P99, &[&target], seconds(seen.p99_us, 1e6));
    }
}
