//! What is wrong with a file: where it is, and what was expected instead.

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

/// One thing that is wrong.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub struct Problem {
    #[serde(flatten)]
    pub position: Position,
    /// What is wrong, and what was expected.
    pub message: String,
}

impl Problem {
    pub fn new(position: Position, message: impl Into<String>) -> Self {
        Self { position, message: message.into() }
    }
}

/// Everything that is wrong with a file; at least one thing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problems {
    file: PathBuf,
    found: Vec<Problem>,
}

impl Problems {
    pub fn new(file: &Path, mut found: Vec<Problem>) -> Self {
        found.sort();
        found.dedup();
        Self { file: file.to_owned(), found }
    }

    pub fn file(&self) -> &Path {
        &self.file
    }

    /// One line for each, as compilers do it, so that editors can jump there: `file:line:column: what`.
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
