//! `tidegate replay`: what policies would have done to recorded traffic.

mod against;

use std::fmt::Write;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;

use super::output::{Table, print_report};
use super::progress::Progress;
use super::{Failure, OK};
use tidegate::driver::StoreDrivers;
use tidegate::{MemoryStore, Policy};
use tidegate_config::{Config, limit_from_line, usual_path};
use tidegate_core::LimitOrShaper;
use tidegate_core::text::{printable, unknown_policy};
use tidegate_request::KeyParts;
use tidegate_simulation::StopFlag;
use tidegate_simulation::replay::{
    DeniedKey, PlanReport, PolicyReport, RateReport, ReplayReport, ReplaySettings, Replayer,
    Unreadable, replay,
};

/// Progress looks at the clock after this many lines.
const PROGRESS_EVERY: u64 = 16_384;

const EXAMPLES: &str = "\
Examples:
  tidegate replay access.log --policy 100/min                    a limit per client, without a file
  tidegate replay access.log --policy 60/min --policy 'sliding-window 60/min' --policy 100/min
  tidegate replay access.log --policy api -c tidegate.yaml       one policy for every request
  tidegate replay access.log -c tidegate.yaml                    by the routes of the file
  tidegate replay access.log -c tidegate.yaml --policy api --key client_ip,path
  tidegate replay access.log -c tidegate.yaml --plan x-plan      how often is each plan denied?
  tidegate replay access.log -c new.yaml --against old.yaml      what changes for whom?
  tidegate replay access.log -c new.yaml --against old.yaml --max-flips 100   … and is it little?
  zcat access.log.*.gz | tidegate replay - -c tidegate.yaml --json | jq '.policies[].denied'

A line is in the common or combined format, or a JSON object with the names that nginx, Apache, Caddy,
Traefik or Envoy give its fields; formats may be mixed. Time is the log's, and the decisions are those of
a store in memory, whatever store the file names. What can be read of a request is its client, method,
host (JSON), path, query, user agent and referer, and with JSON a field \"headers\"; a key made of
something else falls back to client_ip, and the report says how often.

The report also says how fast clients were, to choose a limit from: of how many requests the busiest
second and minute of a client were, for half of the clients, 90 % of them, and so on.

Lines that cannot be read are counted, and the first few are shown. Memory is bounded: up to 200000
denied keys are counted one by one, and a note says if counters had to be forgotten.

With --against, every request is asked of both files, and the report has those that are decided
otherwise: by policy, by client, and by plan where the log has the header x-plan, or that of --plan.
Both begin with empty counters.

Exit codes: 0 ok, 1 error, not one line could be read or with --max-flips more
flips or half of the lines unreadable, 64 usage.";

