//! Limits that follow a rule: one for all, or one for each URL.

use std::sync::Mutex;

use tidegate_core::Timestamp;
use tidegate_core::adaptive::{
    AdaptiveError, Controller, Mode, Output, Ramp, Reading, Settings, State,
};

use super::{Rule, Source, Target, lock};
use crate::effective::Effective;

pub(super) struct Governor {
    pub(super) name: String,
    pub(super) rule: Rule,
    pub(super) effective: Effective,
    state: Mutex<GovernorState>,
}

struct GovernorState {
    controller: Controller,
    mode: Mode,
    /// The tick of the store in which it was agreed on; `None` if this node used its own readings.
    agreed: Option<u64>,
    fixed: Option<f64>,
}

/// What is in force of a limit, and why.
///
/// ```
/// use tidegate::adaptive::{Adaptive, Chain, Reading, Rule, Source, Status};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tidegate::adaptive::AdaptiveError> {
/// let adaptive = Adaptive::default();
/// let rule = Rule::from_chains([(Chain::pressure("db"), Source::Pushed(adaptive.target("db")))])?;
/// adaptive.govern("search", 1000, rule)?;
/// adaptive.target("db").push(Reading::Value(0.4));
/// adaptive.tick().await;
/// let Status { name, declared, units, output, binding, agreed, fixed } = &adaptive.status()[0];
/// assert_eq!((name.as_str(), *declared, *units), ("search", 1000, 600));
/// assert_eq!((output.limit, binding.as_deref()), (600, Some("db")));
/// assert_eq!((*agreed, *fixed), (None, None)); // nobody to agree with
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Status {
    /// The name it is governed by.
    pub name: String,
    /// All of its units.
    pub declared: u64,
    /// Those in force, or in shadow mode those that would be.
    pub units: u64,
    /// The output of the last step.
    pub output: Output,
    /// The signal that binds, if any takes something away.
    pub binding: Option<String>,
    /// In which tick of the store all nodes agreed on it; `None` if this node used its own readings. Nodes
    /// with the same tick have the same limit in force.
    pub agreed: Option<u64>,
    /// The share that an operator has fixed.
    pub fixed: Option<f64>,
}

impl Governor {
    /// A governor for the same `Effective` as the one before of this name. It does not set it yet.
    pub(super) fn new(
        name: &str,
        units: u64,
        rule: Rule,
        before: Option<&Self>,
    ) -> Result<Self, AdaptiveError> {
        let controller = Controller::new(rule.settings.clone(), units)?;
        let effective = before.map_or_else(Effective::default, |before| before.effective.clone());
        let mode = controller.output().mode();
        let state = Mutex::new(GovernorState { controller, mode, agreed: None, fixed: None });
        Ok(Self { name: name.to_owned(), rule, effective, state })
    }

    /// Takes over from the governor before, with its state if it had the same signals.
    pub(super) fn take_over(&self, before: Option<&Self>) {
        let mut state = lock(&self.state);
        if let Some(before) = before {
            let known = lock(&before.state);
            if same_signals(&before.rule.settings, &self.rule.settings) {
                state.controller.resume(known.controller.state().clone());
            }
            state.fixed = known.fixed;
        }
        state.mode = state.controller.output().mode();
        self.effective.enforce(state.mode != Mode::Shadow);
    }

    /// The reading of each chain, and its weight.
    pub(super) fn readings(&self, cpu: Reading) -> Vec<(Reading, u64)> {
        self.rule.sources.iter().map(|source| source.read(cpu)).collect()
    }

    /// The output of its last step, if it follows this target.
    pub(super) fn output_on(&self, target: &Target) -> Option<Output> {
        let mut targets = self.rule.sources.iter().filter_map(Source::target);
        let follows = targets.any(|it| it.is(target));
        follows.then(|| lock(&self.state).controller.output())
    }

    /// One step from this node's own readings.
    pub(super) fn step(&self, readings: &[(Reading, u64)], now: Timestamp) {
        let readings: Vec<Reading> = readings.iter().map(|(reading, _)| *reading).collect();
        let mut state = lock(&self.state);
        state.controller.step(&readings, now);
        state.agreed = None;
        self.publish(&state);
    }

    /// The state after a step from the readings of all nodes and the kept state.
    pub(super) fn stepped(
        &self,
        kept: Option<State>,
        readings: &[Reading],
        now: Timestamp,
    ) -> State {
        let mut controller = lock(&self.state).controller.clone();
        if let Some(kept) = kept {
            controller.resume(kept);
        }
        controller.step(readings, now);
        controller.state().clone()
    }

    /// Adopts the state that all nodes agreed on.
    pub(super) fn agree(&self, agreed: State, tick: u64) {
        let mut state = lock(&self.state);
        state.controller.resume(agreed);
        state.agreed = Some(tick);
        self.publish(&state);
    }

    pub(super) fn fix(&self, share: Option<f64>) -> bool {
        let mut state = lock(&self.state);
        state.fixed = share.filter(|share| (0.0..=1.0).contains(share));
        self.publish(&state);
        share.is_none() || state.fixed.is_some()
    }

