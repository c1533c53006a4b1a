//! The controller: readings in, a limit out.

use std::time::Duration;

use super::number::units;
use super::{AdaptiveError, Mode, Output, Reading, Settings, State};
use crate::time::{EXACT_MAX, Timestamp};

/// Follows the load of one target for one limit. It reads no clock: its owner steps it once per tick.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::Timestamp;
/// use tidegate_core::adaptive::{Controller, Reading, Settings};
///
/// let mut controller = Controller::new(Settings::default(), 1000)?;
/// let mut now = Timestamp::from_micros(1_700_000_000_000_000);
/// // A wait of 110 ms in the queue is half way from 20 to 200, and no request fails.
/// for _ in 0..20 {
///     controller.step(&[Reading::Value(110.0), Reading::Value(0.0)], now);
///     now = now + Duration::from_secs(1);
/// }
/// assert_eq!(controller.output().limit, 525);
/// assert_eq!(controller.settings().chains()[controller.output().binding.unwrap()].name(), "queue wait");
/// # Ok::<(), tidegate_core::adaptive::AdaptiveError>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Controller {
    settings: Settings,
    limit: u64,
    state: State,
}

impl Controller {
    /// A controller of a limit that was declared as `limit`, from 1 to 2^53. It begins with all of it.
    pub fn new(settings: Settings, limit: u64) -> Result<Self, AdaptiveError> {
        match limit {
            0 => Err(AdaptiveError::ZeroLimit),
            too_large if too_large > EXACT_MAX => Err(AdaptiveError::LimitTooLarge(too_large)),
            _ => Ok(Self { state: State::start(&settings), settings, limit }),
        }
    }

    /// One tick: a reading for each chain, in their order; what is not given is missing.
    pub fn step(&mut self, readings: &[Reading], now: Timestamp) -> Output {
        if self.settings.mode == Mode::Off {
            return self.output();
        }
        let state = &mut self.state;
        let passed = state.stepped_at.map_or(Duration::ZERO, |before| now.since(before));
        for (index, (chain, known)) in
            self.settings.chains().iter().zip(&mut state.chains).enumerate()
        {
            chain.step(known, readings.get(index).copied().unwrap_or_default(), passed);
        }
        state.stepped_at = Some(now);
        state.version += 1;
        let (share, is_stale) = (self.smallest().1, self.is_stale());
        let warm_up = self.settings.warm_up;
        self.state.ceiling = self.state.warmth.next(&warm_up, share, passed, is_stale);
        self.output()
    }

    /// What is in force, as of the last step.
    pub fn output(&self) -> Output {
        let Settings { mode, floor, guard, .. } = self.settings;
        let (binding, chains_leave) = self.smallest();
        let ceiling = self.state.ceiling;
        let share = chains_leave.min(ceiling);
        let computed = units(share, self.limit, floor);
        let enforced = |computed, declared| if mode == Mode::Enforce { computed } else { declared };
        Output {
            limit: enforced(computed, self.limit),
            computed,
            share,
            pressure: self.state.chains.iter().map(|chain| chain.pressure).fold(0.0, f64::max),
            binding,
            is_warming: ceiling < chains_leave,
            is_stale: self.is_stale(),
            guard: guard.map(|guard| enforced(units(share, guard, 1), guard)),
            version: self.state.version,
            mode,
            floor,
            ceiling,
        }
    }

    /// The chain that leaves the least, and what it leaves.
    fn smallest(&self) -> (Option<usize>, f64) {
        let chains = self.settings.chains().iter().zip(&self.state.chains).enumerate();
        chains.fold((None, 1.0), |(binding, least), (index, (chain, state))| {
            let share = chain.share(state);
            if share < least { (Some(index), share) } else { (binding, least) }
        })
    }

    fn is_stale(&self) -> bool {
        let mut chains = self.settings.chains().iter().zip(&self.state.chains);
        chains.any(|(chain, state)| chain.is_stale(state))
    }

    /// Its state, for other nodes.
    ///
    /// ```
    /// # use tidegate_core::Timestamp;
    /// # use tidegate_core::adaptive::{Controller, Reading, Settings};
    /// let mut first = Controller::new(Settings::default(), 1000)?;
    /// let mut second = Controller::new(Settings::default(), 1000)?;
    /// first.step(&[Reading::Value(110.0)], Timestamp::EPOCH);
    /// second.resume(first.state().clone());
    /// assert_eq!((second.output(), second.declared()), (first.output(), 1000));
    /// # Ok::<(), tidegate_core::adaptive::AdaptiveError>(())
    /// ```
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// Continues from the state of another node. A state of other chains is ignored.
    pub fn resume(&mut self, state: State) {
        if state.chains.len() == self.state.chains.len() {
            self.state = state;
        }
    }

    /// Its settings.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The limit as it was declared.
    pub const fn declared(&self) -> u64 {
        self.limit
    }
}
