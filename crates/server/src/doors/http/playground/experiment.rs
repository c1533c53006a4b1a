//! What can be tried, and `GET /v1/playground`, which tells the range of every slider.

use std::collections::BTreeMap;

use axum::response::Response;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::super::json;
use super::overload;
use tidegate_simulation::{Knob, Unfit, algorithms, boundary, clock_skew, race, sync_lag};

/// A simulation with numbers to choose.
pub(super) trait Experiment: DeserializeOwned + Default + Send + 'static {
    type Report: Serialize;

    fn knobs(&self) -> Vec<Knob>;

    fn run(&self) -> Result<Self::Report, Unfit>;
}

/// Those that are bounded as they are.
macro_rules! as_they_are {
    ($($simulation:ident),*) => {$(
        impl Experiment for $simulation::Input {
            type Report = $simulation::Report;

            fn knobs(&self) -> Vec<Knob> {
                $simulation::knobs(self).to_vec()
            }

            fn run(&self) -> Result<Self::Report, Unfit> {
                $simulation::run(self)
            }
        }
    )*};
}

as_they_are!(algorithms, boundary, clock_skew, race, sync_lag);

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
        ("algorithms", told(|input: &algorithms::Input| Some(input.seed))),
        ("boundary", told(|_: &boundary::Input| None)),
        ("clock-skew", told(|input: &clock_skew::Input| Some(input.seed))),
        ("overload", Told { scenarios: overload::choices().collect(), ..overload }),
        ("race", told(|input: &race::Input| Some(input.seed))),
        ("sync-lag", told(|input: &sync_lag::Input| Some(input.seed))),
    ];
    json(&Listed { experiments: experiments.into() })
}
