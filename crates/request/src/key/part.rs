//! One part of a request.

use std::borrow::Cow;
use std::hash::Hasher;
use std::net::IpAddr;

use http::header::{
    ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, COOKIE, HeaderName, HeaderValue, REFERER, USER_AGENT,
};
use siphasher::sip128::{Hasher128, SipHasher13};

use tidegate_core::text::{closest, printable};

use super::{FINGERPRINT, GLOBAL};
use crate::json::{Pointer, Repeated};
use crate::path::{bytes, component, without_case};
use crate::token::Claim;
use crate::{AmbiguousRequest, Case, ClientRequest, MatchedRoute};

/// A part of a request that can be counted by.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Part {
    ClientIp,
    Header(HeaderName),
    Cookie(LenientName),
    Query(LenientName),
    /// A claim of a token that was verified.
    Jwt(Claim),
    /// A value in the body.
    Json(Pointer),
    Host,
    Method,
    Path,
    Url,
    Route,
    Global,
    Fingerprint,
}

/// The part that people mean by the name of a header or a field of a log.
fn meant(word: &str) -> Option<String> {
    let name = word.to_ascii_lowercase().replace('_', "-");
    match name.as_str() {
        "ip" | "client" | "remote-addr" | "remote-ip" | "x-forwarded-for" | "x-real-ip" => {
            Some("client_ip".to_owned())
        }
        "user-agent" | "authorization" | "referer" | "accept-language" => {
            Some(format!("header:{name}"))
        }
        _ if name.starts_with("x-") && name.parse::<HeaderName>().is_ok() => {
            Some(format!("header:{name}"))
        }
        _ => None,
    }
}

impl Part {
    const NAMES: [&str; 13] = [
        "client_ip",
        "header:NAME",
        "cookie:NAME",
        "query:NAME",
        "jwt:CLAIM",
        "json:/POINTER",
        "host",
        "method",
        "path",
        "url",
        "route",
        "global",
        "fingerprint",
    ];

    pub(crate) fn read(word: &str) -> Result<Self, String> {
        let (name, argument) = match word.split_once(':') {
            Some((name, argument)) => (name, Some(argument)),
            None => (word, None),
        };
        let unknown = |problem: &str| format!("unknown key part `{}`{problem}", printable(word));
        Ok(match (name, argument) {
            ("header", Some(name)) => Self::Header(
                name.parse().map_err(|_| unknown(": not a header name; expected header:NAME"))?,
            ),
            ("cookie", Some(name)) if is_token(name) => Self::Cookie(LenientName::new(name)),
            ("query", Some(name)) if !name.is_empty() => Self::Query(LenientName::new(name)),
            ("jwt", Some(claim)) => Self::Jwt(Claim::read(claim).ok_or_else(|| {
                unknown(": expected the name of a claim, like jwt:sub or jwt:org.plan")
            })?),
            ("json", Some(pointer)) => Self::Json(
                Pointer::read(pointer)
                    .ok_or_else(|| unknown(": expected a JSON pointer, like json:/user/id"))?,
            ),
            ("jwt", None) => return Err(unknown(": expected a claim after it, like jwt:sub")),
            ("json", None) => {
                return Err(unknown(": expected a pointer after it, like json:/user/id"));
            }
            ("header" | "cookie" | "query", _) => {
                return Err(unknown(": expected a name after it, like header:x-user"));
            }
            ("client_ip", None) => Self::ClientIp,
            ("host", None) => Self::Host,
            ("method", None) => Self::Method,
            ("path", None) => Self::Path,
            ("url", None) => Self::Url,
            ("route", None) => Self::Route,
            ("global", None) => Self::Global,
            ("fingerprint", None) => Self::Fingerprint,
            _ => {
                if let Some(meant) = meant(word) {
                    return Err(unknown(&format!(", did you mean `{meant}`?")));
                }
                let head = word.split_inclusive(':').next().unwrap_or_default();
                let known = Self::NAMES.iter().filter_map(|name| name.split_inclusive(':').next());
                return Err(match closest(head, known) {
                    Some(meant) => unknown(&format!(", did you mean `{meant}`?")),
                    None => unknown(&format!(": expected one of {}", Self::NAMES.join(", "))),
                });
            }
        })
    }

