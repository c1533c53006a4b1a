//! The HTTP API. A handler decodes the body, calls the service once and encodes the answer.
//!
//! A refusal is a normal answer with status 200; other statuses are errors, sent as `application/problem+json`. Only a
//! 200 charges anything.

mod admin;
mod answer;
mod door;
mod openapi;
mod overrides;
mod page;
mod permits;
mod playground;
mod policies;
mod pressure;
mod ready;
mod router;
mod shared_page;
mod status;

use std::sync::Arc;

use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Body, Bytes};
use tidegate::tower::write_retry_after;
use tidegate::{Answer, Clock, Op, SystemClock, Timestamp};

pub(crate) use self::door::HttpDoor;
use self::router::{ApiBody, ApiRequest, HandlerResult, Route, any, get, post, whole};
use self::shared_page::SharedPage;
use super::shared::request::{BatchRequest, Request};
use super::shared::{Problem, body};
use super::{forward_auth, grpc};
use crate::dashboard::Feed;
use crate::metrics::{self, Door};
use crate::service::{AppState, Handle, InForce, Question, Unanswered, headers};

/// The state of the handlers.
#[derive(Debug)]
pub(super) struct Api {
    app: Arc<AppState>,
    feed: Arc<Feed>,
    started: Timestamp,
    metrics_page: SharedPage,
    policies_page: SharedPage,
}

impl Api {
    fn new(app: Arc<AppState>, feed: Arc<Feed>) -> Self {
        let (metrics_page, policies_page) = (SharedPage::default(), SharedPage::default());
        Self { app, feed, started: SystemClock.now(), metrics_page, policies_page }
    }
}

/// Every path; a test compares them with `openapi.json`.
fn routes() -> impl Iterator<Item = Route> {
    let own = [
        ("/", get(page::page)),
        ("/assets/{build}/{file}", get(page::asset)),
        ("/healthcheck", get(|_| async { Ok(text("OK")) }).for_any_host()),
        ("/healthz", get(|_| async { Ok(text("ok\n")) }).for_any_host()),
        ("/json", post(envoy_json)),
        ("/metrics", get(metrics_page)),
        ("/openapi.json", get(openapi::show)),
        ("/readyz", get(ready::ready).for_any_host()),
        ("/v1/acquire", post(permits::acquire)),
        ("/v1/auth", any(auth).for_any_host()),
        ("/v1/auth/{policy}", any(auth_policy).for_any_host()),
        ("/v1/check", post(|request| decide(request, Op::Take))),
        ("/v1/check/batch", post(check_batch)),
        ("/v1/live", get(page::live)),
        ("/v1/observe", post(pressure::observe)),
        ("/v1/overrides", get(overrides::list)),
        (
            "/v1/overrides/{policy}/{key}",
            get(overrides::show)
                .on(Method::PUT, overrides::set)
                .on(Method::DELETE, overrides::remove),
        ),
        ("/v1/peek", post(|request| decide(request, Op::Peek))),
        ("/v1/policies", get(policies)),
        ("/v1/pressure", get(pressure::list)),
        (
            "/v1/pressure/{target}",
            get(pressure::show).on(Method::PUT, pressure::set).on(Method::DELETE, pressure::clear),
        ),
        // Refunds need no more rights than checks.
        ("/v1/refund", post(|request| decide(request, Op::Refund))),
        ("/v1/release", post(permits::release)),
        ("/v1/reserve", post(reserve)),
        ("/v1/reset", post(reset)),
        ("/v1/status", get(status::show)),
    ];
    own.into_iter().chain(playground::routes())
}

/// Forgets the usage of a key; for operators only.
async fn reset(request: ApiRequest) -> HandlerResult {
    request.require_operator()?;
    decide(request, Op::Reset).await
}

/// Forward-auth by the routes.
async fn auth(ApiRequest { api, peer, head, body, .. }: ApiRequest) -> HandlerResult {
    let has_body = !body.body.is_end_stream();
    Ok(whole(forward_auth::answer(&api.app, peer, None, &head, has_body).await))
}

/// Forward-auth by one policy.
async fn auth_policy(request: ApiRequest) -> HandlerResult {
    let ApiRequest { api, peer, params, head, body } = request;
    let (policy, has_body) = (Some(params.at(0)), !body.body.is_end_stream());
    Ok(whole(forward_auth::answer(&api.app, peer, policy, &head, has_body).await))
}

/// The rate limit service of Envoy as JSON.
async fn envoy_json(ApiRequest { api, body, .. }: ApiRequest) -> HandlerResult {
    Ok(whole(grpc::answer_json(&api.app, body).await))
}

async fn metrics_page(ApiRequest { api, .. }: ApiRequest) -> HandlerResult {
    let render = || {
        let mut page = String::new();
        api.app.with_figures(&mut |figures| page = api.app.metrics().render(figures));
        page
    };
    let page = api.metrics_page.get(render).await;
    Ok(with_headers(&[(CONTENT_TYPE, metrics::CONTENT_TYPE)], page))
}

async fn policies(ApiRequest { api, .. }: ApiRequest) -> HandlerResult {
    let policies = api.policies_page.get(|| policies::to_json(&api.app.in_force())).await;
    Ok(with_headers(&[(CONTENT_TYPE, "application/json")], policies))
}