/// Replay an access log: what would a policy have denied, and to whom?
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ReplayArgs {
    /// The access log; - for standard input
    #[arg(value_name = "LOG")]
    log: PathBuf,
    /// The configuration with policies and routes; default: ./tidegate.yaml if it exists
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Ask this policy for every request, instead of the one of its route: its name in the configuration, or a limit like
    /// `100/min burst 20`; several are asked one beside the other
    #[arg(long, value_name = "NAME|LIMIT")]
    policy: Vec<String>,
    /// Count by these parts of a request, instead of the key of the route or the policy
    #[arg(long, value_name = "PART,…", value_delimiter = ',')]
    key: Vec<String>,
    /// The configuration that is in force now: report what the new one changes, instead of what it denies
    #[arg(long, value_name = "OLD", requires = "config")]
    against: Option<PathBuf>,
    /// Exit with 1 if more requests than these are decided otherwise
    #[arg(long, value_name = "N", requires = "against")]
    max_flips: Option<u64>,
    /// Report by plan as well: by this header of the log, like x-plan. With --against, in place of x-plan
    #[arg(long, value_name = "HEADER")]
    plan: Option<String>,
    /// How many of the most denied keys are listed for each policy; with --against, of the clients
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Replays, and prints the report.
pub fn run(args: &ReplayArgs, stores: StoreDrivers) -> Result<ExitCode, Failure> {
    let file = args.config.clone().or_else(usual_path);
    let replayer = replayer(args, file.as_deref(), stores)?;
    if let Some(old) = &args.against {
        if args.policy.len() > 1 {
            let many = "--against compares one policy, or the routes: expected one --policy";
            return Err(Failure::usage(many));
        }
        return against::run(args, &self::replayer(args, Some(old), stores)?, &replayer);
    }
    let (log, size) = open(&args.log)?;
    let name = args.log.display();
    let report = read_lines(size, |progress| {
        replay(&replayer, log, args.top, &StopFlag::default(), progress)
    });
    let mut report = report.map_err(|error| Failure::new(format!("{name}: {error}")))?;
    report.policies.sort_by_key(|row| args.policy.iter().position(|it| *it == row.policy));
    if report.is_no_log() {
        return Err(not_a_log(&name.to_string(), &report.first_unreadable));
    }
    if report.policies.iter().all(|row| row.plans.is_empty()) {
        report.notes.extend(no_plan(args));
    }
    let named = NamedReport { log: &name.to_string(), report: &report };
    print_report(&named, args.json, || text(&named))?;
    Ok(ExitCode::from(OK))
}

impl ReplayArgs {
    /// The header of `--plan`, which routes spell `header:x-plan`.
    fn plan_header(&self) -> Option<&str> {
        self.plan.as_deref().map(|plan| plan.strip_prefix("header:").unwrap_or(plan))
    }
}

/// A note, if plans were asked for, on a log without them.
fn no_plan(args: &ReplayArgs) -> Option<String> {
    let header = printable(args.plan_header()?);
    Some(format!("no request of the log has the header `{header}` with a plan"))
}

/// The policies of a file, and those of the command line.
fn replayer(
    args: &ReplayArgs,
    file: Option<&Path>,
    stores: StoreDrivers,
) -> Result<Replayer, Failure> {
    let key = match &*args.key {
        [] => None,
        parts => Some(
            KeyParts::read(parts.iter().map(String::as_str))
                .map_err(|error| Failure::usage(format!("--key: {error}")))?,
        ),
    };
    let config = file.map(|file| Config::read(file, stores)).transpose();
    let mut config = config
        .map_err(|problems| Failure::new(problems.lines().join("\ntidegate: ")))?
        .unwrap_or_default();
    for (place, typed) in args.policy.iter().enumerate() {
        if args.policy[..place].contains(typed) {
            let twice = printable(typed);
            return Err(Failure::usage(format!("--policy: `{twice}` is given twice")));
        }
        if !config.policies.contains_key(typed) {
            let policy = inline_policy(typed, &config)?;
            config.policies.insert(typed.clone(), policy);
        }
    }
    let Config { policies, doors: rules, .. } = &config;
    if args.policy.is_empty() && rules.routes.is_empty() {
        return Err(nothing_to_ask(file, &config));
    }
    let replayer = Replayer::new(ReplaySettings {
        policies,
        store: MemoryStore::default(),
        client_ip: rules.client_ip.clone(),
        routes: rules.routes(),
        asked: args.policy.clone(),
        key,
    });
    let replayer = replayer.map_err(Failure::new)?;
    Ok(match args.plan_header() {
        Some(header) => replayer.by_plan(header),
        None => replayer,
    })
}

/// Reads a log, and shows how far it is.
fn read_lines<R>(size: u64, read: impl FnOnce(&mut dyn FnMut(u64, u64)) -> R) -> R {
    let progress = Progress::start();
    let report = read(&mut |lines, bytes| {
        if lines.is_multiple_of(PROGRESS_EVERY) {
            progress.show(|us| progress_line(lines, bytes, size, us));
        }
    });
    progress.done();
    report
}

fn not_a_log(name: &str, first: &[Unreadable]) -> Failure {
    let what = "not one line is an access log's: expected common, combined or JSON lines";
    Failure::new(format!("{name}: {what}{}", reasons(first)))
}

/// Why the first lines could not be read.
fn reasons(first: &[Unreadable]) -> String {
    let reason = |it: &Unreadable| format!("\n  line {}: {}", it.line, it.reason);
    first.iter().map(reason).collect()
}

/// A policy that is a limit of one line, and not the name of one.
fn inline_policy(typed: &str, config: &Config) -> Result<Policy, Failure> {
    match limit_from_line(typed) {
        Ok(LimitOrShaper::Limit(limit)) => Ok(limit.into()),
        Ok(LimitOrShaper::Shaper(shaper)) => Ok(Policy::shaper(shaper)),
        Err(error) if typed.contains(['/', ' ']) => {
            Err(Failure::usage(format!("--policy: {error}")))
        }
        Err(_) => {
            let unknown = unknown_policy(typed, config.policies.keys().map(String::as_str));
            let other = "a limit like 100/min can be asked as well";
            Err(Failure::new(format!("{unknown}; {other}")))
        }
    }
}

fn nothing_to_ask(file: Option<&Path>, config: &Config) -> Failure {
    let Some(file) = file else {
        return Failure::usage(
            "say what to ask: --policy 100/min, or a configuration with -c FILE",
        );
    };
    let names = config.policies.keys().map(|name| printable(name)).collect::<Vec<_>>().join(", ");
    let file = file.display();
    Failure::new(format!(
        "{file} has no routes: say with --policy which of its policies to ask: {names}"
    ))
}

#[derive(Serialize)]
struct NamedReport<'a> {
    log: &'a str,
    #[serde(flatten)]
    report: &'a ReplayReport,
}

