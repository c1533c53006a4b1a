//! How a command ends: exit codes, and why it failed.

use std::fmt;

/// Success, or the check was allowed.
pub const OK: u8 = 0;
pub const ERROR: u8 = 1;
/// The check was denied.
pub const DENIED: u8 = 2;
/// The command line is wrong (`EX_USAGE` of sysexits).
pub const USAGE: u8 = 64;

/// Why a command failed, for people.
#[derive(Debug)]
pub struct Failure {
    message: String,
    code: u8,
}

impl Failure {
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: ERROR }
    }

    /// An error of the command line that only the command itself can find.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: USAGE }
    }

    /// The exit code.
    pub const fn code(&self) -> u8 {
        self.code
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Runs a future on this thread.
pub(crate) fn block_on<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Failure::new(format!("cannot start: {error}")))?.block_on(future)
}
