//! W3C trace context: the trace that a request belongs to, so that what is logged of it can be found from there.

use axum::http::HeaderMap;
use tracing::{Instrument, Span};

#[cfg(feature = "otlp")]
use crate::telemetry::Parent;

/// The trace that a request says it is part of.
#[derive(Debug)]
pub(crate) struct Trace {
    span: Span,
    #[cfg(feature = "otlp")]
    parent: Option<Parent>,
}

impl Trace {
    /// None for a request that names none: it costs nothing.
    pub(crate) fn from_headers(headers: &HeaderMap) -> Option<Self> {
        let context = context(headers.get("traceparent")?.as_bytes())?;
        Some(Self {
            span: tracing::info_span!("request", trace_id = context.trace),
            #[cfg(feature = "otlp")]
            parent: Parent::new(context.trace, context.parent, context.flags),
        })
    }

    /// What is logged and decided meanwhile belongs to the trace.
    pub(crate) async fn around<T>(self, work: impl Future<Output = T>) -> T {
        let work = work.instrument(self.span);
        #[cfg(feature = "otlp")]
        if let Some(parent) = self.parent {
            return parent.around(work).await;
        }
        work.await
    }
}

/// What a `traceparent` says.
struct Context<'a> {
    trace: &'a str,
    #[cfg_attr(not(feature = "otlp"), expect(dead_code, reason = "only spans are sent below it"))]
    parent: &'a str,
    #[cfg_attr(not(feature = "otlp"), expect(dead_code, reason = "only spans are sampled"))]
    flags: &'a str,
}

/// `00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01`: a version, the trace, its parent and flags. Later versions
/// may say more behind that. Nothing else comes in: what is written down is 32 digits and no user's bytes.
fn context(header: &[u8]) -> Option<Context<'_>> {
    let text = std::str::from_utf8(header).ok()?;
    let mut parts = text.split('-');
    let (version, trace, parent, flags) =
        (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_hex = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_zero = |text: &str| text.bytes().all(|it| it == b'0');
    let is_sound =
        is_hex(version, 2) && is_hex(trace, 32) && is_hex(parent, 16) && is_hex(flags, 2);
    let is_known = version != "ff" && (version != "00" || parts.next().is_none());
    (is_sound && is_known && !is_zero(trace) && !is_zero(parent)).then_some(Context {
        trace,
        parent,
        flags,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_sound_header_names_a_trace() {
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        let zeros = "0".repeat(32);
        for (header, is_sound) in [
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
            assert_eq!(found, is_sound.then_some(trace), "{header}");
        }
    }
}
