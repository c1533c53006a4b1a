//! The HTTP API. A handler reads the body, asks the engine once and writes the answer.
//!
//! A refusal is an answer like any other, with status 200; other statuses are trouble, told as
//! `application/problem+json`. Nothing is charged unless the answer is a 200.

mod answer;
mod body;
mod connection;
mod local;
mod page;
mod policies;
mod problem;
mod question;
mod request;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use axum::http::{Method, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use tidegate::tower::write_retry_after;
use tidegate::{Answer, CheckError, Clock, Op, Source, SystemClock};

pub(crate) use self::connection::{HttpBounds, HttpDoor};
use self::problem::Problem;
use self::question::Question;
use self::request::{BatchRequest, Request};
use crate::doors::rls;
use crate::gate::Gate;
use crate::headers;
use crate::listen::Peer;

type Answered = Result<Response, Problem>;

/// The routes of the API.
pub(crate) fn router(gate: Arc<Gate>) -> Router {
    Router::new()
        .route("/", get(page::page))
        .route("/healthz", get(async || "ok\n"))
        .route("/v1/check", post(check))
        .route("/v1/check/batch", post(check_batch))
        .route("/v1/peek", post(peek))
        .route("/v1/policies", get(policies))
        .route("/v1/refund", post(refund))
        .route("/v1/reserve", post(reserve))
        .route("/v1/reset", post(reset))
        .merge(rls::router())
        .method_not_allowed_fallback(wrong_method)
        .fallback(unknown_path)
        .with_state(gate)
}

async fn check(State(gate): State<Arc<Gate>>, body: Body) -> Answered {
    decide(&gate, body, Op::Take).await
}

async fn peek(State(gate): State<Arc<Gate>>, body: Body) -> Answered {
    decide(&gate, body, Op::Peek).await
}

async fn refund(State(gate): State<Arc<Gate>>, body: Body) -> Answered {
    decide(&gate, body, Op::Refund).await
}

/// Forgets what a key has used: for those who run this machine only.
async fn reset(
    State(gate): State<Arc<Gate>>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    body: Body,
) -> Answered {
    local::only(peer, &headers)?;
    decide(&gate, body, Op::Reset).await
}

async fn policies(State(gate): State<Arc<Gate>>) -> Response {
    policies::render(&gate.now().engine).into_response()
}

async fn decide(gate: &Gate, body: Body, op: Op) -> Answered {
    let body = body::read(body).await?;
    let engine = &gate.now().engine;
    let request: Request<'_> = body::decode(&body)?;
    let question = request.question()?;
    let answer = engine.ask(&question.check(), op).await;
    answer.map(|answer| decision(&answer)).map_err(|error| Problem::unanswered(engine, &error))
}

/// Independent checks in order. All are looked at before the first is charged: a batch with a bad element is
/// refused whole.
async fn check_batch(State(gate): State<Arc<Gate>>, body: Body) -> Answered {
    let body = body::read(body).await?;
    let batch: BatchRequest<'_> = body::decode(&body)?;
    let questions = batch.questions()?;
    let engine = &gate.now().engine;
    let unanswered = |(index, error): (usize, CheckError)| {
        Problem::unanswered(engine, &error).within_batch(index)
    };
    let numbered = || questions.iter().map(Question::check).enumerate();
    for (index, check) in numbered() {
        engine.validate(&check, Op::Take).map_err(|error| unanswered((index, error)))?;
    }
    // All are under way before the first is waited for, so that a store may take them in one round trip.
    let under_way: Vec<_> = numbered().map(|(_, check)| engine.ask(&check, Op::Take)).collect();
    let mut decisions = Vec::with_capacity(under_way.len());
    for (index, reply) in under_way.into_iter().enumerate() {
        let answer = reply.await.map_err(|error| unanswered((index, error)))?;
        decisions.push(answer::Decision::from(&answer));
    }
    Ok(json(&answer::BatchAnswer { decisions }))
}

/// Takes a place in a leaky bucket's queue. The caller waits.
async fn reserve(State(gate): State<Arc<Gate>>, body: Body) -> Answered {
    let body = body::read(body).await?;
    let request: Request<'_> = body::decode(&body)?;
    let engine = &gate.now().engine;
    let reservation = engine
        .reserve(&request.question()?.check())
        .await
        .map_err(|error| Problem::unanswered(engine, &error))?;
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

fn decision(answer: &Answer<'_>) -> Response {
    if answer.source == Source::FailClosed {
        let detail = format!("policy `{}` admits nothing while its store fails", answer.policy);
        let mut response = Problem::unavailable(&detail).into_response();
        write_retry_after(response.headers_mut(), answer.decision.retry_after());
        return response;
    }
    let mut response = json(&answer::Decision::from(answer));
    headers::add(response.headers_mut(), answer, SystemClock.now());
    response
}

fn json(answer: &impl serde::Serialize) -> Response {
    // An answer is about 150 bytes: one allocation holds it. Plain structs cannot fail to be written.
    let mut body = Vec::with_capacity(192);
    let _ = serde_json::to_writer(&mut body, answer);
    let mut response = Response::new(body.into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
