//! What is wrong with a file, and where.

use std::fmt;
use std::path::{Path, PathBuf};

use serde_saphyr::Location;

use tidegate_core::text::printable;

/// Something that is wrong with a configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    file: PathBuf,
    /// Line and column, from 1; `None` for the file as a whole.
    place: Option<(u64, u64)>,
    what: String,
}

impl Error {
    pub(super) fn of_file(file: &Path, what: impl Into<String>) -> Self {
        Self { file: file.to_owned(), place: None, what: what.into() }
    }

    pub(super) fn at(file: &Path, place: Location, what: impl Into<String>) -> Self {
        let known = place != Location::UNKNOWN;
        let place = known.then(|| (place.line(), place.column()));
        Self { file: file.to_owned(), place, what: what.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some((line, column)) = self.place {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}", printable(&self.what))
    }
}
