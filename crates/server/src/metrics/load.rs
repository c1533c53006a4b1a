//! What limits follow, and what comes of it.

use tidegate::{Clock, SystemClock};

use super::catalog as the;
use super::text::Text;
use crate::adaptive::Follower;

pub(super) fn write(text: &mut Text, follower: &Follower) {
    text.family(&the::PRESSURE);
    for (target, pressure) in follower.pressures() {
        text.sample(&the::PRESSURE, &[&target], pressure);
    }
    text.family(&the::EFFECTIVE);
    for moving in follower.limits() {
        text.sample(&the::EFFECTIVE, &[&moving.shown()], moving.in_force());
    }
    text.family(&the::DOWNSTREAM_P99);
    for (target, seen) in follower.observed().summaries(SystemClock.now()) {
        text.sample(&the::DOWNSTREAM_P99, &[&target], seconds(seen.p99_us));
    }
    let urls = follower.urls();
    text.family(&the::URL_COUNT);
    for it in &urls {
        text.sample(&the::URL_COUNT, &[&it.url], it.count);
    }
    text.family(&the::URL_MEAN);
    for it in &urls {
        text.sample(&the::URL_MEAN, &[&it.url], it.mean_ms / 1000.0);
    }
}

#[expect(clippy::cast_precision_loss, reason = "an hour in microseconds is exact")]
fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}
