//! The proxy door on top of the shared HTTP server.

use std::sync::{Arc, Mutex, PoisonError};

use http::Response;
use hyper::Request;
use hyper::body::Incoming;

use super::response_body::ResponseBody;
use super::service;
use super::tunnel::Tunnel;
use crate::doors::shared::{DoorContext, OpenDoor, Problem};
use crate::logs::trace::Trace;
use crate::net::http::{Answers, Caller, HttpBounds, HttpBuilder, Refusal, builder, serve};
use crate::net::{Client, ConnectionHandler, Shutdown, Stream};
use crate::service::AppState;
use tidegate_config::{Address, Config};

#[derive(Clone, Debug)]
pub(crate) struct ProxyDoor {
    app: Arc<AppState>,
    http: HttpBuilder,
    bounds: HttpBounds,
}

impl ProxyDoor {
    pub(crate) fn new(app: Arc<AppState>, bounds: HttpBounds) -> Self {
        Self { app, http: builder(bounds), bounds }
    }
}

impl OpenDoor for ProxyDoor {
    const LISTENING: &'static str = "listening for requests to pass on";

    fn build(context: &DoorContext<'_>) -> Result<Self, String> {
        Ok(Self::new(context.app.clone(), HttpBounds::default()))
    }

    fn welcome(address: &Address, scheme: &str, config: &Config) -> String {
        let upstreams = config.proxy.iter().flat_map(|settings| &settings.upstreams);
        let upstreams: Vec<_> = upstreams.map(ToString::to_string).collect();
        let from = match address {
            Address::Unix(_) => address.to_string(),
            Address::Tcp(addr) => format!("{scheme}://{addr}"),
        };
        format!("tidegate passes requests on from {from} to {}\n", upstreams.join(", "))
    }
}

impl ConnectionHandler for ProxyDoor {
    async fn serve(self, stream: Stream, client: Client, shutdown: Shutdown) {
        let Self { app, http, bounds } = self;
        let answers = ProxyAnswers { app, tunnel: Mutex::default() };
        serve(&http, bounds, answers, stream, client, shutdown).await;
    }
}

/// State shared by the requests of one connection.
struct ProxyAnswers {
    app: Arc<AppState>,
    /// Set when a request has upgraded the connection.
    tunnel: Mutex<Option<Tunnel>>,
}

impl Answers for ProxyAnswers {
    type Body = ResponseBody;
    const MAY_UPGRADE: bool = true;

    async fn answer(&self, request: Request<Incoming>, caller: &Caller) -> Response<ResponseBody> {
        let answered = match Trace::from_headers(request.headers()) {
            // Boxed, so that requests without a trace do not pay for its size.
            Some(trace) => {
                Box::pin(trace.around(service::answer(&self.app, request, caller))).await
            }
            None => service::answer(&self.app, request, caller).await,
        };
        if let Some(tunnel) = answered.tunnel {
            *self.tunnel.lock().unwrap_or_else(PoisonError::into_inner) = Some(tunnel);
        }
        answered.response
    }

    fn held_bytes(body: &ResponseBody) -> usize {
        body.held_bytes()
    }

    fn refuse(&self, why: Refusal) -> Response<ResponseBody> {
        Problem::refused(why).into_response().map(ResponseBody::local)
    }

    async fn afterwards(&self, shutdown: Shutdown) {
        let tunnel = self.tunnel.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(tunnel) = tunnel {
            tunnel.run(shutdown).await;
        }
    }
}
