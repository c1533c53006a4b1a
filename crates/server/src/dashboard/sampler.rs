//! Reads the counters once a second, for all watchers of the dashboard.

use std::sync::Arc;
use std::time::Duration;

use tidegate::driver::CallTimes;
use tidegate::{Clock, SystemClock};
use tokio::time::MissedTickBehavior;

use super::feed::Feed;
use super::second_stats::{SecondInput, SecondStats};
use super::state::DashboardState;
use crate::metrics::MetricsSnapshot;
use crate::service::AppState;

const EVERY: Duration = Duration::from_secs(1);

/// Keeps the last sample, to compare with the next.
#[derive(Debug)]
pub(crate) struct Sampler {
    app: Arc<AppState>,
    feed: Arc<Feed>,
    before: MetricsSnapshot,
    calls: Option<CallTimes>,
    at_us: u64,
    started_ms: u64,
}

impl Sampler {
    /// Takes a first sample, so that the first watcher gets a snapshot.
    pub(crate) fn new(app: Arc<AppState>, feed: Arc<Feed>) -> Self {
        let calls = calls(&app);
        let (before, at_us) = (app.metrics().snapshot(), SystemClock.steady_us());
        let started_ms = SystemClock.now().as_micros() / 1000;
        let mut sampler = Self { app, feed, before, calls, at_us, started_ms };
        sampler.sample();
        sampler
    }

    /// Never returns.
    pub(crate) async fn run(mut self) {
        let mut every = tokio::time::interval(EVERY);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        every.tick().await;
        loop {
            every.tick().await;
            self.sample();
        }
    }

    fn sample(&mut self) {
        let Self { app, feed, before, calls: calls_before, at_us, started_ms } = self;
        let (now, calls, now_us) = (app.metrics().snapshot(), calls(app), SystemClock.steady_us());
        let adaptive = app.in_force().adaptive.clone();
        let limits = app.adaptive_limits();
        let input = SecondInput {
            before,
            now: &now,
            calls: calls_before.as_ref().zip(calls.as_ref()),
            limits: &limits,
            pressure: adaptive.pressures(),
        };
        let ms = now_us.saturating_sub(*at_us) / 1000;
        let tick = SecondStats::between(input, SystemClock.now().as_micros() / 1000, ms);
        app.service().refusals().tick(tick.refused());
        let state = DashboardState::new(app, feed.watchers(), &now, limits, *started_ms);
        // Serializing plain structs cannot fail.
        if let (Ok(tick), Ok(state)) = (serde_json::to_string(&tick), serde_json::to_string(&state))
        {
            feed.publish(tick, state);
        }
        (*before, *calls_before, *at_us) = (now, calls, now_us);
    }
}

fn calls(app: &AppState) -> Option<CallTimes> {
    app.metrics().store()?.report().call_times
}
