//! `/v1/playground`: simulations and replays for the dashboard. The numbers come from the core; the page only draws
//! them.
//!
//! Every client that may send a check may run them, so every input has bounds, and [`worker`] runs only a few at once,
//! each for a few seconds at most.

mod overload;
mod replay;
mod worker;

use std::collections::BTreeMap;

use serde::Serialize;

use super::router::{Route, get, post};
use super::{ApiRequest, HandlerResult, body, json};
use crate::doors::shared::Problem;
use tidegate_simulation::algorithms::Algorithms;
use tidegate_simulation::boundary::Boundary;
use tidegate_simulation::clock_skew::ClockSkew;
use tidegate_simulation::race::Race;
use tidegate_simulation::sync_lag::SyncLag;
use tidegate_simulation::{Experiment, InputError, Knob};

pub(super) fn routes() -> [Route; 8] {
    [
        ("/v1/playground", get(list)),
        ("/v1/playground/algorithms", post(run::<Algorithms>)),
        ("/v1/playground/boundary", post(run::<Boundary>)),
        ("/v1/playground/clock-skew", post(run::<ClockSkew>)),
        ("/v1/playground/overload", post(run::<overload::OverloadInput>)),
        ("/v1/playground/race", post(run::<Race>)),
        ("/v1/playground/replay", post(replay::run)),
        ("/v1/playground/sync-lag", post(run::<SyncLag>)),
    ]
}

/// Runs an experiment. Missing fields have defaults, so the body may be empty.
async fn run<E: Experiment>(ApiRequest { body, .. }: ApiRequest) -> HandlerResult {
    let body = body::read(body).await?;
    let sent = if body.is_empty() { b"{}" } else { &*body };
    let input: E = body::decode(sent).map_err(with_range::<E>)?;
    worker::run(move |stop| {
        let report = input.run_until(stop).map_err(|error| out_of_bounds(&error))?;
        Ok(json(&report))
    })
    .await
}

/// A value that is not a number gets the same hint as a number out of range.
fn with_range<E: Experiment>(problem: Problem) -> Problem {
    let knobs = E::default().knobs();
    let knob = knobs.iter().find(|knob| problem.field() == Some(knob.field));
    knob.map_or(problem, |knob| {
        out_of_bounds(&InputError { field: knob.field, expected: knob.expected() })
    })
}

fn out_of_bounds(error: &InputError) -> Problem {
    Problem::bad_json(error.field, &format!("expected {}", error.expected))
}

#[derive(Serialize)]
struct ExperimentList {
    experiments: BTreeMap<&'static str, ExperimentInfo>,
}

/// The inputs of an experiment.
#[derive(Serialize)]
struct ExperimentInfo {
    knobs: Vec<Knob>,
    /// The default seed, if the experiment is random.
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    scenarios: Vec<overload::ScenarioInfo>,
}

fn experiment_info<E: Experiment>(seed: impl FnOnce(&E) -> Option<u64>) -> ExperimentInfo {
    let defaults = E::default();
    ExperimentInfo { knobs: defaults.knobs(), seed: seed(&defaults), scenarios: Vec::new() }
}

/// `GET /v1/playground`: the range of every slider.
async fn list(_: ApiRequest) -> HandlerResult {
    let overload = experiment_info(|input: &overload::OverloadInput| Some(input.seed));
    let experiments = [
        ("algorithms", experiment_info(|input: &Algorithms| Some(input.seed))),
        ("boundary", experiment_info(|_: &Boundary| None)),
        ("clock-skew", experiment_info(|input: &ClockSkew| Some(input.seed))),
        ("overload", ExperimentInfo { scenarios: overload::choices().collect(), ..overload }),
        ("race", experiment_info(|input: &Race| Some(input.seed))),
        ("sync-lag", experiment_info(|input: &SyncLag| Some(input.seed))),
    ];
    Ok(json(&ExperimentList { experiments: experiments.into() }))
}
