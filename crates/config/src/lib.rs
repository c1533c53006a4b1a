//! The configuration: from a file to checked things, in two steps.
//!
//! - Step one, what was written: [`yaml`] parses within bounds into [`node`]s that know their places, [`environment`] puts
//!   variables in, [`conform`] holds them against the [`schema`] of [`text`], the one definition of what can be written.
//! - Step two, what it means: the other files turn text into policies, addresses and routes that cannot be wrong.
//!
//! Both go on after a problem, so that all of a file's problems are told at once. Neither opens, binds or connects
//! anything: `tidegate validate` is these two steps alone.
#![forbid(unsafe_code)]

mod adaptive;
mod address;
mod alone;
mod amount;
mod conform;
pub mod demo;
mod door;
mod doors;
mod environment;
pub mod envoy;
mod exact;
mod exposure;
mod foreign;
pub mod import;
mod listen;
mod node;
mod overrides;
pub mod plan;
mod policy;
mod problem;
pub mod proxy;
mod reference;
mod rls;
mod schema;
mod secret;
mod store;
pub mod stores;
mod telemetry;
mod text;
mod yaml;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate::Policy;
use tidegate::adaptive::Priority;

use self::adaptive::Notes;
pub use self::address::Address;
pub use self::door::{BY_REQUEST, DoorName, RESERVED_NAMES, UNKNOWN};
pub use self::doors::DoorRules;
pub use self::exact::Exact;
pub use self::exposure::Exposure;
pub use self::listen::{Listen, Listens, TlsFiles};
use self::node::{Node, Spot, Value};
pub use self::overrides::network as network_of_key;
pub use self::policy::limit_from_line;
pub use self::problem::{Position, Problem, Problems};
pub use self::reference::table as reference;
pub use self::rls::{Manner, Rls, Shadow};
use self::schema::SCHEMA;
pub use self::schema::for_editors as schema_for_editors;
pub use self::secret::{Secret, SecretSource, checked_token};
pub use self::store::StoreChoice;
use crate::plan::Plan;
use crate::proxy::Settings;

/// Every key, with comments.
pub const EXAMPLE: &str = include_str!("example.yaml");

/// What every key in a store begins with, unless told.
const KEY_PREFIX: &str = "tg";

/// How many signals are followed at once: more could not be told apart.
const SIGNALS_MAX: usize = 900;

/// The file that is read where none is named, if it is there.
const USUAL: &str = "tidegate.yaml";

/// The usual file, if there is one.
pub fn usual_path() -> Option<PathBuf> {
    Path::new(USUAL).exists().then(|| PathBuf::from(USUAL))
}

/// A file that has been checked.
#[derive(Clone, Debug)]
pub struct Config {
    pub store: StoreChoice,
    pub listen: Listens,
    pub key_prefix: String,
    pub policies: BTreeMap<String, Policy>,
    /// The limits that follow the load.
    pub plans: Vec<Plan>,
    /// Who gives way first, of policies that say so.
    pub priorities: BTreeMap<String, Priority>,
    /// What will not do well, though it can be done.
    pub warnings: Vec<Problem>,
    pub doors: DoorRules,
    /// What Envoy's descriptors mean.
    pub rls: Arc<Rls>,
    /// Where requests are passed on to; given if the proxy's door is open.
    pub proxy: Option<Settings>,
    /// Where spans and figures are sent.
    pub collector: Option<String>,
}

impl Default for Config {
    /// What an empty file says.
    fn default() -> Self {
        Self {
            store: StoreChoice::by_url("memory:".to_owned()),
            listen: Listens::default(),
            key_prefix: KEY_PREFIX.to_owned(),
            policies: BTreeMap::new(),
            plans: Vec::new(),
            priorities: BTreeMap::new(),
            warnings: Vec::new(),
            doors: DoorRules::default(),
            rls: Arc::default(),
            proxy: None,
            collector: None,
        }
    }
}

impl Config {
    /// Reads and checks a file.
    pub fn read(path: &Path) -> Result<Self, Problems> {
        let text = contents(path).map_err(|problem| Problems::new(path, vec![problem]))?;
        Self::parse(&text, &environment::of_process).map_err(|found| Problems::new(path, found))
    }

    /// Checks what a file holds.
    pub fn parse(text: &str, lookup: environment::Lookup<'_>) -> Result<Self, Vec<Problem>> {
        Self::of(yaml::parse(text).map_err(|problem| vec![problem])?, lookup)
    }

    /// Checks a policy that stands by itself, as if it were the only one of a file. The environment stays out of it:
    /// whoever wrote this need not be who started the process.
    pub fn of_policy(name: &str, text: &str) -> Result<Self, Vec<Problem>> {
        let node = yaml::parse(text).map_err(|problem| vec![problem])?;
        Self::of(alone::alone(name, node), &|_| None)
    }

