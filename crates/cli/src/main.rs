//! The `tidegate` binary: the list of commands.
#![forbid(unsafe_code)]

mod cli;
mod completions;
mod config;
#[cfg(test)]
mod docs;
mod envoy;
mod proxy;
mod serve;
mod stores;
mod validate;

use std::process::ExitCode;

use clap::Parser;
use tidegate::driver::{MemoryDriver, StoreDrivers};

use crate::cli::{Cli, Command};

/// The stores that URLs can name: each is a feature, and without it says so.
const STORES: StoreDrivers = StoreDrivers(&[
    &MemoryDriver,
    #[cfg(feature = "redis")]
    &tidegate_redis::RedisDriver,
    #[cfg(not(feature = "redis"))]
    &stores::REDIS,
    #[cfg(feature = "postgres")]
    &tidegate_postgres::PostgresDriver,
    #[cfg(not(feature = "postgres"))]
    &stores::POSTGRES,
    #[cfg(feature = "memcached")]
    &tidegate_memcached::MemcachedDriver,
    #[cfg(not(feature = "memcached"))]
    &stores::MEMCACHED,
    #[cfg(feature = "dynamodb")]
    &tidegate_dynamodb::DynamoDbDriver,
    #[cfg(not(feature = "dynamodb"))]
    &stores::DYNAMODB,
    #[cfg(feature = "quorum")]
    &tidegate_quorum::QuorumDriver,
    #[cfg(not(feature = "quorum"))]
    &stores::QUORUM,
]);

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return cli::usage(&error),
    };
    let lines = tidegate_server::logs::start(tidegate_tools::wants_color());
    let done = match cli.into_command() {
        Command::Serve(args) => serve::run(&args),
        Command::Bench(args) => tidegate_tools::bench::run(&args, STORES),
        Command::Check(args) => tidegate_tools::check::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Config(args) => config::run(&args),
        Command::Cost(args) => tidegate_tools::cost::run(&args),
        Command::Doctor(args) => tidegate_tools::doctor::run(&args, STORES),
        Command::Proxy(args) => proxy::run(&args),
        Command::Ready(args) => tidegate_tools::ready::run(&args),
        Command::Man(args) => completions::man(&args),
        Command::Replay(args) => tidegate_tools::replay::run(&args, STORES),
        Command::Simulate(args) => tidegate_tools::simulate::run(&args),
        Command::Validate(args) => validate::run(&args),
        Command::Vectors(args) => tidegate_tools::vectors::run(&args, STORES),
    };
    if let Some(lines) = lines {
        lines.flush();
    }
    done.unwrap_or_else(|error| cli::failed(&error))
}