    /// The parts that can choose something for a request.
    pub(crate) const CHOOSING_NAMES: &str = "header:NAME, cookie:NAME, query:NAME or jwt:CLAIM";

    /// Whether it can choose something: it was sent with the head of the request, under a name.
    pub(crate) const fn can_choose(&self) -> bool {
        matches!(self, Self::Header(_) | Self::Cookie(_) | Self::Query(_) | Self::Jwt(_))
    }

    /// Whether it is signed, so that it does not matter who sends it.
    pub(crate) const fn is_signed(&self) -> bool {
        matches!(self, Self::Jwt(_))
    }

    /// Whether it is in the body of a request.
    pub(crate) const fn reads_body(&self) -> bool {
        matches!(self, Self::Json(_))
    }

    /// Whether clients cannot choose its value.
    pub(crate) const fn is_ours(&self) -> bool {
        matches!(self, Self::ClientIp | Self::Global | Self::Fingerprint | Self::Route)
    }

    /// Whether its value tells one client from others.
    pub(super) const fn is_of_client(&self) -> bool {
        use Part::{ClientIp, Cookie, Fingerprint, Header, Json, Jwt, Query};
        matches!(self, ClientIp | Header(_) | Cookie(_) | Query(_) | Jwt(_) | Json(_) | Fingerprint)
    }

    pub(crate) const fn reads_headers(&self) -> bool {
        matches!(self, Self::Header(_) | Self::Cookie(_) | Self::Jwt(_) | Self::Fingerprint)
    }

    /// Whether it depends on a header that access logs usually lack, other than a token.
    pub(crate) fn reads_unlogged_headers(&self) -> bool {
        let is_logged = |name| name == USER_AGENT || name == REFERER;
        self.reads_headers()
            && !self.is_signed()
            && !matches!(self, Self::Header(name) if is_logged(name))
    }

    /// Its value in a request; `None` if it is missing or empty. An error if it is there twice: one server reads the
    /// first value, another the last.
    pub(crate) fn value(
        &self,
        request: &ClientRequest<'_>,
        route: MatchedRoute<'_>,
    ) -> Result<Option<Vec<u8>>, AmbiguousRequest> {
        let value = match self {
            Self::ClientIp => request.client_name().into_bytes(),
            Self::Header(name) => header(request, name)?,
            Self::Cookie(name) => cookie(request, name)?,
            Self::Query(name) => query(request, name)?,
            Self::Jwt(claim) => request.claim(claim)?.unwrap_or_default().into_bytes(),
            Self::Json(pointer) => json(request, pointer, route.case)?.into_bytes(),
            Self::Host => request.host.clone().into_bytes(),
            Self::Method => request.method.as_bytes().to_vec(),
            Self::Path => request.path.counted_in(route.case).into_owned().into_bytes(),
            Self::Url => url(request, route.case).into_bytes(),
            Self::Route => route.name.unwrap_or_default().as_bytes().to_vec(),
            Self::Global => GLOBAL.as_bytes().to_vec(),
            Self::Fingerprint => fingerprint(request).into_bytes(),
        };
        Ok(Some(value).filter(|value| !value.is_empty()))
    }
}

/// The name of a cookie or of a query parameter as the most lenient servers read it: unescaped, in any letter case, and
/// with dots and spaces as underscores.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct LenientName(Vec<u8>);

impl LenientName {
    fn new(name: &str) -> Self {
        Self(Self::decode(name.as_bytes()))
    }

    fn decode(sent: &[u8]) -> Vec<u8> {
        let plain: Vec<u8> = bytes(sent)
            .map(|(byte, escaped)| if byte == b'+' && !escaped { b' ' } else { byte })
            .collect();
        let usual = |byte: &u8| match byte {
            b'.' | b' ' => b'_',
            byte => byte.to_ascii_lowercase(),
        };
        plain.trim_ascii().iter().map(usual).collect()
    }

