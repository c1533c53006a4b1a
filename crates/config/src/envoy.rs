//! The configuration of envoyproxy/ratelimit: read, checked, and made into rules that match a request. Every rule that
//! limits is a policy of the engine, named by its path: `edge/tier_gold/api_key`.

mod build;
mod files;
mod rules;
mod unit;

use std::fmt;
use std::path::{Path, PathBuf};

use tidegate_core::text::printable;

pub use self::files::below as files_below;
pub use self::rules::{CounterKey, Counts, Domain, Entry, Quantity, Rule, Rules};
pub use self::unit::Unit;
use crate::problem::{Position, Problem};

/// Reads every `*.yaml` and `*.yml` file below a folder, or one file: all of them, or every error in them.
pub fn load(path: &Path) -> Result<Rules, Vec<Error>> {
    let mut builder = build::Builder::default();
    for file in files::below(path).map_err(|error| vec![error])? {
        match files::read(&file) {
            Ok(text) => builder.add(&file, &text),
            Err(error) => builder.errors.push(error),
        }
    }
    builder.finish()
}

/// A problem in a file of rules.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    file: PathBuf,
    /// `None` for the file as a whole.
    position: Option<Position>,
    message: String,
}

impl Error {
    fn in_file(file: &Path, message: impl Into<String>) -> Self {
        Self { file: file.to_owned(), position: None, message: message.into() }
    }

    fn at(file: &Path, problem: Problem) -> Self {
        let Problem { position, message } = problem;
        Self { file: file.to_owned(), position: Some(position), message }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(Position { line, column }) = self.position {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}", printable(&self.message))
    }
}
