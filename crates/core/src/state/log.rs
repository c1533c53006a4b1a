//! What a sliding log keeps: when each unit was spent.

use super::State;
use super::stamps::Stamps;

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
    pub(super) period_us: u64,
    pub(super) stamps: Stamps,
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
/// assert!(matches!(&state, State::Log(log) if log.runs().eq([one_run])));
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
    pub(crate) expired_entries: usize,
    /// As many units as there can be.
    pub(crate) most: u64,
    pub(crate) stamp_us: u64,
    pub(crate) add: u64,
    /// Take this much back: of the units with this very stamp, or the newest first.
    pub(crate) take: u64,
    pub(crate) take_from: Option<u64>,
}

impl Log {
    /// The stamps, oldest first.
    pub fn runs(&self) -> impl Iterator<Item = Run> {
        self.stamps.runs()
    }

    /// The same, where units of one instant may be in several runs.
    #[inline]
    pub(crate) fn entries(&self) -> impl Iterator<Item = Run> {
        self.stamps.entries()
    }

    /// One of these by its number: the oldest is 0.
    #[inline]
    pub(crate) fn entry(&self, index: usize) -> Option<Run> {
        self.stamps.entry(index)
    }

    #[inline]
    pub(crate) fn newest(&self) -> Option<u64> {
        self.stamps.newest().map(|run| run.at_us)
    }

    #[inline]
    pub(crate) fn total(&self) -> u64 {
        self.stamps.units()
    }

    pub(super) fn end_us(&self) -> u64 {
        self.newest().map_or(0, |at_us| at_us.saturating_add(self.period_us))
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.stamps.heap_bytes()
    }

    pub(super) fn apply(state: &mut State, change: LogChange) {
        if !matches!(state, State::Log(_)) {
            *state = State::Log(Self::default());
        }
        let State::Log(Self { period_us, stamps }) = state else { return };
        *period_us = change.period_us;
        stamps.forget_oldest(change.expired_entries);
        if let Some(clamp_us) = change.clamp_us {
            let pulled = stamps.take(clamp_us + 1, stamps.len(), u64::MAX);
            stamps.push(clamp_us, pulled, change.most);
        }
        stamps.push(change.stamp_us, change.add, change.most);
        if change.take > 0 {
            let since_us = change.take_from.unwrap_or(0);
            let end = change.take_from.map_or(stamps.len(), |at_us| stamps.end_of(at_us));
            stamps.take(since_us, end, change.take);
        }
    }
}
