//! `tidegate vectors`: replays recorded cases through a store, in virtual time.

mod case;
mod limit;
mod replay;
mod window;

use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;
use tidegate::{Store, StoreError};

use self::case::Case;
use self::replay::Line;
use self::window::{Job, Played, Window};
use super::{ERROR, Failure, OK, unless_closed};
use tidegate::driver::{self, StoreDrivers, StoreOptions};
use tidegate_core::text::printable;

const EXAMPLES: &str = "\
Examples:
  tidegate vectors testdata/vectors/*.json           silent on stderr, exit 0: all as expected
  tidegate vectors cases.json --store redis://127.0.0.1:6379
  tidegate vectors cases.json | jq -c 'select(.allowed == false)'

A file is a list of cases:
  [{\"name\": \"burst\",
    \"limit\": {\"algorithm\": \"gcra\", \"limit\": 100, \"period_us\": 60000000, \"burst\": 20},
    \"steps\": [{\"now_us\": 1700000000000000, \"cost\": 1}],
    \"expect\": [{\"allowed\": true, …}]}]
Several limits: \"all\": […] or \"any\": […] instead of \"limit\".
Without \"expect\", a case is only printed.
In Redis, a run has keys of its own (tg-vectors-…), which it deletes or lets expire.

Exit codes: 0 as expected, 1 on a difference or an error, 64 usage.";

/// Replay cases through a store: one JSON line per step, differences on stderr.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Files of cases
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The store to replay through: memory: or a URL of Redis
    #[arg(long, value_name = "URL", default_value = "memory:")]
    store: String,
}

/// Virtual time does not pass while the store thinks: it may take as long as a slow network needs.
const DEADLINE: Duration = Duration::from_secs(10);

/// How many steps were replayed, and how many came out differently.
#[derive(Default)]
struct Tally {
    steps: u64,
    differences: u64,
}

/// Replays every file.
pub fn run(args: &Args, stores: StoreDrivers) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Failure::new(error.to_string()))?.block_on(replay_all(args, stores))
}

async fn replay_all(args: &Args, stores: StoreDrivers) -> Result<ExitCode, Failure> {
    let store = open(&args.store, stores).await?;
    let mut out = Printer::new(io::stdout().lock());
    let mut tally = Tally::default();
    let done =
        replay_files(&args.files, &store, |played| print(played, &mut out, &mut tally)).await;
    done?;
    out.finish()?;
    if tally.differences == 0 {
        return Ok(ExitCode::from(OK));
    }
    say(&format!("{} of {} steps differ", tally.differences, tally.steps));
    Ok(ExitCode::from(ERROR))
}

/// The store, known to answer. Its keys are this run's own, so that no other disturbs it.
async fn open(url: &str, stores: StoreDrivers) -> Result<Arc<dyn Store>, Failure> {
    let run = RandomState::new().hash_one(());
    let key_prefix = format!("tg-vectors-{run:016x}");
    let (deadline, breaker) = (DEADLINE, None);
    let options = StoreOptions { key_prefix, deadline, replays: true, breaker, announces: false };
    let opened = stores.open(url, &options).map_err(Failure::new)?;
    let reached = opened.reach().await;
    reached.map_err(|error| Failure::new(not_reached(url, &error)))?;
    Ok(opened.store)
}

fn not_reached(url: &str, error: &StoreError) -> String {
    let (shown, error) = (driver::redacted(url), printable(&error.to_string()));
    format!("the store {shown} does not answer: {error}. `tidegate doctor --store URL` says more")
}

/// Replays the cases of all files, and hands on what came out in the order of the files.
async fn replay_files(
    files: &[PathBuf],
    store: &Arc<dyn Store>,
    mut done: impl FnMut(Played) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut window = Window::default();
    for file in files {
        let started = start_file(file, store, &mut window, &mut done).await;
        if started.is_err() {
            // What came before the trouble is told before it.
            window.drain(&mut done).await?;
        }
        started?;
    }
    window.drain(&mut done).await
}

async fn start_file(
    file: &Path,
    store: &Arc<dyn Store>,
    window: &mut Window,
    done: &mut impl FnMut(Played) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let name: Arc<str> = file.display().to_string().into();
    let within = |why: String| Failure::new(format!("{name}: {why}"));
    let text = std::fs::read(file).map_err(|error| within(error.to_string()))?;
    let cases: Vec<&RawValue> = serde_json::from_slice(&text)
        .map_err(|error| within(format!("expected a list of cases: {error}")))?;
    for (index, raw) in cases.into_iter().enumerate() {
        let case = case::read(raw.get(), index).map_err(&within)?;
        window.push(Job { file: name.clone(), case, store: store.clone() }, done).await?;
    }
    Ok(())
}

/// Prints the steps of a case, and says where they differ from what is expected.
fn print(played: Played, out: &mut Printer<impl Write>, tally: &mut Tally) -> Result<(), Failure> {
    let Played { file, case, answers, failed } = played;
    for (step, answer) in answers.iter().enumerate() {
        tally.steps += 1;
        out.print(&Line { case: &case.name, step, answer })?;
        if let Some(expected) = &case.expect {
            let got = serde_json::to_value(answer).unwrap_or_default();
            tally.differences += u64::from(differs(&case, step, &expected[step], &got));
        }
    }
    let Some(error) = failed else { return Ok(()) };
    let (name, step) = (printable(&case.name), answers.len());
    let error = printable(&error.to_string());
    Err(Failure::new(format!("{file}: case {name} step {step}: {error}")))
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

    fn print(&mut self, line: &Line<'_>) -> Result<(), Failure> {
        let Some(out) = &mut self.out else { return Ok(()) };
        let written = serde_json::to_writer(&mut *out, line).map_err(io::Error::from);
        let written = written.and_then(|()| out.write_all(b"\n"));
        if written.is_err() {
            self.out = None;
        }
        unless_closed(written)
    }

    fn finish(mut self) -> Result<(), Failure> {
        self.out.as_mut().map_or(Ok(()), |out| unless_closed(out.flush()))
    }
}
