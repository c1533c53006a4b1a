//! Who decides: the controllers that are compared, and the limit that each keeps in force.

use std::time::Duration;

use tidegate_core::adaptive::{
    Cap, CapSample, Chain, Controller, Hysteresis, Priority, Reading, Settings, Smoothing,
    TickSummary, WarmUp,
};
use tidegate_core::{Gcra, Limit, State, Timestamp};

use super::plant::WORKERS;
use super::scenario::CAPACITY;
use crate::Unfit;

/// What AIMD adds while all is well, and from when on it halves.
const AIMD_ADDS: u64 = CAPACITY / 20;
const AIMD_WAIT_MS: f64 = 100.0;
const AIMD_ERRORS: f64 = 0.05;

/// Who decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    None,
    Static,
    Raw,
    Pressure,
    Aimd,
    Default,
    Gradient,
    Classes,
}

impl Way {
    pub(super) const ALL: [Self; 8] = [
        Self::None,
        Self::Static,
        Self::Raw,
        Self::Pressure,
        Self::Aimd,
        Self::Default,
        Self::Gradient,
        Self::Classes,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Static => "static 360",
            Self::Raw => "raw 1−CPU",
            Self::Pressure => "pressure + EMA",
            Self::Aimd => "AIMD",
            Self::Default => "default + cap 32",
            Self::Gradient => "default + gradient",
            Self::Classes => "default + classes",
        }
    }
}

/// What is known at a tick.
#[derive(Clone, Copy, Debug)]
pub(super) struct Signal {
    pub(super) cpu: Reading,
    pub(super) seen: TickSummary,
    pub(super) in_flight: u64,
}

impl Signal {
    /// The same, had a probe read this, and whoever looks at responses that.
    pub(super) fn read_as(self, probe: Reading, responses: Reading) -> Self {
        let seen =
            TickSummary { queue_wait: responses, errors: responses, ..TickSummary::default() };
        Self { cpu: probe, seen, ..self }
    }
}

/// A limit in force, and who sets it.
pub(super) struct Gate {
    declared: Limit,
    /// For people, and for bots.
    in_force: Option<[Limit; 2]>,
    state: State,
    cap: Option<Cap>,
    has_classes: bool,
    mind: Mind,
}

/// What people and bots are, where there are classes.
const CLASSES: [Priority; 2] = [Priority::Critical, Priority::BestEffort];

enum Mind {
    Fixed,
    /// The production code, on one of the two signals.
    Cpu(Controller),
    Queue(Controller),
    Aimd(u64),
}

impl Gate {
    pub(super) fn new(way: Way, limit: u64) -> Result<Self, Unfit> {
        let unfit = |error: &dyn std::fmt::Display| Unfit::new("limit", error.to_string());
        let units = if way == Way::Static { CAPACITY * 9 / 10 } else { limit };
        let declared: Limit = Gcra::new(units, Duration::from_secs(1), units)?.into();
        let controller = |settings| Controller::new(settings, limit).map_err(|it| unfit(&it));
        let mind = match way {
            Way::None | Way::Static => Mind::Fixed,
            Way::Raw => Mind::Cpu(controller(raw())?),
            Way::Pressure => Mind::Cpu(controller(one(Chain::pressure("cpu")))?),
            Way::Aimd => Mind::Aimd(limit),
            Way::Default | Way::Gradient | Way::Classes => {
                Mind::Queue(controller(Settings::default())?)
            }
        };
        let cap = match way {
            Way::Default | Way::Classes => Some(Cap::fixed(WORKERS)),
            Way::Gradient => Some(Cap::gradient(WORKERS)),
            _ => None,
        };
        let cap = cap.transpose().map_err(|it| unfit(&it))?;
        let in_force = (way != Way::None).then(|| [declared.clone(), declared.clone()]);
        let has_classes = way == Way::Classes;
        Ok(Self { declared, in_force, state: State::Empty, cap, has_classes, mind })
    }

    pub(super) fn admits(&mut self, now: Timestamp, in_flight: u64, is_bot: bool) -> bool {
        let class = usize::from(is_bot);
        let places = self.cap.map(|cap| cap.places());
        let places =
            if self.has_classes { places.map(|it| CLASSES[class].places(it)) } else { places };
        // Who has no place is not charged.
        places.is_none_or(|places| in_flight < places)
            && self
                .in_force
                .as_ref()
                .is_none_or(|limits| limits[class].take(&mut self.state, now, 1).allowed())
    }

    pub(super) fn tick(&mut self, signal: &Signal, now: Timestamp) {
        let TickSummary { queue_wait, errors, .. } = signal.seen;
        let units = match &mut self.mind {
            Mind::Fixed => return,
            Mind::Cpu(controller) => [controller.step(&[signal.cpu], now).limit; 2],
            Mind::Queue(controller) => {
                let output = controller.step(&[queue_wait, errors], now);
                if self.has_classes {
                    CLASSES.map(|class| output.for_priority(class, self.declared.units()))
                } else {
                    [output.limit; 2]
                }
            }
            Mind::Aimd(units) => {
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

    /// The pressure that is in force, for whoever measures.
    pub(super) fn pressure(&self) -> f64 {
        match &self.mind {
            Mind::Cpu(controller) | Mind::Queue(controller) => controller.output().pressure,
            Mind::Fixed | Mind::Aimd(_) => 0.0,
        }
    }
}

/// Settings of one chain, which are valid.
fn one(chain: Chain) -> Settings {
    Settings::from_chains([chain]).unwrap_or_default()
}

/// What is read counts at once, as many do it.
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
