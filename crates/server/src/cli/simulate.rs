//! `tidegate simulate`: the production code in virtual time. The same seed prints the same run for everyone.

mod boundary;
mod fleet;
mod options;
mod output;
mod overload;
pub(crate) mod svg;
pub(crate) mod table;

use std::process::ExitCode;

use super::Failure;

const EXAMPLES: &str = "\
Examples:
  tidegate simulate boundary                         twice the limit at the edge of a window
  tidegate simulate boundary --svg boundary.svg      and a picture of it
  tidegate simulate fleet                            512 nodes lease from one limit of 1000/s
  tidegate simulate fleet --nodes 1,16,512 --json    three fleets, for a program to read
  tidegate simulate overload                         controllers beside each other, under overload
  tidegate simulate fleet --help                     all that can be chosen

Exit codes: 0 ok, 1 error, 64 usage.";

/// Run a simulation: a table of what happens, in virtual time.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

/// What can be simulated.
#[derive(Clone, Debug, clap::Subcommand)]
enum What {
    Boundary(boundary::Args),
    Fleet(fleet::Args),
    Overload(overload::Args),
}

/// Simulates, and prints.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    match &args.what {
        What::Boundary(args) => boundary::run(args),
        What::Fleet(args) => fleet::run(args),
        What::Overload(args) => overload::run(args),
    }
}
