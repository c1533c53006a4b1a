//! Keys from parts of a request, joined so that two different requests never share a key, not even on purpose.

mod part;

pub(crate) use self::part::{Part, header};
use crate::{AmbiguousRequest, ClientRequest, MatchedRoute};

/// Precedes a value of the client that looks like one of ours, such as an address, so that no client can use the key of
/// another by sending its address in a header. No part of a request can contain this byte.
const MARK: u8 = 0;
/// The key part with the same value for all.
const GLOBAL: &str = "global";
/// The prefix of a fingerprint. Without it, API keys of plain digits would look like fingerprints and get a mark, and
/// overrides could not name them.
const FINGERPRINT: &str = "fingerprint-";

/// Far more than a key needs. Together they bound what one request costs: each alternative may read the whole request.
const PARTS_MAX: usize = 8;
const ALTERNATIVES_MAX: usize = 8;

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
        let mut parts = Vec::new();
        for text in texts {
            if parts.len() == PARTS_MAX {
                return Err(format!("too many key parts: expected at most {PARTS_MAX}"));
            }
            if text.split('|').count() > ALTERNATIVES_MAX {
                let most =
                    format!("expected at most {ALTERNATIVES_MAX}, like header:x-user|client_ip");
                return Err(format!("too many alternatives in a key part: {most}"));
            }
            let alternatives = text.split('|').map(|word| Part::read(word.trim()));
            parts.push(alternatives.collect::<Result<Vec<_>, _>>()?);
        }
        if parts.is_empty() {
            return Err("unknown key part ``: expected a key part, like client_ip".to_owned());
        }
        Ok(Self(parts))
    }

    /// The path alone, as routes match it.
    pub fn path() -> Self {
        Self(vec![vec![Part::Path]])
    }

    /// How many alternatives all parts have together: what a key costs at most.
    pub fn alternatives(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }

    /// Whether a key tells one client from others.
    pub fn is_of_client(&self) -> bool {
        self.0.iter().flatten().any(Part::is_of_client)
    }

    /// Whether a key depends on a token.
    pub fn reads_tokens(&self) -> bool {
        self.0.iter().flatten().any(Part::is_signed)
    }

    /// Whether a key depends on the body of a request.
    pub fn reads_body(&self) -> bool {
        self.0.iter().flatten().any(Part::reads_body)
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
    /// preceded by their length, so that no text can move from one part to the next. An error if servers could read
    /// another value from the request.
    pub fn key_for(
        &self,
        request: &ClientRequest<'_>,
        route: MatchedRoute<'_>,
    ) -> Result<Vec<u8>, AmbiguousRequest> {
        if let [only] = &*self.0 {
            return first_present(only, request, route);
        }
        let mut key = Vec::new();
        for alternatives in &self.0 {
            let value = first_present(alternatives, request, route)?;
            key.extend_from_slice(format!("{}:", value.len()).as_bytes());
            key.extend_from_slice(&value);
            key.push(b',');
        }
        Ok(key)
    }
}

/// The value of the first part that the request has, else the client. A value that clients choose gets a mark where it looks
/// like one of ours, and two beside a claim: nobody can pass for the subject of a token without one.
fn first_present(
    alternatives: &[Part],
    request: &ClientRequest<'_>,
    route: MatchedRoute<'_>,
) -> Result<Vec<u8>, AmbiguousRequest> {
    for part in alternatives {
        let Some(value) = part.value(request, route)? else { continue };
        let is_beside_claim = || alternatives.iter().any(Part::is_signed);
        let marks: &[u8] = if part.is_ours() {
            &[]
        } else if !part.is_signed() && is_beside_claim() {
            &[MARK, MARK]
        } else if looks_like_ours(&value) {
            &[MARK]
        } else {
            &[]
        };
        return Ok(if marks.is_empty() { value } else { [marks, &value].concat() });
    }
    Ok(request.client_name().into_bytes())
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
