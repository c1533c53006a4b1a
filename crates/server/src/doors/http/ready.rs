//! `GET /readyz`: whether to send requests here.
//!
//! The configuration is read and every door bound before the first request, so a server is ready until it drains. While
//! its store fails it answers by each policy's fallback, and is ready; `/readyz?strict` also asks the store.

use http::{StatusCode, Uri};
use serde::Serialize;

use super::{ApiRequest, HandlerResult, json};
use tidegate::driver::OpenStore;

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
    /// `ok`, `not-connected` or `left-alone`; with `strict`, the kind of the failure.
    state: &'static str,
}

pub(super) async fn ready(request: ApiRequest) -> HandlerResult {
    let app = &request.api.app;
    let view = app.metrics().store();
    let store = match &view {
        Some(view) if is_strict(&request.head.uri) => Some(probe(view).await),
        Some(view) => Some((view.condition(), true)),
        None => None,
    };
    let state = if app.is_draining() { "draining" } else { "serving" };
    let ready = !app.is_draining() && store.is_none_or(|(_, is_ok)| is_ok);
    let kind = view.as_ref().map_or("", |view| view.kind);
    let store = store.map(|(state, _)| Store { kind, state });
    let mut response = json(&Readiness { ready, state, store });
    if !ready {
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    Ok(response)
}

/// Asks the store, within its deadline.
async fn probe(store: &OpenStore) -> (&'static str, bool) {
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
