//! The response to a refused request: a page with a countdown for people, JSON for programs that accept it, and an
//! empty body for assets and all others.

mod page;

use std::time::Duration;

use http::header::{ACCEPT, CACHE_CONTROL, EXPIRES, HeaderName, HeaderValue, PRAGMA, RETRY_AFTER};
use http::{HeaderMap, Response, StatusCode};
use hyper::body::Bytes;

use super::Problem;
use crate::logs::{REQUEST_ID, RequestId};
use crate::service::{Question, RefusalRules, Values};
use tidegate::tower::write_retry_after;
use tidegate_request::{ClientRequest, CountedBy, Resource};

/// How soon the page about a site that does not answer reloads, unless the problem says when. As `Retry-After`, it is
/// randomly extended.
const UNREACHABLE_RETRY: Duration = Duration::from_secs(10);

/// The body of a refusal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RefusalFormat {
    Page,
    Json,
    Empty,
}

/// Who has asked for too much.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cause {
    /// The client, by a limit of its own.
    Client,
    /// All clients together, or the load has reduced a limit.
    Site,
}

/// A refusal: what the client gets, and why.
#[derive(Clone, Copy)]
pub(crate) struct Why<'a> {
    pub(crate) rules: &'a RefusalRules,
    pub(crate) cause: Cause,
    /// The policy that refused it; empty if none did.
    pub(crate) policy: &'a str,
    /// The id that the log has of the request, if it has one.
    pub(crate) id: Option<RequestId<&'a str>>,
}

impl Cause {
    /// Why a policy refused: by the limit that it names, and what that counts by.
    pub(crate) fn of(question: &Question<'_, '_>, by: Option<&CountedBy>, binding: &str) -> Self {
        let policy = &question.policy;
        let mut members = policy.members();
        let member = members.find(|it| it.name == binding || it.name.is_empty());
        let identifier = member.and_then(|member| member.key.as_deref());
        let is_own = by.is_none_or(|by| by.is_of_client(identifier));
        let is_reduced = policy.shed_status(question.key).is_some();
        if is_own && !is_reduced { Self::Client } else { Self::Site }
    }
}

/// Builds a refusal with the status of the problem and these headers.
pub(crate) fn response(
    seen: &ClientRequest<'_>,
    problem: Problem,
    why: Why<'_>,
    extra_headers: HeaderMap,
) -> Response<Bytes> {
    let format = format_for(seen, why.rules);
    let id = why.id.or_else(|| names_id(format, why.rules).then(|| RequestId::of(&seen.headers)));
    response_in(format, problem, Why { id, ..why }, extra_headers)
}

/// The same for a request of which only this is left. It needs an id if its refusal [names one](names_id).
pub(crate) fn response_in(
    format: RefusalFormat,
    problem: Problem,
    why: Why<'_>,
    extra_headers: HeaderMap,
) -> Response<Bytes> {
    let mut response = match format {
        RefusalFormat::Json => problem.into_response(),
        RefusalFormat::Empty => empty(problem.status()),
        RefusalFormat::Page => {
            let seconds = seconds(&extra_headers);
            // A page that says when to come back, and may do so by itself, is not for who is blocked.
            let own = seconds.and_then(|seconds| own_page(problem.status(), why, seconds));
            own.unwrap_or_else(|| {
                let text = match (seconds, why.cause) {
                    (None, _) => page::BLOCKED,
                    (Some(_), Cause::Client) => page::LIMITED,
                    (Some(_), Cause::Site) => page::OVERLOADED,
                };
                page::response(problem.status(), text, seconds)
            })
        }
    };
    response.headers_mut().extend(extra_headers);
    never_cached(response)
}

/// Whether a refusal names the id of its request: by a page of the operator.
pub(crate) fn names_id(format: RefusalFormat, rules: &RefusalRules) -> bool {
    format == RefusalFormat::Page && rules.has_page()
}

/// The page of the operator, with an id by which a person who asks can be helped.
fn own_page(status: StatusCode, why: Why<'_>, seconds: u64) -> Option<Response<Bytes>> {
    let id = why.id?.to_string();
    let retry_after = &*seconds.to_string();
    let values = Values { retry_after, policy: why.policy, request_id: &id };
    let mut response = page::html(status, why.rules.page(&values)?);
    if let Ok(id) = HeaderValue::try_from(id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    Some(response)
}

/// Builds the response to a request that the upstream did not answer, or the store: a page for people, the problem for
/// all others.
pub(crate) fn unreachable(format: RefusalFormat, problem: Problem) -> Response<Bytes> {
    if !problem.status().is_server_error() {
        return problem.into_response();
    }
    let mut retry_after = HeaderMap::new();
    write_retry_after(&mut retry_after, problem.retry_after().or(Some(UNREACHABLE_RETRY)));
    let mut response = match format {
        RefusalFormat::Page => {
            page::response(problem.status(), page::UNREACHABLE, seconds(&retry_after))
        }
        RefusalFormat::Json | RefusalFormat::Empty => problem.into_response(),
    };
    response.headers_mut().extend(retry_after);
    never_cached(response)
}

fn seconds(headers: &HeaderMap) -> Option<u64> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()
}

fn never_cached(mut response: Response<Bytes>) -> Response<Bytes> {
    let headers = response.headers_mut();
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

/// The format that a client can read: by its path, its method and what it accepts.
pub(crate) fn format_for(seen: &ClientRequest<'_>, rules: &RefusalRules) -> RefusalFormat {
    if rules.is_api(seen.path.counted()) {
        return RefusalFormat::Json;
    }
    let (html, json) =
        (accepted(&seen.headers, &["text/html"]), accepted(&seen.headers, &["/json", "+json"]));
    let is_document = rules.resource(seen.path.counted()) == Resource::Document;
    if is_document
        && seen.method == "GET"
        && html > 0.0
        && html >= json
        && is_navigation(&seen.headers)
    {
        RefusalFormat::Page
    } else if json > 0.0 {
        RefusalFormat::Json
    } else {
        RefusalFormat::Empty
    }
}

/// How much a client wants one of these kinds: the highest quality that it gives one of them, 1 where it gives none.
fn accepted(headers: &HeaderMap, kinds: &[&str]) -> f32 {
    let lines = headers.get_all(ACCEPT).iter().filter_map(|line| line.to_str().ok());
    let quality = |word: &str| {
        let mut parts = word.split(';').map(|part| part.trim().to_ascii_lowercase());
        let kind = parts.next()?;
        kinds.iter().any(|wanted| kind.ends_with(wanted)).then_some(())?;
        let given = parts.find_map(|part| part.strip_prefix("q=").map(str::parse::<f32>));
        Some(given.map_or(1.0, |quality| quality.unwrap_or(1.0)))
    };
    lines.flat_map(|line| line.split(',')).filter_map(quality).fold(0.0, f32::max)
}

/// Browsers send the fetch mode and what it is for. Clients that send none are assumed to navigate.
fn is_navigation(headers: &HeaderMap) -> bool {
    const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
    const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
    let is_page = |dest: &HeaderValue| ["document", "iframe", "frame"].iter().any(|it| dest == it);
    headers.get(SEC_FETCH_MODE).is_none_or(|mode| mode == "navigate")
        && headers.get(SEC_FETCH_DEST).is_none_or(is_page)
}

#[cfg(test)]
mod tests;