fn text(NamedReport { log, report }: &NamedReport<'_>) -> String {
    let ReplayReport { lines, unlimited, unreadable: bad, .. } = report;
    let span = match (&report.from, &report.until) {
        (Some(from), Some(until)) => format!(" from {from} to {until}"),
        _ => String::new(),
    };
    let mut table = Table::new(&["policy", "requests", "admitted", "denied", "", "keys denied"]);
    for row in &report.policies {
        let percent = format!("{:.1} %", row.denied_percent);
        let PolicyReport { policy, requests, admitted, denied, keys_denied, .. } = row;
        table.row(&[policy, requests, admitted, denied, &percent, keys_denied]);
    }
    // What makes the numbers wrong stands before them.
    let (above, below) = report.notes.split_at(usize::from(report.out_of_order > 0));
    let above: String = above.iter().flat_map(|note| ["\nnote: ", note.as_str(), "\n"]).collect();
    let mut out = format!(
        "{log}: {lines} lines{span}; {unlimited} not limited, {bad} could not be read\n{above}\n{table}"
    );
    out.push_str(&plans(&report.policies));
    out.push_str(&rates(&report.rates));
    for row in report.policies.iter().filter(|row| !row.keys.is_empty()) {
        out.push_str(&most_denied(row));
    }
    out.push_str(&unreadable(&report.first_unreadable));
    for note in below {
        let _ = writeln!(out, "\nnote: {note}");
    }
    out
}

/// The first lines that could not be read.
fn unreadable(first: &[Unreadable]) -> String {
    let mut out = String::new();
    if !first.is_empty() {
        out.push_str("\nlines that could not be read, the first of them:\n");
    }
    for Unreadable { line, reason } in first {
        let _ = writeln!(out, "  line {line}: {reason}");
    }
    out
}

/// What each policy does to the requests of each plan.
fn plans(policies: &[PolicyReport]) -> String {
    let rows: Vec<_> =
        policies.iter().flat_map(|row| row.plans.iter().map(|plan| (&row.policy, plan))).collect();
    if rows.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&["policy", "plan", "requests", "admitted", "denied", ""]);
    for (policy, PlanReport { plan, requests, admitted, denied, denied_percent }) in rows {
        table.row(&[policy, plan, requests, admitted, denied, &format!("{denied_percent:.1} %")]);
    }
    format!("\n{table}")
}

/// How fast clients were.
fn rates(rates: &RateReport) -> String {
    let head = ["requests of one client in its busiest", "p50", "p90", "p99", "p99.9", "most"];
    let mut table = Table::new(&head);
    for (period, it) in [("second", &rates.second), ("minute", &rates.minute)] {
        table.row(&[&period, &it.p50, &it.p90, &it.p99, &it.p999, &it.max]);
    }
    let unmeasured = match rates.unmeasured {
        0 => String::new(),
        requests => format!("and {requests} requests of clients beyond these\n"),
    };
    format!("\n{} clients:\n{table}{unmeasured}", rates.clients)
}

fn most_denied(row: &PolicyReport) -> String {
    let mut table = Table::new(&["key", "denied", "first", "last"]);
    for DeniedKey { key, denied, first, last } in &row.keys {
        table.row(&[key, denied, first, last]);
    }
    let others = match row.denied_by_others {
        0 => String::new(),
        others => format!("and {others} more, by keys beyond those that are counted one by one\n"),
    };
    format!("\nmost denied by {}:\n{table}{others}", row.policy)
}

/// `size` is 0 if it is not known.
fn progress_line(lines: u64, bytes: u64, size: u64, us: u64) -> String {
    let part = match size {
        0 => String::new(),
        size => format!(", {} %", (bytes.saturating_mul(100) / size).min(100)),
    };
    format!("{lines} lines{part}, {} lines/s", lines.saturating_mul(1_000_000) / us.max(1))
}

/// The log, and its size, which is 0 if it is not known.
fn open(path: &Path) -> Result<(Box<dyn Read>, u64), Failure> {
    let failed = |error: io::Error| Failure::new(format!("{}: {error}", path.display()));
    let (mut log, size): (Box<dyn Read>, _) = if path == Path::new("-") {
        (Box::new(io::stdin()), 0)
    } else {
        let file = File::open(path).map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
        (Box::new(file), size)
    };
    let mut start = Vec::new();
    (&mut log).take(4).read_to_end(&mut start).map_err(failed)?;
    match unpacker(&start) {
        Some(unpacker) => Err(Failure::new(format!(
            "{}: it is compressed: `{unpacker} LOG | tidegate replay -` reads it",
            path.display()
        ))),
        None => Ok((Box::new(io::Cursor::new(start).chain(log)), size)),
    }
}

/// The program that unpacks a file with this start.
fn unpacker(start: &[u8]) -> Option<&'static str> {
    match start {
        [0x1f, 0x8b, ..] => Some("zcat"),
        [0x28, 0xb5, 0x2f, 0xfd] => Some("zstdcat"),
        [b'B', b'Z', b'h', ..] => Some("bzcat"),
        [0xfd, b'7', b'z', b'X'] => Some("xzcat"),
        _ => None,
    }
}
