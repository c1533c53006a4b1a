//! The HTTP API. A handler reads the body, asks the engine once and writes the answer.
//!
//! A refusal is an answer like any other, with status 200; other statuses are trouble, told as
//! `application/problem+json`. Nothing is charged unless the answer is a 200.

mod admin;
mod answer;
mod body;
pub(crate) mod connection;
mod door;
mod express;
mod hold;
mod live;
mod openapi;
mod operations;
mod overrides;
mod page;
mod playground;
mod policies;
mod pressure;
mod problem;
mod question;
mod ready;
mod request;
mod settings;
mod status;

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::rejection::PathRejection;
use axum::extract::{Extension, FromRef, Path, Request as AxumRequest, State};
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::http::{Method, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, any, get, post, put};
use hyper::body::{Body as _, Incoming};
use tidegate::tower::{Headers, write_retry_after};
use tidegate::{Answer, CheckError, Clock, Engine, Op, SystemClock, Timestamp};

pub(crate) use self::body::read_batch;
pub(crate) use self::connection::HttpBounds;
pub(crate) use self::door::HttpDoor;
pub(crate) use self::operations::Told;
pub(crate) use self::problem::Problem;
use self::question::Question;
pub(crate) use self::request::Object;
use self::request::{BatchRequest, Request};
pub(crate) use self::settings::Settings;
use super::{forward_auth, rls};
use crate::gate::Gate;
use crate::headers;
use crate::listen::Peer;
use crate::metrics::DoorName;

type Answered = Result<Response, Problem>;

/// What handlers know. Only the gate's snapshot changes with the configuration.
#[derive(Clone, Debug)]
struct Api {
    gate: Arc<Gate>,
    started: Timestamp,
}

impl FromRef<Api> for Arc<Gate> {
    fn from_ref(api: &Api) -> Self {
        api.gate.clone()
    }
}

/// The API.
pub(crate) fn router(gate: Arc<Gate>) -> Router {
    let api = Api { gate, started: SystemClock.now() };
    let add = |router: Router<Api>, (path, methods)| router.route(path, methods);
    routes()
        .fold(Router::new(), add)
        .method_not_allowed_fallback(wrong_method)
        .fallback(unknown_path)
        .with_state(api)
}

/// Every path that there is; a test compares them with `openapi.json`.
fn routes() -> impl Iterator<Item = (&'static str, MethodRouter<Api>)> {
    let own = [
        ("/", get(page::page)),
        ("/assets/{build}/{file}", get(page::asset)),
        ("/healthz", get(async || "ok\n")),
        ("/metrics", get(operations::metrics)),
        ("/openapi.json", get(openapi::show)),
        ("/readyz", get(ready::ready)),
        ("/v1/acquire", post(hold::acquire)),
        ("/v1/auth", any(auth)),
        ("/v1/auth/{policy}", any(auth_by)),
        ("/v1/check", post(check)),
        ("/v1/check/batch", post(check_batch)),
        ("/v1/live", get(live::live)),
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
        ("/v1/release", post(hold::release)),
        ("/v1/reserve", post(reserve)),
        ("/v1/reset", post(reset)),
        ("/v1/status", get(status::show)),
    ];
    own.into_iter().chain(playground::routes()).chain(rls::routes())
}

/// [`check`], for those who have no time for a router.
async fn check_now(gate: &Gate, body: Incoming) -> hyper::Response<Bytes> {
    decide(gate, body, Op::Take).await.unwrap_or_else(Problem::whole)
}

async fn check(State(gate): State<Arc<Gate>>, body: Body) -> Answered {
    decide(&gate, body, Op::Take).await.map(into_response)
}

async fn peek(State(gate): State<Arc<Gate>>, body: Body) -> Answered {
    decide(&gate, body, Op::Peek).await.map(into_response)
}

/// Gives back: by whoever may spend.
async fn refund(State(gate): State<Arc<Gate>>, body: Body) -> Answered {
    decide(&gate, body, Op::Refund).await.map(into_response)
}

/// Forgets what a key has used: for those who run the service only.
async fn reset(gate: State<Arc<Gate>>, peer: Extension<Peer>, request: AxumRequest) -> Answered {
    administer(&gate, *peer, request, Op::Reset).await
}

async fn administer(gate: &Gate, peer: Peer, request: AxumRequest, op: Op) -> Answered {
    gate.now().http.admin.admit(peer, request.headers())?;
    decide(gate, request.into_body(), op).await.map(into_response)
}

/// Whether a request that a proxy has may pass, by the routes.
async fn auth(gate: State<Arc<Gate>>, peer: Extension<Peer>, request: AxumRequest) -> Response {
    let (parts, body) = request.into_parts();
    forward_auth::answer(&gate, *peer, None, &parts, !body.is_end_stream()).await
}

/// The same, by one policy.
async fn auth_by(
    gate: State<Arc<Gate>>,
    peer: Extension<Peer>,
    policy: Result<Path<String>, PathRejection>,
    request: AxumRequest,
) -> Answered {
    let (Path(policy), (parts, body)) = (policy?, request.into_parts());
    Ok(forward_auth::answer(&gate, *peer, Some(&policy), &parts, !body.is_end_stream()).await)
}

async fn policies(State(gate): State<Arc<Gate>>) -> Response {
    policies::render(&gate.now()).into_response()
}

