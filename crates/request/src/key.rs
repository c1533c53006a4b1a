//! Who is counted: parts of a request, joined so that no two requests share a key by accident or by intent.

mod part;

use std::fmt;

use self::part::Part;
use super::Seen;
use tidegate_core::text::{closest, printable};

/// Stands before a value of the client's that reads like one of ours, such as an address: nobody can pass for
/// somebody else's address by sending it in a header. No part of a request can hold it.
const MARK: u8 = 0;
/// The key of everybody.
const GLOBAL: &str = "global";
/// What a fingerprint begins with. Plain digits would be what many an API key looks like, and those are to stay as they
/// are: overrides name them.
const FINGERPRINT: &str = "fingerprint-";

/// Parts of a request that make its key; each is the first of its alternatives that the request has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyParts(Vec<Vec<Part>>);

/// A word that names no part of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownPart {
    pub text: String,
    pub problem: String,
}

impl Default for KeyParts {
    /// The client's address alone.
    fn default() -> Self {
        Self(vec![vec![Part::ClientIp]])
    }
}

impl KeyParts {
    /// Reads parts as they are written in a configuration: `client_ip`, `header:x-user|client_ip`.
    pub fn read<'t>(texts: impl IntoIterator<Item = &'t str>) -> Result<Self, UnknownPart> {
        let part = |text: &'t str| text.split('|').map(|word| read_part(word.trim())).collect();
        let parts: Vec<_> = texts.into_iter().map(part).collect::<Result<_, _>>()?;
        if parts.is_empty() {
            let problem = ": expected a key part, like client_ip".to_owned();
            return Err(UnknownPart { text: String::new(), problem });
        }
        Ok(Self(parts))
    }

    /// The path alone, as routes match it and URLs are measured.
    pub fn path() -> Self {
        Self(vec![vec![Part::Path]])
    }

    /// Whether it reads any header.
    pub fn reads_headers(&self) -> bool {
        self.0.iter().flatten().any(Part::reads_headers)
    }

    /// Whether it reads headers that an access log usually leaves out.
    pub fn reads_unlogged_headers(&self) -> bool {
        self.0.iter().flatten().any(Part::reads_unlogged_headers)
    }

    /// The key of a request. A single part is the key as it is, so that an override can name it; several are each
    /// preceded by their length, so that nothing can be shifted from one part to the next.
    pub fn of(&self, request: &Seen<'_>, route: Option<&str>) -> Vec<u8> {
        let value = |parts: &Vec<Part>| {
            let found = parts.iter().find_map(|part| Some((part, part.of(request, route)?)));
            match found {
                Some((part, value)) if part.is_ours() || !reads_as_ours(&value) => value,
                Some((_, value)) => [&[MARK], &*value].concat(),
                None => request.client_name().into_bytes(),
            }
        };
        match &*self.0 {
            [only] => value(only),
            parts => parts.iter().fold(Vec::new(), |mut key, part| {
                let value = value(part);
                key.extend_from_slice(format!("{}:", value.len()).as_bytes());
                key.extend_from_slice(&value);
                key.push(b',');
                key
            }),
        }
    }
}

/// Whether a client's value looks like an address, a network, the key of everybody, a fingerprint or a key of several
/// parts.
fn reads_as_ours(value: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(value) else { return false };
    let address = text.split('/').next().unwrap_or_default();
    let length = text.split(':').next().filter(|length| length.len() < text.len());
    text == GLOBAL
        || text.starts_with(FINGERPRINT)
        || address.parse::<std::net::IpAddr>().is_ok()
        || length.is_some_and(|length| length.parse::<usize>().is_ok())
}

fn read_part(word: &str) -> Result<Part, UnknownPart> {
    let unknown = |problem| UnknownPart { text: word.to_owned(), problem };
    Part::read(word).map_err(|nearest| {
        let names = Part::NAMES.join(", ");
        unknown(match nearest {
            part::Unread::Name => {
                let head = word.split_inclusive(':').next().unwrap_or_default();
                let known = Part::NAMES.iter().map(|name| name.trim_end_matches("NAME"));
                match closest(head, known) {
                    Some(meant) => format!(", did you mean `{meant}`?"),
                    None => format!(": expected one of {names}"),
                }
            }
            part::Unread::Argument(what) => format!(": {what}"),
        })
    })
}

impl fmt::Display for UnknownPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown key part `{}`{}", printable(&self.text), self.problem)
    }
}

impl std::error::Error for UnknownPart {}

#[cfg(test)]
mod tests;
