//! Forward-auth: a proxy asks whether a request may pass. The answer is a status and headers.
//!
//! Only the head of the request is used. Its body is meant for the proxy's upstream, and may never arrive.

use http::header::{CONNECTION, HeaderName, HeaderValue};
use http::request::Parts;
use http::{HeaderMap, Response, StatusCode, Version};
use hyper::body::Bytes;
use tidegate::Op;

use super::shared::Problem;
use super::shared::refusal::{self, Cause, Why};
use crate::metrics::Door;
use crate::service::{AppState, InForce, Question, RefusalRules, SeenRequest, Unanswered, headers};
use tidegate_request::{ClientRequest, Peer, TargetHeader};

/// The status of a refusal, also if the proxy requests another one.
const STATUS: HeaderName = HeaderName::from_static("x-tidegate-status");

/// Decides by the routes, or by one policy if the path names it.
pub(crate) async fn answer(
    app: &AppState,
    peer: Peer,
    policy: Option<&str>,
    request: &Parts,
    has_body: bool,
) -> Response<Bytes> {
    let mut response =
        decide(app, peer, policy, request).await.unwrap_or_else(Problem::into_response);
    // The body stays unread, so the next bytes on the connection could be mistaken for a request.
    if has_body && request.version < Version::HTTP_2 {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

async fn decide(
    app: &AppState,
    peer: Peer,
    policy: Option<&str>,
    request: &Parts,
) -> Result<Response<Bytes>, Problem> {
    let in_force = app.in_force();
    // Counted as a check over HTTP.
    let call = app.call(&in_force, Door::Http);
    let settings = &in_force.http;
    let denied = deny_status(request.uri.query().unwrap_or_default())?;
    warn_untrusted_proxy(app, &in_force, peer, request);
    let target = if policy.is_none() { TargetHeader::Required } else { TargetHeader::Optional };
    let seen = ClientRequest::forwarded(&settings.client_ip, peer, request, target)?;
    app.service().events().uncounted_proxies(&seen, peer);
    let seen = settings.identified(seen);
    let Some(found) = call.find(&seen, policy)? else {
        return Ok(Response::default()); // nothing limits it
    };
    let policy = call.routed(&found)?;
    let named = found.key.named();
    let key = found.key.key(&named);
    let question = Question::new(policy, key, found.cost, Op::Take);
    let answer = call.check(&question.about(SeenRequest::new(&seen, &found))).await?;
    let answer = Unanswered::unless_decided(answer)?;
    let mut response_headers = HeaderMap::new();
    headers::add(&mut response_headers, settings.headers, &answer, policy.labels(), call.began());
    if answer.decision.allowed() {
        let mut response = Response::default();
        *response.headers_mut() = response_headers;
        return Ok(response);
    }
    let status = policy.refusal_status(key);
    response_headers.insert(STATUS, HeaderValue::from(status.as_u16()));
    // The proxy may request another status than the policy's.
    let denied = if denied == StatusCode::TOO_MANY_REQUESTS { status } else { denied };
    let cause = Cause::of(&question, Some(found.by), answer.binding);
    let (rules, id) = (&RefusalRules::default(), None);
    let why = Why { rules, cause, policy: answer.policy, id };
    Ok(refusal::response(&seen, Problem::limited(denied, &answer), why, response_headers))
}

/// The status for refusals. Some proxies append the client's query string, so only refusal statuses are accepted.
fn deny_status(query: &str) -> Result<StatusCode, Problem> {
    let given = query.split('&').find_map(|pair| pair.strip_prefix("deny_status="));
    match given {
        None | Some("429") => Ok(StatusCode::TOO_MANY_REQUESTS),
        Some("403") => Ok(StatusCode::FORBIDDEN),
        Some("401") => Ok(StatusCode::UNAUTHORIZED),
        Some(_) => Err(Problem::bad_field("deny_status", "is not 401, 403 or 429")),
    }
}

/// `X-Forwarded-For` from an untrusted peer is ignored: the operator should know.
fn warn_untrusted_proxy(app: &AppState, in_force: &InForce, peer: Peer, request: &Parts) {
    let Peer::Ip(ip) = peer else { return };
    if request.headers.contains_key("x-forwarded-for") && !in_force.http.client_ip.trusts(ip) {
        app.service().events().untrusted_proxy(ip);
    }
}
