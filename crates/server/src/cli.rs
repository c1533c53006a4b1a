//! The command line: what can be typed, and what the exit codes mean.

pub(crate) mod bench;
pub(crate) mod check;
mod client;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod cost;
pub(crate) mod doctor;
pub(crate) mod envoy;
mod progress;
pub(crate) mod proxy;
pub(crate) mod ready;
pub(crate) mod replay;
pub(crate) mod serve;
pub(crate) mod simulate;
pub(crate) mod validate;
pub(crate) mod vectors;

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Everything went well, or the check was allowed.
pub(crate) const OK: u8 = 0;
/// Something went wrong.
pub(crate) const ERROR: u8 = 1;
/// The check was denied.
pub(crate) const DENIED: u8 = 2;
/// The command line makes no sense (`EX_USAGE` of sysexits).
const USAGE: u8 = 64;

const EXAMPLES: &str = "\
Examples:
  tidegate                                  serve a demo on http://127.0.0.1:8080
  tidegate -c tidegate.yaml                 serve what a file says; see `tidegate config example`
  tidegate proxy --upstream http://127.0.0.1:3000 --limit 240/min   in front of a site
  tidegate validate tidegate.yaml           is the file right?
  tidegate check api user-42                ask it: exit 0 allowed, 2 denied
  curl -s http://127.0.0.1:8080/v1/check -d '{\"policy\":\"api\",\"key\":\"user-42\"}'
  tidegate doctor --store redis://host      is Redis fit for it?
  tidegate vectors testdata/vectors/*.json  replay the golden cases
  tidegate simulate sync-lag                why nodes that count by themselves admit too much
  tidegate replay access.log --policy api   what a policy would have denied
  tidegate cost --peak-rps 50000            what adaptive limits save
  tidegate bench --door resp                how fast a door answers, and how late

Exit codes: 0 ok or allowed, 1 error, 2 denied (check), 64 usage.
Environment: RUST_LOG sets what is logged (error, warn, info, debug, trace, or
target=level,…; default info); NO_COLOR turns colours off.";

/// A rate limiter: exact, fast, and the same answer from every store.
///
/// Without a command, `tidegate` serves.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, after_help = EXAMPLES, max_term_width = 100)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: serve::Args,
}

/// What there is to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(serve::Args),
    Bench(bench::Args),
    Check(check::Args),
    Completions(completions::Args),
    Config(config::Args),
    Cost(cost::Args),
    Doctor(doctor::Args),
    Proxy(proxy::Args),
    Ready(ready::Args),
    Man(completions::ManArgs),
    Replay(replay::Args),
    Simulate(simulate::Args),
    Validate(validate::Args),
    Vectors(vectors::Args),
}

impl Cli {
    /// The command that was typed; to serve is the default.
    pub(crate) fn wanted(self) -> Command {
        self.command.unwrap_or(Command::Serve(self.serve))
    }
}

/// Why a command failed, for people.
#[derive(Debug)]
pub(crate) struct Failure {
    why: String,
    code: u8,
}

impl Failure {
    pub(crate) fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), code: ERROR }
    }

    /// What was typed makes no sense, in a way that only the command knows.
    pub(crate) fn usage(why: impl Into<String>) -> Self {
        Self { why: why.into(), code: USAGE }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

/// Prints all of it, and says so if that cannot be done: a disk that is full leaves half a file.
pub(crate) fn print(said: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    unless_closed(out.write_all(said).and_then(|()| out.flush()))
}

/// A closed pipe is no reason to fail: whoever closed it has read enough.
fn unless_closed(written: io::Result<()>) -> Result<(), Failure> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("cannot write to standard output: {error}")))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Says what is wrong with the command line. Help and version are no errors, and go to stdout.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    // A closed pipe is no reason to fail: whoever closed it has read enough.
    let _ = error.print();
    ExitCode::from(if error.use_stderr() { USAGE } else { OK })
}

/// Says why a command failed.
pub(crate) fn failed(why: &Failure) -> ExitCode {
    let _ = writeln!(io::stderr(), "tidegate: {why}");
    ExitCode::from(why.code)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definitions_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_examples_in_its_help() {
        for command in Cli::command().get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let usage = format!("tidegate {}", command.get_name());
            assert!(help.contains("Examples:") && help.contains(&usage), "{}", command.get_name());
        }
    }
}
