//! Looks at the counters once a second, for everybody who watches. No decision does anything for it.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{Clock, SystemClock};
use tidegate_redis::CallTimes;
use tokio::time::MissedTickBehavior;

use super::state::State;
use super::tick::{Looks, Tick};
use crate::gate::Gate;
use crate::metrics::Glance;

const EVERY: Duration = Duration::from_secs(1);

/// What was seen last.
#[derive(Debug)]
pub(crate) struct Sampler {
    gate: Arc<Gate>,
    before: Glance,
    calls: Option<CallTimes>,
    at_us: u64,
    started_ms: u64,
}

impl Sampler {
    /// Takes a first look, so that whoever comes finds something.
    pub(crate) fn new(gate: Arc<Gate>) -> Self {
        let calls = calls(&gate);
        let (before, at_us) = (gate.metrics().glance(), SystemClock.steady_us());
        let started_ms = SystemClock.now().as_micros() / 1000;
        let mut sampler = Self { gate, before, calls, at_us, started_ms };
        sampler.look();
        sampler
    }

    /// Looks, for ever.
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
        let Self { gate, before, calls: calls_before, at_us, started_ms } = self;
        let (now, calls, now_us) = (gate.metrics().glance(), calls(gate), SystemClock.steady_us());
        let follower = gate.now().follower.clone();
        let moving = follower.limits();
        let looks = Looks {
            before,
            now: &now,
            calls: calls_before.as_ref().zip(calls.as_ref()),
            moving: &moving,
            pressure: follower.pressures(),
        };
        let ms = now_us.saturating_sub(*at_us) / 1000;
        let tick = Tick::between(looks, SystemClock.now().as_micros() / 1000, ms);
        let dashboard = gate.dashboard();
        dashboard.refusals().tick(tick.refused());
        let state = State::of(gate, &now, moving, *started_ms);
        // Plain structs cannot fail to be written.
        if let (Ok(tick), Ok(state)) = (serde_json::to_string(&tick), serde_json::to_string(&state))
        {
            dashboard.feed().publish(tick, state);
        }
        (*before, *calls_before, *at_us) = (now, calls, now_us);
    }
}

fn calls(gate: &Gate) -> Option<CallTimes> {
    gate.metrics().store()?.redis().map(|(_, times)| times)
}
