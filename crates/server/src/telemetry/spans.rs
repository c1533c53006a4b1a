//! A span for each check of a traced request, as a child of the caller's span.

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

/// One per process.
static TRACER: OnceLock<SdkTracer> = OnceLock::new();

/// When the request of a check came in.
#[derive(Clone, Copy, Debug)]
struct Began(SystemTime);

/// The caller's span, if it is sampled.
#[derive(Clone, Debug)]
pub(crate) struct Parent(Context);

pub(super) fn send_to(tracer: SdkTracer) {
    // A second call changes nothing: there is one collector.
    let _ = TRACER.set(tracer);
}

impl Parent {
    /// From the fields of a valid `traceparent`; `None` if it is not sampled or there is no collector.
    pub(crate) fn new(trace: &str, span: &str, flags: &str) -> Option<Self> {
        TRACER.get()?;
        let flags = TraceFlags::new(u8::from_str_radix(flags, 16).ok()?);
        let (trace, span) = (TraceId::from_hex(trace).ok()?, SpanId::from_hex(span).ok()?);
        let caller = SpanContext::new(trace, span, flags, true, TraceState::NONE);
        let context = || Context::new().with_remote_span_context(caller).with_value(Began(now()));
        flags.is_sampled().then(|| Self(context()))
    }

    /// Runs `work` as part of the trace.
    pub(crate) async fn around<T>(self, work: impl Future<Output = T>) -> T {
        work.with_context(self.0).await
    }
}

/// Records the span of a check. Without a collector this reads one variable.
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
        span.set_status(Status::error("the store failed, and the policy denies then"));
    } else if outcome.status == metrics::Status::Error {
        span.set_status(Status::error("no decision"));
    }
    span.end_with_timestamp(now());
}

/// Without the key, which may be a name or an address.
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
        if let Some(kind) = outcome.store_error {
            attributes.push(KeyValue::new("tidegate.store_error", kind.as_str()));
        }
    }
    attributes
}

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_micros(SystemClock.now().as_micros())
}
