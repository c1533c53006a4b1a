//! Secrets, and where they come from.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use tidegate::store_kit::open_file;

use super::node::Cursor;

/// Text that is never printed.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// More than any secret needs.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// The fewest bytes of a token that cannot be guessed.
pub(crate) const TOKEN_BYTES_MIN: usize = 16;

/// Checks a token for the `Authorization` header. An error does not repeat the token.
pub fn checked_token(token: &str) -> Result<&str, &'static str> {
    let token = token.trim();
    if token.len() < TOKEN_BYTES_MIN {
        return Err("is shorter than 16 bytes: it can be guessed");
    }
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("needs visible ASCII characters without spaces, to fit into a header");
    }
    Ok(token)
}

/// Hexadecimal digits of so many are a key of 128 bits, and hardly the name of a file.
const KEY_DIGITS_MIN: usize = 32;

/// The path of a file with a secret. One that is the secret itself is refused, before anything prints the path.
pub(crate) fn named_file<'t>(text: &'t str, cursor: &Cursor<'_>) -> Option<&'t Path> {
    let digits = text.trim();
    let is_key =
        digits.len() >= KEY_DIGITS_MIN && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let path = Path::new(text);
    if is_key && !path.exists() {
        return cursor.reject("is a secret, not a file: write it into a file and name that file");
    }
    Some(path)
}

/// A secret in the configuration itself, or in a file that is read later.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SecretSource {
    Given(Secret),
    File(PathBuf),
}

impl SecretSource {
    /// Of the keys `NAME` and `NAME_file`, only one may be given.
    pub(crate) fn choose(
        name: &str,
        given: Option<&Secret>,
        file: Option<&String>,
        cursor: &Cursor<'_>,
    ) -> Option<Self> {
        if given.is_some() && file.is_some() {
            let message = format!("and `{name}` are both given: give one of them");
            return cursor.field(&format!("{name}_file")).reject(message);
        }
        let given = given.cloned().map(Self::Given);
        given.or_else(|| Self::in_file(&format!("{name}_file"), file, cursor))
    }

    /// The secret in the file that a key names, if it names one.
    pub(crate) fn in_file(key: &str, file: Option<&String>, cursor: &Cursor<'_>) -> Option<Self> {
        named_file(file?, &cursor.field(key)).map(|path| Self::File(path.to_owned()))
    }

    /// Reads the secret. The line break at the end of a file is not part of it.
    pub fn read(&self) -> Result<Secret, String> {
        match self {
            Self::Given(secret) => Ok(secret.clone()),
            Self::File(path) => read(path).map(Secret),
        }
    }
}

impl fmt::Display for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given(_) => f.write_str("…"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

fn read(path: &Path) -> Result<String, String> {
    let error_text = |why: &dyn fmt::Display| format!("cannot read {}: {why}", path.display());
    let file = open_file(path).map_err(|error| error_text(&error))?;
    let mut text = String::new();
    file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(|error| error_text(&error))?;
    let text = text.trim_end_matches(['\r', '\n']);
    if text.is_empty() {
        return Err(error_text(&"it is empty"));
    }
    Ok(text.to_owned())
}
