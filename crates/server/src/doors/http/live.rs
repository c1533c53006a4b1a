//! `GET /v1/live`: what happens here, once a second, as server-sent events.

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use axum::response::IntoResponse;

use super::{Answered, Api, policies};
use crate::dashboard::{WATCHERS_MAX, WatchRefused};
use crate::doors::shared::Problem;

/// Proxies that gather answers are asked not to.
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

pub(super) async fn live(State(api): State<Api>) -> Answered {
    let watching = api.feed.watch(&policies::rendered(&api.app.in_force()));
    let watching = watching.map_err(|WatchRefused| Problem::too_many_watchers(WATCHERS_MAX))?;
    let headers = [
        (CONTENT_TYPE, "text/event-stream"),
        (CACHE_CONTROL, "no-store"),
        (X_ACCEL_BUFFERING, "no"),
    ];
    Ok((headers, Body::new(watching)).into_response())
}
