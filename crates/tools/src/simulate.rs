//! `tidegate simulate`: the production code in virtual time. The same seed prints the same run for everyone.

mod algorithms;
mod boundary;
mod clock_skew;
mod fleet;
mod options;
mod output;
mod overload;
mod race;
pub mod svg;
mod sync_lag;
pub mod table;

use std::process::ExitCode;

use super::Failure;

const EXAMPLES: &str = "\
Examples:
  tidegate simulate boundary                         twice the limit at the edge of a window
  tidegate simulate sync-lag --svg lag.svg           nodes that hear of each other late, a picture
  tidegate simulate race --nodes 8                   what slips through between a read and a write
  tidegate simulate clock-skew --skew 5s             nodes whose clocks differ
  tidegate simulate algorithms --json                one trace through all algorithms, for a program
  tidegate simulate fleet --nodes 1,16,512           what leases do, from one node to many
  tidegate simulate overload                         controllers beside each other, under overload

The same seed prints the same on every machine.

Exit codes: 0 ok, 1 error, 64 usage.";

/// Run a simulation: a table of what happens, in virtual time.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

/// What can be simulated.
#[derive(Clone, Debug, clap::Subcommand)]
enum What {
    Boundary(boundary::Args),
    SyncLag(sync_lag::Args),
    Race(race::Args),
    ClockSkew(clock_skew::Args),
    Algorithms(algorithms::Args),
    Fleet(fleet::Args),
    Overload(overload::Args),
}

/// Simulates, and prints.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    match &args.what {
        What::Boundary(args) => boundary::run(args),
        What::SyncLag(args) => sync_lag::run(args),
        What::Race(args) => race::run(args),
        What::ClockSkew(args) => clock_skew::run(args),
        What::Algorithms(args) => algorithms::run(args),
        What::Fleet(args) => fleet::run(args),
        What::Overload(args) => overload::run(args),
    }
}
