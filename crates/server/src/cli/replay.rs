//! `tidegate replay`: what policies would have done to recorded traffic.

mod judge;
mod lines;
mod progress;
mod record;
mod report;
mod tally;

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use self::judge::Judge;
use self::lines::Lines;
use self::progress::Progress;
use self::record::{Record, Unread};
use self::report::Report;
use self::tally::Tally;
use super::{Failure, OK};
use crate::config::Config;
use crate::identity::KeyParts;

const EXAMPLES: &str = "\
Examples:
  tidegate replay access.log --policy api -c tidegate.yaml       one policy for every request
  tidegate replay access.log -c tidegate.yaml                    by the routes of the file
  tidegate replay access.log -c tidegate.yaml --policy api --key client_ip,path
  zcat access.log.*.gz | tidegate replay - -c tidegate.yaml --json | jq '.policies[].denied'

A line is in the common or combined format, or a JSON object with the names that nginx, Apache, Caddy,
Traefik or Envoy give its fields; formats may be mixed. Time is the log's, and the decisions are those of
a store in memory, whatever store the file names. What can be read of a request is its client, method,
host (JSON), path, query, user agent and referer, and with JSON a field \"headers\"; a key made of
something else falls back to client_ip, and the report says how often.

Lines that cannot be read are counted, and the first few are shown. Memory is bounded: up to 200000
denied keys are told apart.

Exit codes: 0 ok, 1 error or not one line could be read, 64 usage.";

/// Replay an access log: what would a policy have denied, and to whom?
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The access log; - for standard input
    #[arg(value_name = "LOG")]
    log: PathBuf,
    /// The configuration with policies and routes
    #[arg(short, long, value_name = "FILE", default_value = "tidegate.yaml")]
    config: PathBuf,
    /// Ask this policy for every request, instead of the one of its route
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,
    /// Count by these parts of a request, instead of what the route or the policy says
    #[arg(long, value_name = "PART,…", value_delimiter = ',')]
    key: Vec<String>,
    /// How many of the most denied keys are listed for each policy
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Replays, and prints.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let key = match &*args.key {
        [] => None,
        parts => Some(
            KeyParts::read(parts.iter().map(String::as_str))
                .map_err(|error| Failure::usage(format!("--key: {error}")))?,
        ),
    };
    let config = Config::read(&args.config)
        .map_err(|problems| Failure::new(problems.lines().join("\ntidegate: ")))?;
    let judge = Judge::new(&config, args.policy.clone(), key).map_err(Failure::new)?;
    let (log, size) = open(&args.log)?;
    let unread = |error: io::Error| Failure::new(format!("{}: {error}", args.log.display()));
    let tally = replay(&judge, log, Progress::new(size)).map_err(unread)?;
    let none = tally.lines > 0 && tally.unreadable == tally.lines;
    if none {
        let reasons = tally.shown.iter().map(|it| format!("\n  line {}: {}", it.line, it.reason));
        let told: String = reasons.collect();
        let what = "not one line is an access log's: expected common, combined or JSON lines";
        return Err(Failure::new(format!("{}: {what}{told}", args.log.display())));
    }
    let report = Report::new(args.log.display().to_string(), tally, args.top);
    let mut said = Vec::new();
    let made = if args.json { report.json(&mut said) } else { report.text(&mut said) };
    made.map_err(|error| Failure::new(error.to_string()))?;
    // A closed pipe is no reason to fail: whoever closed it has read enough.
    let _ = io::stdout().write_all(&said);
    Ok(ExitCode::from(OK))
}

/// The log, and how long it is if that is known.
fn open(path: &Path) -> Result<(Box<dyn Read>, u64), Failure> {
    if path == Path::new("-") {
        return Ok((Box::new(io::stdin()), 0));
    }
    let unread = |error: io::Error| Failure::new(format!("{}: {error}", path.display()));
    let file = File::open(path).map_err(unread)?;
    let size = file.metadata().map_err(unread)?.len();
    Ok((Box::new(file), size))
}

fn replay(judge: &Judge, log: impl Read, mut progress: Progress) -> io::Result<Tally> {
    let mut tally = Tally::default();
    let mut lines = Lines::new(log);
    let with_headers = judge.reads_headers();
    while let Some(line) = lines.next()? {
        tally.lines += 1;
        match line {
            Err(_) => tally.unreadable(&Unread::TooLong),
            Ok(line) => one(judge, line, with_headers, &mut tally),
        }
        progress.read(tally.lines, lines.bytes);
    }
    progress.done();
    Ok(tally)
}

fn one(judge: &Judge, line: &[u8], with_headers: bool, tally: &mut Tally) {
    // What is no UTF-8 in a path or an agent is replaced, as whoever looks at it would.
    let lossy = || String::from_utf8_lossy(line);
    let line = str::from_utf8(line).map_or_else(|_| lossy(), Cow::Borrowed);
    let ruled = Record::read(&line, with_headers).and_then(|record| {
        tally.at(record.at);
        Ok((record.at, judge.rule(&record)?))
    });
    match ruled {
        Ok((at, Some(ruling))) => tally.ruled(at, ruling),
        Ok((_, None)) => tally.unlimited += 1,
        Err(unread) => tally.unreadable(&unread),
    }
}
