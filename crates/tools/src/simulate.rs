//! `tidegate simulate`: the production code in virtual time. The same seed prints the same run for everyone.

mod algorithms;
mod boundary;
mod clock_skew;
mod fleet;
mod options;
mod overload;
mod race;
mod shares;
mod svg;
mod sync_lag;

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
  tidegate simulate shares                           tenants that contend for one limit

The same seed prints the same on every machine.

Exit codes: 0 ok, 1 error, 64 usage.";

/// Run a simulation: a table of what happens, in virtual time.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct SimulateArgs {
    #[command(subcommand)]
    simulation: Simulation,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum Simulation {
    Boundary(boundary::BoundaryArgs),
    SyncLag(sync_lag::SyncLagArgs),
    Race(race::RaceArgs),
    ClockSkew(clock_skew::ClockSkewArgs),
    Algorithms(algorithms::AlgorithmsArgs),
    Fleet(fleet::FleetArgs),
    Overload(overload::OverloadArgs),
    Shares(shares::SharesArgs),
}

/// Simulates, and prints the report.
pub fn run(args: &SimulateArgs) -> Result<ExitCode, Failure> {
    match &args.simulation {
        Simulation::Boundary(args) => boundary::run(args),
        Simulation::SyncLag(args) => sync_lag::run(args),
        Simulation::Race(args) => race::run(args),
        Simulation::ClockSkew(args) => clock_skew::run(args),
        Simulation::Algorithms(args) => algorithms::run(args),
        Simulation::Fleet(args) => fleet::run(args),
        Simulation::Overload(args) => overload::run(args),
        Simulation::Shares(args) => shares::run(args),
    }
}
