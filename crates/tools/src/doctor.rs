//! `tidegate doctor`: examines a store, and prints findings with remedies.
//!
//! - `nodes` finds the servers of a URL, each a `server` with a `connection`.
//! - `collect`, with `permissions` and `scan`, reads the `facts` of a server.
//! - `checks` are pure functions from facts to `finding`s, tested as rows of data.
//! - `script` runs the scripts through the real client.

mod checks;
mod collect;
mod connection;
mod facts;
mod nodes;
mod permissions;
mod print;
mod scan;
mod script;
mod server;
mod timing;

use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::process::ExitCode;

use self::connection::ConnectError;
use self::facts::Role;
use self::server::RedisServer;
use super::failure::block_on;
use super::{ERROR, Failure, OK};
use tidegate::driver::{self, StoreDrivers};
use tidegate::driver::{Finding, Severity};
use tidegate_config::Config;
use tidegate_redis::{RedisUrl, Topology};

const EXAMPLES: &str = "\
Examples:
  tidegate doctor                                    redis://127.0.0.1:6379
  tidegate doctor --store redis://app:PASSWORD@10.0.0.5:6379
  tidegate doctor --store redis+cluster://10.0.0.5:7000,10.0.0.6:7000
  tidegate doctor --store redis+sentinel://10.0.0.5,10.0.0.6,10.0.0.7/mymaster
  tidegate doctor -c tidegate.yaml                   the store of a configuration
  tidegate doctor --nodes 12                         is there room for twelve nodes?
  tidegate doctor --json | jq '.[] | select(.severity != \"ok\")'

It reads, and runs every script once with keys of its own, which are deleted or
expire within a day. Use the URL that tidegate will use: permissions count.
Severities: ok; note: good to know; warning: works, and one day may not; fault:
does not work, or is about to stop.

Exit codes: 0 no fault, 1 a fault or an error, 64 usage.";

/// Look for what is wrong with a store, and say what to do about it.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct DoctorArgs {
    /// The configuration whose store to look at
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["store", "key_prefix"])]
    config: Option<PathBuf>,
    /// The store to look at
    #[arg(long, value_name = "URL", default_value = "redis://127.0.0.1:6379")]
    store: String,
    /// What every key of tidegate begins with
    #[arg(long, value_name = "PREFIX", default_value = "tg")]
    key_prefix: String,
    /// How many tidegate processes will use the store
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    nodes: u64,
    /// Print the findings as a JSON array
    #[arg(long)]
    json: bool,
}

impl DoctorArgs {
    /// With each store of the configuration, if there is one.
    fn configured(&self, stores: StoreDrivers) -> Result<Vec<Self>, Failure> {
        let Some(file) = &self.config else { return Ok(vec![self.clone()]) };
        let config =
            Config::read(file, stores).map_err(|problems| Failure::new(problems.to_string()))?;
        let url = config.store.url.read();
        let url = url.map_err(|why| Failure::new(format!("store.url_file: {why}")))?;
        let nodes = config.store.nodes.map_or(self.nodes, |nodes| nodes.get().into());
        let main = Self { store: url.0, key_prefix: config.key_prefix, nodes, ..self.clone() };
        let Some(quorum) = &config.store.quorum else { return Ok(vec![main]) };
        let url = quorum.read();
        let url = url.map_err(|why| Failure::new(format!("store.quorum_file: {why}")))?;
        let quorum = Self { store: url.0, ..main.clone() };
        Ok(vec![main, quorum])
    }
}

/// What tidegate needs from the store.
struct Requirements {
    key_prefix: String,
    nodes: u64,
    /// Of this run, so that two runs do not interfere.
    id: String,
}

impl Requirements {
    /// The name of a key that only this run uses.
    fn key(&self, what: &str) -> String {
        format!("{}:{{doctor-{}}}:{what}", self.key_prefix, self.id)
    }
}

