//! The id of a request: refused people are told it, and the log line of their refusal has it.

use std::fmt;
use std::hash::{BuildHasher, RandomState};

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// Longer ones are no ids.
const CHARS_MAX: usize = 128;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RequestId<T> {
    /// The one that the request brought, or that of its trace.
    Brought(T),
    New(u64),
}

impl<'q> RequestId<&'q str> {
    /// The id that a request brings.
    pub(crate) fn brought(headers: &'q HeaderMap) -> Option<Self> {
        let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        let own = text(REQUEST_ID).filter(|id| (1..=CHARS_MAX).contains(&id.len()));
        let trace = || text(TRACEPARENT)?.split('-').nth(1).filter(|id| is_trace(id));
        own.or_else(trace).map(Self::Brought)
    }

    /// The id that a request brings, or a new one.
    pub(crate) fn of(headers: &'q HeaderMap) -> Self {
        Self::brought(headers).unwrap_or_else(|| Self::New(RandomState::new().hash_one(CHARS_MAX)))
    }
}

impl RequestId<&str> {
    pub(crate) fn into_owned(self) -> RequestId<Box<str>> {
        match self {
            Self::Brought(text) => RequestId::Brought(text.into()),
            Self::New(number) => RequestId::New(number),
        }
    }
}

impl RequestId<Box<str>> {
    pub(crate) fn borrowed(&self) -> RequestId<&str> {
        match self {
            Self::Brought(text) => RequestId::Brought(text),
            Self::New(number) => RequestId::New(*number),
        }
    }
}

fn is_trace(id: &str) -> bool {
    id.len() == 32 && id.bytes().all(|it| it.is_ascii_hexdigit())
}

impl fmt::Display for RequestId<&str> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Brought(text) => f.write_str(text),
            Self::New(number) => write!(f, "{number:016x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_request_is_its_own_that_of_its_trace_or_a_new_one() {
        let id = |headers: &[(&'static str, &'static str)]| {
            let pair = |(name, value): &(&'static str, &'static str)| {
                (HeaderName::from_static(name), HeaderValue::from_static(value))
            };
            RequestId::of(&headers.iter().map(pair).collect()).to_string()
        };
        let trace = ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
        assert_eq!(id(&[("x-request-id", "r-1"), trace]), "r-1");
        assert_eq!(id(&[trace]), "0af7651916cd43dd8448eb211c80319c");
        for none in [&[][..], &[("traceparent", "00-x-y")], &[("x-request-id", "")]] {
            assert_eq!(id(none).len(), 16, "{none:?}");
        }
        assert_ne!(id(&[]), id(&[]));
    }
}
