//! Who is limited: parts of a request, by name.

use std::str::FromStr;

use axum::http::HeaderName;

use super::text::OneOrMany;
use crate::text::{closest, printable};

/// A part of a request that can tell callers apart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum KeyPart {
    ClientIp,
    Header(HeaderName),
    Cookie(String),
    Query(String),
    Host,
    Method,
    Path,
    Url,
    Route,
    Global,
    /// A hash of the network, the user agent and what is accepted.
    Fingerprint,
}

/// Several parts together; of each, the first alternative that is there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct KeyParts(pub(crate) Vec<Vec<KeyPart>>);

const PLAIN: [(&str, KeyPart); 8] = [
    ("client_ip", KeyPart::ClientIp),
    ("host", KeyPart::Host),
    ("method", KeyPart::Method),
    ("path", KeyPart::Path),
    ("url", KeyPart::Url),
    ("route", KeyPart::Route),
    ("global", KeyPart::Global),
    ("fingerprint", KeyPart::Fingerprint),
];

impl Default for KeyParts {
    fn default() -> Self {
        Self(vec![vec![KeyPart::ClientIp]])
    }
}

impl KeyParts {
    pub(crate) fn read(text: &OneOrMany) -> Result<Self, String> {
        if text.as_slice().is_empty() {
            return Err("expected a key part, like client_ip".to_owned());
        }
        let alternatives = |part: &String| part.split('|').map(str::trim).map(str::parse).collect();
        text.as_slice().iter().map(alternatives).collect::<Result<_, _>>().map(Self)
    }
}

impl FromStr for KeyPart {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((_, part)) = PLAIN.into_iter().find(|(name, _)| *name == text) {
            return Ok(part);
        }
        match text.split_once(':') {
            Some(("header", name)) => HeaderName::try_from(name)
                .map(Self::Header)
                .map_err(|_| format!("`{}` is no header's name", printable(name))),
            Some(("cookie", name)) if !name.is_empty() => Ok(Self::Cookie(name.to_owned())),
            Some(("query", name)) if !name.is_empty() => Ok(Self::Query(name.to_owned())),
            _ => Err(unknown(&printable(text))),
        }
    }
}

fn unknown(text: &str) -> String {
    let prefixed = ["header:", "cookie:", "query:"];
    let names = || PLAIN.iter().map(|(name, _)| *name).chain(prefixed);
    if let Some(meant) = closest(text, names()) {
        return format!("unknown key part `{text}`, did you mean `{meant}`?");
    }
    let known: Vec<_> = names().collect();
    format!("unknown key part `{text}`: expected one of {}", known.join(", "))
}
