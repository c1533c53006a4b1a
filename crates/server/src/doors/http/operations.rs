//! `GET /metrics`.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;

use crate::app::AppState;
use crate::metrics;

/// `GET /metrics`, for Prometheus.
pub(super) async fn metrics(State(app): State<Arc<AppState>>) -> impl IntoResponse {
    let page = app.metrics().render(&app);
    ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], page)
}
