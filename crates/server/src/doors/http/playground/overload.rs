//! `POST /v1/playground/overload`: one scenario, a few runs, on one thread.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use tidegate_simulation::overload::{
    self as simulation, ControllerRow, Overload, SCENARIOS, Scenario, ScenarioReport,
};
use tidegate_simulation::{Experiment, InputError, Knob, StopFlag};

/// One run of a controller takes about 13 ms, and there are eight controllers.
const SEEDS: RangeInclusive<u64> = 1..=3;
const LIMIT: RangeInclusive<u64> = 1..=2000;
/// Longer scenarios take seconds to simulate, and are left to the command line.
const LASTS_S_MAX: u64 = 60;

#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct OverloadInput {
    scenario: String,
    seeds: u64,
    pub(super) seed: u64,
    limit: u64,
}

impl Default for OverloadInput {
    fn default() -> Self {
        let Overload { seed, limit, .. } = Overload::default();
        Self { scenario: SCENARIOS[0].name.to_owned(), seeds: 1, seed, limit }
    }
}

/// A scenario that can be chosen.
#[derive(Serialize)]
pub(super) struct ScenarioInfo {
    name: &'static str,
    about: &'static str,
}

pub(super) fn choices() -> impl Iterator<Item = ScenarioInfo> {
    let is_short = |scenario: &&Scenario| scenario.lasts_s <= LASTS_S_MAX;
    let choice = |scenario: &Scenario| ScenarioInfo { name: scenario.name, about: scenario.about };
    SCENARIOS.iter().filter(is_short).map(choice)
}

#[derive(Serialize)]
pub(super) struct OverloadReport {
    seeds: u64,
    seed: u64,
    limit: u64,
    scenario: &'static str,
    about: &'static str,
    judged_s: [u64; 2],
    possible: u64,
    controllers: Vec<ControllerResult>,
}

/// A row, and the requests served in time per second, with the first seed.
#[derive(Serialize)]
struct ControllerResult {
    course: Vec<f64>,
    #[serde(flatten)]
    row: ControllerRow,
}

impl Experiment for OverloadInput {
    type Report = OverloadReport;

    fn knobs(&self) -> Vec<Knob> {
        vec![Knob::new("limit", self.limit, &LIMIT), Knob::new("seeds", self.seeds, &SEEDS)]
    }

    fn run_until(&self, stop: &StopFlag) -> Result<OverloadReport, InputError> {
        Knob::check_all(&self.knobs())?;
        if !choices().any(|choice| choice.name == self.scenario) {
            let known = choices().map(|choice| choice.name).collect::<Vec<_>>().join(", ");
            return Err(InputError::new("scenario", format!("one of {known}")));
        }
        let &Self { seeds, seed, limit, .. } = self;
        let scenario = vec![self.scenario.clone()];
        let input = Overload { scenario, seeds, seed, limit };
        let mut report = simulation::run(&input, 1, stop, |_, _| {})?;
        let block = report.scenarios.pop();
        let ScenarioReport { scenario, about, judged_s, possible, controllers } =
            block.ok_or_else(|| InputError::new("scenario", "a known scenario"))?;
        let draw = |mut row: ControllerRow| ControllerResult {
            course: std::mem::take(&mut row.course),
            row,
        };
        let controllers = controllers.into_iter().map(draw).collect();
        Ok(OverloadReport { seeds, seed, limit, scenario, about, judged_s, possible, controllers })
    }
}
