//! W3C trace context: log lines and spans of a request carry the trace id of its caller.

use http::HeaderMap;
use http::header::HeaderName;
use tracing::{Instrument, Span};

#[cfg(feature = "otlp")]
use crate::telemetry::Parent;

static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

#[derive(Debug)]
pub(crate) struct Trace {
    span: Span,
    #[cfg(feature = "otlp")]
    parent: Option<Parent>,
}

impl Trace {
    /// `None` without a valid `traceparent`.
    pub(crate) fn from_headers(headers: &HeaderMap) -> Option<Self> {
        let context = context(headers.get(&TRACEPARENT)?.as_bytes())?;
        Some(Self {
            span: tracing::info_span!("request", trace_id = context.trace),
            #[cfg(feature = "otlp")]
            parent: Parent::new(context.trace, context.parent, context.flags),
        })
    }

    /// Runs `work` as part of the trace.
    pub(crate) async fn around<T>(self, work: impl Future<Output = T>) -> T {
        let work = work.instrument(self.span);
        #[cfg(feature = "otlp")]
        if let Some(parent) = self.parent {
            return parent.around(work).await;
        }
        work.await
    }
}

/// The fields of a `traceparent`.
struct Context<'a> {
    trace: &'a str,
    #[cfg_attr(not(feature = "otlp"), expect(dead_code, reason = "only spans are sent below it"))]
    parent: &'a str,
    #[cfg_attr(not(feature = "otlp"), expect(dead_code, reason = "only spans are sampled"))]
    flags: &'a str,
}

/// `00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01`: version, trace, parent and flags; later versions may append
/// more. Only hex digits pass, so no other bytes of a client get into the log.
fn context(header: &[u8]) -> Option<Context<'_>> {
    let text = std::str::from_utf8(header).ok()?;
    let mut parts = text.split('-');
    let (version, trace, parent, flags) =
        (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_hex = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_zero = |text: &str| text.bytes().all(|it| it == b'0');
    let is_valid =
        is_hex(version, 2) && is_hex(trace, 32) && is_hex(parent, 16) && is_hex(flags, 2);
    let is_known = version != "ff" && (version != "00" || parts.next().is_none());
    (is_valid && is_known && !is_zero(trace) && !is_zero(parent)).then_some(Context {
        trace,
        parent,
        flags,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_valid_header_names_a_trace() {
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        let zeros = "0".repeat(32);
        for (header, is_valid) in [
            (format!("00-{trace}-00f067aa0ba902b7-01"), true),
            (format!("cc-{trace}-00f067aa0ba902b7-01-what-may-come"), true),
            (format!("00-{trace}-00f067aa0ba902b7-01-more"), false),
            (format!("ff-{trace}-00f067aa0ba902b7-01"), false),
            (format!("00-{zeros}-00f067aa0ba902b7-01"), false),
            (format!("00-{trace}-0000000000000000-01"), false),
            (format!("00-{}-00f067aa0ba902b7-01", trace.to_uppercase()), false),
            (format!("00-{trace}-00f067aa0ba902b7"), false),
            ("\u{1b}[31m-x-y-z".to_owned(), false),
            (String::new(), false),
        ] {
            let found = context(header.as_bytes()).map(|it| it.trace);
            assert_eq!(found, is_valid.then_some(trace), "{header}");
        }
    }
}