    /// Whether a server could read a name as this one. `Err` if another server would not: some cut a name at a NUL, and
    /// some read `a[]` as an element of `a`.
    fn is(&self, sent: &[u8]) -> Result<bool, ()> {
        // An escape is longer than what it stands for.
        if sent.len() < self.0.len() {
            return Ok(false);
        }
        let decoded = Self::decode(sent);
        match decoded.strip_prefix(&*self.0) {
            Some([]) => Ok(true),
            Some([0 | b'[', ..]) => Err(()),
            // PHP reads a bracket that nothing closes as an underscore.
            _ if decoded.contains(&b'[') => {
                let php: Vec<u8> =
                    decoded.iter().map(|byte| if *byte == b'[' { b'_' } else { *byte }).collect();
                match php.strip_prefix(&*self.0) {
                    Some([]) => Ok(true),
                    Some([0, ..]) => Err(()),
                    _ => Ok(false),
                }
            }
            _ => Ok(false),
        }
    }

    fn repeated(&self, kind: &str) -> AmbiguousRequest {
        AmbiguousRequest::Repeated(self.described(kind))
    }

    fn described(&self, kind: &str) -> String {
        format!("the {kind} `{}`", printable(&String::from_utf8_lossy(&self.0)))
    }
}

fn is_token(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic() && !b";=,".contains(&byte))
}

/// The only line of a header. A comma is part of the value.
pub(crate) fn header(
    request: &ClientRequest<'_>,
    name: &HeaderName,
) -> Result<Vec<u8>, AmbiguousRequest> {
    // HTTP/2 may send cookies in several lines.
    if *name == COOKIE {
        return Ok(joined(request, name, b"; "));
    }
    let mut lines = request.headers.get_all(name).iter();
    let line = lines.next().map_or(&[][..], HeaderValue::as_bytes);
    if lines.next().is_some() || request.headers.keys().any(|other| is_respelling(other, name)) {
        return Err(AmbiguousRequest::Repeated(format!("the header `{name}`")));
    }
    Ok(line.trim_ascii().to_vec())
}

/// Whether two names differ in their punctuation only: CGI and its successors read both as one.
fn is_respelling(other: &HeaderName, name: &HeaderName) -> bool {
    let (other, name) = (other.as_str().as_bytes(), name.as_str().as_bytes());
    let is_mark = |byte: u8| !byte.is_ascii_alphanumeric();
    let alike = |(one, other): (&u8, &u8)| one == other || (is_mark(*one) && is_mark(*other));
    other.len() == name.len() && other != name && other.iter().zip(name).all(alike)
}

/// All lines of a header as one.
fn joined(request: &ClientRequest<'_>, name: &HeaderName, by: &[u8]) -> Vec<u8> {
    let lines: Vec<_> = request.headers.get_all(name).iter().map(HeaderValue::as_bytes).collect();
    lines.join(by).trim_ascii().to_vec()
}

/// The value of a cookie, unescaped and without quotes, as many servers read it.
fn cookie(request: &ClientRequest<'_>, name: &LenientName) -> Result<Vec<u8>, AmbiguousRequest> {
    let lines = || request.headers.get_all(COOKIE).iter();
    let pairs = || lines().flat_map(|line| line.as_bytes().split(|byte| *byte == b';'));
    if pairs().any(|pair| hides(pair, name)) {
        return Err(name.repeated("cookie"));
    }
    let value = only_value(pairs(), name).map_err(|()| name.repeated("cookie"))?;
    let value = value.unwrap_or_default().trim_ascii();
    let quoted = value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
    let value = quoted.map_or(value.into(), unquoted);
    let unescaped = bytes(&value).flat_map(|(byte, _)| match byte {
        // The mark of our own values.
        0 => b"%00".to_vec(),
        byte => vec![byte],
    });
    Ok(unescaped.collect())
}

/// Whether a pair has another with this name in it, for servers that separate cookies by spaces or commas too.
fn hides(pair: &[u8], name: &LenientName) -> bool {
    let mut before_equals: Vec<_> = pair.trim_ascii_start().split(|byte| *byte == b'=').collect();
    before_equals.pop();
    before_equals.into_iter().any(|text| {
        let text = text.trim_ascii_end();
        let parts = text.iter().rposition(|byte| byte.is_ascii_whitespace() || *byte == b',');
        parts.is_some_and(|at| name.is(&text[at + 1..]) != Ok(false))
    })
}