    fn publish(&self, state: &GovernorState) {
        let units = self.units(state);
        let is_whole = units >= state.controller.declared();
        self.effective.set(if is_whole { u64::MAX } else { units });
        if let (Some(guard), Some(units)) = (&self.rule.guard, state.controller.output().guard) {
            guard.set(units);
        }
    }

    /// The units in force, or in shadow mode those that would be.
    fn units(&self, state: &GovernorState) -> u64 {
        let (output, declared) = (state.controller.output(), state.controller.declared());
        match (state.fixed, self.rule.priority) {
            _ if state.mode == Mode::Off => declared,
            (Some(share), _) => part_of(declared, share),
            (None, Some(priority)) => output.computed_for_priority(priority, declared),
            (None, None) => output.computed,
        }
    }

    pub(super) fn status(&self) -> Status {
        let state = lock(&self.state);
        let output = state.controller.output();
        let chain = |index: usize| state.controller.settings().chains().get(index);
        Status {
            name: self.name.clone(),
            declared: state.controller.declared(),
            units: self.units(&state),
            output,
            binding: output.binding.and_then(chain).map(|chain| chain.name().to_owned()),
            agreed: state.agreed,
            fixed: state.fixed,
        }
    }
}

fn same_signals(one: &Settings, other: &Settings) -> bool {
    let names = |settings: &Settings| -> Vec<String> {
        settings.chains().iter().map(|chain| chain.name().to_owned()).collect()
    };
    names(one) == names(other)
}

/// A share of a limit, as a ramp would leave it: rounded down, and at least 1.
fn part_of(units: u64, share: f64) -> u64 {
    Ramp::pressure().limit(1.0 - share, units)
}

/// How often each URL may be requested in a minute.
#[derive(Clone, Copy, Debug)]
pub(super) enum UrlLimit {
    /// So often while it is fast, and less while it is slow.
    Units(u64, Ramp),
    /// As often as anybody likes while it is fast, and from its busiest fast minute down while it is slow; from `least`,
    /// if that is more.
    Uncapped { least: u64 },
}

impl UrlLimit {
    /// What a share that an operator fixes is a share of.
    const fn units(self) -> u64 {
        match self {
            Self::Units(units, _) | Self::Uncapped { least: units } => units,
        }
    }
}

/// A limit of every URL that follows how long that URL takes.
pub(super) struct UrlGovernor {
    pub(super) effective: Effective,
    limit: UrlLimit,
    target: Target,
    mode: Mode,
    /// The share that an operator has fixed, of every URL.
    fixed: Mutex<Option<f64>>,
}

impl UrlGovernor {
    pub(super) fn new(effective: Effective, limit: UrlLimit, target: &Target, mode: Mode) -> Self {
        Self { effective, limit, target: target.clone(), mode, fixed: Mutex::default() }
    }

    /// Takes over from the governor before, with its fixed share.
    pub(super) fn take_over(&self, before: Option<&Self>) {
        *lock(&self.fixed) = before.and_then(Self::fixed);
        self.effective.enforce(self.mode != Mode::Shadow);
    }

    /// The share that is fixed.
    fn fixed(&self) -> Option<f64> {
        *lock(&self.fixed)
    }

    pub(super) fn fix(&self, share: Option<f64>) -> bool {
        let valid = share.filter(|share| (0.0..=1.0).contains(share));
        *lock(&self.fixed) = valid;
        self.publish();
        share.is_none() || valid.is_some()
    }

    /// Sets the limits of slow URLs. All others have the whole limit; beyond ten thousand URLs the rest share one.
    pub(super) fn publish(&self) {
        if self.mode == Mode::Off {
            self.effective.clear();
            return;
        }
        if let Some(share) = self.fixed() {
            let (whole, units) = (self.limit.units(), part_of(self.limit.units(), share));
            self.effective.replace_keys::<&[u8]>([]);
            self.effective.set(if units < whole { units } else { u64::MAX });
            return;
        }
        let (mut others, mut each) = (u64::MAX, Vec::new());
        let now = self.target.now();
        let mut urls = self.target.urls();
        let is_full = urls.is_full();
        let mut add = |url: Option<&str>, units: u64| match url {
            Some(url) => each.push((url.to_owned(), units)),
            None if is_full => others = units,
            None => {}
        };
        match self.limit {
            UrlLimit::Units(whole, ramp) => {
                let in_force = |units| if units < whole { units } else { u64::MAX };
                urls.limits(&ramp, whole, now).for_each(|(url, it)| add(url, in_force(it)));
            }
            UrlLimit::Uncapped { least } => {
                for (url, units) in urls.limits_from_busiest(least, now) {
                    add(url, units.unwrap_or(u64::MAX));
                }
            }
        }
        drop(urls);
        // A fast URL must not get the limit of those that are not tracked.
        let has_own = |(_, units): &(String, u64)| *units < u64::MAX || others < u64::MAX;
        self.effective.replace_keys(each.into_iter().filter(has_own));
        self.effective.set(others);
    }
}
