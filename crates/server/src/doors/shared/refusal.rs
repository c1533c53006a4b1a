//! The response to a refused request: a page with a countdown for people, JSON for programs that accept it, and an
//! empty body for assets and all others.

use http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, EXPIRES, HeaderName, HeaderValue,
    PRAGMA, RETRY_AFTER,
};
use http::{HeaderMap, Response, StatusCode};
use hyper::body::Bytes;

use super::Problem;
use tidegate_request::ClientRequest;

/// Self-contained, because other requests of the same client may be refused as well.
const PAGE: &str = include_str!("refusal/page.html");
/// Replaced by the seconds to wait.
const SECONDS_PLACEHOLDER: &str = "{seconds}";
/// For clients that are blocked: without a countdown.
const BLOCKED_PAGE: &str = include_str!("refusal/closed.html");

/// File extensions of scripts, styles, images, fonts and media.
const ASSETS: [&str; 24] = [
    "js", "mjs", "css", "map", "json", "wasm", "png", "jpg", "jpeg", "gif", "webp", "avif", "svg",
    "ico", "bmp", "woff", "woff2", "ttf", "otf", "eot", "mp3", "mp4", "webm", "ogg",
];

/// The body of a refusal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RefusalFormat {
    Page,
    Json,
    Empty,
}

/// Builds a refusal with the status of the problem and these headers.
pub(crate) fn response(
    seen: &ClientRequest<'_>,
    problem: Problem,
    extra_headers: HeaderMap,
) -> Response<Bytes> {
    let mut response = match format_for(seen) {
        RefusalFormat::Json => problem.into_response(),
        RefusalFormat::Empty => empty(problem.status()),
        RefusalFormat::Page => page(problem.status(), extra_headers.get(RETRY_AFTER)),
    };
    let headers = response.headers_mut();
    headers.extend(extra_headers);
    // A refusal must not be cached.
    let no_cache = "no-store, no-cache, must-revalidate, max-age=0";
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(no_cache));
    headers.insert(PRAGMA, HeaderValue::from_static("no-cache"));
    headers.insert(EXPIRES, HeaderValue::from_static("0"));
    response
}

fn empty(status: StatusCode) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = status;
    response
}

fn page(status: StatusCode, wait: Option<&HeaderValue>) -> Response<Bytes> {
    let seconds = wait.and_then(|wait| wait.to_str().ok());
    let body = match seconds {
        Some(seconds) => PAGE.replace(SECONDS_PLACEHOLDER, seconds).into(),
        None => Bytes::from_static(BLOCKED_PAGE.as_bytes()),
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    let csp = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(csp));
    response
}

fn format_for(seen: &ClientRequest<'_>) -> RefusalFormat {
    let accepts = |kinds: &[&str]| {
        let lines = seen.headers.get_all(ACCEPT).iter().filter_map(|line| line.to_str().ok());
        let mut words = lines.flat_map(|line| line.split(','));
        words.any(|word| {
            let kind = word.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
            kinds.iter().any(|wanted| kind.ends_with(wanted))
        })
    };
    let is_part = is_asset(seen.path.counted()) || is_api(seen.path.counted());
    if !is_part && seen.method == "GET" && accepts(&["text/html"]) && is_navigation(&seen.headers) {
        RefusalFormat::Page
    } else if accepts(&["/json", "+json"]) {
        RefusalFormat::Json
    } else {
        RefusalFormat::Empty
    }
}

/// Browsers send the fetch mode. Clients that send none are assumed to navigate.
fn is_navigation(headers: &HeaderMap) -> bool {
    const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
    headers.get(SEC_FETCH_MODE).is_none_or(|mode| mode == "navigate")
}

fn is_api(path: &str) -> bool {
    path == "/api" || path.starts_with("/api/")
}

fn is_asset(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let extension = name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
    extension.is_some_and(|extension| ASSETS.contains(&&*extension))
}

#[cfg(test)]
mod tests;
