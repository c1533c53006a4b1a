//! Layers by a policy of an engine: over stores that answer at once, later, or not at all.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderMap, Request, Response};
use tidegate::tower::{ClientIp, Key, RateLimitLayer, Refuse};
use tidegate::{
    Engine, LimitError, ManualClock, OnStoreError, Override, Policy, PolicyHandle, StoreErrorKind,
};
use tidegate_testkit::scripted::{Scripted, Way};
use tower::{Layer, Service, ServiceExt, service_fn};

use super::get;

const WAYS: [Way; 3] = [Way::AtOnce, Way::Yields, Way::After(Duration::from_millis(20))];

const FAILURES: [Way; 2] = [
    Way::Fails(StoreErrorKind::Unreachable),
    Way::FailsAfter(Duration::from_millis(20), StoreErrorKind::Timeout),
];

type PolicyLayer = RateLimitLayer<PolicyHandle<ManualClock>>;

fn layer_of(engine: &Engine<ManualClock>) -> PolicyLayer {
    let client_ip = ClientIp::new().peer(|extensions| extensions.get().copied());
    RateLimitLayer::new(engine.policy("api").unwrap()).client_ip(client_ip)
}

/// A layer by the policy `api`, over a store that behaves so.
fn layer(
    way: Way,
    policy: impl TryInto<Policy, Error: Into<LimitError>>,
) -> (PolicyLayer, Scripted) {
    let store = Scripted::new(way);
    let engine = Engine::builder().store(store.clone()).nodes("2".parse().unwrap());
    let engine = engine.clock(ManualClock::default()).policy("api", policy).build().unwrap();
    (layer_of(&engine), store)
}

async fn send<R>(
    layer: &RateLimitLayer<PolicyHandle<ManualClock>, R>,
    request: http::request::Builder,
) -> Response<String>
where
    R: Refuse<String> + Send + Sync + 'static,
{
    let hello =
        service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new("hello".to_owned())));
    layer.layer(hello).oneshot(request.body(()).unwrap()).await.unwrap()
}

async fn check_statuses(layer: &PolicyLayer, statuses: &[u16]) {
    for (row, status) in statuses.iter().enumerate() {
        assert_eq!(send(layer, get("/")).await.status(), *status, "row {row}");
    }
}

