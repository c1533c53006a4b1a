//! The door of the API: a router behind HTTP, and one path that goes past it.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{Method, Response};
use http_body_util::{Either, Full};
use hyper::Request;
use hyper::body::Incoming;
use hyper_util::rt::TokioExecutor;
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;

use super::connection::{Answers, Caller, HttpBounds, builder, serve};
use super::express;
use crate::gate::Gate;
use crate::listen::{Peer, Stream};
use crate::logs::trace::Trace;
use crate::server::{Door, Ending};

/// A router behind HTTP.
#[derive(Clone, Debug)]
pub(crate) struct HttpDoor {
    api: ApiAnswers,
    http: auto::Builder<TokioExecutor>,
    bounds: HttpBounds,
}

#[derive(Clone, Debug)]
struct ApiAnswers {
    router: TowerToHyperService<Router>,
    /// For the one path that is too hot for a router.
    checks: Option<Arc<Gate>>,
}

impl HttpDoor {
    pub(crate) fn new(router: Router, bounds: HttpBounds) -> Self {
        let mut http = builder(bounds);
        // Answers are small: one buffer and a plain write, instead of two gathered by the kernel.
        http.http1().writev(false);
        let api = ApiAnswers { router: TowerToHyperService::new(router), checks: None };
        Self { api, http, bounds }
    }

    /// Answers `POST /v1/check` itself, past the router, which costs as much as the check.
    pub(crate) fn with_checks(mut self, gate: Arc<Gate>) -> Self {
        self.api.checks = Some(gate);
        self
    }
}

impl Door for HttpDoor {
    async fn serve(self, mut stream: Stream, peer: Peer, ending: Ending) {
        let Self { api, http, bounds } = self;
        let unread = match &api.checks {
            Some(gate) => express::serve(&mut stream, gate, &ending, bounds).await,
            None => Some(Vec::new()),
        };
        let Some(unread) = unread else { return };
        serve(&http, bounds, api, (stream, unread), peer, ending).await;
    }
}

impl Answers for ApiAnswers {
    type Body = Either<Full<Bytes>, Body>;

    async fn answer(&self, request: Request<Incoming>, caller: &Caller) -> Response<Self::Body> {
        match Trace::of(request.headers()) {
            Some(trace) => trace.around(self.reached(request, caller.peer)).await,
            None => self.reached(request, caller.peer).await,
        }
    }
}

impl ApiAnswers {
    async fn reached(
        &self,
        request: Request<Incoming>,
        peer: Peer,
    ) -> Response<Either<Full<Bytes>, Body>> {
        match &self.checks {
            Some(gate) if is_check(&request) => {
                let answer = super::check_now(gate, request.into_body()).await;
                answer.map(|body| Either::Left(Full::new(body)))
            }
            _ => self.routed(request, peer).await.map(Either::Right),
        }
    }

    async fn routed(&self, request: Request<Incoming>, peer: Peer) -> Response<Body> {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(peer);
        match hyper::service::Service::call(&self.router, request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}

fn is_check(request: &Request<Incoming>) -> bool {
    request.uri().path() == "/v1/check" && request.method() == Method::POST
}
