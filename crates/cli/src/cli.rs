//! The command line: its commands and exit codes.

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::{Parser, Subcommand};
use tidegate_core::text::printable;
use tidegate_tools::{
    Failure, OK, USAGE, bench, check, cost, doctor, ready, replay, simulate, vectors, whole_number,
};

use crate::{completions, config, proxy, serve, validate};

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
    serve: serve::ServeArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(serve::ServeArgs),
    Bench(bench::BenchArgs),
    Check(check::CheckArgs),
    Completions(completions::CompletionsArgs),
    Config(config::ConfigArgs),
    Cost(cost::CostArgs),
    Doctor(doctor::DoctorArgs),
    Proxy(proxy::ProxyArgs),
    Ready(ready::ReadyArgs),
    Man(completions::ManArgs),
    Replay(replay::ReplayArgs),
    Simulate(simulate::SimulateArgs),
    Validate(validate::ValidateArgs),
    Vectors(vectors::VectorsArgs),
}

impl Cli {
    /// The command; `serve` is the default.
    pub(crate) fn into_command(self) -> Command {
        self.command.unwrap_or(Command::Serve(self.serve))
    }
}

/// Prints a usage error. Help and version are not errors, and go to stdout.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    // A closed pipe is not a failure: its reader has read enough.
    let _ = match number_problem(error) {
        Some(problem) => writeln!(io::stderr(), "{problem}"),
        None => error.print(),
    };
    ExitCode::from(if error.use_stderr() { USAGE } else { OK })
}

/// What to write instead of a number that cannot be read: the parser of numbers says only that a digit is wrong.
fn number_problem(error: &clap::Error) -> Option<String> {
    error.source()?.downcast_ref::<std::num::ParseIntError>()?;
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text),
        _ => None,
    };
    let (option, typed) = (text(ContextKind::InvalidArg)?, text(ContextKind::InvalidValue)?);
    let (typed, expected) = (printable(typed), whole_number(typed));
    Some(format!("error: invalid value '{typed}' for '{option}': {expected}"))
}

/// Prints why a command failed.
pub(crate) fn failed(why: &Failure) -> ExitCode {
    let _ = writeln!(io::stderr(), "tidegate: {why}");
    ExitCode::from(why.code())
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
