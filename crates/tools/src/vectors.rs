//! `tidegate vectors`: replays cases through a store, in virtual time.

mod case;
mod replay;

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufWriter, StdoutLock, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use tidegate::Store;
use tokio::task::JoinHandle;

use self::replay::{Line, Replayed, replay};
use super::failure::block_on;
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
pub struct VectorsArgs {
    /// Files of cases
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The store to replay through: memory: or a URL of Redis
    #[arg(long, value_name = "URL", default_value = "memory:")]
    store: String,
}

/// Virtual time does not pass meanwhile, so the store may be as slow as its network.
const DEADLINE: Duration = Duration::from_secs(10);

/// The most cases at once: enough to use the time of a round trip.
const CASES_MAX: usize = 64;

/// Replays every file.
pub fn run(args: &VectorsArgs, stores: StoreDrivers) -> Result<ExitCode, Failure> {
    block_on(async {
        let mut runner = Runner {
            store: open(&args.store, stores).await?,
            running: VecDeque::new(),
            started: 0,
            out: Some(BufWriter::with_capacity(64 << 10, io::stdout().lock())),
            steps: 0,
            differences: 0,
        };
        for file in &args.files {
            let started = runner.start_file(file).await;
            if started.is_err() {
                // Earlier results are printed before the error.
                runner.finish_all().await?;
            }
            started?;
        }
        runner.finish_all().await?;
        runner.out.as_mut().map_or(Ok(()), |out| unless_closed(out.flush()))?;
        if runner.differences == 0 {
            return Ok(ExitCode::from(OK));
        }
        print_error(&format!("{} of {} steps differ", runner.differences, runner.steps));
        Ok(ExitCode::from(ERROR))
    })
}

/// Opens the store, and checks that it answers. Each run has its own keys.
async fn open(url: &str, stores: StoreDrivers) -> Result<Arc<dyn Store>, Failure> {
    let run = RandomState::new().hash_one(());
    let key_prefix = format!("tg-vectors-{run:016x}");
    let (deadline, breaker) = (DEADLINE, None);
    let announces = false;
    let options = StoreOptions {
        key_prefix,
        deadline,
        replays: true,
        breaker,
        announces,
        ..StoreOptions::default()
    };
    let opened = stores.open(url, &options).map_err(Failure::new)?;
    opened.reach().await.map_err(|error| {
        let (shown, error) = (driver::redacted(url), printable(&error.to_string()));
        Failure::new(format!(
            "the store {shown} does not answer: {error}. `tidegate doctor --store URL` says more"
        ))
    })?;
    Ok(opened.store)
}

/// Replays several cases at once, and prints their results in order.
struct Runner {
    store: Arc<dyn Store>,
    /// The oldest first.
    running: VecDeque<JoinHandle<Replayed>>,
    /// The number of the next case, which is its key.
    started: u64,
    /// `None` once the pipe is closed; the replay goes on for its exit code.
    out: Option<BufWriter<StdoutLock<'static>>>,
    steps: u64,
    differences: u64,
}

impl Runner {
    async fn start_file(&mut self, file: &Path) -> Result<(), Failure> {
        let name: Arc<str> = file.display().to_string().into();
        let in_file = |why: String| Failure::new(format!("{name}: {why}"));
        let text = std::fs::read(file).map_err(|error| in_file(error.to_string()))?;
        let cases: Vec<&RawValue> = serde_json::from_slice(&text)
            .map_err(|error| in_file(format!("expected a list of cases: {error}")))?;
        for (index, raw) in cases.into_iter().enumerate() {
            let case = case::read(raw.get(), index).map_err(&in_file)?;
            if self.running.len() >= CASES_MAX {
                self.finish_oldest().await?;
            }
            self.started += 1;
            let key = format!("case-{}", self.started);
            let replay = replay(name.clone(), case, self.store.clone(), key);
            self.running.push_back(tokio::spawn(replay));
        }
        Ok(())
    }

    async fn finish_all(&mut self) -> Result<(), Failure> {
        while !self.running.is_empty() {
            self.finish_oldest().await?;
        }
        Ok(())
    }

    async fn finish_oldest(&mut self) -> Result<(), Failure> {
        let Some(oldest) = self.running.pop_front() else { return Ok(()) };
        let replayed = oldest.await.map_err(|error| Failure::new(error.to_string()))?;
        self.print(replayed)
    }

    /// Prints the steps of a case, and where they differ from what is expected.
    fn print(&mut self, replayed: Replayed) -> Result<(), Failure> {
        let Replayed { file, case, answers, error } = replayed;
        let name = printable(&case.name);
        for (step, answer) in answers.iter().enumerate() {
            self.steps += 1;
            self.print_line(&Line { case: &case.name, step, answer })?;
            let Some(expect) = &case.expect else { continue };
            let (expected, got) = (&expect[step], serde_json::to_value(answer).unwrap_or_default());
            if *expected != got {
                self.differences += 1;
                print_error(&format!("case {name} step {step}: expected {expected}, got {got}"));
            }
        }
        let Some(error) = error else { return Ok(()) };
        let (step, error) = (answers.len(), printable(&error.to_string()));
        Err(Failure::new(format!("{file}: case {name} step {step}: {error}")))
    }

    fn print_line(&mut self, line: &Line<'_>) -> Result<(), Failure> {
        let Some(out) = &mut self.out else { return Ok(()) };
        let written = serde_json::to_writer(&mut *out, line).map_err(io::Error::from);
        let written = written.and_then(|()| out.write_all(b"\n"));
        if written.is_err() {
            self.out = None;
        }
        unless_closed(written)
    }
}

fn print_error(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
