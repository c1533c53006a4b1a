//! How a command ends: exit codes, and why it failed.

use std::fmt;
use std::io::{self, Write};

/// Everything went well, or the check was allowed.
pub const OK: u8 = 0;
/// Something went wrong.
pub const ERROR: u8 = 1;
/// The check was denied.
pub const DENIED: u8 = 2;
/// The command line makes no sense (`EX_USAGE` of sysexits).
pub const USAGE: u8 = 64;

/// Why a command failed, for people.
#[derive(Debug)]
pub struct Failure {
    why: String,
    code: u8,
}

impl Failure {
    pub fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), code: ERROR }
    }

    /// What the process exits with.
    pub const fn code(&self) -> u8 {
        self.code
    }

    /// What was typed makes no sense, in a way that only the command knows.
    pub fn usage(why: impl Into<String>) -> Self {
        Self { why: why.into(), code: USAGE }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

/// Prints all of it, and says so if that cannot be done: a disk that is full leaves half a file.
pub fn print(said: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    unless_closed(out.write_all(said).and_then(|()| out.flush()))
}

/// A closed pipe is no reason to fail: whoever closed it has read enough.
pub fn unless_closed(written: io::Result<()>) -> Result<(), Failure> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("cannot write to standard output: {error}")))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
