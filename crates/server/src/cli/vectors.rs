//! `tidegate vectors`: replays recorded cases through a store, in virtual time.

mod case;
mod limit;
mod replay;

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::Value;
use serde_json::value::RawValue;
use tidegate::{MemoryStore, Store};

use self::case::Case;
use self::replay::{Line, Replay};
use super::{ERROR, Failure, OK};
use crate::text::printable;

const EXAMPLES: &str = "\
Examples:
  tidegate vectors testdata/vectors/*.json           silent on stderr, exit 0: all as expected
  tidegate vectors cases.json --store memory:        the same, with the store named
  tidegate vectors cases.json | jq -c 'select(.allowed == false)'

A file is a list of cases:
  [{\"name\": \"burst\",
    \"limit\": {\"algorithm\": \"gcra\", \"limit\": 100, \"period_us\": 60000000, \"burst\": 20},
    \"steps\": [{\"now_us\": 1700000000000000, \"cost\": 1}],
    \"expect\": [{\"allowed\": true, …}]}]
Several limits: \"all\": […] or \"any\": […] instead of \"limit\".
Without \"expect\", a case is only printed.

Exit codes: 0 as expected, 1 on a difference or an error, 64 usage.";

/// Replay cases through a store: one JSON line per step, differences on stderr.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Files of cases
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The store to replay through; so far only memory:
    #[arg(long, value_name = "URL", default_value = "memory:")]
    store: String,
}

/// How many steps were replayed, and how many came out differently.
#[derive(Default)]
struct Tally {
    steps: u64,
    differences: u64,
}

/// Replays every file.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Failure::new(error.to_string()))?.block_on(replay_all(args))
}

async fn replay_all(args: &Args) -> Result<ExitCode, Failure> {
    if args.store != "memory:" {
        // The scheme only: the rest of a URL may hold a password.
        let scheme = printable(args.store.split(':').next().unwrap_or_default());
        return Err(Failure::new(format!("store `{scheme}:…`: only memory: exists so far")));
    }
    let store = MemoryStore::default();
    let mut out = Printer::new(io::stdout().lock());
    let mut tally = Tally::default();
    for file in &args.files {
        if let Err(failure) = replay_file(file, &store, &mut out, &mut tally).await {
            out.finish();
            return Err(failure);
        }
    }
    out.finish();
    if tally.differences == 0 {
        return Ok(ExitCode::from(OK));
    }
    say(&format!("{} of {} steps differ", tally.differences, tally.steps));
    Ok(ExitCode::from(ERROR))
}

async fn replay_file(
    file: &Path,
    store: &dyn Store,
    out: &mut Printer<impl Write>,
    tally: &mut Tally,
) -> Result<(), Failure> {
    let within = |why: String| Failure::new(format!("{}: {why}", file.display()));
    let text = std::fs::read(file).map_err(|error| within(error.to_string()))?;
    let cases: Vec<&RawValue> = serde_json::from_slice(&text)
        .map_err(|error| within(format!("expected a list of cases: {error}")))?;
    for (index, raw) in cases.into_iter().enumerate() {
        let case = case::read(raw.get(), index).map_err(&within)?;
        let key = format!("{}#{index}", file.display());
        replay_case(&case, Replay::new(store, &case.limits, key), out, tally)
            .await
            .map_err(&within)?;
    }
    Ok(())
}

async fn replay_case(
    case: &Case,
    replay: Replay<'_>,
    out: &mut Printer<impl Write>,
    tally: &mut Tally,
) -> Result<(), String> {
    for (number, step) in case.steps.iter().enumerate() {
        let answer = replay.step(step.now, step.cost).await.map_err(|error| error.to_string())?;
        tally.steps += 1;
        out.print(&Line { case: &case.name, step: number, answer: &answer });
        if let Some(expected) = &case.expect {
            let got = serde_json::to_value(&answer).unwrap_or_default();
            tally.differences += u64::from(differs(case, number, &expected[number], &got));
        }
    }
    Ok(())
}

fn differs(case: &Case, step: usize, expected: &Value, got: &Value) -> bool {
    if expected == got {
        return false;
    }
    let name = printable(&case.name);
    say(&format!("case {name} step {step}: expected {expected}, got {got}"));
    true
}

fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Prints lines until nobody reads them any more; the replay goes on for its exit code.
struct Printer<W: Write> {
    out: Option<BufWriter<W>>,
}

impl<W: Write> Printer<W> {
    fn new(out: W) -> Self {
        Self { out: Some(BufWriter::with_capacity(64 << 10, out)) }
    }

    fn print(&mut self, line: &Line<'_>) {
        let Some(out) = &mut self.out else { return };
        let written = serde_json::to_writer(&mut *out, line).map_err(io::Error::from);
        if written.and_then(|()| out.write_all(b"\n")).is_err() {
            self.out = None;
        }
    }

    fn finish(&mut self) {
        if let Some(out) = &mut self.out {
            let _ = out.flush();
        }
    }
}
