//! What somebody sees who is refused: a page that counts down for people, a few words for programs that ask for them,
//! and nothing for what only shows up in a page.

use axum::body::Bytes;
use axum::http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, EXPIRES, HeaderName, HeaderValue,
    PRAGMA, RETRY_AFTER,
};
use axum::http::{HeaderMap, Response, StatusCode};

use super::Problem;
use tidegate_request::Seen;

/// Without anything from elsewhere: it has to work where nothing else is let through.
const PAGE: &str = include_str!("refusal/page.html");
/// What in it is replaced by how long to wait, in seconds.
const SECONDS: &str = "{seconds}";
/// For those who will never be let in: without a countdown.
const CLOSED: &str = include_str!("refusal/closed.html");

/// Programs of a page, and what it is made of.
const ASSETS: [&str; 24] = [
    "js", "mjs", "css", "map", "json", "wasm", "png", "jpg", "jpeg", "gif", "webp", "avif", "svg",
    "ico", "bmp", "woff", "woff2", "ttf", "otf", "eot", "mp3", "mp4", "webm", "ogg",
];

/// What the sender of a request can make use of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wanted {
    Page,
    Json,
    Nothing,
}

/// Writes a refusal: `told` are the headers that tell when to come back. The status is that of the problem.
pub(crate) fn response(seen: &Seen<'_>, problem: Problem, told: HeaderMap) -> Response<Bytes> {
    let mut response = match wanted(seen) {
        Wanted::Json => problem.whole(),
        Wanted::Nothing => empty(problem.status()),
        Wanted::Page => page(problem.status(), told.get(RETRY_AFTER)),
    };
    let headers = response.headers_mut();
    headers.extend(told);
    // Nobody else is to be shown it, and nobody later.
    let fresh = "no-store, no-cache, must-revalidate, max-age=0";
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(fresh));
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
        Some(seconds) => PAGE.replace(SECONDS, seconds).into(),
        None => Bytes::from_static(CLOSED.as_bytes()),
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    let own = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(own));
    response
}

fn wanted(seen: &Seen<'_>) -> Wanted {
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
        Wanted::Page
    } else if accepts(&["/json", "+json"]) {
        Wanted::Json
    } else {
        Wanted::Nothing
    }
}

/// Browsers say whether somebody looks at the answer; who does not say is believed.
fn is_navigation(headers: &HeaderMap) -> bool {
    const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
    headers.get(SEC_FETCH_MODE).is_none_or(|mode| mode == "navigate")
}

fn is_api(path: &str) -> bool {
    path == "/api" || path.starts_with("/api/")
}

fn is_asset(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let shutdown = name.rsplit_once('.').map(|(_, shutdown)| shutdown.to_ascii_lowercase());
    shutdown.is_some_and(|shutdown| ASSETS.contains(&&*shutdown))
}

#[cfg(test)]
mod tests;
