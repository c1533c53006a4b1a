//! The rate limit service as JSON over HTTP: `POST /json` as in envoyproxy/ratelimit.

mod read;
mod write;

use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use hyper::body::Bytes;

use self::read::JsonRequest;
use self::write::JsonAnswer;
use super::answer::Code;
use super::decide::{DecideError, decide};
use crate::doors::shared::body::read_batch;
use crate::doors::shared::request::Object;
use crate::metrics::Door;
use crate::net::body::RequestBody;
use crate::service::AppState;

/// An error: plain text, as in envoyproxy/ratelimit.
type Refusal = (StatusCode, String);

/// Answers `POST /json` of the HTTP door.
pub(crate) async fn answer_json(app: &AppState, body: RequestBody) -> Response<Bytes> {
    answer(app, body).await.unwrap_or_else(|(status, text)| {
        let plain = HeaderValue::from_static("text/plain; charset=utf-8");
        response(status, plain, text.into())
    })
}

async fn answer(app: &AppState, body: RequestBody) -> Result<Response<Bytes>, Refusal> {
    let body = read_batch(body).await;
    let body = body.map_err(|problem| (problem.status(), format!("{}\n", problem.detail())))?;
    let Object(json): Object<JsonRequest<'_>> =
        serde_json::from_slice(&body).map_err(|error| bad(&error.to_string()))?;
    let in_force = app.in_force();
    let request = json.request().map_err(|error| bad(&error.0))?;
    let decided = decide(app.call(&in_force, Door::Http), &request).await;
    let answer = decided.map_err(|error| match error {
        DecideError::BadRequest(why) | DecideError::UnknownPolicy(why) => bad(&why),
        // Never a 429: a failure must not look like a refusal.
        DecideError::Unavailable(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    })?;
    let status = match answer.overall {
        Code::Ok => StatusCode::OK,
        Code::OverLimit => StatusCode::TOO_MANY_REQUESTS,
    };
    let body = serde_json::to_vec(&JsonAnswer::from(&answer)).unwrap_or_default();
    let json = HeaderValue::from_static("application/json");
    let mut response = response(status, json, body.into());
    for (name, value) in &answer.headers {
        response.headers_mut().insert(*name, HeaderValue::from(*value));
    }
    Ok(response)
}

fn response(status: StatusCode, content_type: HeaderValue, body: Bytes) -> Response<Bytes> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

fn bad(why: &str) -> Refusal {
    (StatusCode::BAD_REQUEST, format!("{}\n", tidegate_core::text::printable(why)))
}
