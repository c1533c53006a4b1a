//! When a breaker opens, probes and closes. Time and randomness are arguments; nothing here waits or calls.

use super::{BreakerOptions, BreakerState};
use crate::clock::micros;

/// The result of one call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Call {
    /// How often the breaker had opened when the call began: calls from before an opening do not count after it.
    pub(super) opened: u64,
    pub(super) failed: bool,
    pub(super) slow: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Machine {
    options: BreakerOptions,
    phase: Phase,
    /// How often it has opened.
    pub(super) opened: u64,
    closed_at_us: Option<u64>,
    /// The first wait for a probe: longer when it has opened again soon.
    base_us: u64,
}

#[derive(Clone, Debug)]
enum Phase {
    Closed {
        /// Failures in a row.
        failures: u32,
        recent: RecentCalls,
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
        Self::Closed { failures: 0, recent: RecentCalls::new(micros(options.window)) }
    }
}

/// Parts of a window. One more, which has just begun, is kept, so that a window is always covered whole.
const PARTS: u64 = 10;
const KEPT: usize = 11;

/// How many calls there were in a sliding window, and how many of them were slow. That is all that a 99th percentile needs:
/// it passes a bound when more than one call in a hundred does.
#[derive(Clone, Debug)]
struct RecentCalls {
    part_us: u64,
    /// The number of the newest part.
    newest: u64,
    /// Nothing was counted before this.
    since_us: Option<u64>,
    parts: [Part; KEPT],
}

#[derive(Clone, Copy, Default, Debug)]
struct Part {
    calls: u64,
    slow: u64,
}

impl RecentCalls {
    fn new(window_us: u64) -> Self {
        let part_us = window_us.div_ceil(PARTS).max(1);
        Self { part_us, newest: 0, since_us: None, parts: [Part::default(); KEPT] }
    }

    fn count(&mut self, now_us: u64, slow: bool) {
        self.since_us.get_or_insert(now_us);
        let part = self.move_to(now_us);
        part.calls += 1;
        part.slow += u64::from(slow);
    }

    /// Whether the 99th percentile of at least `min_calls` calls over a whole window was slow.
    fn is_slow(&self, now_us: u64, min_calls: u64) -> bool {
        let window_us = self.part_us * PARTS;
        let whole = self.since_us.is_some_and(|since| now_us >= since.saturating_add(window_us));
        let sum = |of: fn(&Part) -> u64| self.parts.iter().map(of).sum::<u64>();
        let (calls, slow) = (sum(|part| part.calls), sum(|part| part.slow));
        // By nearest rank: at least ⌈99 %⌉ of the calls are as fast as the percentile says.
        whole && calls >= min_calls && slow > calls / 100
    }

    /// The part of an instant, after emptying those that have passed since the last one.
    fn move_to(&mut self, now_us: u64) -> &mut Part {
        // A clock that steps back counts into the newest part.
        let number = (now_us / self.part_us).max(self.newest);
        let kept = KEPT as u64;
        for passed in (self.newest + 1..=number).take(KEPT) {
            // After a long time all are emptied, wherever one begins.
            self.parts[usize::try_from(passed % kept).unwrap_or_default()] = Part::default();
        }
        self.newest = number;
        &mut self.parts[usize::try_from(number % kept).unwrap_or_default()]
    }
}