/// Takes, peeks, refunds or resets.
fn decide(request: ApiRequest, op: Op) -> impl Future<Output = HandlerResult> {
    let ApiRequest { api, mut body, .. } = request;
    async move {
        let (app, body) = (&api.app, body::read(&mut body).await?);
        let in_force = app.in_force();
        let call = app.call(&in_force, Door::Http);
        let request: Request<'_> = body::decode(&body)?;
        let parsed = request.question()?;
        let policy = call.policy(parsed.policy, op)?;
        let answer = call.check(&Question::new(policy, parsed.key(), parsed.cost, op)).await?;
        let answer = Unanswered::unless_decided(answer)?;
        let headers = decision_headers(&in_force, &answer, policy, call.began());
        Ok(json_of(headers, answer::DECISION_BYTES, |body| answer::write(body, &answer)))
    }
}

/// Checks in order, each separately or all in one atomic step. All are validated before the first is charged: a batch
/// with an invalid element is rejected.
async fn check_batch(ApiRequest { api, body, .. }: ApiRequest) -> HandlerResult {
    let (app, body) = (&api.app, body::read_batch(body).await?);
    let in_force = app.in_force();
    let call = app.call(&in_force, Door::Http);
    let batch: BatchRequest<'_> = body::decode(&body)?;
    let checks = batch.questions()?;
    let mut questions = Vec::with_capacity(checks.len());
    for (index, check) in checks.iter().enumerate() {
        let question = check.in_batch(&call);
        questions.push(question.map_err(|why| Problem::from(why).within_batch(index))?);
    }
    let answers = if batch.atomic {
        let together = call.check_together(&questions, Op::Take).await;
        together.map_err(Problem::not_atomic)?
    } else {
        // All checks are started before the first is awaited, so that a store can take them in one round trip.
        let under_way: Vec<_> = questions.iter().map(|question| call.check(question)).collect();
        let mut answers = Vec::with_capacity(under_way.len());
        for reply in under_way {
            answers.push(reply.await);
        }
        let numbered = answers.into_iter().enumerate();
        let answer = |(index, answer): (usize, Result<_, Unanswered>)| {
            answer.map_err(|why| Problem::from(why).within_batch(index))
        };
        numbered.map(answer).collect::<Result<Vec<_>, _>>()?
    };
    let labelled = answers.iter().zip(questions.iter().map(|question| question.policy.labels()));
    let (wanted, now) = (batch.headers.then_some(in_force.http.headers), call.began());
    let bytes = answer::DECISION_BYTES * answers.len();
    let write = |body: &mut Vec<u8>| answer::write_batch(body, labelled, wanted, now);
    Ok(json_of(HeaderMap::new(), bytes, write))
}

/// Reserves a place in the queue of a leaky bucket. The caller waits.
async fn reserve(ApiRequest { api, body, .. }: ApiRequest) -> HandlerResult {
    let (app, body) = (&api.app, body::read(body).await?);
    let in_force = app.in_force();
    let call = app.call(&in_force, Door::Http);
    let request: Request<'_> = body::decode(&body)?;
    let parsed = request.question()?;
    let policy = call.policy(parsed.policy, Op::Take)?;
    let question = Question::new(policy, parsed.key(), parsed.cost, Op::Take);
    let queued = call.reserve(&question).await?;
    let reservation = queued.reservation();
    queued.keep();
    let mut response = json(&answer::Reservation::from(&reservation));
    if !reservation.accepted() {
        write_retry_after(response.headers_mut(), reservation.retry_after());
    }
    Ok(response)
}

/// The headers of a decision, with room for `Content-Type`: a map that grows hashes all of them again, and one of more
/// than six is too large for malloc's fast path.
fn decision_headers(
    in_force: &InForce,
    answer: &Answer<'_>,
    policy: Handle<'_>,
    now: Timestamp,
) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(if answer.decision.allowed() { 6 } else { 7 });
    headers::add(&mut headers, in_force.http.headers, answer, policy.labels(), now);
    headers
}

fn json(answer: &impl serde::Serialize) -> Response<ApiBody> {
    // Serializing a plain struct cannot fail.
    json_of(HeaderMap::new(), 0, |body| drop(serde_json::to_writer(body, answer)))
}

/// A JSON response whose body `write` fills; `bytes` is its expected size.
fn json_of(
    headers: HeaderMap,
    bytes: usize,
    write: impl FnOnce(&mut Vec<u8>),
) -> Response<ApiBody> {
    let mut body = Vec::with_capacity(bytes);
    write(&mut body);
    let mut response = whole(Response::new(body.into()));
    *response.headers_mut() = headers;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn text(text: &'static str) -> Response<ApiBody> {
    with_static(&[(CONTENT_TYPE, "text/plain; charset=utf-8")], text)
}

fn with_headers(
    headers: &[(HeaderName, &'static str)],
    body: impl Into<Bytes>,
) -> Response<ApiBody> {
    let mut response = whole(Response::new(body.into()));
    let headers = headers.iter().cloned();
    let values = headers.map(|(name, value)| (name, HeaderValue::from_static(value)));
    response.headers_mut().extend(values);
    response
}

/// A response whose bytes are part of the program.
fn with_static(headers: &[(HeaderName, &'static str)], body: &'static str) -> Response<ApiBody> {
    let response = with_headers(headers, "");
    response.map(|_| ApiBody::Shared(Full::new(Bytes::from_static(body.as_bytes()))))
}

fn no_content() -> Response<ApiBody> {
    let mut response = whole(Response::default());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}
