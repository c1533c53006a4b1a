//! The same questions as JSON over HTTP: `POST /json` as envoyproxy/ratelimit has it, and `/healthcheck`.

mod read;
mod write;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRef, State};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use tidegate::{Clock, SystemClock};

use self::read::JsonRequest;
use self::write::JsonRuling;
use super::answer::Code;
use super::decide::{Asker, Trouble, decide};
use crate::doors::http::{Object, read_batch};
use crate::gate::Gate;
use crate::metrics::DoorName;

/// Why there is no answer: plain text, as those who call it expect.
type Refusal = (StatusCode, String);

/// The routes, for the HTTP door.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>() -> [(&'static str, MethodRouter<S>); 2]
where
    Arc<Gate>: FromRef<S>,
{
    [("/healthcheck", get(async || "OK")), ("/json", post(answer))]
}

async fn answer(State(gate): State<Arc<Gate>>, body: Body) -> Result<Response, Refusal> {
    let body = read_batch(body).await;
    let body = body.map_err(|problem| (problem.status(), format!("{}\n", problem.detail())))?;
    let Object(json): Object<JsonRequest<'_>> =
        serde_json::from_slice(&body).map_err(|error| bad(&error.to_string()))?;
    let snapshot = gate.now();
    let request = json.request().map_err(|error| bad(&error.0))?;
    let since_us = SystemClock.steady_us();
    let asker = Asker::new(&snapshot, None).telling(&gate, since_us);
    let decided = decide(&snapshot, &request, asker).await;
    gate.metrics().took(DoorName::Http, since_us, 1);
    let ruling = decided.map_err(|trouble| match trouble {
        Trouble::Bad(why) | Trouble::Unknown(why) => bad(&why),
        // Never a 429: a failure must not look like a refusal.
        Trouble::Unavailable(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    })?;
    let status = match ruling.overall {
        Code::Ok => StatusCode::OK,
        Code::OverLimit => StatusCode::TOO_MANY_REQUESTS,
    };
    let body = serde_json::to_vec(&JsonRuling::from(&ruling)).unwrap_or_default();
    let json = HeaderValue::from_static("application/json");
    let mut response = (status, [(CONTENT_TYPE, json)], body).into_response();
    for (name, value) in &ruling.headers {
        response.headers_mut().insert(*name, HeaderValue::from(*value));
    }
    Ok(response)
}

fn bad(why: &str) -> Refusal {
    (StatusCode::BAD_REQUEST, format!("{}\n", crate::text::printable(why)))
}
