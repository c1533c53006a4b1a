//! The configuration: from a file to checked plain data, in two steps.
//!
//! - Step one, the form: [`yaml`] parses within bounds into [`node`]s with positions, [`environment`] substitutes
//!   variables, [`conform`] checks the nodes against the JSON Schema of [`text`], the one definition of all keys.
//! - Step two, the meaning: the other modules turn `text` into policies, addresses and routes that cannot be wrong.
//!
//! Both go on after a problem, so that a file's problems are all reported at once. Neither binds or connects anything:
//! `tidegate validate` is these two steps, and then the server's look at the files that are named.
//!
//! A new key is a field in `text` and the place that uses it. Tests fail until `schema.json`, the reference and the
//! example have it.
#![forbid(unsafe_code)]

mod adaptive;
mod address;
mod amount;
mod changes;
mod conform;
pub mod demo;
mod door;
mod doors;
mod environment;
pub mod envoy;
mod foreign;
pub mod import;
mod jwt;
mod listen;
mod node;
mod overrides;
mod per_client;
pub mod plan;
mod policy;
mod problem;
pub mod proxy;
mod reference;
mod reload;
mod routes;
mod safe_integer;
mod salvage;
mod schema;
mod secret;
mod share;
mod single_policy;
mod store;
mod telemetry;
mod text;
mod yaml;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate::driver::StoreDrivers;

use tidegate::Policy;
use tidegate::adaptive::Priority;

pub use self::address::Address;
pub use self::changes::{Change, changes};
pub use self::door::{BY_REQUEST, Door, Exposure, RESERVED_NAMES, UNKNOWN};
pub use self::doors::DoorRules;
pub use self::envoy::{AnswerStyle, Rls, Shadow};
pub use self::jwt::TokenKeys;
pub use self::listen::{Listener, short_password};
use self::node::{Cursor, Node, Value};
pub use self::overrides::network as network_of_key;
pub use self::per_client::PerClient;
pub use self::policy::{first_periods, limit_from_line, limit_from_line_times};
use self::problem::Report;
pub use self::problem::{Position, Problem, Problems};
pub use self::reference::table as reference;
pub use self::reload::{Forgotten, forgotten};
pub use self::safe_integer::SafeInteger;
use self::schema::SCHEMA;
pub use self::schema::for_editors as schema_for_editors;
pub use self::secret::{Secret, SecretSource, checked_token};
pub use self::store::StoreChoice;
pub use self::text::TlsFiles;
use crate::plan::Plan;
use crate::proxy::Settings;

/// A commented example with every key.
pub const EXAMPLE: &str = include_str!("example.yaml");

/// The warning about a file that sets nothing.
const EMPTY: &str = "the file is empty: there is no policy to ask. Write `policies: { api: 100/min }`, or see \
                     `tidegate config example`";

/// The default prefix of keys in a store.
const KEY_PREFIX: &str = "tg";

/// A bound on the signals of all adaptive limits, for metrics and memory.
const SIGNALS_MAX: usize = 900;

/// The file that is read by default, if it exists.
const DEFAULT_FILE: &str = "tidegate.yaml";

/// The default file, `tidegate.yaml`, if it exists.
pub fn usual_path() -> Option<PathBuf> {
    Path::new(DEFAULT_FILE).exists().then(|| PathBuf::from(DEFAULT_FILE))
}

/// A configuration, or its problems with what is warned of beside them.
type Examined = (Result<Config, Vec<Problem>>, Vec<Problem>);

/// A checked configuration.
#[derive(Clone, Debug)]
pub struct Config {
    pub store: StoreChoice,
    /// The doors that are open.
    pub listen: BTreeMap<Door, Listener>,
    pub key_prefix: String,
    pub policies: BTreeMap<String, Policy>,
    /// The adaptive limits.
    pub plans: Vec<Plan>,
    /// The priorities of policies that have one.
    pub priorities: BTreeMap<String, Priority>,
    /// Settings that are valid, but will probably not work well.
    pub warnings: Vec<Problem>,
    pub doors: DoorRules,
    /// The rules and options of Envoy's rate limit service.
    pub rls: Arc<Rls>,
    /// The reverse proxy, if it is configured.
    pub proxy: Option<Settings>,
    /// The URL of the OpenTelemetry collector.
    pub collector: Option<String>,
}

