//! The door of the API: a router behind HTTP.

use axum::Router;
use axum::body::Body;
use axum::http::Response;
use hyper::Request;
use hyper::body::Incoming;
use hyper_util::rt::TokioExecutor;
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;

use crate::logs::trace::Trace;
use crate::net::Stream;
use crate::net::http::{Answers, Caller, HttpBounds, builder, serve};
use crate::net::{ConnectionHandler, Shutdown};
use tidegate_request::Peer;

/// A router behind HTTP.
#[derive(Clone, Debug)]
pub(crate) struct HttpDoor {
    router: ApiRouter,
    http: auto::Builder<TokioExecutor>,
    bounds: HttpBounds,
}

#[derive(Clone, Debug)]
struct ApiRouter(TowerToHyperService<Router>);

impl HttpDoor {
    pub(crate) fn new(router: Router, bounds: HttpBounds) -> Self {
        let mut http = builder(bounds);
        // Answers are small: one buffer and a plain write, instead of two gathered by the kernel.
        http.http1().writev(false);
        Self { router: ApiRouter(TowerToHyperService::new(router)), http, bounds }
    }
}

impl ConnectionHandler for HttpDoor {
    async fn serve(self, stream: Stream, peer: Peer, shutdown: Shutdown) {
        let Self { router, http, bounds } = self;
        serve(&http, bounds, router, stream, peer, shutdown).await;
    }
}

impl Answers for ApiRouter {
    type Body = Body;

    async fn answer(&self, request: Request<Incoming>, caller: &Caller) -> Response<Body> {
        match Trace::from_headers(request.headers()) {
            Some(trace) => trace.around(self.route(request, caller.peer)).await,
            None => self.route(request, caller.peer).await,
        }
    }
}

impl ApiRouter {
    async fn route(&self, request: Request<Incoming>, peer: Peer) -> Response<Body> {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(peer);
        match hyper::service::Service::call(&self.0, request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}

#[cfg(test)]
mod tests;