/// Examines, prints, and exits with 1 on a fault.
pub fn run(args: &DoctorArgs, stores: StoreDrivers) -> Result<ExitCode, Failure> {
    let mut findings = Vec::new();
    for args in args.configured(stores)? {
        findings.extend(block_on(examine(&args, stores))?);
    }
    print::print(&findings, args.json)?;
    let worst = findings.iter().map(|finding| finding.severity).max();
    Ok(ExitCode::from(if worst == Some(Severity::Fault) { ERROR } else { OK }))
}

async fn examine(args: &DoctorArgs, stores: StoreDrivers) -> Result<Vec<Finding>, Failure> {
    let url = driver::normalized(&args.store);
    if stores.is_local(url) {
        let seen = "the state is in each process's own memory: there is nothing to connect to";
        return Ok(vec![Finding::ok("reach", seen)]);
    }
    let is_redis = RedisUrl::SCHEMES.iter().any(|scheme| url.starts_with(scheme));
    if !is_redis {
        return examine_other(url, args, stores).await;
    }
    let id = format!("{:08x}", RandomState::new().hash_one(()) >> 32);
    let requirements = Requirements { key_prefix: args.key_prefix.clone(), nodes: args.nodes, id };
    let not_reached = |why| vec![checks::not_reached(&ConnectError::Url(why), "redis-cli")];
    let parsed = match RedisUrl::parse(url) {
        Ok(parsed) => parsed,
        Err(error) => {
            return Ok(not_reached(format!("store {}: {error}", driver::redacted(url))));
        }
    };
    let store = script::open(url, &requirements.key_prefix, stores);
    if let (Topology::Single(_), Err(why)) = (&parsed.topology, &store) {
        return Ok(not_reached(why.clone()));
    }
    let nodes::Nodes { servers, mut findings } = nodes::find(&parsed).await;
    let mut reached = false;
    for server in &servers {
        let (of_node, answers) = examine_node(server, &requirements).await;
        findings.extend(of_node);
        reached |= answers && server.role != Role::Replica;
    }
    match store {
        Ok(store) if reached => {
            findings.extend(script::run(store, format!("doctor-{}", requirements.id)).await);
        }
        Ok(_) => {}
        Err(why) => findings.push(checks::not_opened(&why)),
    }
    Ok(findings)
}

/// A store that is not Redis: its driver knows what can be wrong with it, and every algorithm is run once.
async fn examine_other(
    url: &str,
    args: &DoctorArgs,
    stores: StoreDrivers,
) -> Result<Vec<Finding>, Failure> {
    stores.check(url).map_err(Failure::new)?;
    let driver = stores.find(url).map_err(Failure::new)?;
    let options = script::options(&args.key_prefix);
    let mut findings = match driver.examine(url, &options, args.nodes).await {
        Ok(findings) => findings,
        Err(error) => {
            let seen = format!("store {}: {error}", driver::redacted(url));
            return Ok(vec![
                Finding::fault("reach", seen)
                    .risk("every policy decides by on_store_error")
                    .remedy("start the store, or correct the URL"),
            ]);
        }
    };
    let id = format!("doctor-{:08x}", RandomState::new().hash_one(()) >> 32);
    let store = script::open(url, &args.key_prefix, stores).map_err(Failure::new)?;
    findings.extend(script::run(store, id).await);
    Ok(findings)
}

/// The findings of one server, and whether it answers.
async fn examine_node(server: &RedisServer, requirements: &Requirements) -> (Vec<Finding>, bool) {
    let mut connection = match nodes::connect(server).await {
        Ok(connection) => connection,
        Err(finding) if server.role == Role::Replica => {
            return (vec![nodes::as_warning(finding)], false);
        }
        Err(finding) => return (vec![finding], false),
    };
    let facts = collect::collect(&mut connection, server, requirements).await;
    let mut findings = vec![Finding::ok("reach", "it answers")];
    if let Some(why) = connection.lost {
        findings = vec![
            Finding::fault(
                "reach",
                format!("the connection was lost: {}", tidegate_core::text::printable(&why)),
            )
            .risk("what comes after it was not looked at")
            .remedy(format!("{} PING", server.cli)),
        ];
    }
    findings.extend(checks::all(&facts));
    (findings.into_iter().map(|finding| finding.at(&server.name)).collect(), true)
}
