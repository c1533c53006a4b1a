//! A span for each check of a request that is traced, below the caller's own.

use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use opentelemetry::trace::{
    FutureExt, Span, SpanContext, SpanId, SpanKind, Status, TraceContextExt, TraceFlags, TraceId,
    TraceState, Tracer,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::SdkTracer;
use tidegate::{Clock, SystemClock};

use crate::metrics;
use tidegate_core::text::printable;

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

/// Makes a span of a question of a policy. Where nobody collects, it is a look at a variable.
pub(crate) fn record(policy: &str, cost: u64, outcome: &metrics::Outcome<'_>) {
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
        .with_attributes(attributes(policy, cost, outcome))
        .start_with_context(tracer, &context);
    if outcome.is_closed() {
        span.set_status(Status::error("the store failed, and the policy admits nothing then"));
    } else if outcome.status == metrics::Status::Error {
        span.set_status(Status::error("there was no answer"));
    }
    span.end_with_timestamp(now());
}

/// Never the key: it may be a name or an address.
fn attributes(policy: &str, cost: u64, outcome: &metrics::Outcome<'_>) -> Vec<KeyValue> {
    let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let mut attributes = vec![
        KeyValue::new("tidegate.policy", printable(policy)),
        KeyValue::new("tidegate.cost", number(cost)),
    ];
    if let Some(source) = outcome.source {
        let allowed =
            matches!(outcome.status, metrics::Status::Allowed | metrics::Status::ShadowDenied);
        attributes.push(KeyValue::new("tidegate.allowed", allowed));
        attributes.push(KeyValue::new("tidegate.source", source.as_str()));
        if let Some(remaining) = outcome.remaining {
            attributes.push(KeyValue::new("tidegate.remaining", number(remaining)));
        }
        if let Some(us) = outcome.retry_after_us {
            attributes.push(KeyValue::new("tidegate.retry_after_ms", number(us.div_ceil(1000))));
        }
        if let Some(trouble) = outcome.store_error {
            attributes.push(KeyValue::new("tidegate.trouble", trouble.as_str()));
        }
    }
    attributes
}

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_micros(SystemClock.now().as_micros())
}
