//! `tidegate doctor`: connects to a store, looks, and tells what it found and what to do about it.
//!
//! - `url`, `nodes` and `place` find the servers that a URL stands for; `connect` speaks to one.
//! - `collect`, with `rights` and `scan`, gathers what is to be known about a server into `facts`.
//! - `checks` turn facts into `finding`s, and do nothing else: they are tested as rows of data.
//! - `script` runs the real script through the real client.

mod checks;
mod collect;
mod connect;
mod facts;
mod finding;
mod nodes;
mod place;
mod print;
mod rights;
mod scan;
mod script;
mod watch;

use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::process::ExitCode;

use self::connect::Refusal;
use self::facts::Part;
use self::finding::{Finding, Severity};
use self::place::Place;
use super::{ERROR, Failure, OK};
use tidegate::driver::{self, StoreDrivers};
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
pub struct Args {
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

impl Args {
    /// With what the configuration says, if there is one.
    fn configured(&self, stores: StoreDrivers) -> Result<Self, Failure> {
        let Some(file) = &self.config else { return Ok(self.clone()) };
        let config =
            Config::read(file, stores).map_err(|problems| Failure::new(problems.to_string()))?;
        let url = config.store.url.read();
        let url = url.map_err(|why| Failure::new(format!("store.url_file: {why}")))?;
        let nodes = config.store.nodes.map_or(self.nodes, |nodes| nodes.get().into());
        Ok(Self { store: url.0, key_prefix: config.key_prefix, nodes, ..self.clone() })
    }
}

/// What the store is wanted for.
struct Wants {
    key_prefix: String,
    nodes: u64,
    /// Of this run, so that two doctors are not in each other's way.
    id: String,
}

impl Wants {
    /// The name of a key that only this run uses.
    fn key(&self, what: &str) -> String {
        format!("{}:{{doctor-{}}}:{what}", self.key_prefix, self.id)
    }
}

/// Looks, prints, and exits with 1 on a fault.
pub fn run(args: &Args, stores: StoreDrivers) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(format!("cannot start: {error}")))?;
    let findings = runtime.block_on(examine(&args.configured(stores)?, stores))?;
    print::print(&findings, args.json)?;
    let worst = findings.iter().map(|finding| finding.severity).max();
    Ok(ExitCode::from(if worst == Some(Severity::Fault) { ERROR } else { OK }))
}

async fn examine(args: &Args, stores: StoreDrivers) -> Result<Vec<Finding>, Failure> {
    let url = driver::normalized(&args.store);
    if stores.is_local(url) {
        let seen = "the state is in each process's own memory: there is nothing to connect to";
        return Ok(vec![Finding::ok("reach", seen)]);
    }
    let is_redis = RedisUrl::SCHEMES.iter().any(|scheme| url.starts_with(scheme));
    if let Err(why) = stores.check(url)
        && !is_redis
    {
        return Err(Failure::new(why));
    }
    let id = format!("{:08x}", RandomState::new().hash_one(()) >> 32);
    let wants = Wants { key_prefix: args.key_prefix.clone(), nodes: args.nodes, id };
    let not_reached = |why| vec![checks::not_reached(&Refusal::Url(why), "redis-cli")];
    let parsed = match RedisUrl::parse(url) {
        Ok(parsed) => parsed,
        Err(error) => {
            return Ok(not_reached(format!("store {}: {error}", driver::redacted(url))));
        }
    };
    let store = script::open(url, &wants.key_prefix, stores);
    if let (Topology::Single(_), Err(why)) = (&parsed.topology, &store) {
        return Ok(not_reached(why.clone()));
    }
    let nodes::Nodes { places, mut findings } = nodes::find(&parsed).await;
    let mut reached = false;
    for place in &places {
        let (of_node, answers) = examine_node(place, &wants).await;
        findings.extend(of_node);
        reached |= answers && place.part != Part::Replica;
    }
    match store {
        Ok(store) if reached => {
            findings.extend(script::look(store, format!("doctor-{}", wants.id)).await);
        }
        Ok(_) => {}
        Err(why) => findings.push(checks::not_opened(&why)),
    }
    Ok(findings)
}

/// What is to be said about one server, and whether it answers.
async fn examine_node(place: &Place, wants: &Wants) -> (Vec<Finding>, bool) {
    let mut look = match nodes::reach(place).await {
        Ok(look) => look,
        Err(finding) if place.part == Part::Replica => {
            return (vec![nodes::softened(finding)], false);
        }
        Err(finding) => return (vec![finding], false),
    };
    let facts = collect::collect(&mut look, place, wants).await;
    let mut findings = vec![Finding::ok("reach", "it answers")];
    if let Some(why) = look.lost {
        findings = vec![
            Finding::fault(
                "reach",
                format!("the connection was lost: {}", tidegate_core::text::printable(&why)),
            )
            .risk("what comes after it was not looked at")
            .remedy(format!("{} PING", place.cli)),
        ];
    }
    findings.extend(checks::all(&facts));
    (findings.into_iter().map(|finding| finding.at(&place.name)).collect(), true)
}
