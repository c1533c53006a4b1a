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
mod status;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Extension, FromRef, Path, Request as AxumRequest, State};
use axum::http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use axum::http::{Method, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, any, get, post, put};
use hyper::body::Body as _;
use tidegate::tower::write_retry_after;
use tidegate::{Clock, Op, SystemClock, Timestamp};

use self::admin::Operator;
pub(crate) use self::door::HttpDoor;
use super::shared::request::{BatchRequest, Request};
use super::shared::{Problem, body};
use super::{forward_auth, grpc};
use crate::dashboard::Feed;
use crate::metrics::{self, Door};
use crate::service::{AppState, Question, Unanswered, headers};
use tidegate_request::Peer;

type HandlerResult = Result<Response, Problem>;

/// The state of the handlers.
#[derive(Clone, Debug)]
struct Api {
    app: Arc<AppState>,
    feed: Arc<Feed>,
    started: Timestamp,
}

impl FromRef<Api> for Arc<AppState> {
    fn from_ref(api: &Api) -> Self {
        api.app.clone()
    }
}

pub(crate) fn router(app: Arc<AppState>, feed: Arc<Feed>) -> Router {
    let api = Api { app, feed, started: SystemClock.now() };
    let add = |router: Router<Api>, (path, methods)| router.route(path, methods);
    routes()
        .fold(Router::new(), add)
        .method_not_allowed_fallback(wrong_method)
        .fallback(unknown_path)
        .with_state(api)
}

/// Every path; a test compares them with `openapi.json`.
fn routes() -> impl Iterator<Item = (&'static str, MethodRouter<Api>)> {
    let own = [
        ("/", get(page::page)),
        ("/assets/{build}/{file}", get(page::asset)),
        ("/healthz", get(async || "ok\n")),
        ("/metrics", get(metrics_page)),
        ("/openapi.json", get(openapi::show)),
        ("/readyz", get(ready::ready)),
        ("/v1/acquire", post(permits::acquire)),
        ("/v1/auth", any(auth)),
        ("/v1/auth/{policy}", any(auth_policy)),
        ("/v1/check", post(check)),
        ("/v1/check/batch", post(check_batch)),
        ("/v1/live", get(page::live)),
        ("/v1/observe", post(pressure::observe)),
        ("/v1/overrides", get(overrides::list)),
        (
            "/v1/overrides/{policy}/{key}",
            get(overrides::show).put(overrides::set).delete(overrides::remove),
        ),
        ("/v1/peek", post(peek)),
        ("/v1/policies", get(policies)),
        ("/v1/pressure", get(pressure::show)),
        ("/v1/pressure/{target}", put(pressure::set).delete(pressure::clear)),
        ("/v1/refund", post(refund)),
        ("/v1/release", post(permits::release)),
        ("/v1/reserve", post(reserve)),
        ("/v1/reset", post(reset)),
        ("/v1/status", get(status::show)),
    ];
    own.into_iter().chain(playground::routes()).chain(grpc::routes())
}

async fn check(State(app): State<Arc<AppState>>, body: Body) -> HandlerResult {
    decide(&app, body, Op::Take).await
}

async fn peek(State(app): State<Arc<AppState>>, body: Body) -> HandlerResult {
    decide(&app, body, Op::Peek).await
}

/// Refunds need no more rights than checks.
async fn refund(State(app): State<Arc<AppState>>, body: Body) -> HandlerResult {
    decide(&app, body, Op::Refund).await
}

/// Forgets the usage of a key; for operators only.
async fn reset(_: Operator, State(app): State<Arc<AppState>>, body: Body) -> HandlerResult {
    decide(&app, body, Op::Reset).await
}

/// Forward-auth by the routes.
async fn auth(app: State<Arc<AppState>>, peer: Extension<Peer>, request: AxumRequest) -> Response {
    let (parts, body) = request.into_parts();
    forward_auth::answer(&app, *peer, None, &parts, !body.is_end_stream()).await
}

/// Forward-auth by one policy.
async fn auth_policy(
    app: State<Arc<AppState>>,
    peer: Extension<Peer>,
    policy: Result<Path<String>, PathRejection>,
    request: AxumRequest,
) -> HandlerResult {
    let (Path(policy), (parts, body)) = (policy?, request.into_parts());
    Ok(forward_auth::answer(&app, *peer, Some(&policy), &parts, !body.is_end_stream()).await)
}

async fn metrics_page(State(app): State<Arc<AppState>>) -> impl IntoResponse {
    let mut page = String::new();
    app.with_figures(&mut |figures| page = app.metrics().render(figures));
    ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], page)
}

async fn policies(State(app): State<Arc<AppState>>) -> Response {
    policies::render(&app.in_force()).into_response()
}

async fn decide(app: &AppState, body: Body, op: Op) -> HandlerResult {
    let body = body::read(body).await?;
    let in_force = app.in_force();
    let call = app.call(&in_force, Door::Http);
    let request: Request<'_> = body::decode(&body)?;
    let parsed = request.question()?;
    let policy = call.policy(parsed.policy, op)?;
    let answer = call.check(&Question::new(policy, parsed.key(), parsed.cost, op)).await?;
    let answer = Unanswered::unless_decided(answer)?;
    let mut response = json_of(answer::DECISION_BYTES, |body| answer::write(body, &answer));
    let dialect = in_force.http.headers;
    headers::add(response.headers_mut(), dialect, &answer, policy.labels(), call.began());
    Ok(response)
}

/// Checks in order, each separately or all in one atomic step. All are validated before the first is charged: a batch
/// with an invalid element is rejected.
async fn check_batch(State(app): State<Arc<AppState>>, body: Body) -> HandlerResult {
    let body = body::read_batch(body).await?;
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
    Ok(json_of(bytes, |body| answer::write_batch(body, labelled, wanted, now)))
}

/// Reserves a place in the queue of a leaky bucket. The caller waits.
async fn reserve(State(app): State<Arc<AppState>>, body: Body) -> HandlerResult {
    let body = body::read(body).await?;
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

async fn wrong_method(method: Method, uri: Uri) -> Problem {
    Problem::wrong_method(&method, uri.path())
}

async fn unknown_path(uri: Uri) -> Problem {
    Problem::unknown_path(uri.path())
}

fn json(answer: &impl serde::Serialize) -> Response {
    // Serializing a plain struct cannot fail.
    json_of(0, |body| drop(serde_json::to_writer(body, answer)))
}

/// The headers of a decision: a map that starts smaller grows with the last one, and hashes all of them again.
const HEADERS: usize = 8;

/// A JSON response whose body `write` fills; `bytes` is its expected size.
fn json_of(bytes: usize, write: impl FnOnce(&mut Vec<u8>)) -> Response {
    let mut body = Vec::with_capacity(bytes);
    write(&mut body);
    let mut response = Response::new(body.into());
    *response.headers_mut() = HeaderMap::with_capacity(HEADERS);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
