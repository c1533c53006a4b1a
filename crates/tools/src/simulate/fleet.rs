//! `tidegate simulate fleet`: many nodes, one store, and leases between them.

use std::fmt::Write;
use std::process::ExitCode;
use std::time::Duration;

use tidegate_core::{LeaseError, Limit, Terms, parse_duration};

use crate::output::{decimal, print_report};
use crate::{ERROR, Failure, OK};
use tidegate_simulation::fleet::{self, FleetRow, FleetSettings, ratio};

const EXAMPLES: &str = "\
Examples:
  tidegate simulate fleet                                   512 nodes, 1000/s, twice the demand
  tidegate simulate fleet --nodes 1,4,16,64,512,1000        one fleet after another
  tidegate simulate fleet --limit \"sliding-log 1000/s\" --nodes 64
  tidegate simulate fleet --loss 0.05 --kills 100 --seed 7  a bad network, and nodes that die
  tidegate simulate fleet --latency 5ms --demand 0.8        far away, and not overloaded
  tidegate simulate fleet --json | jq '.[] | select(.way == \"lease\") | .utilisation'

Ways:
  strict   one call per check: what a lease is measured against
  lease    nodes take units ahead; the code is the one that runs in production
  naive    each node counts on a copy of the store's state and syncs once per lease life:
           the usual way to save calls, and why it admits too much

Columns:
  utilisation   admitted, as a part of what the limit allows (or of the demand, if that is less),
                after a warm-up of one period
  overshoot     the most by which the units admitted in any interval pass the limit; 0 is none
  calls         to the store, per admitted check and per second; returns count
  in process    checks that were decided without waiting for the store
  lost          units that were charged, but neither used nor given back

Exit codes: 0 ok, 1 error or an overshoot of leases, 64 usage.";

/// Let a fleet of nodes lease from one store, beside one call per check and a naive cache.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct FleetArgs {
    /// How many nodes; several fleets with commas
    #[arg(long, value_name = "N", default_value = "512", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=100_000))]
    nodes: Vec<u64>,
    /// The limit of every key, as text
    #[arg(long, value_name = "LIMIT", default_value = "1000/s burst 1000")]
    limit: String,
    /// How much is asked for, as a multiple of the limit
    #[arg(long, value_name = "X", default_value = "2.0", value_parser = read_demand)]
    demand: u64,
    /// How many keys, each with the limit and the demand to itself
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=10_000))]
    keys: u64,
    /// One way to the store; each message takes half as long to one and a half times as long
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = read_span)]
    latency: Duration,
    /// The part of all messages that is lost
    #[arg(long, value_name = "PART", default_value = "0.01", value_parser = read_loss)]
    loss: u64,
    /// How many times a node dies with all it holds, and starts again
    #[arg(long, value_name = "N", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    kills: u64,
    /// How long, in virtual time
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = read_span)]
    duration: Duration,
    /// Same seed, same output
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn read_span(text: &str) -> Result<Duration, String> {
    let within = |span: &Duration| !span.is_zero() && *span <= Duration::from_hours(24);
    parse_duration(text)
        .filter(within)
        .ok_or_else(|| "expected a duration like 250ms or 60s, up to 24h".to_owned())
}

/// A multiple in thousandths.
fn read_demand(text: &str) -> Result<u64, String> {
    decimal(text, 3).filter(|n| (1..=1_000_000).contains(n)).ok_or_else(|| {
        "expected a multiple like 2.0, from 0.001 to 1000, with at most three decimals".to_owned()
    })
}

/// A part in millionths.
fn read_loss(text: &str) -> Result<u64, String> {
    decimal(text, 6)
        .filter(|n| *n <= 900_000)
        .ok_or_else(|| "expected a part like 0.01, from 0 to 0.9".to_owned())
}

/// Simulates every fleet with the three strategies. Leases never overshoot, so an overshoot is an error.
pub(super) fn run(args: &FleetArgs) -> Result<ExitCode, Failure> {
    let not_leasable = |error: LeaseError| Failure::usage(format!("--limit: {error}"));
    let limit = Limit::try_from(&*args.limit);
    let limit = limit.map_err(|error| Failure::usage(format!("--limit: {error}")))?;
    let terms = Terms::from_limits([&limit]).map_err(not_leasable)?;
    let mut rows = Vec::new();
    for &nodes in &args.nodes {
        rows.extend(fleet::run(&args.setting(nodes, &limit)?, &limit).map_err(not_leasable)?);
    }
    print_report(&rows, args.json, || text(args, terms.ttl(), &rows))?;
    let overshoots = rows.iter().any(|row| row.way == "lease" && row.overshoot > 0);
    Ok(ExitCode::from(if overshoots { ERROR } else { OK }))
}

impl FleetArgs {
    /// More checks than this would take minutes and gigabytes.
    const MAX_CHECKS: u128 = 100_000_000;

    fn setting(&self, nodes: u64, limit: &Limit) -> Result<FleetSettings, Failure> {
        let us = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        let setting = FleetSettings {
            nodes,
            keys: self.keys,
            demand_milli: self.demand,
            latency_us: us(self.latency),
            loss_ppm: self.loss,
            kills: self.kills,
            duration_us: us(self.duration),
            seed: self.seed,
        };
        if setting.checks(limit) > Self::MAX_CHECKS {
            let problem = "more than 100000000 checks: use a shorter duration or a lower limit";
            return Err(Failure::usage(problem));
        }
        if nodes * self.keys > 10_000_000 {
            return Err(Failure::usage("--nodes × --keys: expected at most 10000000"));
        }
        Ok(setting)
    }
}

fn text(args: &FleetArgs, ttl: Duration, rows: &[FleetRow]) -> String {
    let FleetArgs { limit, keys, latency, kills, duration, seed, .. } = args;
    let (demand, loss) = (ratio(args.demand, 1000), ratio(args.loss, 10_000));
    let keys = if *keys == 1 { "1 key".to_owned() } else { format!("{keys} keys") };
    let mut out = format!(
        "{limit} on {keys}, {demand} × the demand, {latency:?} each way, {loss} % lost, {kills} kills, {duration:?}, \
         seed {seed}; leases live {ttl:?}\n\n\
         {:>6} {:<7} {:>9} {:>9} {:>11} {:>9} {:>10} {:>9} {:>10} {:>7}\n",
        "nodes",
        "way",
        "offered",
        "admitted",
        "utilisation",
        "overshoot",
        "calls/adm.",
        "calls/s",
        "in process",
        "lost"
    );
    for row in rows {
        let FleetRow { nodes, way, offered, admitted, utilisation, overshoot, .. } = row;
        let (per_admission, per_second) = (row.calls_per_admission, row.calls_per_second);
        let (in_process, lost) = (row.in_process * 100.0, row.units_lost);
        let _ = writeln!(
            out,
            "{nodes:>6} {way:<7} {offered:>9} {admitted:>9} {utilisation:>11.3} {overshoot:>9} {per_admission:>10.3} \
             {per_second:>9.0} {in_process:>8.1} % {lost:>7}"
        );
    }
    out
}
