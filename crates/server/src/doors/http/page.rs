//! The dashboard: the page at `/`, its files, and `GET /v1/live`, one server-sent event a second. Nothing is loaded
//! from other sites.

use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue,
    IF_NONE_MATCH, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use http::{Response, StatusCode};

use super::{ApiBody, ApiRequest, HandlerResult, policies, with_headers, with_static};
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

pub(super) async fn page(request: ApiRequest) -> HandlerResult {
    let (page, build) = dashboard::page();
    let kind = "text/html; charset=utf-8";
    let mut response = cacheable(kind, page, build, REVALIDATE, &request.head.headers);
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(CONTENT_POLICY));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    Ok(response)
}

/// A file of the page. Pages opened before an upgrade request files under the old build: they get the new file, but
/// must not cache it.
pub(super) async fn asset(request: ApiRequest) -> HandlerResult {
    let (build, file) = (request.params.at(0), request.params.at(1));
    let unknown = || Problem::unknown_path(request.head.uri.path());
    let asset = dashboard::asset(file).ok_or_else(unknown)?;
    let (_, current) = dashboard::page();
    let cache_control = if build == current { IMMUTABLE } else { REVALIDATE };
    Ok(cacheable(asset.kind, &asset.content, current, cache_control, &request.head.headers))
}

fn cacheable(
    kind: &'static str,
    content: &'static str,
    build: &str,
    cache_control: &'static str,
    request_headers: &HeaderMap,
) -> Response<ApiBody> {
    let tag = format!("\"{build}\"");
    let known = request_headers.get(IF_NONE_MATCH).and_then(|known| known.to_str().ok());
    let headers = [(CACHE_CONTROL, cache_control), (X_CONTENT_TYPE_OPTIONS, "nosniff")];
    let is_known = known.is_some_and(|known| known.split(',').any(|one| one.trim() == tag));
    let mut response = with_static(&headers, if is_known { "" } else { content });
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    } else {
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    }
    if let Ok(tag) = HeaderValue::try_from(tag) {
        response.headers_mut().insert(ETAG, tag);
    }
    response
}

pub(super) async fn live(ApiRequest { api, .. }: ApiRequest) -> HandlerResult {
    let watching = api.feed.watch(&policies::to_json(&api.app.in_force()));
    let watching = watching.map_err(|WatchRefused| Problem::too_many_watchers(WATCHERS_MAX))?;
    let headers = [
        (CONTENT_TYPE, "text/event-stream"),
        (CACHE_CONTROL, "no-store"),
        (X_ACCEL_BUFFERING, "no"),
    ];
    Ok(with_headers(&headers, "").map(|_| ApiBody::Events(watching)))
}
