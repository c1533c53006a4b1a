//! The password of a door.

use std::fmt;
use std::path::Path;

use subtle::ConstantTimeEq;

/// What a client has to say before it may ask. Never printed.
#[derive(Clone)]
pub(crate) struct Password(Box<[u8]>);

impl Password {
    pub(crate) fn new(password: &str) -> Self {
        Self(password.as_bytes().into())
    }

    /// The first line of a file; an error says what to write into it.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read(path)
            .map_err(|error| format!("cannot read the password in {}: {error}", path.display()))?;
        let line = text.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
        if line.is_empty() {
            return Err(format!("{} holds no password on its first line", path.display()));
        }
        Ok(Self(line.into()))
    }

    /// Whether it is this one, in a time that depends on its length alone.
    pub(super) fn is(&self, given: &[u8]) -> bool {
        self.0.ct_eq(given).into()
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
    }
}
