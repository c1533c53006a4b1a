//! Handles one request: admission, choice of the upstream, forwarding, response.

mod admission;
mod charge;

use std::sync::Arc;

use http::header::{CONNECTION, HOST, HeaderValue, UPGRADE, VIA};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use hyper::Request;
use hyper::body::Bytes;
use hyper::body::{Body, Incoming};
use hyper::upgrade::OnUpgrade;
use tidegate::adaptive::Priority;
use tidegate::{Clock, SystemClock};
use tokio::time::Instant;

use self::admission::{Admitted, admit};
use super::head::{self, HopHeaders};
use super::response_body::{RequestGuards, ResponseBody};
use super::tracker::RequestTracker;
use super::tunnel::Tunnel;
use crate::doors::shared::{Problem, refusal};
use crate::logs::RequestId;
use crate::metrics::Shed;
use crate::net::http::{Caller, check_coding};
use crate::service::AppState;
use crate::upstreams::connection::{SendError, UpstreamConnection};
use crate::upstreams::failure::Failure;
use crate::upstreams::forwarded::Hop;
use crate::upstreams::in_flight::Passage;
use crate::upstreams::upload::Upload;
use crate::upstreams::upstream::{Answered, Upstream};
use crate::upstreams::{RequestSlot, Upstreams, hops};
use tidegate_config::proxy::HostHeader;

/// A response, and the tunnel that follows it after an upgrade.
pub(super) struct ProxyResponse {
    pub(super) response: Response<ResponseBody>,
    pub(super) tunnel: Option<Tunnel>,
}

impl From<Response<ResponseBody>> for ProxyResponse {
    fn from(response: Response<ResponseBody>) -> Self {
        Self { response, tunnel: None }
    }
}

impl From<Problem> for ProxyResponse {
    fn from(problem: Problem) -> Self {
        problem.into_response().map(ResponseBody::local).into()
    }
}

/// Forwards a request, or answers it locally with an error.
pub(super) async fn answer(
    app: &Arc<AppState>,
    mut request: Request<Incoming>,
    caller: &Caller,
) -> ProxyResponse {
    let client = hyper::upgrade::on(&mut request);
    let in_force = app.in_force();
    // Cannot happen: the door opens only with a proxy configured.
    let Some(proxy) = in_force.proxy.clone() else {
        return Problem::shed(StatusCode::SERVICE_UNAVAILABLE).into();
    };
    let (mut parts, body) = request.into_parts();
    let hop_headers = head::strip(&mut parts, !body.is_end_stream());
    let mut body = Upload::new(body, proxy.settings.times.idle, !hop_headers.expects_continue);
    let host = match head::host(&parts) {
        Ok(_) if parts.method == Method::CONNECT => {
            return Problem::bad_input("CONNECT is not supported").into();
        }
        Ok(host) => host,
        Err(problem) => return problem.into(),
    };
    if head::came_back(&parts.headers) {
        let upstreams: Vec<&str> = proxy.upstreams().iter().map(|it| &*it.name).collect();
        app.service().came_back(&upstreams.join(", "));
        let detail = "the request came back to this proxy: its upstream leads to the proxy itself";
        return Problem::gateway(StatusCode::LOOP_DETECTED, detail).into();
    }
    let Some(slot) = proxy.enter() else {
        app.metrics().shed(Shed::Requests);
        return admission::shed(&in_force, &proxy, caller.client.peer, &parts)
            .map(ResponseBody::local)
            .into();
    };
    let head = (&parts, &mut body);
    let mut admitted = match admit(app, &in_force, &proxy, &caller.client, head).await {
        Ok(admitted) => admitted,
        Err(refused) => return (*refused).map(ResponseBody::local).into(),
    };
    // Forwarding may take long and must not keep an old configuration alive.
    drop(in_force);
    let shed_status = proxy.settings.shed_status;
    let exchange = Exchange { proxy, caller, hop_headers, host, slot };
    let (format, id, charge) = (admitted.format, admitted.id.take(), admitted.charge.take());
    match exchange.forward(parts, body, admitted, client).await {
        Ok(answered) => answered,
        Err(unanswered) => {
            if let Some(charge) = charge.filter(|_| unanswered.is_refunded()) {
                charge.refund(app).await;
            }
            let response = match unanswered {
                Unanswered::PlaceLost => {
                    app.metrics().shed(Shed::Places);
                    let id = id.as_ref().map(RequestId::borrowed);
                    admission::place_lost(&app.in_force(), shed_status, format, id)
                }
                Unanswered::Failed { problem, .. } => refusal::unreachable(format, problem),
            };
            response.map(ResponseBody::local).into()
        }
    }
}

