//! `POST /v1/playground/replay`: what a policy would have decided on a pasted access log.

use std::collections::BTreeMap;

use http::StatusCode;
use serde::{Deserialize, Deserializer};
use tidegate::driver::StoreDrivers;
use tidegate::{MemoryStore, Policy};
use tidegate_core::LimitSpec;

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
    #[serde(default)]
    key: KeyList,
    #[serde(default = "top")]
    top: usize,
}

const fn top() -> usize {
    TOP
}

/// Key parts: a list, or text with commas as on the command line.
#[derive(Default)]
struct KeyList(Vec<String>);

impl<'de> Deserialize<'de> for KeyList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Sent {
            One(String),
            Many(Vec<String>),
        }
        let parts = match Sent::deserialize(deserializer)? {
            Sent::One(text) => text.split(',').map(|part| part.trim().to_owned()).collect(),
            Sent::Many(parts) => parts,
        };
        Ok(Self(parts))
    }
}

pub(super) async fn run(ApiRequest { api, body, .. }: ApiRequest) -> HandlerResult {
    let body = body::read_batch(body).await.map_err(|problem| {
        let is_long = problem.status() == StatusCode::PAYLOAD_TOO_LARGE;
        let advice = "send a part of the log, or read all of it with `tidegate replay LOG`";
        if is_long { problem.advise(advice) } else { problem }
    })?;
    worker::run(move |stop| replay_log(&api.app.in_force(), &body, stop)).await
}

fn replay_log(in_force: &InForce, body: &[u8], stop: &StopFlag) -> HandlerResult {
    let request: ReplayRequest<'_> = body::decode(body).map_err(explained)?;
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

/// Says what a field holds where its type is wrong.
fn explained(problem: Problem) -> Problem {
    let field = problem.field().unwrap_or_default().to_owned();
    let expected = match field.split(['.', '[']).next().unwrap_or_default() {
        "policy" => "expected the name of one policy: send a request for each",
        "policy_text" => {
            "expected one policy as text, like \"100/min burst 20\": send a request for each"
        }
        "policies" => {
            "is unknown: `policy` names one policy, `policy_text` is one: send a request for each"
        }
        "key" => "expected key parts, like [\"client_ip\",\"path\"] or \"client_ip,path\"",
        _ => return problem,
    };
    Problem::bad_json(&field, expected)
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
                let Config { policies, doors: rules, .. } = &parse_policy(text, in_force)?;
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
        let KeyList(parts) = &self.key;
        if parts.is_empty() {
            return Ok(None);
        }
        let parts = KeyParts::read(parts.iter().map(String::as_str));
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
fn parse_policy(text: &str, in_force: &InForce) -> Result<Config, Problem> {
    if text.len() > POLICY_BYTES_MAX {
        let what = format!("is longer than {POLICY_BYTES_MAX} bytes");
        return Err(Problem::bad_field("policy_text", &what));
    }
    if text.trim().is_empty() {
        let what = "is empty: expected a policy like `100/min burst 20`, or one in YAML";
        return Err(Problem::bad_field("policy_text", what));
    }
    let is_name = in_force.written.contains_key(text.trim());
    Config::from_policy(TRIAL_POLICY, text).map_err(|found| {
        if is_name {
            let what = "is the name of a configured policy: send it as `policy`";
            return Problem::bad_field("policy_text", what);
        }
        if Config::parse(text, &|_| None, StoreDrivers::MEMORY).is_ok() {
            let what = "has several policies: expected one, send a request for each";
            return Problem::bad_field("policy_text", what);
        }
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
    let found = found.ok_or_else(|| {
        let unknown = Problem::unknown_policy(name, None);
        let is_limit = LimitSpec::from_line(name).is_ok();
        if is_limit { unknown.advise("a limit goes into `policy_text`") } else { unknown }
    })?;
    Ok(BTreeMap::from([(found.0.clone(), found.1.clone())]))
}

fn no_log(report: &Report) -> Problem {
    let reasons = report.first_unreadable.iter();
    let reasons = reasons.map(|it| format!("line {}: {}", it.line, it.reason));
    let reasons = reasons.collect::<Vec<_>>().join("; ");
    let what = "has no line of an access log: expected common, combined or JSON lines";
    Problem::bad_field("log", &format!("{what} ({reasons})"))
}
