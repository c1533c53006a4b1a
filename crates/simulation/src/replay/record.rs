//! A line of an access log: the common and combined formats, and JSON.

mod common;
mod json;
mod time;

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use tidegate_core::text::printable;

pub(super) use self::time::{LogTime, rfc_3339_utc};

/// The request of a line.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Record<'a> {
    pub(super) at: LogTime,
    pub(super) client: IpAddr,
    pub(super) method: Cow<'a, str>,
    pub(super) target: Cow<'a, str>,
    pub(super) host: Cow<'a, str>,
    /// Names in lower case.
    pub(super) headers: Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

/// Why a line cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum LineError {
    Missing(&'static str),
    Bad {
        what: &'static str,
        found: String,
    },
    Json(String),
    TooLong,
    /// The line can be read, but its request is ambiguous.
    Request(String),
}

impl LineError {
    fn bad(what: &'static str, found: &str) -> Self {
        Self::Bad { what, found: printable(found) }
    }
}

impl<'a> Record<'a> {
    /// Reads a line in any of the formats, and its headers only if they are needed.
    pub(super) fn read(line: &'a str, with_headers: bool) -> Result<Self, LineError> {
        let is_json = line.starts_with('{');
        if is_json { json::read(line, with_headers) } else { common::read(line, with_headers) }
    }
}

/// An address, with or without a port.
fn client(text: &str) -> Result<IpAddr, LineError> {
    let address = text.parse::<IpAddr>().ok();
    let address = address.or_else(|| Some(text.parse::<SocketAddr>().ok()?.ip()));
    address.ok_or_else(|| LineError::bad("client", text))
}

/// Method and target of `GET /path HTTP/1.1`; old clients leave the version out.
fn request(line: &str) -> Result<(&str, &str), LineError> {
    let mut words = line.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let is_valid = |byte: u8| byte.is_ascii_uppercase() || byte == b'-';
    if method.is_empty()
        || !method.bytes().all(is_valid)
        || target.is_empty()
        || words.nth(1).is_some()
    {
        return Err(LineError::bad("request", line));
    }
    Ok((method, target))
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(what) => write!(f, "no {what}"),
            Self::Bad { what, found } => write!(f, "`{found}` is no {what}"),
            Self::Json(why) => write!(f, "no JSON: {why}"),
            Self::TooLong => f.write_str("longer than 64 KiB"),
            Self::Request(why) => f.write_str(why),
        }
    }
}

#[cfg(test)]
mod tests;