/// What stands between quotes, without the backslashes before characters and before their octal numbers.
fn unquoted(quoted: &[u8]) -> Cow<'_, [u8]> {
    if !quoted.contains(&b'\\') {
        return quoted.into();
    }
    let (mut plain, mut rest) = (Vec::with_capacity(quoted.len()), quoted);
    loop {
        let (byte, after) = match rest {
            [b'\\', high @ b'0'..=b'3', middle @ b'0'..=b'7', low @ b'0'..=b'7', after @ ..] => {
                ((high - b'0') << 6 | (middle - b'0') << 3 | (low - b'0'), after)
            }
            [b'\\', byte, after @ ..] | [byte, after @ ..] => (*byte, after),
            [] => return plain.into(),
        };
        plain.push(byte);
        rest = after;
    }
}

/// The value of a query parameter, in its one spelling. Some servers separate parameters by semicolons too.
fn query(request: &ClientRequest<'_>, name: &LenientName) -> Result<Vec<u8>, AmbiguousRequest> {
    let repeated = || name.repeated("query parameter");
    let pairs = || request.query.split('&');
    let value = only_value(pairs().map(str::as_bytes), name).map_err(|()| repeated())?;
    let behind = pairs().flat_map(|pair| pair.split(';').skip(1)).map(str::as_bytes);
    let is_behind = only_value(behind, name).map_err(|()| repeated())?.is_some();
    let Some(value) = value else {
        return if is_behind { Err(repeated()) } else { Ok(Vec::new()) };
    };
    if is_behind {
        return Err(repeated());
    }
    if value.contains(&b';') {
        return Err(AmbiguousRequest::Semicolon(name.described("query parameter")));
    }
    // A part of a text between ASCII characters is a text.
    Ok(component(&String::from_utf8_lossy(value)).into_bytes())
}

/// The value in the body, if that was read.
fn json(
    request: &ClientRequest<'_>,
    pointer: &Pointer,
    case: Case,
) -> Result<String, AmbiguousRequest> {
    let value = request.json().map(|body| pointer.value(body)).transpose();
    let repeated = |Repeated| {
        AmbiguousRequest::Repeated(format!("`{}` of the body", printable(&pointer.to_string())))
    };
    let value = value.map_err(repeated)?.flatten().unwrap_or_default();
    Ok(match case {
        Case::Sensitive => value,
        Case::Insensitive => value.chars().flat_map(without_case).collect(),
    })
}

/// The value of the only pair with this name; `Err` if there are several, or one that only some servers read so.
fn only_value<'p>(
    pairs: impl Iterator<Item = &'p [u8]>,
    name: &LenientName,
) -> Result<Option<&'p [u8]>, ()> {
    let mut found = None;
    for pair in pairs {
        let equals = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
        let (given, value) = pair.split_at(equals);
        if name.is(given)? && found.replace(value.get(1..).unwrap_or_default()).is_some() {
            return Err(());
        }
    }
    Ok(found)
}

/// Host, path and query. A client can vary the query, and so get any number of keys.
fn url(request: &ClientRequest<'_>, case: Case) -> String {
    let ClientRequest { host, path, query, .. } = request;
    let mark = if query.is_empty() { "" } else { "?" };
    format!("{host}{}{mark}{query}", path.counted_in(case))
}

/// A hash of the client's network, its user agent and its `Accept` headers, for clients that share or change addresses.
/// The same on every node, and not reversible.
fn fingerprint(request: &ClientRequest<'_>) -> String {
    let mut hasher = SipHasher13::new();
    let mut add = |bytes: &[u8]| {
        hasher.write_usize(bytes.len());
        hasher.write(bytes);
    };
    match request.client {
        IpAddr::V4(ip) => add(&ip.octets()[..3]),
        IpAddr::V6(_) => add(request.client_name().as_bytes()),
    }
    for name in [USER_AGENT, ACCEPT, ACCEPT_LANGUAGE, ACCEPT_ENCODING] {
        add(&joined(request, &name, b", "));
    }
    format!("{FINGERPRINT}{:032x}", hasher.finish128().as_u128())
}
