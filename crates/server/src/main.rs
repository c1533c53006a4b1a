//! The `tidegate` binary: a rate limiter to run, to ask and to check.
//!
//! - [`cli`] turns what was typed into commands; each command is one file.
//! - [`doors`] are what the outside speaks to. A door decodes, asks the engine and encodes; wire types stay
//!   inside it.
//! - [`service`] is the one way from a question to an answer; [`app`] is what all doors share.
//! - [`envoy`] reads the configuration of envoyproxy/ratelimit.
//! - [`identity`] says whose request it is, and what it is counted by.
//! - [`listen`] binds addresses; [`server`] accepts connections, with every bound that keeps a hostile client from hurting others.
//! - [`gather`] makes one write of many.
//! - [`threshold`] is what a connection passes before its door: the PROXY protocol, and [`tls`].
//! - [`adaptive`] lets limits follow the load of what they protect.
//! - [`observed`] keeps what callers say about the services behind them.
//! - [`patience`] waits with an end.
//! - [`urls`] keeps what the proxy has seen of every URL.
//! - [`metrics`] counts what the doors did, for Prometheus.
//! - [`reload`] puts another configuration in force while the doors are open.
//! - [`replay`] puts an access log through policies, at the time of the log.
//! - [`store`] turns a store's URL into the store.
//! - [`config`] turns a file into checked things.
//! - [`dashboard`] is the page at `/`, and what it lives on.
//! - [`simulation`] runs the same code in virtual time, within bounds.
//! - [`systemd`] takes sockets over, and says how the service does.
//! - `telemetry` sends spans and figures to a collector, where the feature `otlp` is on.
//! - [`demo`] is what runs without a configuration.
#![forbid(unsafe_code)]

mod adaptive;
mod app;
mod cli;
mod config;
mod dashboard;
mod demo;
#[cfg(test)]
mod docs;
mod doors;
mod envoy;
mod exact;
mod exposure;
#[cfg(test)]
mod fuzz;
mod gather;
mod headers;
mod identity;
mod listen;
mod logs;
mod metrics;
mod observed;
mod patience;
mod reload;
mod replay;
mod server;
mod service;
mod simulation;
mod store;
mod systemd;
#[cfg(feature = "otlp")]
mod telemetry;
mod text;
mod threshold;
mod tls;
mod urls;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return cli::usage(&error),
    };
    let lines = logs::start();
    let done = match cli.wanted() {
        Command::Serve(args) => cli::serve::run(&args),
        Command::Bench(args) => cli::bench::run(&args),
        Command::Check(args) => cli::check::run(&args),
        Command::Completions(args) => cli::completions::run(&args),
        Command::Config(args) => cli::config::run(&args),
        Command::Cost(args) => cli::cost::run(&args),
        Command::Doctor(args) => cli::doctor::run(&args),
        Command::Proxy(args) => cli::proxy::run(&args),
        Command::Ready(args) => cli::ready::run(&args),
        Command::Man(args) => cli::completions::man(&args),
        Command::Replay(args) => cli::replay::run(&args),
        Command::Simulate(args) => cli::simulate::run(&args),
        Command::Validate(args) => cli::validate::run(&args),
        Command::Vectors(args) => cli::vectors::run(&args),
    };
    if let Some(lines) = lines {
        lines.flush();
    }
    done.unwrap_or_else(|error| cli::failed(&error))
}
