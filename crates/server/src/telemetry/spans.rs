//! A span for each check of a request that is traced, below the caller's own.

use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use opentelemetry::trace::{
    FutureExt, Span, SpanContext, SpanId, SpanKind, Status, TraceContextExt, TraceFlags, TraceId,
    TraceState, Tracer,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::SdkTracer;
use tidegate::{Answer, Check, CheckError, Clock, SystemClock};

use crate::text::printable;

/// Where spans go. One for the process, as there is one log.
static TRACER: OnceLock<SdkTracer> = OnceLock::new();

/// When the request of a check came in.
#[derive(Clone, Copy, Debug)]
struct Began(SystemTime);

/// The caller's span, if it is wanted that we have spans below it.
#[derive(Clone, Debug)]
pub(crate) struct Parent(Context);

pub(super) fn send_to(tracer: SdkTracer) {
    // The first one stays: there is one collector.
    let _ = TRACER.set(tracer);
}

impl Parent {
    /// By what a `traceparent` says, which is known to be sound; `None` if it is not sampled, or nobody collects.
    pub(crate) fn new(trace: &str, span: &str, flags: &str) -> Option<Self> {
        TRACER.get()?;
        let flags = TraceFlags::new(u8::from_str_radix(flags, 16).ok()?);
        let (trace, span) = (TraceId::from_hex(trace).ok()?, SpanId::from_hex(span).ok()?);
        let caller = SpanContext::new(trace, span, flags, true, TraceState::NONE);
        let context = || Context::new().with_remote_span_context(caller).with_value(Began(now()));
        flags.is_sampled().then(|| Self(context()))
    }

    /// What is decided meanwhile is part of the trace.
    pub(crate) async fn around<T>(self, work: impl Future<Output = T>) -> T {
        work.with_context(self.0).await
    }
}

/// To be told of every answer to a check. Where nobody collects, it is a look at a variable.
pub(crate) fn decided(check: &Check<'_>, answer: &Result<Answer<'_>, CheckError>) {
    let Some(tracer) = TRACER.get() else { return };
    let context =
        Context::map_current(|current| current.get::<Began>().is_some().then(|| current.clone()));
    let Some((context, began)) =
        context.and_then(|it| it.get().map(|Began(at)| *at).map(|at| (it, at)))
    else {
        return;
    };
    let mut span = tracer
        .span_builder("check")
        .with_kind(SpanKind::Server)
        .with_start_time(began)
        .with_attributes(attributes(check, answer))
        .start_with_context(tracer, &context);
    let failure = match answer {
        Ok(answer) if answer.fails_closed() => {
            Some("the store failed, and the policy admits nothing then")
        }
        Ok(_) => None,
        Err(_) => Some("there was no answer"),
    };
    if let Some(failure) = failure {
        span.set_status(Status::error(failure));
    }
    span.end_with_timestamp(now());
}

/// Never the key: it may be a name or an address.
fn attributes(check: &Check<'_>, answer: &Result<Answer<'_>, CheckError>) -> Vec<KeyValue> {
    let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let mut attributes = vec![
        KeyValue::new("tidegate.policy", printable(check.policy)),
        KeyValue::new("tidegate.cost", number(check.cost)),
    ];
    if let Ok(answer) = answer {
        let decision = &answer.decision;
        attributes.push(KeyValue::new("tidegate.allowed", decision.allowed()));
        attributes.push(KeyValue::new("tidegate.source", answer.source.as_str()));
        attributes.push(KeyValue::new("tidegate.remaining", number(decision.remaining())));
        if let Some(us) = decision.retry_after_us() {
            attributes.push(KeyValue::new("tidegate.retry_after_ms", number(us.div_ceil(1000))));
        }
        if let Some(trouble) = answer.store_error {
            attributes.push(KeyValue::new("tidegate.trouble", trouble.as_str()));
        }
    }
    attributes
}

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_micros(SystemClock.now().as_micros())
}
