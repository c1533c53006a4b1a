//! `POST /v1/playground/replay`: what a policy would have done to a log that somebody pasted.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use serde::Deserialize;
use tidegate::Policy;

use super::super::{Answered, body, json};
use super::turn;
use crate::doors::shared::Problem;
use crate::doors::shared::request::Text;
use crate::service::AppState;
use crate::service::InForce;
use tidegate_config::{Config, DoorRules};
use tidegate_request::KeyParts;
use tidegate_simulation::replay::{ReplayReport as Report, ReplaySettings, Replayer, replay};

/// What a policy is called that was only written down here.
const TRIED: &str = "tried";
const POLICY_BYTES_MAX: usize = 16 << 10;
const KEY_PARTS_MAX: usize = 8;
/// How many keys are listed, unless told, and at most.
const TOP: usize = 10;
const TOP_MAX: usize = 100;

/// One of `policy`, the name of one that is configured, and `policy_text`, one that is not; with neither the routes of
/// the configuration decide.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted<'a> {
    #[serde(borrow)]
    log: Text<'a>,
    #[serde(borrow)]
    policy: Option<Text<'a>>,
    #[serde(borrow)]
    policy_text: Option<Text<'a>>,
    /// Counted by, instead of what the route or the policy says.
    #[serde(default, borrow)]
    key: Vec<Text<'a>>,
    #[serde(default = "top")]
    top: usize,
}

const fn top() -> usize {
    TOP
}

pub(super) async fn run(State(app): State<Arc<AppState>>, body: Body) -> Answered {
    let body = body::read_batch(body).await?;
    turn::take(move || tried(&app.in_force(), &body)).await
}

fn tried(in_force: &InForce, body: &[u8]) -> Answered {
    let wanted: Wanted<'_> = body::decode(body)?;
    if !(1..=TOP_MAX).contains(&wanted.top) {
        return Err(Problem::bad_json("top", &format!("expected 1 to {TOP_MAX}")));
    }
    let judge = wanted.judge(in_force)?;
    // Bytes that are there cannot fail to be read.
    let report = replay(&judge, wanted.log.0.as_bytes(), wanted.top, |_, _| {})
        .map_err(|error| Problem::bad_field("log", &error.to_string()))?;
    if report.is_no_log() {
        return Err(no_log(&report));
    }
    Ok(json(&report))
}

impl Wanted<'_> {
    fn judge(&self, in_force: &InForce) -> Result<Replayer, Problem> {
        let key = self.key()?;
        let unfit = |why: String| Problem::bad_json("policy", &why);
        match (&self.policy, &self.policy_text) {
            (Some(_), Some(_)) => {
                Err(Problem::bad_field("policy_text", "and `policy` are both given: give one"))
            }
            (None, Some(Text(text))) => {
                let Config { policies, doors: rules, .. } = &written(text)?;
                let policy = Some(TRIED.to_owned());
                Replayer::new(trial(policies, rules, policy, key))
                    .map_err(|why| Problem::bad_json("policy_text", &why))
            }
            (Some(Text(name)), None) => {
                let policies = &only(in_force, name)?;
                let (rules, policy) = (&in_force.rules, Some(name.to_string()));
                Replayer::new(trial(policies, rules, policy, key)).map_err(unfit)
            }
            (None, None) => {
                let (policies, rules) = (&*in_force.written, &in_force.rules);
                Replayer::new(trial(policies, rules, None, key)).map_err(unfit)
            }
        }
    }

    fn key(&self) -> Result<Option<KeyParts>, Problem> {
        if self.key.is_empty() {
            return Ok(None);
        }
        if self.key.len() > KEY_PARTS_MAX {
            let what = format!("expected at most {KEY_PARTS_MAX} parts");
            return Err(Problem::bad_json("key", &what));
        }
        let parts = KeyParts::read(self.key.iter().map(|Text(part)| &**part));
        parts.map(Some).map_err(|error| Problem::bad_json("key", &error.to_string()))
    }
}

fn trial<'a>(
    policies: &'a BTreeMap<String, Policy>,
    rules: &DoorRules,
    policy: Option<String>,
    key: Option<KeyParts>,
) -> ReplaySettings<'a> {
    ReplaySettings {
        policies,
        client_ip: rules.client_ip.clone(),
        routes: rules.routes(),
        policy,
        key,
    }
}

/// The policy of a text, alone in a configuration.
fn written(text: &str) -> Result<Config, Problem> {
    if text.len() > POLICY_BYTES_MAX {
        let what = format!("is longer than {POLICY_BYTES_MAX} bytes");
        return Err(Problem::bad_field("policy_text", &what));
    }
    if text.trim().is_empty() {
        let what = "is empty: expected a policy like `100/min burst 20`, or one in YAML";
        return Err(Problem::bad_field("policy_text", what));
    }
    Config::of_policy(TRIED, text).map_err(|found| {
        let told: Vec<_> = found.iter().map(at_its_place).collect();
        Problem::bad_json("policy_text", &told.join("; "))
    })
}

/// Without the names that we have put around it.
fn at_its_place(problem: &tidegate_config::Problem) -> String {
    let tidegate_config::Problem { position: place, message } = problem;
    let around = format!("policies.{TRIED}");
    let message = message.strip_prefix(&around).unwrap_or(message);
    let message = message.trim_start_matches(['.', ':', ' ']);
    format!("line {}, column {}: {message}", place.line, place.column)
}

/// The configured policy of this name, and no other, since nobody asks for those.
fn only(in_force: &InForce, name: &str) -> Result<BTreeMap<String, Policy>, Problem> {
    let found = in_force.written.get_key_value(name);
    let found = found.ok_or_else(|| Problem::unknown_policy(name, in_force.closest(name)))?;
    Ok(BTreeMap::from([(found.0.clone(), found.1.clone())]))
}

fn no_log(report: &Report) -> Problem {
    let reasons = report.first_unreadable.iter();
    let reasons = reasons.map(|it| format!("line {}: {}", it.line, it.reason));
    let told = reasons.collect::<Vec<_>>().join("; ");
    let what = "has not one line of an access log: expected common, combined or JSON lines";
    Problem::bad_field("log", &format!("{what} ({told})"))
}
