//! The way of one request: whom it is meant for and who sends it, whether it may pass, whom it goes to, and what comes
//! back.

mod admission;

use std::sync::Arc;

use axum::body::Bytes;
use axum::http::header::{CONNECTION, HOST, HeaderValue, UPGRADE, VIA};
use axum::http::request::Parts;
use axum::http::{Method, Response, StatusCode};
use hyper::Request;
use hyper::body::{Body, Incoming};
use hyper::upgrade::OnUpgrade;
use tidegate::adaptive::Priority;
use tidegate::{Clock, SystemClock};
use tokio::time::Instant;

use self::admission::{Admitted, admit};
use super::head::{self, Wishes};
use super::problem::problem;
use super::relay::{Guards, Relay};
use super::tunnel::Tunnel;
use super::watch::Watch;
use crate::doors::shared::Problem;
use crate::metrics::Shed;
use crate::net::http::Caller;
use crate::service::AppState;
use crate::upstreams::failure::Failure;
use crate::upstreams::forwarded::Hop;
use crate::upstreams::hops;
use crate::upstreams::link::{Link, Unanswered};
use crate::upstreams::upload::Upload;
use crate::upstreams::upstream::{Answered, Upstream};
use crate::upstreams::{Proxy, RequestSlot};
use tidegate_config::proxy::HostHeader;

/// An answer, and what the connection becomes after it.
pub(super) struct Passed {
    pub(super) response: Response<Relay>,
    pub(super) tunnel: Option<Tunnel>,
}

impl From<Response<Relay>> for Passed {
    fn from(response: Response<Relay>) -> Self {
        Self { response, tunnel: None }
    }
}

impl From<Problem> for Passed {
    fn from(problem: Problem) -> Self {
        problem.whole().map(Relay::own).into()
    }
}

/// Answers a request, from behind or by ourselves.
pub(super) async fn answer(
    app: &Arc<AppState>,
    mut request: Request<Incoming>,
    caller: &Caller,
) -> Passed {
    let client = hyper::upgrade::on(&mut request);
    let in_force = app.in_force();
    // A door without a proxy is not opened.
    let Some(proxy) = in_force.proxy.clone() else {
        return Problem::shed(StatusCode::SERVICE_UNAVAILABLE).into();
    };
    let (mut parts, body) = request.into_parts();
    if hops::is_coded(&parts.headers) {
        return Problem::bad_field("transfer-encoding", "is more than `chunked`").into();
    }
    let wishes = head::strip(&mut parts, !body.is_end_stream());
    let body = Upload::new(body, proxy.settings.times.idle, !wishes.expects);
    let host = match head::host(&parts) {
        Ok(_) if parts.method == Method::CONNECT => {
            return Problem::bad_input("this is no proxy to connect through").into();
        }
        Ok(host) => host,
        Err(problem) => return problem.into(),
    };
    let Some(place) = proxy.enter() else {
        app.metrics().shed(Shed::Requests);
        return admission::shed(&in_force, &proxy, caller.peer, &parts).map(Relay::own).into();
    };
    let admitted = match admit(app, &in_force, &proxy, caller.peer, &parts).await {
        Ok(admitted) => admitted,
        Err(refused) => return (*refused).map(Relay::own).into(),
    };
    // What comes now may take long, and must not keep an old configuration alive.
    drop(in_force);
    let exchange = Exchange { proxy, caller, wishes, host, place };
    exchange.pass(parts, body, admitted, client).await.unwrap_or_else(Passed::from)
}

/// A request that may pass.
struct Exchange<'a> {
    proxy: Arc<Proxy>,
    caller: &'a Caller,
    wishes: Wishes,
    /// None where an old client has not said whom it means.
    host: Option<HeaderValue>,
    place: RequestSlot,
}

