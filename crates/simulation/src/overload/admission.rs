//! The controllers that are compared, and the limit that each sets.

use std::time::Duration;

use tidegate_core::adaptive::{
    Cap, CapSample, Chain, Controller, Hysteresis, Priority, Reading, Settings, Smoothing,
    TickSummary, WarmUp,
};
use tidegate_core::{Gcra, Limit, State, Timestamp};

use super::backend::WORKERS;
use super::scenario::CAPACITY;
use crate::InputError;

/// What AIMD adds while the backend is healthy, and the readings at which it halves.
const AIMD_ADDS: u64 = CAPACITY / 20;
const AIMD_WAIT_MS: f64 = 100.0;
const AIMD_ERRORS: f64 = 0.05;

/// What sets the limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ControllerKind {
    None,
    Static,
    Raw,
    Pressure,
    Aimd,
    Default,
    Gradient,
    Classes,
}

/// All controllers, with the names that they have in a report.
pub(super) const CONTROLLERS: [(ControllerKind, &str); 8] = [
    (ControllerKind::None, "none"),
    (ControllerKind::Static, "static 360"),
    (ControllerKind::Raw, "raw 1−CPU"),
    (ControllerKind::Pressure, "pressure + EMA"),
    (ControllerKind::Aimd, "AIMD"),
    (ControllerKind::Default, "default + cap 32"),
    (ControllerKind::Gradient, "default + gradient"),
    (ControllerKind::Classes, "default + classes"),
];

/// The readings at a tick.
#[derive(Clone, Copy, Debug)]
pub(super) struct Signal {
    pub(super) cpu: Reading,
    pub(super) seen: TickSummary,
    pub(super) in_flight: u64,
}

impl Signal {
    /// Replaces the reading of the probe, and those of the responses.
    pub(super) fn read_as(self, probe: Reading, responses: Reading) -> Self {
        let seen =
            TickSummary { queue_wait: responses, errors: responses, ..TickSummary::default() };
        Self { cpu: probe, seen, ..self }
    }
}

/// The limit in force, and what sets it.
pub(super) struct Admission {
    declared: Limit,
    /// For people, and for bots.
    in_force: Option<[Limit; 2]>,
    state: State,
    cap: Option<Cap>,
    has_classes: bool,
    source: LimitSource,
}

/// The priorities of people and bots, with classes.
const CLASSES: [Priority; 2] = [Priority::Critical, Priority::BestEffort];

enum LimitSource {
    Fixed,
    /// The production code, on one of the two signals.
    Cpu(Controller),
    Queue(Controller),
    Aimd(u64),
}

impl Admission {
    pub(super) fn new(kind: ControllerKind, limit: u64) -> Result<Self, InputError> {
        let invalid = |error: &dyn std::fmt::Display| InputError::new("limit", error.to_string());
        let units = if kind == ControllerKind::Static { CAPACITY * 9 / 10 } else { limit };
        let declared: Limit = Gcra::new(units, Duration::from_secs(1), units)?.into();
        let controller = |settings| Controller::new(settings, limit).map_err(|it| invalid(&it));
        let source = match kind {
            ControllerKind::None | ControllerKind::Static => LimitSource::Fixed,
            ControllerKind::Raw => LimitSource::Cpu(controller(raw())?),
            ControllerKind::Pressure => LimitSource::Cpu(controller(one(Chain::pressure("cpu")))?),
            ControllerKind::Aimd => LimitSource::Aimd(limit),
            ControllerKind::Default | ControllerKind::Gradient | ControllerKind::Classes => {
                LimitSource::Queue(controller(Settings::default())?)
            }
        };
        let cap = match kind {
            ControllerKind::Default | ControllerKind::Classes => Some(Cap::fixed(WORKERS)),
            ControllerKind::Gradient => Some(Cap::gradient(WORKERS)),
            _ => None,
        };
        let cap = cap.transpose().map_err(|it| invalid(&it))?;
        let in_force = (kind != ControllerKind::None).then(|| [declared.clone(), declared.clone()]);
        let has_classes = kind == ControllerKind::Classes;
        Ok(Self { declared, in_force, state: State::Empty, cap, has_classes, source })
    }

    pub(super) fn admits(&mut self, now: Timestamp, in_flight: u64, is_bot: bool) -> bool {
        let class = usize::from(is_bot);
        let slots = self.cap.map(|cap| cap.slots());
        let slots = slots.map(|it| if self.has_classes { CLASSES[class].slots(it) } else { it });
        // A request above the cap is not charged.
        slots.is_none_or(|slots| in_flight < slots)
            && self
                .in_force
                .as_ref()
                .is_none_or(|limits| limits[class].take(&mut self.state, now, 1).allowed())
    }

    pub(super) fn tick(&mut self, signal: &Signal, now: Timestamp) {
        let TickSummary { queue_wait, errors, .. } = signal.seen;
        let units = match &mut self.source {
            LimitSource::Fixed => return,
            LimitSource::Cpu(controller) => [controller.step(&[signal.cpu], now).limit; 2],
            LimitSource::Queue(controller) => {
                let output = controller.step(&[queue_wait, errors], now);
                if self.has_classes {
                    CLASSES.map(|class| output.for_priority(class, self.declared.units()))
                } else {
                    [output.limit; 2]
                }
            }
            LimitSource::Aimd(units) => {
                *units = aimd(*units, &signal.seen).clamp(1, self.declared.units());
                [*units; 2]
            }
        };
        self.in_force = Some(units.map(|units| self.declared.effective(units)));
        self.step_cap(signal);
    }

    fn step_cap(&mut self, signal: &Signal) {
        let TickSummary { latency_ms, baseline_ms, .. } = signal.seen;
        let (Some(cap), Some(latency_ms), Some(baseline_ms)) =
            (&mut self.cap, latency_ms, baseline_ms)
        else {
            return;
        };
        let (in_flight, is_stale) = (signal.in_flight, false);
        cap.step(CapSample { latency_ms, baseline_ms, in_flight, is_stale });
    }

    /// The pressure that is in force.
    pub(super) fn pressure(&self) -> f64 {
        match &self.source {
            LimitSource::Cpu(controller) | LimitSource::Queue(controller) => {
                controller.output().pressure
            }
            LimitSource::Fixed | LimitSource::Aimd(_) => 0.0,
        }
    }
}

/// Valid settings with one chain.
fn one(chain: Chain) -> Settings {
    Settings::from_chains([chain]).unwrap_or_default()
}

/// Each reading takes effect at once, without smoothing.
fn raw() -> Settings {
    let chain = Chain::pressure("cpu").smoothing(Smoothing::NONE).hysteresis(Hysteresis::NONE);
    one(chain).warm_up(WarmUp::NONE)
}

fn aimd(units: u64, seen: &TickSummary) -> u64 {
    let above = |reading, most| matches!(reading, Reading::Value(value) if value > most);
    if above(seen.queue_wait, AIMD_WAIT_MS) || above(seen.errors, AIMD_ERRORS) {
        units / 2
    } else {
        units + AIMD_ADDS
    }
}