/// A request that got no response from an upstream.
enum Unanswered {
    /// It was not sent, since its place among those at the upstreams was lost.
    PlaceLost,
    Failed {
        problem: Problem,
        /// Whether no upstream was connected to.
        is_unreached: bool,
    },
}

impl Unanswered {
    /// Whether no upstream has done anything for it.
    fn is_refunded(&self) -> bool {
        matches!(self, Self::PlaceLost | Self::Failed { is_unreached: true, .. })
    }
}

impl From<Problem> for Unanswered {
    fn from(problem: Problem) -> Self {
        Self::Failed { problem, is_unreached: false }
    }
}

/// An admitted request.
struct Exchange<'a> {
    proxy: Arc<Upstreams>,
    caller: &'a Caller,
    hop_headers: HopHeaders,
    /// `None` for HTTP/1.0 without a `Host` header.
    host: Option<HeaderValue>,
    slot: RequestSlot,
}

impl Exchange<'_> {
    async fn forward(
        self,
        parts: Parts,
        body: Upload,
        admitted: Admitted,
        client: OnUpgrade,
    ) -> Result<ProxyResponse, Unanswered> {
        let (flow, version) = (body.flow(), parts.version);
        let request = self.outbound(parts, body, &admitted);
        let Admitted {
            tracker, path, case, priority, report, permit, passage, client_slot, ..
        } = admitted;
        let may_send = || passage.as_ref().is_none_or(Passage::may_send);
        let ((response, link), mut tracker) =
            self.send(request, tracker, &path.counted_in(case), priority, may_send).await?;
        if check_coding(response.headers()).is_err() {
            return Err(failed(tracker, &Failure::UnknownCoding));
        }
        tracker.answered(response.status());
        let guards = RequestGuards {
            tracker,
            _slot: self.slot,
            _activity: self.caller.activity.hold(),
            _permit: permit,
            _passage: passage,
            _client_slot: client_slot,
        };
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let is_requested = self.hop_headers.wants_websocket;
            let switched = switch_protocols(response, link, is_requested, client, guards).await;
            return switched.map_err(Unanswered::from);
        }
        let (mut parts, body) = response.into_parts();
        hops::strip(&mut parts.headers);
        parts.headers.append(VIA, head::via(parts.version));
        parts.extensions.clear();
        parts.version = version;
        if let Some(report) = &report {
            report.write(&mut parts.headers);
        }
        let body = ResponseBody::upstream(body, link, flow.as_deref(), self.proxy, guards);
        Ok(Response::from_parts(parts, body).into())
    }

    /// Sends the request to its upstream. If the connect fails, tries the others, each at most once, for at most twice
    /// the connect timeout.
    async fn send(
        &self,
        mut request: Request<Upload>,
        mut tracker: RequestTracker,
        path: &str,
        priority: Option<Priority>,
        may_send: impl Fn() -> bool,
    ) -> Result<(Answered, RequestTracker), Unanswered> {
        let times = self.proxy.settings.times;
        let (began, mut tried) = (Instant::now(), Vec::new());
        loop {
            let SendError { why, unsent } =
                match tracker.upstream().send(request, times, &may_send).await {
                    Ok(answered) => return Ok((answered, tracker)),
                    Err(unanswered) => *unanswered,
                };
            tried.push(tracker.upstream().clone());
            let may_go_on = why.is_unreached() && began.elapsed() < 2 * times.connect;
            let next = || self.proxy.choose(&tried, SystemClock.steady_us());
            let (Some(unsent), Some(load)) = (unsent, may_go_on.then(next).flatten()) else {
                return Err(failed(tracker, &why));
            };
            let retried = tracker.retry_on(&why, load, path, priority);
            tracker = retried.ok_or_else(|| unanswered(&why))?;
            request = unsent;
            let host = self.host_for(tracker.upstream()).clone();
            request.headers_mut().insert(HOST, host);
        }
    }

    /// The `Host` header for an upstream.
    fn host_for<'a>(&'a self, upstream: &'a Upstream) -> &'a HeaderValue {
        match (self.proxy.settings.host, &self.host) {
            (HostHeader::Preserve, Some(requested)) => requested,
            _ => upstream.target.authority(),
        }
    }

    fn outbound(&self, parts: Parts, body: Upload, admitted: &Admitted) -> Request<Upload> {
        let upstream = admitted.tracker.upstream();
        let host = self.host_for(upstream);
        let hop = Hop {
            peer: self.caller.client.peer,
            is_trusted: admitted.is_trusted,
            is_tls: self.caller.is_tls,
            host: self.host.as_ref().unwrap_or(upstream.target.authority()),
            writes_forwarded: self.proxy.settings.writes_forwarded,
        };
        head::outbound(parts, &admitted.path, &self.hop_headers, (host.clone(), hop), body)
    }
}