fn value<'h>(headers: &'h HeaderMap, name: &str) -> &'h str {
    headers.get(name).map_or("-", |value| value.to_str().unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_policy_limits_over_every_store() {
    for way in WAYS {
        let (layer, _) = layer(way, "2/h");
        check_statuses(&layer, &[200, 200, 429, 429]).await;
    }
    let engine = Engine::builder().clock(ManualClock::default()).policy("api", "2/h");
    let in_memory = layer_of(&engine.build().unwrap());
    check_statuses(&in_memory, &[200, 200, 429]).await;
}

#[tokio::test(start_paused = true)]
async fn headers_name_the_limit_that_binds() {
    for way in WAYS {
        let plan = Policy::all().limit("day", "fixed-window 9/day").limit("", "2/h");
        let (layer, _) = layer(way, plan);
        let response = send(&layer, get("/")).await;
        assert_eq!(value(response.headers(), "ratelimit-policy"), r#""api";q=2;w=3600"#);
        assert_eq!(value(response.headers(), "ratelimit"), r#""api";r=1;t=1800"#);
        assert_eq!(value(response.headers(), "x-ratelimit-limit"), "2");
        let costly = layer.cost(|_| 9);
        let refused = send(&costly, get("/")).await;
        assert_eq!((refused.status().as_u16(), refused.body().as_str()), (429, ""));
        assert_eq!(value(refused.headers(), "retry-after"), "-", "more than there ever is");
    }
}

#[tokio::test(start_paused = true)]
async fn while_the_store_fails_the_policy_answers() {
    let policy = |on_error| Policy::try_from("4/h").unwrap().on_store_error(on_error);
    for way in FAILURES {
        let (open, _) = layer(way, policy(OnStoreError::Allow));
        check_statuses(&open, &[200; 6]).await;
        let (local, store) = layer(way, policy(OnStoreError::Local));
        check_statuses(&local, &[200, 200, 429]).await; // half of it, of two nodes
        store.behave(Way::AtOnce);
        check_statuses(&local, &[200, 200, 200, 200, 429]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_denies_is_unavailable_and_says_why() {
    let deny = OnStoreError::Deny { retry_after: Duration::from_secs(100) };
    for way in FAILURES {
        let policy = Policy::try_from("4/h").unwrap().on_store_error(deny);
        let (layer, store) = layer(way, policy);
        // A failure is no refusal: whoever answers those is not asked.
        let layer = layer
            .on_refusal(|_, _| Response::builder().status(418).body("refused".to_owned()).unwrap());
        let response = send(&layer, get("/")).await;
        assert_eq!(response.status(), 503);
        let seconds: u64 = value(response.headers(), "retry-after").parse().unwrap();
        assert!((100..=120).contains(&seconds), "{seconds}");
        let reason = value(response.headers(), "x-tidegate-error");
        assert_eq!(reason, "policy `api` admits nothing while its store fails");
        assert_eq!(value(response.headers(), "ratelimit"), "-", "nothing was counted");

        let call = || get("/").header("content-type", "application/grpc");
        let response = send(&layer, call()).await;
        assert_eq!(response.status(), 200);
        assert_eq!(value(response.headers(), "grpc-status"), "14");
        assert_eq!(value(response.headers(), "grpc-message"), reason);

        store.behave(Way::Yields);
        for status in [200, 200, 200, 200, 418] {
            assert_eq!(send(&layer, get("/")).await.status(), status);
        }
    }
}

#[tokio::test]
async fn a_policy_in_shadow_refuses_nobody() {
    let (layer, store) = layer(Way::Yields, Policy::try_from("1/h").unwrap().shadow(true));
    check_statuses(&layer, &[200, 200, 200]).await;
    store.behave(FAILURES[0]);
    check_statuses(&layer, &[200]).await;
}

#[tokio::test]
async fn overrides_have_no_limit_to_report() {
    let policy = Policy::try_from("1/h").unwrap();
    let policy = policy
        .with_override("monitor", Override::Allow)
        .with_override("mallory", Override::Block)
        .with_override("partner", Override::Limit("7/h".parse().unwrap()));
    let (layer, _) = layer(Way::Yields, policy);
    let layer = layer.key(Key::header("x-user").unwrap());
    let shown = |response: Response<String>| {
        let headers = response.headers();
        let names = ["ratelimit-policy", "ratelimit", "retry-after"];
        (response.status().as_u16(), names.map(|name| value(headers, name).to_owned()))
    };
    for (user, status, expected) in [
        ("monitor", 200, ["-", "-", "-"]),
        ("mallory", 429, ["-", "-", "-"]),
        ("partner", 200, [r#""api";q=7;w=3600"#, r#""api";r=6;t=515"#, "-"]),
    ] {
        let response = send(&layer, get("/").header("x-user", user)).await;
        assert_eq!(shown(response), (status, expected.map(str::to_owned)), "{user}");
    }
}

#[tokio::test]
async fn a_policy_that_cannot_be_checked_fails_every_request_and_says_why() {
    let by_ip = Policy::all().limit_by("ip", "ip", "3/h").limit_by("mail", "domain", "5/h");
    for (policy, reason) in [
        (Policy::try_from("concurrency 5").unwrap(), "acquire instead of check"),
        (Policy::shaper("2/s max-wait 5s"), "reserve instead of check"),
        (by_ip, "policy `api` counts by `ip`, which was not given"),
    ] {
        let (layer, _) = layer(Way::Yields, policy);
        let response = send(&layer, get("/")).await;
        assert_eq!(response.status(), 500);
        let said = value(response.headers(), "x-tidegate-error");
        assert!(said.contains(reason), "{said}");
        assert_eq!(value(response.headers(), "retry-after"), "-");
    }
}

#[tokio::test]
async fn a_layer_stays_with_the_engine_it_was_made_from() {
    let before = Engine::builder().clock(ManualClock::default()).policy("api", "3/h");
    let before = before.build().unwrap();
    let old = layer_of(&before);
    check_statuses(&old, &[200]).await;
    let next = before.successor().policy("api", "fixed-window 1/h").build().unwrap();
    drop(before);
    check_statuses(&old, &[200, 200, 429]).await;
    let policy =
        value(send(&layer_of(&next), get("/")).await.headers(), "ratelimit-policy").to_owned();
    assert_eq!(policy, r#""api";q=1;w=3600"#);
}

/// A service that has to be polled ready before each call, and whose clones are not ready.
#[derive(Default)]
struct Strict {
    ready: bool,
    calls: Arc<AtomicU32>,
}

impl Clone for Strict {
    fn clone(&self) -> Self {
        Self { ready: false, calls: self.calls.clone() }
    }
}

impl Service<Request<()>> for Strict {
    type Response = Response<String>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Response<String>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        assert!(std::mem::take(&mut self.ready), "called before it was ready");
        self.calls.fetch_add(1, Ordering::Relaxed);
        std::future::ready(Ok(Response::new(String::new())))
    }
}

#[tokio::test(start_paused = true)]
async fn the_service_that_was_ready_is_the_one_that_is_called() {
    for way in WAYS {
        let (layer, _) = layer(way, "3/h");
        let strict = Strict::default();
        let calls = strict.calls.clone();
        let mut service = layer.layer(strict);
        // All under way at once, as a server has them.
        let mut responses = Vec::new();
        for _ in 0..5 {
            responses.push(service.ready().await.unwrap().call(get("/").body(()).unwrap()));
        }
        let mut admitted = 0;
        for response in responses {
            admitted += u32::from(response.await.unwrap().status() == 200);
        }
        assert_eq!((admitted, calls.load(Ordering::Relaxed)), (3, 3), "{way:?}");
    }
}

#[cfg(feature = "adaptive")]
mod observing {
    use super::*;
    use tidegate::adaptive::{Adaptive, Cap};
    use tidegate_testkit::scripted::RuntimeClock;

    fn observing(way: Way) -> (RateLimitLayer<PolicyHandle<ManualClock>>, Adaptive, Scripted) {
        let (layer, store) = layer(way, "10/h");
        let adaptive = Adaptive::with_clock(RuntimeClock::start());
        let layer = layer.observe(&adaptive.target("service"));
        (layer, adaptive, store)
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_of_the_store_is_not_the_services() {
        let (layer, adaptive, _) = observing(Way::After(Duration::from_millis(50)));
        for _ in 0..10 {
            assert_eq!(send(&layer, get("/")).await.status(), 200);
        }
        adaptive.tick().await;
        let seen = adaptive.target("service").seen();
        assert_eq!((seen.count, adaptive.target("service").in_flight()), (10, 0));
        assert!(seen.latency_ms.is_some_and(|ms| ms < 10.0), "{seen:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn who_leaves_before_the_decision_is_not_told_of() {
        let (layer, adaptive, _) = observing(Way::Hangs);
        let service = adaptive.target("service");
        for _ in 0..5 {
            let asked = tokio::time::timeout(Duration::from_millis(10), send(&layer, get("/")));
            assert!(asked.await.is_err(), "the store hangs");
        }
        adaptive.tick().await;
        assert_eq!((service.in_flight(), service.seen().count), (0, 0));
    }

    #[tokio::test]
    async fn a_request_without_a_slot_is_refused_and_costs_nothing() {
        let (layer, adaptive, _) = observing(Way::Yields);
        let service = adaptive.target("service");
        service.set_cap(Some(Cap::fixed(5).unwrap()));
        let held: Vec<_> = std::iter::from_fn(|| service.enter(None)).take(99).collect();
        let refused = send(&layer, get("/")).await;
        assert_eq!(refused.status(), 429);
        assert_eq!(value(refused.headers(), "x-ratelimit-remaining"), "10");
        assert!(["1", "2"].contains(&value(refused.headers(), "retry-after")));
        drop(held);
        let admitted = send(&layer, get("/")).await;
        assert_eq!(value(admitted.headers(), "x-ratelimit-remaining"), "9");
    }
}