async fn decide<B>(gate: &Gate, body: B, op: Op) -> Result<hyper::Response<Bytes>, Problem>
where
    B: hyper::body::Body<Data = Bytes> + Unpin,
{
    decide_on(gate, &body::read(body).await?, op, decision).await
}

/// The same of a body that is there, told in whatever way.
async fn decide_on<T>(
    gate: &Gate,
    body: &[u8],
    op: Op,
    tell: impl FnOnce(&Answer<'_>, Headers, Timestamp) -> T,
) -> Result<T, Problem> {
    let told = Told::begin(gate, DoorName::Http);
    let snapshot = gate.now();
    let engine = &snapshot.engine;
    let request: Request<'_> = body::decode(body)?;
    let question = request.question()?;
    let answer = engine.ask(&question.check(), op).await;
    if op == Op::Take {
        told.decided(&question.check(), &answer);
    }
    let answer = answer.map_err(|error| Problem::unanswered(engine, &error))?;
    Problem::unless_decided(&answer)?;
    Ok(tell(&answer, snapshot.http.headers, told.began()))
}

/// Checks in order, each on its own or all in one step. All are looked at before the first is charged: a batch with a
/// bad element is refused whole.
async fn check_batch(State(gate): State<Arc<Gate>>, body: Body) -> Answered {
    let body = body::read_batch(body).await?;
    let told = Told::begin(&gate, DoorName::Http);
    let batch: BatchRequest<'_> = body::decode(&body)?;
    let questions = batch.questions()?;
    let snapshot = gate.now();
    let (engine, dialect) = (&snapshot.engine, batch.headers.then_some(snapshot.http.headers));
    if batch.atomic {
        return check_together(engine, &questions, &told, dialect).await;
    }
    let unanswered = |(index, error): (usize, CheckError)| {
        Problem::unanswered(engine, &error).within_batch(index)
    };
    let numbered = || questions.iter().map(Question::check).enumerate();
    for (index, check) in numbered() {
        engine.validate(&check, Op::Take).map_err(|error| unanswered((index, error)))?;
    }
    // All are under way before the first is waited for, so that a store may take them in one round trip.
    let under_way: Vec<_> = numbered().map(|(_, check)| engine.ask(&check, Op::Take)).collect();
    let mut answers = Vec::with_capacity(under_way.len());
    for ((index, check), reply) in numbered().zip(under_way) {
        let answer = reply.await;
        told.decided(&check, &answer);
        answers.push(answer.map_err(|error| (index, error)));
    }
    let answers: Vec<_> = answers.into_iter().collect::<Result<_, _>>().map_err(unanswered)?;
    Ok(decisions(&answers, dialect, &told))
}

/// All are charged, or none is.
async fn check_together(
    engine: &Engine,
    questions: &[Question<'_>],
    told: &Told<'_>,
    dialect: Option<Headers>,
) -> Answered {
    let checks: Vec<_> = questions.iter().map(Question::check).collect();
    for (index, check) in checks.iter().enumerate() {
        let valid = engine.validate(check, Op::Take);
        valid.map_err(|error| Problem::unanswered(engine, &error).within_batch(index))?;
    }
    let together = engine.ask_together(&checks, Op::Take).await;
    for (index, check) in checks.iter().enumerate() {
        told.decided(check, &together.clone().map(|it| it.answers[index].clone()));
    }
    let together = together.map_err(|error| Problem::not_together(engine, &error))?;
    Ok(decisions(&together.answers, dialect, told))
}

/// The answers to a batch; each with its headers, if they were asked for.
fn decisions(answers: &[Answer<'_>], wanted: Option<Headers>, told: &Told<'_>) -> Response {
    let now = told.began();
    let bytes = answer::DECISION_BYTES * answers.len();
    into_response(json_of(bytes, |body| answer::write_batch(body, answers, wanted, now)))
}

/// Takes a place in a leaky bucket's queue. The caller waits.
async fn reserve(State(gate): State<Arc<Gate>>, body: Body) -> Answered {
    let body = body::read(body).await?;
    let told = Told::begin(&gate, DoorName::Http);
    let request: Request<'_> = body::decode(&body)?;
    let engine = &gate.now().engine;
    let question = request.question()?;
    let reservation = engine.reserve(&question.check()).await;
    told.reserved(&question.check(), reservation.as_ref().copied());
    let policy = question.check().policy;
    let reservation = reservation.map_err(|error| Problem::unqueued(engine, policy, &error))?;
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

/// A decision with the headers that tell of it.
fn decision(answer: &Answer<'_>, dialect: Headers, now: Timestamp) -> hyper::Response<Bytes> {
    let mut response = json_of(answer::DECISION_BYTES, |body| answer::write(body, answer));
    headers::add(response.headers_mut(), dialect, answer, now);
    response
}

fn json(answer: &impl serde::Serialize) -> Response {
    into_response(whole_json(answer))
}

fn into_response(response: hyper::Response<Bytes>) -> Response {
    response.map(Body::from)
}

fn whole_json(answer: &impl serde::Serialize) -> hyper::Response<Bytes> {
    // Plain structs cannot fail to be written.
    json_of(0, |body| drop(serde_json::to_writer(body, answer)))
}

/// An answer whose body is written by somebody, and takes about so much.
fn json_of(bytes: usize, write: impl FnOnce(&mut Vec<u8>)) -> hyper::Response<Bytes> {
    let mut body = Vec::with_capacity(bytes);
    write(&mut body);
    let mut response = hyper::Response::new(body.into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