impl Default for Config {
    /// The configuration of an empty file.
    fn default() -> Self {
        let (position, value) = (Position::START, Value::Map(Vec::new()));
        let node = Node::new(position, value, (0, 0));
        let (file, report) = (text::File::default(), Report::default());
        Self::check(&file, &Cursor::top(&node, &report), StoreDrivers::MEMORY)
    }
}

impl Config {
    /// Reads and checks a file.
    pub fn read(path: &Path, stores: StoreDrivers) -> Result<Self, Problems> {
        let text = contents(path).map_err(|problem| Problems::new(path, vec![problem]))?;
        let (parsed, warnings) = Self::examine(&text, &environment::process_variable, stores);
        parsed.map_err(|problems| Problems::new(path, problems).beside(warnings))
    }

    /// Checks the text of a file.
    pub fn parse(
        text: &str,
        lookup: environment::Lookup<'_>,
        stores: StoreDrivers,
    ) -> Result<Self, Vec<Problem>> {
        Self::examine(text, lookup, stores).0
    }

    /// The same, with the warnings about a file that has problems.
    fn examine(text: &str, lookup: environment::Lookup<'_>, stores: StoreDrivers) -> Examined {
        match yaml::parse_beside(text) {
            Ok((node, twice)) => Self::from_node(node, twice, lookup, stores),
            Err(problem) => (Err(vec![problem]), Vec::new()),
        }
    }

    /// Checks the text of one policy, as if it were the only one of a file. It may come from a stranger, so that no
    /// environment variable is substituted.
    pub fn from_policy(name: &str, text: &str) -> Result<Self, Vec<Problem>> {
        let (node, twice) = yaml::parse_beside(text).map_err(|problem| vec![problem])?;
        let node = single_policy::wrap(name, node);
        Self::from_node(node, twice, &|_| None, StoreDrivers::MEMORY).0
    }

    fn from_node(
        node: Node,
        twice: Option<Problem>,
        lookup: environment::Lookup<'_>,
        stores: StoreDrivers,
    ) -> Examined {
        let is_empty = matches!(&node.value, Value::Null)
            || matches!(&node.value, Value::Map(entries) if entries.is_empty());
        let Written { file, node, mut problems } = match written(node, lookup) {
            Ok(written) => written,
            Err(problems) => return (Err(twice.into_iter().chain(problems).collect()), Vec::new()),
        };
        let report = Report::default();
        let config = Self::check(&file, &Cursor::top(&node, &report), stores);
        problems.extend(twice);
        problems.extend(report.problems.into_inner());
        let mut warnings = report.warnings.into_inner();
        if !problems.is_empty() {
            return (Err(problems), warnings);
        }
        warnings.extend(is_empty.then(|| Problem::new(Position::START, EMPTY)));
        (Ok(Self { warnings, ..config }), Vec::new())
    }

    fn check(file: &text::File, top: &Cursor<'_>, stores: StoreDrivers) -> Self {
        let mut policies = BTreeMap::new();
        for (name, text) in &file.policies {
            let checked = policy::policy(name, text, &top.field("policies").field(name));
            policies.extend(checked.map(|policy| (name.clone(), policy)));
        }
        share::check(file, &policies, &top.field("policies"));
        let plans = plans(file, &top.field("policies"));
        overrides::add(file, &mut policies, &top.field("overrides"));
        routes::warn_of_costs(file, &policies, &top.field("routes"));
        if file.mode == Some(text::Mode::Shadow) {
            policies = policies.into_iter().map(|(name, it)| (name, it.shadow(true))).collect();
        }
        let listen = listen::listeners(file, &top.field("listen"));
        let store = store::store(file.store.as_ref(), stores, &top.field("store"));
        store::check_policies(&store, stores, &policies, top);
        let proxy = proxy::proxy(file, listen.contains_key(&Door::Proxy), top);
        proxy::check_in_flight(proxy.as_ref(), &store, stores, top);
        let doors = doors::doors(file, &plans, top);
        for (section, shows) in [("dashboard", doors.shows_keys), ("logs", doors.logs_keys)] {
            if store.hash_keys && shows {
                let why = "`store.hash_keys` hides all keys: leave this out, or `hash_keys`";
                top.field(section).field("keys").report(why);
            }
        }
        Self {
            store,
            proxy,
            listen,
            key_prefix: key_prefix(file, &top.field("key_prefix")),
            policies,
            doors,
            plans,
            priorities: map_policies(file)
                .filter_map(|(name, options)| Some((name.clone(), adaptive::priority_of(options)?)))
                .collect(),
            warnings: Vec::new(),
            rls: Arc::new(Rls { style: doors::answer_style(file), ..Rls::default() }),
            collector: telemetry::collector(file.telemetry.as_ref(), &top.field("telemetry")),
        }
    }
}

