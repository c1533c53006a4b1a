//! Problems of a file: the position, and what was expected instead.

use std::cell::RefCell;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// A position in a file. Lines and columns count from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub struct Position {
    pub line: u64,
    pub column: u64,
}

impl Position {
    pub const START: Self = Self { line: 1, column: 1 };
}

/// One problem.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub struct Problem {
    #[serde(flatten)]
    pub position: Position,
    /// The problem, and what was expected.
    pub message: String,
}

impl Problem {
    pub fn new(position: Position, message: impl Into<String>) -> Self {
        Self { position, message: message.into() }
    }
}

/// What is wrong with a file, collected while it is checked.
#[derive(Default)]
pub struct Report {
    pub problems: RefCell<Vec<Problem>>,
    /// What is valid, but will probably not work well.
    pub warnings: RefCell<Vec<Problem>>,
}

/// All problems of a file, sorted by position.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problems {
    file: PathBuf,
    found: Vec<Problem>,
    /// What is valid, but will probably not work well.
    warnings: Vec<Problem>,
}

impl Problems {
    pub fn new(file: &Path, mut found: Vec<Problem>) -> Self {
        found.sort();
        found.dedup();
        Self { file: file.to_owned(), found, warnings: Vec::new() }
    }

    /// The same, with warnings about the rest of the file.
    #[must_use]
    pub(crate) fn beside(self, warnings: Vec<Problem>) -> Self {
        Self { warnings, ..self }
    }

    /// The warnings about the rest of the file.
    #[must_use]
    pub fn warnings(&self) -> Self {
        Self::new(&self.file, self.warnings.clone())
    }

    pub fn file(&self) -> &Path {
        &self.file
    }

    /// One line per problem in the format of compilers, which editors can jump to: `file:line:column: message`.
    pub fn lines(&self) -> Vec<String> {
        let file = self.file.display();
        let line = |Problem { position: Position { line, column }, message }: &Problem| {
            format!("{file}:{line}:{column}: {message}")
        };
        self.found.iter().map(line).collect()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.found.iter()
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.lines().join("\n"))
    }
}
