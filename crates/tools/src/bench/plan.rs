//! What was typed, checked: after this nothing about it can be wrong but the world.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tidegate::Limit;
use tidegate::driver::StoreDrivers;

use super::Args;
use super::door::DoorKind;
use super::keys::{Distribution, Keys};
use super::load::Stretch;
use super::own::{POLICY, Serves};
use super::question::{Given, Question, entries};
use super::target::Place;
use tidegate_config::usual_path;

use crate::Failure;
use tidegate_core::text::printable;

/// The most requests under way at once, over all connections.
const UNDER_WAY_MAX: u32 = 65_536;
/// The longest key.
const KEY_BYTES_MAX: usize = 256;
const CONNECTIONS: u32 = 50;

#[derive(Debug)]
pub(super) struct Plan {
    pub(super) door: DoorKind,
    pub(super) server: Option<Place>,
    pub(super) against: Option<Place>,
    /// The stores that a configuration can name.
    pub(super) stores: StoreDrivers,
    /// What our own server serves.
    pub(super) serves: Serves,
    pub(super) question: Question,
    pub(super) keys: Arc<Keys>,
    pub(super) key_count: u32,
    pub(super) distribution: Distribution,
    pub(super) connections: u32,
    pub(super) pipeline: u32,
    /// For each side, all rounds together.
    pub(super) stretch: Stretch,
    pub(super) warm_up: Duration,
    pub(super) rounds: u32,
    pub(super) may_be_remote: bool,
}

impl Plan {
    pub(super) fn of(args: &Args, stores: StoreDrivers) -> Result<Self, Failure> {
        let door = args.door;
        fits(args).map_err(Failure::usage)?;
        let place = |name: &str, url: &Option<String>| {
            let place = url.as_ref().map(|url| Place::read(url, door)).transpose();
            place.map_err(|why| Failure::usage(format!("--{name}: {why}")))
        };
        let embedded = door == DoorKind::Embedded;
        let connections = args.connections.unwrap_or(if embedded { 1 } else { CONNECTIONS });
        if connections * args.pipeline > UNDER_WAY_MAX {
            return Err(Failure::usage(format!(
                "--connections times --pipeline: expected at most {UNDER_WAY_MAX} requests under way"
            )));
        }
        let rounds = if args.against.is_some() { args.rounds } else { 1 };
        if args.requests.is_some_and(|requests| requests < rounds.into()) {
            return Err(Failure::usage(format!(
                "--requests: expected at least {rounds}, one for each of the --rounds"
            )));
        }
        Ok(Self {
            door,
            stores,
            server: place("server", &args.server)?,
            against: place("against", &args.against)?,
            serves: match &args.limit {
                Some(limit) => Serves::Limit(limit.clone()),
                None => Serves::Config(args.config.clone().or_else(usual_of(door))),
            },
            question: question(args).map_err(Failure::usage)?,
            keys: Keys::new(&args.key, args.keys, args.distribution).into(),
            key_count: args.keys,
            distribution: args.distribution,
            connections,
            pipeline: args.pipeline,
            stretch: Stretch { span: args.duration, requests: args.requests, rate: args.rate },
            warm_up: args.warm_up,
            rounds,
            may_be_remote: args.yes_remote,
        })
    }
}

/// A server finds the usual file by itself; without one it is up to us.
fn usual_of(door: DoorKind) -> impl FnOnce() -> Option<PathBuf> {
    move || (door == DoorKind::Embedded).then(usual_path).flatten()
}

/// Whether the options go together.
fn fits(args: &Args) -> Result<(), String> {
    let (door, name) = (args.door, args.door.name());
    let embedded = door == DoorKind::Embedded;
    if embedded && (args.server.is_some() || args.against.is_some()) {
        return Err("--door embedded has no server: leave --server and --against out".to_owned());
    }
    if embedded && args.rate.is_some() {
        return Err("--rate: a decision in process takes less than the clock can pace".to_owned());
    }
    if args.pipeline > 1 && !matches!(door, DoorKind::Resp | DoorKind::Grpc) {
        return Err(format!("--pipeline: --door {name} has one request at a time"));
    }
    if args.limit.is_some() && args.server.is_some() && door == DoorKind::Grpc {
        return Err(
            "--limit cannot go along over gRPC: ask for a --policy of the server".to_owned()
        );
    }
    if args.duration.is_zero() {
        return Err("--duration: expected some time, like 10s".to_owned());
    }
    let (key, keys) = (&args.key, args.keys);
    if key.is_empty() || key.len() > KEY_BYTES_MAX {
        return Err(format!("--key: expected 1 to {KEY_BYTES_MAX} bytes"));
    }
    if keys > 1 && !key.contains("{}") {
        return Err(format!(
            "--key `{}` is the same for all {keys} keys: put {{}} where the number goes, or say --keys 1",
            printable(key)
        ));
    }
    Ok(())
}

fn question(args: &Args) -> Result<Question, String> {
    let given = match &args.limit {
        None => None,
        Some(limit) => {
            let limit: Limit =
                limit.parse().map_err(|error: tidegate::LimitError| format!("--limit: {error}"))?;
            let given = Given::of(&limit).map_err(|why| format!("--limit: {why}"));
            // Only there it has to.
            if args.door == DoorKind::Resp { Some(given?) } else { given.ok() }
        }
    };
    let policy = if args.limit.is_some() { POLICY } else { &args.policy };
    let entries = match &args.descriptor {
        Some(text) => entries(text)?,
        None => vec![("policy".to_owned(), policy.to_owned()), ("key".to_owned(), "{}".to_owned())],
    };
    let (policy, domain) = (policy.to_owned(), args.domain.clone());
    Ok(Question { policy, cost: args.cost, given, domain, entries })
}
