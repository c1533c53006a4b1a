//! `tidegate doctor`: examines a store, and prints findings with remedies.
//!
//! The store's driver knows what can be wrong with its servers. `script` runs every algorithm through the real client.

mod files;
mod in_flight;
mod overrides;
mod print;
mod recovery;
mod script;

use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::process::ExitCode;

use self::recovery::PolicyLife;
use super::failure::block_on;
use super::{ERROR, Failure, OK};
use tidegate::driver::{self, Finding, Severity, StoreDriver, StoreDrivers};
use tidegate::{Policy, StoreError, StoreErrorKind};
use tidegate_config::Config;

const EXAMPLES: &str = "\
Examples:
  tidegate doctor                                    redis://127.0.0.1:6379
  tidegate doctor --store redis://app:PASSWORD@10.0.0.5:6379
  tidegate doctor --store redis+cluster://10.0.0.5:7000,10.0.0.6:7000
  tidegate doctor --store redis+sentinel://10.0.0.5,10.0.0.6,10.0.0.7/mymaster
  tidegate doctor -c tidegate.yaml                   the store of a configuration
  tidegate doctor --nodes 12                         is there room for twelve nodes?
  tidegate doctor --store dynamodb://tidegate --create   make the table, then look
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
    /// How many tidegate processes will use the store; by default `store.nodes` of the configuration, or 1
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    nodes: Option<u64>,
    /// First make what the store needs and is not there yet: the table of DynamoDB
    #[arg(long)]
    create: bool,
    /// Print the findings as a JSON array
    #[arg(long)]
    json: bool,
}

impl DoctorArgs {
    fn read_config(&self, stores: StoreDrivers) -> Result<Option<Config>, Failure> {
        let config = self.config.as_ref().map(|file| Config::read(file, stores)).transpose();
        config.map_err(|problems| Failure::new(problems.to_string()))
    }

    fn nodes(&self) -> u64 {
        self.nodes.unwrap_or(1)
    }

    /// With each store of the configuration, if there is one, and what it keeps there.
    fn configured(&self, config: Option<&Config>) -> Result<Vec<(Self, StoreUse)>, Failure> {
        let Some(config) = config else { return Ok(vec![(self.clone(), StoreUse::default())]) };
        let url = config.store.url.read();
        let url = url.map_err(|why| Failure::new(format!("store.url_file: {why}")))?;
        let nodes = self.nodes.or_else(|| nodes_in(config));
        let key_prefix = config.key_prefix.clone();
        let main = Self { store: url.0, key_prefix, nodes, ..self.clone() };
        let Some(quorum) = &config.store.quorum else {
            return Ok(vec![(main, StoreUse::new(config, |_| true))]);
        };
        let url = quorum.read();
        let url = url.map_err(|why| Failure::new(format!("store.quorum_file: {why}")))?;
        let quorum = Self { store: url.0, ..main.clone() };
        let in_main = StoreUse::new(config, |policy| !policy.is_in_quorum());
        let in_quorum = StoreUse::new(config, Policy::is_in_quorum);
        Ok(vec![(main, in_main), (quorum, in_quorum)])
    }
}

/// What a configuration keeps in a store.
#[derive(Debug, Default)]
struct StoreUse {
    lives: Vec<PolicyLife>,
    hashes_keys: bool,
}

impl StoreUse {
    fn new(config: &Config, is_counted: impl Fn(&Policy) -> bool) -> Self {
        let lives = recovery::lives(config, is_counted);
        Self { lives, hashes_keys: config.store.hash_keys }
    }
}

fn nodes_in(config: &Config) -> Option<u64> {
    config.store.nodes.map(|nodes| nodes.get().into())
}

/// `--nodes` counts; while the store fails, what the file says does.
fn other_nodes(given: u64, config: &Config) -> Option<Finding> {
    let in_file = nodes_in(config).filter(|nodes| *nodes != given)?;
    let seen = format!("looked at for {given} (--nodes); store.nodes is {in_file}");
    Some(
        Finding::note("nodes", seen)
            .risk(format!("while the store fails each node has 1/{in_file} of each limit"))
            .remedy("store.nodes: the number of nodes that run, or without it they are counted"),
    )
}

