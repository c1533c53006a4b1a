//! `GET /readyz`: whether to send requests here.
//!
//! The configuration was read and every door bound before the first request can be answered, so what is left to say is
//! whether the server is about to end. While its store fails it serves by what the policies say, and is ready; for those
//! who would rather take it out then, `/readyz?strict` asks the store.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::json;
use tidegate::driver::OpenStore;

use crate::service::AppState;

#[derive(Serialize)]
struct Readiness {
    ready: bool,
    /// `serving` or `draining`.
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<Store>,
}

#[derive(Serialize)]
struct Store {
    kind: &'static str,
    /// `ok`, `not-connected` or `left-alone`; asked strictly, what was wrong with it.
    state: &'static str,
}

pub(super) async fn ready(State(app): State<Arc<AppState>>, uri: Uri) -> Response {
    let view = app.metrics().store();
    let store = match &view {
        Some(view) if is_strict(&uri) => Some(reached(view).await),
        Some(view) => Some((view.condition(), true)),
        None => None,
    };
    let state = if app.is_draining() { "draining" } else { "serving" };
    let ready = !app.is_draining() && store.is_none_or(|(_, will_do)| will_do);
    let kind = view.as_ref().map_or("", |view| view.kind);
    let store = store.map(|(state, _)| Store { kind, state });
    let mut response = json(&Readiness { ready, state, store }).into_response();
    if !ready {
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    response
}

/// What the store says, within its deadline, and whether that will do.
async fn reached(store: &OpenStore) -> (&'static str, bool) {
    match store.reach().await {
        Ok(()) => ("ok", true),
        Err(error) => (error.kind().as_str(), false),
    }
}

/// `?strict`, with a value or without.
fn is_strict(uri: &Uri) -> bool {
    let mut parts = uri.query().unwrap_or_default().split('&');
    parts.any(|part| part.split('=').next() == Some("strict"))
}
