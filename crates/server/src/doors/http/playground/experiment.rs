//! What can be tried, and `GET /v1/playground`, which tells the range of every slider.

use std::collections::BTreeMap;

use axum::response::Response;
use serde::Serialize;

use super::super::json;
use super::overload;
use tidegate_simulation::algorithms::Algorithms;
use tidegate_simulation::boundary::Boundary;
use tidegate_simulation::clock_skew::ClockSkew;
use tidegate_simulation::race::Race;
use tidegate_simulation::sync_lag::SyncLag;
use tidegate_simulation::{Experiment, Knob};

#[derive(Serialize)]
struct Listed {
    experiments: BTreeMap<&'static str, Told>,
}

/// What there is to choose.
#[derive(Serialize)]
struct Told {
    knobs: Vec<Knob>,
    /// Where chance begins, unless told otherwise; only where it has a part in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    scenarios: Vec<overload::Choice>,
}

fn told<E: Experiment>(seed: impl FnOnce(&E) -> Option<u64>) -> Told {
    let usual = E::default();
    Told { knobs: usual.knobs(), seed: seed(&usual), scenarios: Vec::new() }
}

pub(super) async fn list() -> Response {
    let overload = told(|input: &overload::Input| Some(input.seed));
    let experiments = [
        ("algorithms", told(|input: &Algorithms| Some(input.seed))),
        ("boundary", told(|_: &Boundary| None)),
        ("clock-skew", told(|input: &ClockSkew| Some(input.seed))),
        ("overload", Told { scenarios: overload::choices().collect(), ..overload }),
        ("race", told(|input: &Race| Some(input.seed))),
        ("sync-lag", told(|input: &SyncLag| Some(input.seed))),
    ];
    json(&Listed { experiments: experiments.into() })
}
