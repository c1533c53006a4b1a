//! The dashboard: the page at `/`, its files, and `GET /v1/live`, one server-sent event a second. Nothing is loaded
//! from other sites.

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderMap, HeaderName,
    IF_NONE_MATCH, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};

use super::{Api, HandlerResult, policies};
use crate::dashboard::{self, WATCHERS_MAX, WatchRefused};
use crate::doors::shared::Problem;

/// Content only from this server, and nothing inline. No other site may frame the page, which prevents clickjacking.
const CONTENT_POLICY: &str = "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// Revalidate each time, which is cheap if nothing has changed.
const REVALIDATE: &str = "no-cache";
/// The path names the build, so its content never changes.
const IMMUTABLE: &str = "public, max-age=31536000, immutable";
/// Disables response buffering in nginx and others.
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

pub(super) async fn page(headers: HeaderMap) -> Response {
    let (page, build) = dashboard::page();
    let more = [(CONTENT_SECURITY_POLICY, CONTENT_POLICY), (REFERRER_POLICY, "no-referrer")];
    (more, cacheable("text/html; charset=utf-8", page.as_bytes(), build, REVALIDATE, &headers))
        .into_response()
}

/// A file of the page. Pages opened before an upgrade request files under the old build: they get the new file, but
/// must not cache it.
pub(super) async fn asset(
    path: Result<Path<(String, String)>, PathRejection>,
    uri: Uri,
    headers: HeaderMap,
) -> HandlerResult {
    let Path((build, file)) = path?;
    let asset = dashboard::asset(&file).ok_or_else(|| Problem::unknown_path(uri.path()))?;
    let (_, current) = dashboard::page();
    let cache_control = if build == current { IMMUTABLE } else { REVALIDATE };
    Ok(cacheable(asset.kind, asset.content.as_bytes(), current, cache_control, &headers))
}

fn cacheable(
    kind: &'static str,
    content: &'static [u8],
    build: &str,
    cache_control: &'static str,
    request_headers: &HeaderMap,
) -> Response {
    let tag = format!("\"{build}\"");
    let known = request_headers.get(IF_NONE_MATCH).and_then(|known| known.to_str().ok());
    let headers =
        [(ETAG, tag.as_str()), (CACHE_CONTROL, cache_control), (X_CONTENT_TYPE_OPTIONS, "nosniff")];
    if known.is_some_and(|known| known.split(',').any(|one| one.trim() == tag)) {
        return (StatusCode::NOT_MODIFIED, headers).into_response();
    }
    (headers, [(CONTENT_TYPE, kind)], content).into_response()
}

pub(super) async fn live(State(api): State<Api>) -> HandlerResult {
    let watching = api.feed.watch(&policies::to_json(&api.app.in_force()));
    let watching = watching.map_err(|WatchRefused| Problem::too_many_watchers(WATCHERS_MAX))?;
    let headers = [
        (CONTENT_TYPE, "text/event-stream"),
        (CACHE_CONTROL, "no-store"),
        (X_ACCEL_BUFFERING, "no"),
    ];
    Ok((headers, Body::new(watching)).into_response())
}
