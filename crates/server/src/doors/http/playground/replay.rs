//! `POST /v1/playground/replay`: what a policy would have decided on a pasted access log.

use std::collections::BTreeMap;

use serde::Deserialize;
use tidegate::{MemoryStore, Policy};

use super::super::{ApiRequest, HandlerResult, body, json};
use super::worker;
use crate::doors::shared::Problem;
use crate::doors::shared::request::Text;
use crate::service::InForce;
use tidegate_config::{Config, DoorRules};
use tidegate_request::KeyParts;
use tidegate_simulation::StopFlag;
use tidegate_simulation::replay::{ReplayReport as Report, ReplaySettings, Replayer, replay};

/// The name of a policy given as text.
const TRIAL_POLICY: &str = "tried";
const POLICY_BYTES_MAX: usize = 16 << 10;
/// Bytes of a log times the routes, key parts and limits that may read each. `docs/playground.md` says how long that takes.
const WORK_MAX: usize = 256 << 20;
/// What the counters of one replay may take, beside those of the server.
const STORE_BYTES_MAX: usize = 16 << 20;
/// Listed keys: default and maximum.
const TOP: usize = 10;
const TOP_MAX: usize = 100;

/// `policy` names a configured policy, `policy_text` is a policy itself; without either, the configured routes decide.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReplayRequest<'a> {
    #[serde(borrow)]
    log: Text<'a>,
    #[serde(borrow)]
    policy: Option<Text<'a>>,
    #[serde(borrow)]
    policy_text: Option<Text<'a>>,
    /// The key to count by, instead of the route's or the policy's.
    #[serde(default, borrow)]
    key: Vec<Text<'a>>,
    #[serde(default = "top")]
    top: usize,
}

const fn top() -> usize {
    TOP
}

pub(super) async fn run(ApiRequest { api, body, .. }: ApiRequest) -> HandlerResult {
    let body = body::read_batch(body).await?;
    worker::run(move |stop| replay_log(&api.app.in_force(), &body, stop)).await
}

fn replay_log(in_force: &InForce, body: &[u8], stop: &StopFlag) -> HandlerResult {
    let request: ReplayRequest<'_> = body::decode(body)?;
    if !(1..=TOP_MAX).contains(&request.top) {
        return Err(Problem::bad_json("top", &format!("expected 1 to {TOP_MAX}")));
    }
    let replayer = request.replayer(in_force)?;
    let log_bytes_max = WORK_MAX / replayer.work_per_byte();
    if request.log.0.len() > log_bytes_max {
        let what = format!(
            "is too long for this many routes, key parts and limits: send at most {log_bytes_max} bytes, or use \
             `tidegate replay`"
        );
        return Err(Problem::bad_field("log", &what));
    }
    // Reading from memory cannot fail.
    let report = replay(&replayer, request.log.0.as_bytes(), request.top, stop, |_, _| {})
        .map_err(|error| Problem::bad_field("log", &error.to_string()))?;
    if report.is_no_log() {
        return Err(no_log(&report));
    }
    Ok(json(&report))
}

impl ReplayRequest<'_> {
    fn replayer(&self, in_force: &InForce) -> Result<Replayer, Problem> {
        let key = self.key()?;
        let bad_policy = |why: String| Problem::bad_json("policy", &why);
        match (&self.policy, &self.policy_text) {
            (Some(_), Some(_)) => {
                Err(Problem::bad_field("policy_text", "and `policy` are both given: give one"))
            }
            (None, Some(Text(text))) => {
                let Config { policies, doors: rules, .. } = &parse_policy(text)?;
                let policy = vec![TRIAL_POLICY.to_owned()];
                Replayer::new(settings(policies, rules, policy, key))
                    .map_err(|why| Problem::bad_json("policy_text", &why))
            }
            (Some(Text(name)), None) => {
                let policies = &only_policy(in_force, name)?;
                let (rules, policy) = (&in_force.rules, vec![name.to_string()]);
                Replayer::new(settings(policies, rules, policy, key)).map_err(bad_policy)
            }
            (None, None) => {
                let (policies, rules) = (&*in_force.written, &in_force.rules);
                Replayer::new(settings(policies, rules, Vec::new(), key)).map_err(bad_policy)
            }
        }
    }

    fn key(&self) -> Result<Option<KeyParts>, Problem> {
        if self.key.is_empty() {
            return Ok(None);
        }
        let parts = KeyParts::read(self.key.iter().map(|Text(part)| &**part));
        parts.map(Some).map_err(|error| Problem::bad_json("key", &error))
    }
}

fn settings<'a>(
    policies: &'a BTreeMap<String, Policy>,
    rules: &DoorRules,
    asked: Vec<String>,
    key: Option<KeyParts>,
) -> ReplaySettings<'a> {
    ReplaySettings {
        policies,
        store: MemoryStore::with_max_bytes(STORE_BYTES_MAX),
        client_ip: rules.client_ip.clone(),
        routes: rules.routes(),
        asked,
        key,
    }
}

/// Parses a policy as the only one of a configuration.
fn parse_policy(text: &str) -> Result<Config, Problem> {
    if text.len() > POLICY_BYTES_MAX {
        let what = format!("is longer than {POLICY_BYTES_MAX} bytes");
        return Err(Problem::bad_field("policy_text", &what));
    }
    if text.trim().is_empty() {
        let what = "is empty: expected a policy like `100/min burst 20`, or one in YAML";
        return Err(Problem::bad_field("policy_text", what));
    }
    Config::from_policy(TRIAL_POLICY, text).map_err(|found| {
        let problems: Vec<_> = found.iter().map(describe).collect();
        Problem::bad_json("policy_text", &problems.join("; "))
    })
}

/// Removes the prefix of the generated configuration from an error.
fn describe(problem: &tidegate_config::Problem) -> String {
    let tidegate_config::Problem { position: place, message } = problem;
    let prefix = format!("policies.{TRIAL_POLICY}");
    let message = message.strip_prefix(&prefix).unwrap_or(message);
    let message = message.trim_start_matches(['.', ':', ' ']);
    format!("line {}, column {}: {message}", place.line, place.column)
}

/// The configured policy of this name.
fn only_policy(in_force: &InForce, name: &str) -> Result<BTreeMap<String, Policy>, Problem> {
    let found = in_force.written.get_key_value(name);
    let found = found.ok_or_else(|| Problem::unknown_policy(name, None))?;
    Ok(BTreeMap::from([(found.0.clone(), found.1.clone())]))
}

fn no_log(report: &Report) -> Problem {
    let reasons = report.first_unreadable.iter();
    let reasons = reasons.map(|it| format!("line {}: {}", it.line, it.reason));
    let reasons = reasons.collect::<Vec<_>>().join("; ");
    let what = "has no line of an access log: expected common, combined or JSON lines";
    Problem::bad_field("log", &format!("{what} ({reasons})"))
}