    fn of(node: Node, lookup: environment::Lookup<'_>) -> Result<Self, Vec<Problem>> {
        let (file, node) = written(node, lookup)?;
        let mut found = Vec::new();
        let config = Self::check(&file, &Spot::top(&node), &mut found);
        if found.is_empty() { Ok(config) } else { Err(found) }
    }

    fn check(file: &text::File, top: &Spot<'_>, found: &mut Vec<Problem>) -> Self {
        let mut policies = BTreeMap::new();
        for (name, text) in &file.policies {
            let checked = policy::policy(name, text, &top.of("policies").of(name), found);
            policies.extend(checked.map(|policy| (name.clone(), policy)));
        }
        let mut warnings = Vec::new();
        let mut notes = Notes { found, warnings: &mut warnings };
        let plans = plans(file, &top.of("policies"), &mut notes);
        overrides::add(file, &mut policies, &top.of("overrides"), &mut notes);
        if file.mode == Some(text::Mode::Shadow) {
            policies = policies.into_iter().map(|(name, it)| (name, it.shadow(true))).collect();
        }
        let listen = listen::listens(file, &top.of("listen"), found);
        Self {
            store: store::store(file.store.as_ref(), &top.of("store"), found),
            proxy: proxy::proxy(file, &listen, top, found),
            listen,
            key_prefix: key_prefix(file, &top.of("key_prefix"), found),
            policies,
            doors: doors::doors(file, &plans, top, found),
            plans,
            priorities: maps(file)
                .filter_map(|(name, options)| Some((name.clone(), adaptive::class_of(options)?)))
                .collect(),
            warnings,
            rls: Arc::new(Rls { manner: doors::manner(file), ..Rls::default() }),
            collector: telemetry::collector(file.telemetry.as_ref(), &top.of("telemetry"), found),
        }
    }
}

/// The limits that follow the load.
fn plans(file: &text::File, spot: &Spot<'_>, notes: &mut Notes<'_>) -> Vec<Plan> {
    let mut plans = Vec::new();
    let has_places = maps(file).any(|(_, options)| adaptive::bounds_places(options));
    for (name, options) in maps(file) {
        plans.extend(adaptive::plans(name, options, has_places, &spot.of(name), notes));
    }
    let count = plans.iter().flat_map(Plan::targets).count();
    if count > SIGNALS_MAX {
        notes
            .found
            .push(spot.problem(format!("follow {count} signals: expected at most {SIGNALS_MAX}")));
    }
    let mut shown = BTreeSet::new();
    for plan in &plans {
        if !shown.insert(plan.shown()) {
            let message = format!("metrics would call two limits `{}`: rename one", plan.shown());
            notes.found.push(spot.of(&plan.policy).problem(message));
        }
    }
    plans
}

/// The policies that say more than a line.
fn maps(file: &text::File) -> impl Iterator<Item = (&String, &text::PolicyOptions)> {
    file.policies.iter().filter_map(|(name, policy)| match policy {
        text::Policy::Map(options) => Some((name, &**options)),
        text::Policy::Line(_) => None,
    })
}

/// Step one: what was written, with its places.
fn written(
    mut node: Node,
    lookup: environment::Lookup<'_>,
) -> Result<(text::File, Node), Vec<Problem>> {
    if matches!(node.value, Value::Null) {
        node.value = Value::Map(Vec::new());
    }
    let mut found = Vec::new();
    environment::substitute(&mut node, lookup, &mut found);
    conform::conform(&mut node, &SCHEMA, "", &mut found);
    if !found.is_empty() {
        return Err(found);
    }
    // What conforms can be read; if not, the schema says too little.
    let file = serde_json::from_value(node.to_json());
    let file = file.map_err(|error| vec![Problem::new(node.position, error.to_string())])?;
    Ok((file, node))
}

fn contents(path: &Path) -> Result<String, Problem> {
    let unread = |why: String| Problem::new(Position::START, format!("cannot be read: {why}"));
    let file = fs::File::open(path).map_err(|error| unread(error.to_string()))?;
    let mut bytes = Vec::new();
    // One more than is allowed, to know whether there is more.
    let most = yaml::BYTES_MAX as u64 + 1;
    file.take(most).read_to_end(&mut bytes).map_err(|error| unread(error.to_string()))?;
    if bytes.len() > yaml::BYTES_MAX {
        return Err(yaml::too_long());
    }
    String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = before.split(|byte| *byte == b'\n').count() as u64;
        Problem::new(Position { line, column: 1 }, "is no UTF-8")
    })
}

fn key_prefix(file: &text::File, spot: &Spot<'_>, found: &mut Vec<Problem>) -> String {
    let Some(prefix) = &file.key_prefix else { return KEY_PREFIX.to_owned() };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    if prefix.is_empty() || prefix.len() > 64 || !prefix.bytes().all(plain) {
        found.push(spot.problem("expected 1 to 64 letters, digits, `-`, `_`, `.` or `:`"));
    }
    prefix.clone()
}

#[cfg(test)]
mod tests;