impl Exchange<'_> {
    async fn pass(
        self,
        parts: Parts,
        body: Upload,
        admitted: Admitted,
        client: OnUpgrade,
    ) -> Result<Passed, Problem> {
        let (flow, version) = (body.flow(), parts.version);
        let request = self.outbound(parts, body, &admitted);
        let Admitted { watch, path, priority, report, permit, .. } = admitted;
        let ((response, link), mut watch) =
            self.send(request, watch, path.counted(), priority).await?;
        if hops::is_coded(response.headers()) {
            return Err(failed(watch, &Failure::Coded));
        }
        watch.answered(response.status());
        let guards =
            Guards { watch, _place: self.place, _line: self.caller.line.hold(), _permit: permit };
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let wanted = self.wishes.upgrade.as_ref();
            return switched(response, link, wanted, client, guards).await;
        }
        let (mut parts, body) = response.into_parts();
        hops::strip(&mut parts.headers);
        parts.headers.append(VIA, head::via(parts.version));
        parts.extensions.clear();
        parts.version = version;
        if let Some(report) = &report {
            report.write(&mut parts.headers);
        }
        let relay = Relay::pass(body, link, flow.as_deref(), self.proxy, guards);
        Ok(Response::from_parts(parts, relay).into())
    }

    /// Sends a request to whom it was meant for. Where nobody can be connected to, somebody else gets it: each at most
    /// once, and nobody any more after as long as two may take.
    async fn send(
        &self,
        mut request: Request<Upload>,
        mut watch: Watch,
        path: &str,
        priority: Option<Priority>,
    ) -> Result<(Answered, Watch), Problem> {
        let times = self.proxy.settings.times;
        let (began, mut tried) = (Instant::now(), Vec::new());
        loop {
            let Unanswered { why, unsent } = match watch.upstream().send(request, times).await {
                Ok(answered) => return Ok((answered, watch)),
                Err(unanswered) => *unanswered,
            };
            tried.push(watch.upstream().clone());
            let may_go_on = why.is_unreached() && began.elapsed() < 2 * times.connect;
            let next = || self.proxy.choose(&tried, SystemClock.steady_us());
            let (Some(unsent), Some(load)) = (unsent, may_go_on.then(next).flatten()) else {
                return Err(failed(watch, &why));
            };
            let onwards = watch.onwards(&why, load, path, priority);
            watch = onwards.ok_or_else(|| problem(&why))?;
            request = unsent;
            let host = self.host_for(watch.upstream()).clone();
            request.headers_mut().insert(HOST, host);
        }
    }

    /// Whose name an upstream is asked by.
    fn host_for<'a>(&'a self, upstream: &'a Upstream) -> &'a HeaderValue {
        match (self.proxy.settings.host, &self.host) {
            (HostHeader::Preserve, Some(asked)) => asked,
            _ => upstream.target.authority(),
        }
    }

    fn outbound(&self, parts: Parts, body: Upload, admitted: &Admitted) -> Request<Upload> {
        let upstream = admitted.watch.upstream();
        let host = self.host_for(upstream);
        let hop = Hop {
            peer: self.caller.peer,
            is_trusted: admitted.is_trusted,
            is_tls: self.caller.is_tls,
            host: self.host.as_ref().unwrap_or(upstream.target.authority()),
            writes_forwarded: self.proxy.settings.writes_forwarded,
        };
        head::outbound(parts, &admitted.path, &self.wishes, (host.clone(), hop), body)
    }
}

fn failed(watch: Watch, failure: &Failure) -> Problem {
    tracing::debug!(upstream = %watch.upstream().name, ?failure, "no answer");
    watch.failed(failure);
    problem(failure)
}

/// Both have agreed to speak something else, if it is what was asked for.
async fn switched(
    response: Response<Incoming>,
    link: Option<Box<Link>>,
    wanted: Option<&HeaderValue>,
    client: OnUpgrade,
    guards: Guards,
) -> Result<Passed, Problem> {
    let protocol = response.headers().get(UPGRADE).cloned().filter(|_| wanted.is_some());
    let upgraded = match link {
        Some(link) => link.upgraded().await,
        None => None,
    };
    let (Some(protocol), Some((upstream, first))) = (protocol, upgraded) else {
        let detail = "what is behind this proxy switched to a protocol that nobody asked for";
        return Err(Problem::gateway(StatusCode::BAD_GATEWAY, detail));
    };
    let (mut parts, _) = response.into_parts();
    hops::strip(&mut parts.headers);
    parts.headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    parts.headers.insert(UPGRADE, protocol);
    parts.headers.append(VIA, head::via(parts.version));
    parts.extensions.clear();
    let response = Response::from_parts(parts, Relay::own(Bytes::new()));
    Ok(Passed { response, tunnel: Some(Tunnel { client, upstream, first, guards }) })
}
