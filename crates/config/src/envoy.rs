//! The configuration of envoyproxy/ratelimit: read, checked, and made into rules that match a request. Every rule that
//! limits is a policy of the engine, named by its path: `edge/tier_gold/api_key`.

mod build;
mod files;
mod rules;
mod unit;

use std::fmt;
use std::path::{Path, PathBuf};

use tidegate::Policy;
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

/// Rules for Envoy's descriptors, and how they are answered.
#[derive(Debug, Default)]
pub struct Rls {
    pub rules: Rules,
    pub style: AnswerStyle,
}

/// How the service answers, beside its rules.
#[derive(Clone, Copy, Debug)]
pub struct AnswerStyle {
    /// Whether all descriptors of a request are one atomic step, so that a refusal charges nothing. Otherwise each is
    /// charged by itself, and one that refuses loses its remaining units, as in the original.
    pub is_atomic: bool,
    /// Whether answers carry the tightest limit in `RateLimit-…` headers.
    pub adds_headers: bool,
    pub shadow: Shadow,
}

/// Which requests are admitted even if a rule refuses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Shadow {
    #[default]
    Off,
    /// Those of Envoy.
    Envoy,
    /// Those at any door: all policies are in shadow mode.
    AllDoors,
}

impl Rls {
    /// Every rule that limits, as a policy by its name.
    pub fn policies(&self) -> Vec<(&str, Policy)> {
        let mut policies = self.rules.policies();
        if self.style.shadow == Shadow::AllDoors {
            policies = policies.into_iter().map(|(name, it)| (name, it.shadow(true))).collect();
        }
        policies
    }
}

impl Default for AnswerStyle {
    fn default() -> Self {
        Self { is_atomic: true, adds_headers: false, shadow: Shadow::Off }
    }
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
