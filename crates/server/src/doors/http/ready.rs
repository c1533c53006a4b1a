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
    store: Option<StoreState>,
    /// The second store, if the configuration has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    quorum: Option<StoreState>,
}

#[derive(Serialize)]
struct StoreState {
    kind: &'static str,
    /// `ok`, `not-connected` or `left-alone`; with `strict`, the kind of the failure.
    state: &'static str,
    #[serde(skip)]
    is_ready: bool,
}

pub(super) async fn ready(request: ApiRequest) -> HandlerResult {
    let app = &request.api.app;
    let is_strict = is_strict(&request.head.uri);
    let opened = app.metrics().store();
    let (store, quorum) = match opened.as_deref() {
        Some(opened) => {
            let quorum = async {
                match opened.quorum() {
                    Some(quorum) => Some(look(quorum, is_strict).await),
                    None => None,
                }
            };
            let (store, quorum) = tokio::join!(look(opened.main(), is_strict), quorum);
            (Some(store), quorum)
        }
        None => (None, None),
    };
    let state = if app.is_draining() { "draining" } else { "serving" };
    let ready = !app.is_draining() && [&store, &quorum].into_iter().flatten().all(|it| it.is_ready);
    let mut response = json(&Readiness { ready, state, store, quorum });
    if !ready {
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    Ok(response)
}

/// What is known of a store; if the caller is strict, it is asked within its deadline.
async fn look(store: &OpenStore, is_strict: bool) -> StoreState {
    let kind = store.kind;
    if !is_strict {
        return StoreState { kind, state: store.condition(), is_ready: true };
    }
    match store.reach().await {
        Ok(()) => StoreState { kind, state: "ok", is_ready: true },
        Err(error) => StoreState { kind, state: error.kind().as_str(), is_ready: false },
    }
}

/// `?strict`, with a value or without.
fn is_strict(uri: &Uri) -> bool {
    let mut parts = uri.query().unwrap_or_default().split('&');
    parts.any(|part| part.split('=').next() == Some("strict"))
}
