//! `/v1/playground`: what the command line simulates and replays, for a page. The numbers are those of the core; the
//! page only draws them.
//!
//! Anybody who may ask for a check may ask here, so that every input has bounds, and [`turn`] lets only a few run at
//! once.

mod experiment;
mod overload;
mod replay;
mod turn;

use axum::body::Body;
use axum::routing::{MethodRouter, get, post};

use super::{Answered, Api, body, json};
use crate::doors::shared::Problem;
use tidegate_simulation::algorithms::Algorithms;
use tidegate_simulation::boundary::Boundary;
use tidegate_simulation::clock_skew::ClockSkew;
use tidegate_simulation::race::Race;
use tidegate_simulation::sync_lag::SyncLag;
use tidegate_simulation::{Experiment, InputError};

pub(super) fn routes() -> [(&'static str, MethodRouter<Api>); 8] {
    [
        ("/v1/playground", get(experiment::list)),
        ("/v1/playground/algorithms", post(run::<Algorithms>)),
        ("/v1/playground/boundary", post(run::<Boundary>)),
        ("/v1/playground/clock-skew", post(run::<ClockSkew>)),
        ("/v1/playground/overload", post(run::<overload::Input>)),
        ("/v1/playground/race", post(run::<Race>)),
        ("/v1/playground/replay", post(replay::run)),
        ("/v1/playground/sync-lag", post(run::<SyncLag>)),
    ]
}

/// Runs an experiment. What is left out is usual, so that a body may be left out too.
async fn run<E: Experiment>(body: Body) -> Answered {
    let body = body::read(body).await?;
    let sent = if body.is_empty() { b"{}" } else { &*body };
    let input: E = body::decode(sent).map_err(with_range::<E>)?;
    turn::take(move || {
        let report = input.run().map_err(|error| out_of_bounds(&error))?;
        Ok(json(&report))
    })
    .await
}

/// What cannot even be read as a number is told what would have been right, as numbers out of their bounds are.
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
