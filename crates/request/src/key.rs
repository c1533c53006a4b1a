//! Keys from parts of a request, joined so that two different requests never share a key, not even on purpose.

mod part;

use self::part::Part;
use crate::ClientRequest;

/// Precedes a value of the client that looks like one of ours, such as an address, so that no client can use the key of
/// another by sending its address in a header. No part of a request can contain this byte.
const MARK: u8 = 0;
/// The key part with the same value for all.
const GLOBAL: &str = "global";
/// The prefix of a fingerprint. Without it, API keys of plain digits would look like fingerprints and get a mark, and
/// overrides could not name them.
const FINGERPRINT: &str = "fingerprint-";

/// The parts of a request that make its key. Each part is a list of alternatives: the first that the request has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyParts(Vec<Vec<Part>>);

impl Default for KeyParts {
    /// The client's address alone.
    fn default() -> Self {
        Self(vec![vec![Part::ClientIp]])
    }
}

impl KeyParts {
    /// Reads parts as they are written in a configuration: `client_ip`, `header:x-user|client_ip`. An error says what was
    /// expected.
    pub fn read<'t>(texts: impl IntoIterator<Item = &'t str>) -> Result<Self, String> {
        let part = |text: &'t str| text.split('|').map(|word| Part::read(word.trim())).collect();
        let parts: Vec<_> = texts.into_iter().map(part).collect::<Result<_, _>>()?;
        if parts.is_empty() {
            return Err("unknown key part ``: expected a key part, like client_ip".to_owned());
        }
        Ok(Self(parts))
    }

    /// The path alone, as routes match it.
    pub fn path() -> Self {
        Self(vec![vec![Part::Path]])
    }

    /// Whether a key depends on a header.
    pub fn reads_headers(&self) -> bool {
        self.0.iter().flatten().any(Part::reads_headers)
    }

    /// Whether a key depends on a header that access logs usually lack.
    pub fn reads_unlogged_headers(&self) -> bool {
        self.0.iter().flatten().any(Part::reads_unlogged_headers)
    }

    /// The key of a request. A single part is the key itself, so that an override can name it. Several parts are each
    /// preceded by their length, so that no text can move from one part to the next.
    pub fn key_for(&self, request: &ClientRequest<'_>, route: Option<&str>) -> Vec<u8> {
        let value = |parts: &Vec<Part>| {
            let found = parts.iter().find_map(|part| Some((part, part.value(request, route)?)));
            match found {
                Some((part, value)) if part.is_ours() || !looks_like_ours(&value) => value,
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

/// Whether a client's value looks like an address, a network, `global`, a fingerprint or a key of several parts.
fn looks_like_ours(value: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(value) else { return false };
    let address = text.split('/').next().unwrap_or_default();
    let length = text.split(':').next().filter(|length| length.len() < text.len());
    text == GLOBAL
        || text.starts_with(FINGERPRINT)
        || address.parse::<std::net::IpAddr>().is_ok()
        || length.is_some_and(|length| length.parse::<usize>().is_ok())
}

#[cfg(test)]
mod tests;
