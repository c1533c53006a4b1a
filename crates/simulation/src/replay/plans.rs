//! The plans of requests, as a header of the log names them.

use std::collections::BTreeMap;

use serde::Serialize;

use super::record::Record;
use super::report::percent;
use tidegate_core::text::printable;

/// The header that names the plan of a request, unless another is given.
pub(super) const DEFAULT_HEADER: &str = "x-plan";
/// Plans that are counted one by one: anybody may have written the log.
const PLANS_MAX: usize = 100;
const OTHERS: &str = "(others)";

/// The requests of a plan.
#[derive(Default)]
pub(super) struct PlanCounts {
    requests: u64,
    denied: u64,
}

/// What a policy does to the requests of a plan.
#[derive(Debug, Serialize)]
pub struct PlanReport {
    pub plan: String,
    pub requests: u64,
    pub admitted: u64,
    pub denied: u64,
    pub denied_percent: f64,
}

/// The value of this header, which is in lower case.
pub(super) fn plan_of(record: &Record<'_>, header: &str) -> Option<String> {
    let found = record.headers.iter().find(|(name, _)| name == header);
    found.map(|(_, plan)| printable(plan))
}

/// What is counted for a plan.
pub(super) fn entry<T: Default>(plans: &mut BTreeMap<String, T>, plan: String) -> &mut T {
    let has_room = plans.len() < PLANS_MAX || plans.contains_key(&plan);
    plans.entry(if has_room { plan } else { OTHERS.to_owned() }).or_default()
}

impl PlanCounts {
    pub(super) fn add(&mut self, denied: bool) {
        self.requests += 1;
        self.denied += u64::from(denied);
    }

    pub(super) fn report(&self, plan: &str) -> PlanReport {
        let Self { requests, denied } = *self;
        PlanReport {
            plan: plan.to_owned(),
            requests,
            admitted: requests - denied,
            denied,
            denied_percent: percent(denied, requests),
        }
    }
}