fn failed(tracker: RequestTracker, failure: &Failure) -> Unanswered {
    tracing::debug!(upstream = %tracker.upstream().name, ?failure, "upstream request failed");
    tracker.failed(failure);
    unanswered(failure)
}

fn unanswered(failure: &Failure) -> Unanswered {
    let is_unreached = failure.is_unreached();
    let failed = |problem| Unanswered::Failed { problem, is_unreached };
    gateway_problem(failure).map_or(Unanswered::PlaceLost, failed)
}

/// Upgrades the connection, if the client has requested it and the upstream has switched to what was requested.
async fn switch_protocols(
    response: Response<Incoming>,
    link: Option<Box<UpstreamConnection>>,
    is_requested: bool,
    client: OnUpgrade,
    guards: RequestGuards,
) -> Result<ProxyResponse, Problem> {
    let is_agreed = is_requested && hops::is_websocket(response.headers());
    let upgraded = match link {
        Some(link) => link.upgraded().await,
        None => None,
    };
    let Some((upstream, early_bytes)) = upgraded.filter(|_| is_agreed) else {
        let detail = "the upstream switched to a protocol that the client did not request";
        return Err(Problem::gateway(StatusCode::BAD_GATEWAY, detail));
    };
    let (mut parts, _) = response.into_parts();
    hops::strip(&mut parts.headers);
    parts.headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    parts.headers.insert(UPGRADE, hops::WEBSOCKET);
    parts.headers.append(VIA, head::via(parts.version));
    parts.extensions.clear();
    let response = Response::from_parts(parts, ResponseBody::local(Bytes::new()));
    Ok(ProxyResponse { response, tunnel: Some(Tunnel { client, upstream, early_bytes, guards }) })
}

/// The error response for a request that could not be forwarded; `None` for a refusal. The detail does not name the
/// upstream's address.
fn gateway_problem(failure: &Failure) -> Option<Problem> {
    let (bad_gateway, timeout) = (StatusCode::BAD_GATEWAY, StatusCode::GATEWAY_TIMEOUT);
    let (status, detail) = match failure {
        Failure::ConnectFailed(error) => {
            let detail = format!("the upstream cannot be connected to: {}", error.kind());
            return Some(Problem::gateway(bad_gateway, &detail));
        }
        Failure::ConnectTimeout => (timeout, "the upstream did not accept the connection in time"),
        Failure::ResponseTimeout => (timeout, "the upstream did not answer in time"),
        Failure::Closed => (bad_gateway, "the upstream closed the connection without an answer"),
        Failure::Broken(error) if error.is_parse() => {
            (bad_gateway, "the upstream did not answer in HTTP")
        }
        Failure::Broken(_) => (bad_gateway, "the connection to the upstream broke"),
        Failure::UnknownCoding => {
            (bad_gateway, "the upstream answered in a transfer coding other than `chunked`")
        }
        Failure::PlaceLost => return None,
        Failure::ClientPaused => return Some(Problem::body_paused()),
        Failure::ClientGone => return Some(Problem::body_broken()),
    };
    Some(Problem::gateway(status, detail))
}
