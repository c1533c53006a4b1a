//! The stamps of a sliding log, run-length encoded: units spent at one instant are one entry.

use std::collections::VecDeque;

use super::State;

/// When units were spent, oldest first.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::{Limit, Log, State, Timestamp};
///
/// let limit: Limit = "sliding-log 5/h".parse()?;
/// let (mut state, now) = (State::Empty, Timestamp::from_micros(1_700_000_000_000_000));
/// let _ = limit.take(&mut state, now, 2);
/// let _ = limit.take(&mut state, now + Duration::from_secs(1), 1);
/// let counts = |log: &Log| log.runs().map(|run| run.count).collect::<Vec<_>>();
/// assert!(matches!(&state, State::Log(log) if counts(log) == [2, 1]));
/// # Ok::<(), tidegate_core::LimitError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Log {
    pub(super) runs: VecDeque<Run>,
    pub(crate) total: u64,
    pub(super) period_us: u64,
}

/// `count` units spent at one instant.
///
/// ```
/// use tidegate_core::{Limit, Run, State, Timestamp};
///
/// let limit: Limit = "sliding-log 5/h".parse()?;
/// let (mut state, now) = (State::Empty, Timestamp::from_micros(1_700_000_000_000_000));
/// let _ = limit.take(&mut state, now, 1);
/// let _ = limit.take(&mut state, now, 1);
/// let one_run = Run { at_us: now.as_micros(), count: 2 }; // two checks at one instant
/// assert!(matches!(&state, State::Log(log) if log.runs().eq([&one_run])));
/// # Ok::<(), tidegate_core::LimitError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Run {
    /// When, in µs since the Unix epoch.
    pub at_us: u64,
    /// How many.
    pub count: u64,
}

/// Pulls back stamps from the future, forgets what has expired, then adds and takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LogChange {
    pub(crate) period_us: u64,
    pub(crate) clamp_us: Option<u64>,
    pub(crate) expired_runs: usize,
    pub(crate) stamp_us: u64,
    pub(crate) add: u64,
    /// Take this much back: of the units with this very stamp, or the newest first.
    pub(crate) take: u64,
    pub(crate) take_from: Option<u64>,
}

impl Log {
    pub(crate) fn newest(&self) -> Option<u64> {
        self.runs.back().map(|run| run.at_us)
    }

    /// The stamps, oldest first.
    pub fn runs(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter()
    }

    pub(super) fn end_us(&self) -> u64 {
        self.newest().map_or(0, |at_us| at_us.saturating_add(self.period_us))
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.runs.capacity() * size_of::<Run>()
    }

    pub(super) fn apply(state: &mut State, change: LogChange) {
        if !matches!(state, State::Log(_)) {
            *state = State::Log(Self::default());
        }
        let State::Log(log) = state else { return };
        log.period_us = change.period_us;
        for run in log.runs.drain(..change.expired_runs.min(log.runs.len())) {
            log.total = log.total.saturating_sub(run.count);
        }
        if let Some(clamp_us) = change.clamp_us {
            log.clamp(clamp_us);
        }
        log.push(change.stamp_us, change.add);
        match change.take_from {
            Some(at_us) => log.take_at(at_us, change.take),
            None => log.take_newest(change.take),
        }
    }

    fn clamp(&mut self, latest_us: u64) {
        let mut pulled = 0_u64;
        while let Some(run) = self.runs.back().filter(|run| run.at_us > latest_us) {
            pulled = pulled.saturating_add(run.count);
            self.runs.pop_back();
        }
        self.total = self.total.saturating_sub(pulled);
        self.push(latest_us, pulled);
    }

    fn push(&mut self, at_us: u64, count: u64) {
        if count == 0 {
            return;
        }
        self.total = self.total.saturating_add(count);
        match self.runs.back_mut() {
            Some(newest) if newest.at_us == at_us => newest.count += count,
            _ => self.runs.push_back(Run { at_us, count }),
        }
    }

    fn take_at(&mut self, at_us: u64, amount: u64) {
        let Ok(index) = self.runs.binary_search_by_key(&at_us, |run| run.at_us) else { return };
        let run = &mut self.runs[index];
        let taken = amount.min(run.count);
        run.count -= taken;
        self.total = self.total.saturating_sub(taken);
        if run.count == 0 {
            self.runs.remove(index);
        }
    }

    fn take_newest(&mut self, amount: u64) {
        let mut left = amount.min(self.total);
        self.total -= left;
        while let Some(newest) = self.runs.back_mut().filter(|_| left > 0) {
            let taken = left.min(newest.count);
            newest.count -= taken;
            left -= taken;
            if newest.count == 0 {
                self.runs.pop_back();
            }
        }
    }
}
