//! `tidegate cost`: an estimate of what adaptive limiting saves.

mod estimate;
mod money;
mod prices;

use std::path::PathBuf;
use std::process::ExitCode;

use self::estimate::{CostInput, CostReport, Part, Saved, estimate};
use self::money::Cents;
use self::prices::{Instance, Prices};
use super::output::{Table, decimal, print_report};
use super::{Failure, OK};

/// Far more requests per second than one system has.
const MAX_RPS: u64 = 1_000_000_000_000;
/// Far more pods, or hours in a month, than one system needs.
const MAX_COUNT: u64 = 1_000_000;

const EXAMPLES: &str = "\
Examples:
  tidegate cost --peak-rps 50000                     needs 19500/s: db.r6g.8xlarge is enough
  tidegate cost --peak-rps 30000 --current db.r6g.8xlarge
  tidegate cost --peak-rps 30000 --current db.r6g.8xlarge --pods-before 50 --pods-after 30 --pod-cost 150 \\
      --egress-saved 3600 --hours-saved 10 --hourly 250
  tidegate cost --peak-rps 8000 --pricing prices.yaml --json

needed = peak × (1 − bots) × (1 − efficiency), and the smallest instance that holds it is taken. ROI is
what is saved in a year over what the limiter costs in a year. All money is in dollars; all but
--limiter-cost and --hourly is a month's.

A price list is YAML or JSON:
  - { name: db.r6g.4xlarge, monthly: 2880, rps: 15000 }
  - { name: db.r6g.8xlarge, monthly: 5760, rps: 30000 }

Exit codes: 0 ok, also if nothing is saved; 1 error, 64 usage.";

/// Estimate what adaptive limiting saves: a smaller database, fewer pods, less egress, fewer hours.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct CostArgs {
    /// Requests per second at the peak
    #[arg(long, value_name = "N", default_value_t = 50_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=MAX_RPS))]
    peak_rps: u64,
    /// The part of them that comes from bots, from 0 to 1
    #[arg(long, value_name = "PART", default_value = "0.4", value_parser = read_part)]
    bot_pct: Part,
    /// The part of the rest that adaptive limits keep away at the peak, from 0 to 1
    #[arg(long, value_name = "PART", default_value = "0.35", value_parser = read_part)]
    efficiency: Part,
    /// What is paid for now; by default the smallest instance that holds the peak
    #[arg(long, value_name = "INSTANCE", visible_alias = "current-db")]
    current: Option<String>,
    /// A list of prices instead of the built-in one
    #[arg(long, value_name = "FILE")]
    pricing: Option<PathBuf>,
    /// Pods before
    #[arg(long, value_name = "N", default_value_t = 0, requires_all = ["pods_after", "pod_cost"])]
    #[arg(value_parser = clap::value_parser!(u64).range(..=MAX_COUNT))]
    pods_before: u64,
    /// Pods after
    #[arg(long, value_name = "N", default_value_t = 0, requires_all = ["pods_before", "pod_cost"])]
    #[arg(value_parser = clap::value_parser!(u64).range(..=MAX_COUNT))]
    pods_after: u64,
    /// What a pod costs a month
    #[arg(long, value_name = "DOLLARS", default_value = "0", value_parser = Cents::read)]
    pod_cost: Cents,
    /// What is saved of egress a month
    #[arg(long, value_name = "DOLLARS", default_value = "0", value_parser = Cents::read)]
    egress_saved: Cents,
    /// Hours of engineers saved a month
    #[arg(long, value_name = "N", default_value_t = 0, requires = "hourly")]
    #[arg(value_parser = clap::value_parser!(u64).range(..=MAX_COUNT))]
    hours_saved: u64,
    /// What such an hour costs
    #[arg(long, value_name = "DOLLARS", default_value = "0", value_parser = Cents::read)]
    hourly: Cents,
    /// What the limiter costs a year; by default a tenth of what is paid for the database
    #[arg(long, value_name = "DOLLARS", value_parser = Cents::read)]
    limiter_cost: Option<Cents>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn read_part(text: &str) -> Result<Part, String> {
    let parts = decimal(text, 4).and_then(|parts| u32::try_from(parts).ok());
    parts.filter(|parts| *parts <= Part::WHOLE).map(Part).ok_or_else(|| {
        "expected a part from 0 to 1 like 0.4, with at most four decimals".to_owned()
    })
}

/// Estimates, and prints the report.
pub fn run(args: &CostArgs) -> Result<ExitCode, Failure> {
    let prices = match &args.pricing {
        Some(path) => {
            Prices::read(path).map_err(|why| Failure::new(format!("{}: {why}", path.display())))?
        }
        None => Prices::default(),
    };
    let report = estimate(&args.input(), &prices)
        .map_err(|why| Failure::usage(format!("--current: {why}")))?;
    print_report(&report, args.json, || text(&report))?;
    Ok(ExitCode::from(OK))
}

impl CostArgs {
    fn input(&self) -> CostInput {
        let count = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let times = |count: i64, each: Cents| Cents(each.0.saturating_mul(count));
        CostInput {
            peak_rps: self.peak_rps,
            bots: self.bot_pct,
            efficiency: self.efficiency,
            current: self.current.clone(),
            saved: Saved {
                database: Cents(0),
                pods: times(count(self.pods_before) - count(self.pods_after), self.pod_cost),
                egress: self.egress_saved,
                hours: times(count(self.hours_saved), self.hourly),
            },
            limiter: self.limiter_cost,
        }
    }
}

fn text(report: &CostReport) -> String {
    let CostReport { peak_rps, needed_rps, current, recommended, saved_monthly: saved, .. } =
        report;
    let next = recommended.as_ref();
    let next = next.map_or("nothing fits".to_owned(), |it| format!("{}, {}", it.name, it.monthly));
    let mut table = Table::new(&["saved", "a month", "a year"]);
    for (name, monthly) in [
        ("database", saved.database),
        ("pods", saved.pods),
        ("egress", saved.egress),
        ("hours", saved.hours),
        ("together", report.monthly_savings),
    ] {
        table.row(&[&name, &monthly, &monthly.yearly()]);
    }
    let roi = report.roi.map_or(String::new(), |roi| {
        format!("ROI {roi:.1}: the limiter costs {} a year\n", report.limiter_annual_cost)
    });
    let notes = report.notes.iter().flat_map(|note| [note, "\n"]).collect::<String>();
    let Instance { name, monthly, .. } = current;
    format!(
        "{peak_rps} requests/s at the peak, {needed_rps} have to be served\n\
         {name}, {monthly} a month → {next}\n\n{table}\n{roi}{notes}"
    )
}
