//! `tidegate validate`: is a configuration right, and if not, where and why.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;

use tidegate_config::{Config, Problem, Problems};
use tidegate_tools::{ERROR, Failure, OK, print};

const EXAMPLES: &str = "\
Examples:
  tidegate validate tidegate.yaml
  tidegate validate conf/*.yaml
  tidegate validate --json tidegate.yaml | jq -r '.[].message'

Every problem has a line of its own, file:line:column: what was expected. Nothing
is opened or connected to; variables that the files name have to be set. What will
not do well, like a limit that will swing, is a warning.

Exit codes: 0 all are right, 1 one is not, 64 usage.";

/// Check configuration files: every error with file, line and what was expected.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The files to check
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Print the problems as a JSON array
    #[arg(long)]
    json: bool,
}

/// A problem, for programs.
#[derive(Serialize)]
struct Told<'a> {
    file: std::borrow::Cow<'a, str>,
    #[serde(flatten)]
    problem: &'a Problem,
}

/// Checks, prints, and exits with 1 if anything is wrong.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let mut problems = Vec::new();
    for file in &args.files {
        match Config::read(file, crate::STORES) {
            Ok(config) => warn(&Problems::new(file, config.warnings)),
            Err(found) => problems.push(found),
        }
    }
    tell(args, &problems)?;
    Ok(ExitCode::from(if problems.is_empty() { OK } else { ERROR }))
}

/// What will not do well is told, and right all the same.
fn warn(warnings: &Problems) {
    for line in warnings.lines() {
        // Who closed the pipe still gets the exit code.
        let _ = writeln!(io::stderr(), "warning: {line}");
    }
}

fn tell(args: &Args, problems: &[Problems]) -> Result<(), Failure> {
    let told = problems.iter().flat_map(|problems| {
        let file = problems.file().to_string_lossy();
        problems.iter().map(move |problem| Told { file: file.clone(), problem })
    });
    if args.json {
        let told = serde_json::to_string_pretty(&told.collect::<Vec<_>>());
        let told = told.map_err(|error| Failure::new(error.to_string()))?;
        return print(format!("{told}\n").as_bytes());
    }
    if problems.is_empty() {
        let (count, files) =
            (args.files.len(), if args.files.len() == 1 { "file" } else { "files" });
        return print(format!("{count} {files} checked: all right\n").as_bytes());
    }
    for problems in problems {
        // Who closed the pipe still gets the exit code.
        let _ = writeln!(io::stderr(), "{problems}");
    }
    Ok(())
}
