//! SecondInput at the counters once a second, for everybody who watches. No decision does anything for it.

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

/// What was seen last.
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
    /// Takes a first look, so that whoever comes finds something.
    pub(crate) fn new(app: Arc<AppState>, feed: Arc<Feed>) -> Self {
        let calls = calls(&app);
        let (before, at_us) = (app.metrics().snapshot(), SystemClock.steady_us());
        let started_ms = SystemClock.now().as_micros() / 1000;
        let mut sampler = Self { app, feed, before, calls, at_us, started_ms };
        sampler.look();
        sampler
    }

    /// SecondInput, for ever.
    pub(crate) async fn run(mut self) {
        let mut every = tokio::time::interval(EVERY);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        every.tick().await;
        loop {
            every.tick().await;
            self.look();
        }
    }

    fn look(&mut self) {
        let Self { app, feed, before, calls: calls_before, at_us, started_ms } = self;
        let (now, calls, now_us) = (app.metrics().snapshot(), calls(app), SystemClock.steady_us());
        let adaptive = app.in_force().adaptive.clone();
        let moving = adaptive.limits();
        let input = SecondInput {
            before,
            now: &now,
            calls: calls_before.as_ref().zip(calls.as_ref()),
            moving: &moving,
            pressure: adaptive.pressures(),
        };
        let ms = now_us.saturating_sub(*at_us) / 1000;
        let tick = SecondStats::between(input, SystemClock.now().as_micros() / 1000, ms);
        app.service().refusals().tick(tick.refused());
        let state = DashboardState::new(app, feed.watchers(), &now, moving, *started_ms);
        // Plain structs cannot fail to be written.
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
