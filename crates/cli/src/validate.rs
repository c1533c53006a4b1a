//! `tidegate validate`: checks configuration files.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;

use tidegate_config::{
    Change, Config, Problem, Problems, changes, first_periods, forgotten, position_of,
};
use tidegate_core::text::printable;
use tidegate_server::NamedFiles;
use tidegate_tools::{ERROR, Failure, OK, print};

/// The most problems, and the most warnings, that are printed of a file. JSON has all of them.
const LINES_MAX: usize = 100;
/// The most policies that a note names.
const NAMES_MAX: usize = 10;

const EXAMPLES: &str = "\
Examples:
  tidegate validate tidegate.yaml
  tidegate validate conf/*.yaml
  tidegate validate --json tidegate.yaml | jq -r '.[].message'
  tidegate validate new.yaml --against tidegate.yaml      what does a reload change and forget?

Every problem is a line: file:line:column: what was expected. The first 100 of a file
are printed, and all of them with --json. Nothing is bound or connected to; environment
variables in the files must be set. The files that a configuration names, such as keys,
certificates and pages, are read: what a start would refuse in them is a problem, and one
that is not on this machine a warning. A valid setting that will not work well, like a limit
that will oscillate or a route behind a wider one, is a warning. A note says what a limit
without a burst of its own admits in its first period. With --against, a table lists
every setting that a reload from OLD would change, as it is written, and whether counters
are kept; what it forgets is a warning too.

Exit codes: 0 all files are valid, 1 a file has problems, 64 usage.";

/// Check configuration files: every error with file, line and what was expected.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ValidateArgs {
    /// The files to check
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The file that is in force now: lists what a reload to FILE would change, and what it would forget
    #[arg(long, value_name = "OLD")]
    against: Option<PathBuf>,
    /// Print the problems as a JSON array; with --against, an object of problems and changes
    #[arg(long)]
    json: bool,
}

/// A problem in the JSON output.
#[derive(Serialize)]
struct FileProblem<'a> {
    file: std::borrow::Cow<'a, str>,
    #[serde(flatten)]
    problem: &'a Problem,
}

/// The JSON output with `--against`.
#[derive(Serialize)]
struct Comparison<'a> {
    problems: Vec<FileProblem<'a>>,
    changes: &'a [Change],
}

/// Checks the files; exits with 1 if one has a problem.
pub(crate) fn run(args: &ValidateArgs) -> Result<ExitCode, Failure> {
    if args.against.is_some() && args.files.len() > 1 {
        return Err(Failure::usage("`--against` compares with one file: expected one FILE"));
    }
    let (mut problems, mut notes, mut changed) = (Vec::new(), Vec::new(), Vec::new());
    let read = |path: &PathBuf| Ok((path.clone(), Config::read(path, crate::STORES)?));
    let old = args.against.as_ref().map(read).transpose();
    let old = old.unwrap_or_else(|found| {
        problems.push(found);
        None
    });
    for file in &args.files {
        match Config::read(file, crate::STORES) {
            Ok(mut config) => {
                if let Some((path, old)) = &old {
                    warn_of_reload(file, old, &config);
                    match changes((path, old), (file, &config), crate::STORES) {
                        Ok(found) => changed = found,
                        Err(found) => problems.push(found),
                    }
                }
                notes.extend(first_periods_note(file, &config));
                let named = NamedFiles::read(&config, crate::STORES);
                config.warnings.extend(found(file, named.unread));
                config.warnings.extend(found(file, named.doubtful));
                warn(&Problems::new(file, config.warnings));
                if !named.refused.is_empty() {
                    problems.push(Problems::new(file, found(file, named.refused)));
                }
            }
            Err(found) => {
                warn(&found.warnings());
                problems.push(found);
            }
        }
    }
    report(args, &problems, &changed)?;
    for note in &notes {
        // A closed pipe does not change the exit code.
        let _ = writeln!(io::stderr(), "note: {note}");
    }
    Ok(ExitCode::from(if problems.is_empty() { OK } else { ERROR }))
}

/// Messages about the keys of a file, each at its place.
fn found(file: &Path, messages: Vec<(Vec<String>, String)>) -> Vec<Problem> {
    let problem =
        |(key, message): (Vec<String>, String)| Problem::new(position_of(file, &key), message);
    messages.into_iter().map(problem).collect()
}

/// What a reload from the old configuration would forget.
fn warn_of_reload(file: &Path, old: &Config, new: &Config) {
    for forgotten in forgotten(old, new, crate::STORES) {
        // A closed pipe does not change the exit code.
        let _ = writeln!(io::stderr(), "warning: {}: {forgotten}", file.display());
    }
}

/// What a limit whose burst is the whole limit admits at first, once per file.
fn first_periods_note(file: &Path, config: &Config) -> Option<String> {
    let noted = first_periods(&config.policies);
    let ((name, said), others) = noted.split_first()?;
    let name = printable(name);
    let named: Vec<_> = others.iter().take(NAMES_MAX).map(|(name, _)| printable(name)).collect();
    let also = match others.len() - named.len() {
        _ if others.is_empty() => String::new(),
        0 => format!(" The same holds for {}.", named.join(", ")),
        more => format!(" The same holds for {} and {more} more.", named.join(", ")),
    };
    Some(format!("{}: policies.{name}: {said}{also}", file.display()))
}

/// Warnings do not change the exit code.
fn warn(warnings: &Problems) {
    for line in bounded(warnings) {
        // A closed pipe does not change the exit code.
        let _ = writeln!(io::stderr(), "warning: {line}");
    }
}

fn report(args: &ValidateArgs, problems: &[Problems], changed: &[Change]) -> Result<(), Failure> {
    let rows = problems.iter().flat_map(|problems| {
        let file = problems.file().to_string_lossy();
        problems.iter().map(move |problem| FileProblem { file: file.clone(), problem })
    });
    if args.json {
        let problems = rows.collect::<Vec<_>>();
        let json = match args.against {
            Some(_) => serde_json::to_string_pretty(&Comparison { problems, changes: changed }),
            None => serde_json::to_string_pretty(&problems),
        };
        let json = json.map_err(|error| Failure::new(error.to_string()))?;
        return print(format!("{json}\n").as_bytes());
    }
    if problems.is_empty() {
        let (count, files) =
            (args.files.len(), if args.files.len() == 1 { "file" } else { "files" });
        print(format!("{count} {files} checked: all right\n").as_bytes())?;
        return args.against.as_ref().map_or(Ok(()), |old| print(table(old, changed).as_bytes()));
    }
    for problems in problems {
        // A closed pipe does not change the exit code.
        let _ = writeln!(io::stderr(), "{}", bounded(problems).join("\n"));
    }
    Ok(())
}

/// The first lines, and how many more there are.
fn bounded(problems: &Problems) -> Vec<String> {
    let mut lines = problems.lines();
    let more = lines.len().saturating_sub(LINES_MAX);
    if more > 0 {
        lines.truncate(LINES_MAX);
        let file = problems.file().display();
        lines.push(format!("{file}: and {more} more"));
    }
    lines
}

/// The changes in columns.
fn table(old: &Path, changed: &[Change]) -> String {
    let old = old.display();
    if changed.is_empty() {
        return format!("no setting differs from {old}\n");
    }
    let head = ["setting", "before", "after", "effect"].map(ToOwned::to_owned);
    let row = |change: &Change| {
        let Change { setting, before, after, effect } = change.clone();
        let shown = |it: Option<String>| it.unwrap_or_else(|| "-".to_owned());
        [setting, shown(before), shown(after), effect]
    };
    let rows: Vec<_> = std::iter::once(head).chain(changed.iter().map(row)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths = [0, 1, 2].map(|column| width(column).unwrap_or(0));
    let line = |row: &[String; 4]| {
        let cells = row.iter().zip(widths.into_iter().chain([0]));
        let cells = cells.map(|(cell, width)| format!("{cell:<width$}"));
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    let lines: String = rows.iter().map(line).collect();
    format!("what a reload from {old} changes:\n\n{lines}")
}
