//! When a breaker opens, probes and closes. Time and chance are arguments; nothing here waits or asks.

use super::recent::Recent;
use super::{BreakerOptions, BreakerState};

/// What became of one call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Call {
    /// How often the breaker had opened when the call began: what began before an opening says nothing after it.
    pub(super) opened: u64,
    pub(super) failed: bool,
    pub(super) slow: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Machine {
    options: BreakerOptions,
    phase: Phase,
    /// How often it has opened.
    opened: u64,
    closed_at_us: Option<u64>,
    /// The first wait for a probe: longer when it has opened again soon.
    base_us: u64,
}

#[derive(Clone, Debug)]
enum Phase {
    Closed {
        /// Failures in a row.
        failures: u32,
        recent: Recent,
    },
    Open {
        /// The longest that the next probe is waited for.
        wait_us: u64,
        /// Good probes in a row.
        good: u32,
    },
}

impl Machine {
    pub(super) fn new(options: BreakerOptions) -> Self {
        let phase = Phase::closed(&options);
        let base_us = micros(options.probe_min);
        Self { options, phase, opened: 0, closed_at_us: None, base_us }
    }

    pub(super) const fn state(&self) -> BreakerState {
        match self.phase {
            Phase::Closed { .. } => BreakerState::Closed,
            Phase::Open { good: 0, .. } => BreakerState::Open,
            Phase::Open { .. } => BreakerState::Probing,
        }
    }

    pub(super) const fn opened(&self) -> u64 {
        self.opened
    }

    /// Counts a call, and answers whether the breaker opens for it.
    pub(super) fn record(&mut self, now_us: u64, call: Call) -> bool {
        let Phase::Closed { failures, recent } = &mut self.phase else { return false };
        if call.opened != self.opened {
            return false;
        }
        *failures = if call.failed { *failures + 1 } else { 0 };
        recent.count(now_us, call.slow);
        let too_many = *failures >= self.options.failures;
        let too_slow = recent.is_slow(now_us, self.options.min_calls);
        if too_many || too_slow {
            self.open(now_us);
        }
        too_many || too_slow
    }

    fn open(&mut self, now_us: u64) {
        let steady_us = micros(self.options.steady);
        let soon = self.closed_at_us.is_some_and(|at| now_us.saturating_sub(at) < steady_us);
        let first_us = micros(self.options.probe_min);
        let longer_us = self.base_us.saturating_mul(2).min(micros(self.options.reopen_max));
        self.base_us = if soon { longer_us.max(first_us) } else { first_us };
        self.phase = Phase::Open { wait_us: self.base_us, good: 0 };
        self.opened += 1;
    }

    /// How long to wait before the next probe: between half and the whole of what is due, so that a fleet does not
    /// probe in step. `None` when closed.
    pub(super) fn wait_us(&self, random: u64) -> Option<u64> {
        match self.phase {
            Phase::Closed { .. } => None,
            Phase::Open { wait_us, .. } => Some(wait_us - random % (wait_us / 2 + 1)),
        }
    }

    /// Counts a probe, and answers whether the breaker closes for it.
    pub(super) fn probed(&mut self, now_us: u64, was_good: bool) -> bool {
        let Phase::Open { wait_us, good } = &mut self.phase else { return false };
        if was_good {
            // Those that are still needed come quickly.
            (*wait_us, *good) = (self.base_us, *good + 1);
        } else {
            let max_us = micros(self.options.probe_max).max(self.base_us);
            (*wait_us, *good) = (wait_us.saturating_mul(2).min(max_us), 0);
        }
        let closes = *good >= self.options.good_probes && was_good;
        if closes {
            self.phase = Phase::closed(&self.options);
            self.closed_at_us = Some(now_us);
        }
        closes
    }
}

impl Phase {
    fn closed(options: &BreakerOptions) -> Self {
        Self::Closed { failures: 0, recent: Recent::new(micros(options.window)) }
    }
}

pub(super) fn micros(span: std::time::Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}