/// Examines, prints, and exits with 1 on a fault.
pub fn run(args: &DoctorArgs, stores: StoreDrivers) -> Result<ExitCode, Failure> {
    let mut findings = Vec::new();
    let config = args.read_config(stores)?;
    let mut in_flight =
        config.as_ref().and_then(|config| config.proxy.as_ref()).and_then(|proxy| proxy.in_flight);
    let configured = args.configured(config.as_ref())?;
    let stores_are_local =
        configured.iter().all(|(args, _)| stores.is_local(driver::normalized(&args.store)));
    for (args, kept) in configured {
        findings.extend(block_on(create_and_examine(&args, &kept, stores))?);
        // Places are in the main store, which is the first.
        let is_local = stores.is_local(driver::normalized(&args.store));
        let bound = in_flight.take();
        findings.extend(bound.map(|bound| in_flight::finding(bound, is_local, args.nodes())));
    }
    if let Some(config) = &config {
        findings.extend(args.nodes.and_then(|nodes| other_nodes(nodes, config)));
        findings.extend(files::findings(&config.store, stores_are_local));
    }
    print::print(&findings, args.json)?;
    let worst = findings.iter().map(|finding| finding.severity).max();
    Ok(ExitCode::from(if worst == Some(Severity::Fault) { ERROR } else { OK }))
}

async fn create_and_examine(
    args: &DoctorArgs,
    kept: &StoreUse,
    stores: StoreDrivers,
) -> Result<Vec<Finding>, Failure> {
    let mut findings = Vec::new();
    if args.create {
        let url = driver::normalized(&args.store);
        stores.check(url).map_err(Failure::new)?;
        let driver = stores.find(url).map_err(Failure::new)?;
        findings = match driver.create(url).await {
            Ok(findings) => findings,
            Err(error) => return Ok(vec![not_created(url, &error)]),
        };
    }
    findings.extend(examine(args, kept, stores).await?);
    Ok(findings)
}

fn not_created(url: &str, error: &StoreError) -> Finding {
    Finding::fault("create", format!("store {}: {error}", driver::redacted(url)))
        .risk("the store is not there: every policy decides by on_store_error")
        .remedy("give it what the error asks for; the page of the engine names the rights that it needs")
}

async fn examine(
    args: &DoctorArgs,
    kept: &StoreUse,
    stores: StoreDrivers,
) -> Result<Vec<Finding>, Failure> {
    let url = driver::normalized(&args.store);
    if stores.is_local(url) {
        let seen = "the state is in each process's own memory: there is nothing to connect to";
        return Ok(vec![Finding::ok("reach", seen)]);
    }
    let driver = stores.find(url).map_err(Failure::new)?;
    let options = script::options(&args.key_prefix);
    let mut findings = match driver.examine(url, &options, args.nodes()).await {
        Ok(findings) => findings,
        Err(error) => {
            let seen = format!("store {}: {error}", driver::redacted(url));
            vec![
                Finding::fault("reach", seen)
                    .risk("every policy decides by on_store_error")
                    .remedy(not_reached(driver, error.kind())),
            ]
        }
    };
    // Where nothing is well, no server was reached, and each algorithm would only wait in vain.
    if findings.is_empty() || findings.iter().any(|it| it.severity == Severity::Ok) {
        let opened = stores.open(url, &options).map_err(Failure::new)?;
        let id = format!("doctor-{:08x}", RandomState::new().hash_one(()) >> 32);
        findings.extend(script::run(opened.store.clone(), id, driver).await);
        findings.extend(recovery::findings(&opened.servers(), &kept.lives));
        if kept.hashes_keys {
            findings.extend(overrides::readable(&*opened.store).await);
        }
    }
    Ok(findings)
}

/// What to do about a failed check, in the words of the store.
fn remedy(driver: &dyn StoreDriver, kind: StoreErrorKind) -> &'static str {
    let usual = "do what the error asks for; the page of the engine names the rights that it needs";
    driver.remedy(kind).unwrap_or(usual)
}

/// The same where no finding of the examination is left to refer to.
fn not_reached(driver: &dyn StoreDriver, kind: StoreErrorKind) -> &'static str {
    match driver.remedy(kind) {
        Some(remedy) if !remedy.starts_with("see ") => remedy,
        _ => "start the store, or correct the URL",
    }
}
