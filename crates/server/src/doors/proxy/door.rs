//! The door: connections in, as all HTTP doors have them.

use std::sync::{Arc, Mutex, PoisonError};

use axum::http::Response;
use hyper::Request;
use hyper::body::Incoming;
use hyper_util::rt::TokioExecutor;
use hyper_util::server::conn::auto;

use super::relay::Relay;
use super::service;
use super::tunnel::Tunnel;
use crate::logs::trace::Trace;
use crate::net::Stream;
use crate::net::http::HttpBounds;
use crate::net::http::{Answers, Caller, builder, serve};
use crate::net::{ConnectionHandler, Shutdown};
use crate::service::AppState;
use tidegate_request::Peer;

/// The proxy behind HTTP.
#[derive(Clone, Debug)]
pub(crate) struct ProxyDoor {
    app: Arc<AppState>,
    http: auto::Builder<TokioExecutor>,
    bounds: HttpBounds,
}

impl ProxyDoor {
    pub(crate) fn new(app: Arc<AppState>, bounds: HttpBounds) -> Self {
        Self { app, http: builder(bounds), bounds }
    }
}

impl ConnectionHandler for ProxyDoor {
    async fn serve(self, stream: Stream, peer: Peer, shutdown: Shutdown) {
        let Self { app, http, bounds } = self;
        let answers = ProxyAnswers { app, tunnel: Mutex::default() };
        serve(&http, bounds, answers, stream, peer, shutdown).await;
    }
}

/// What the requests of one connection share.
struct ProxyAnswers {
    app: Arc<AppState>,
    /// What the connection is to become when HTTP has ended.
    tunnel: Mutex<Option<Tunnel>>,
}

impl Answers for ProxyAnswers {
    type Body = Relay;

    async fn answer(&self, request: Request<Incoming>, caller: &Caller) -> Response<Relay> {
        let passed = match Trace::from_headers(request.headers()) {
            // In a box, so that those without a trace do not carry its room around.
            Some(trace) => {
                Box::pin(trace.around(service::answer(&self.app, request, caller))).await
            }
            None => service::answer(&self.app, request, caller).await,
        };
        if let Some(tunnel) = passed.tunnel {
            *self.tunnel.lock().unwrap_or_else(PoisonError::into_inner) = Some(tunnel);
        }
        passed.response
    }

    async fn afterwards(&self, shutdown: Shutdown) {
        let tunnel = self.tunnel.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(tunnel) = tunnel {
            tunnel.run(shutdown).await;
        }
    }
}
