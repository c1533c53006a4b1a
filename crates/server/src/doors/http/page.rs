//! The page at `/` and its files: nothing is loaded from elsewhere.

use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderMap, IF_NONE_MATCH,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};

use super::Answered;
use crate::dashboard;
use crate::doors::shared::Problem;

/// Only what this server sends, and nothing inline; no other site may frame the page, so that its buttons are pressed by
/// those who see them.
const ALLOWED: &str = "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; \
                       frame-ancestors 'none'";
/// Look again each time, which is short if nothing has changed.
const LOOK_AGAIN: &str = "no-cache";
/// The path names exactly this content.
const FOR_EVER: &str = "public, max-age=31536000, immutable";

pub(super) async fn page(headers: HeaderMap) -> Response {
    let (page, build) = dashboard::page();
    let more = [(CONTENT_SECURITY_POLICY, ALLOWED), (REFERRER_POLICY, "no-referrer")];
    (more, sent("text/html; charset=utf-8", page.as_bytes(), build, LOOK_AGAIN, &headers))
        .into_response()
}

/// A file of the page. Under the name of another build it is told too, for pages that were open when the server was
/// replaced, but nobody is to keep it.
pub(super) async fn asset(
    path: Result<Path<(String, String)>, PathRejection>,
    uri: Uri,
    headers: HeaderMap,
) -> Answered {
    let Path((build, file)) = path?;
    let asset = dashboard::asset(&file).ok_or_else(|| Problem::unknown_path(uri.path()))?;
    let (_, here) = dashboard::page();
    let keep = if build == here { FOR_EVER } else { LOOK_AGAIN };
    Ok(sent(asset.kind, asset.content.as_bytes(), here, keep, &headers))
}

fn sent(
    kind: &'static str,
    content: &'static [u8],
    build: &str,
    keep: &'static str,
    asked: &HeaderMap,
) -> Response {
    let tag = format!("\"{build}\"");
    let known = asked.get(IF_NONE_MATCH).and_then(|known| known.to_str().ok());
    let headers =
        [(ETAG, tag.as_str()), (CACHE_CONTROL, keep), (X_CONTENT_TYPE_OPTIONS, "nosniff")];
    if known.is_some_and(|known| known.split(',').any(|one| one.trim() == tag)) {
        return (StatusCode::NOT_MODIFIED, headers).into_response();
    }
    (headers, [(CONTENT_TYPE, kind)], content).into_response()
}