/// The adaptive limits of all policies.
fn plans(file: &text::File, cursor: &Cursor<'_>) -> Vec<Plan> {
    let mut plans = Vec::new();
    let has_places = map_policies(file).any(|(_, options)| adaptive::has_in_flight(options));
    for (name, options) in map_policies(file) {
        plans.extend(adaptive::plans(name, options, has_places, &cursor.field(name)));
    }
    let count = plans.iter().flat_map(Plan::targets).count();
    if count > SIGNALS_MAX {
        cursor
            .report(format!("{count} signals for adaptive limits: expected at most {SIGNALS_MAX}"));
    }
    let mut names = BTreeSet::new();
    for plan in &plans {
        if !names.insert(plan.display_name()) {
            let message =
                format!("two limits are called `{}` in metrics: rename one", plan.display_name());
            cursor.field(&plan.policy).report(message);
        }
    }
    plans
}

/// The policies that are maps.
fn map_policies(file: &text::File) -> impl Iterator<Item = (&String, &text::PolicyOptions)> {
    file.policies.iter().filter_map(|(name, policy)| match policy {
        text::Policy::Map(options) => Some((name, &**options)),
        text::Policy::Line(_) => None,
    })
}

/// Step one: the text of a file as typed data, its nodes, and the problems of its form.
struct Written {
    /// Without the parts that have problems.
    file: text::File,
    node: Node,
    problems: Vec<Problem>,
}

fn written(mut node: Node, lookup: environment::Lookup<'_>) -> Result<Written, Vec<Problem>> {
    if matches!(node.value, Value::Null) {
        node.value = Value::Map(Vec::new());
    }
    let mut problems = Vec::new();
    environment::substitute(&mut node, lookup, &mut problems);
    conform::conform(&mut node, &SCHEMA, "", &mut problems);
    let has_bad_jwt = !problems.is_empty() && salvage::salvage(&mut node).contains("jwt");
    // A file that conforms to the schema can be read; otherwise the schema is too wide.
    match serde_json::from_value::<text::File>(node.to_json()) {
        Ok(file) => Ok(Written { file: text::File { has_bad_jwt, ..file }, node, problems }),
        Err(_) if !problems.is_empty() => Err(problems),
        Err(error) => Err(vec![Problem::new(node.position, error.to_string())]),
    }
}

/// Where a file has a key, given by the names on the way to it, or what is closest around it.
pub fn position_of(path: &Path, key: &[String]) -> Position {
    let Ok(top) = contents(path).and_then(|text| yaml::parse(&text)) else {
        return Position::START;
    };
    let mut found = &top;
    for name in key {
        let Some(inner) = found.get(name) else { break };
        found = inner;
    }
    found.position
}

fn contents(path: &Path) -> Result<String, Problem> {
    let unread = |why: String| Problem::new(Position::START, format!("cannot be read: {why}"));
    let file = fs::File::open(path).map_err(|error| unread(error.to_string()))?;
    let mut bytes = Vec::new();
    // One byte more than allowed, to detect a file that is too long.
    let bytes_max = yaml::BYTES_MAX as u64 + 1;
    file.take(bytes_max).read_to_end(&mut bytes).map_err(|error| unread(error.to_string()))?;
    if bytes.len() > yaml::BYTES_MAX {
        return Err(yaml::too_long());
    }
    String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = before.split(|byte| *byte == b'\n').count() as u64;
        Problem::new(Position { line, column: 1 }, "is not UTF-8")
    })
}

fn key_prefix(file: &text::File, cursor: &Cursor<'_>) -> String {
    let Some(prefix) = &file.key_prefix else { return KEY_PREFIX.to_owned() };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    if prefix.is_empty() || prefix.len() > 64 || !prefix.bytes().all(plain) {
        cursor.report("expected 1 to 64 letters, digits, `-`, `_`, `.` or `:`");
    }
    prefix.clone()
}

#[cfg(test)]
mod tests;
