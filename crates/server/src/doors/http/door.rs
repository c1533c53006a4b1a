//! The API door: a router on top of the shared HTTP server.

use std::sync::Arc;

use http::Response;
use hyper::Request;
use hyper::body::Incoming;
use hyper_util::rt::TokioExecutor;
use hyper_util::server::conn::auto;

use super::router::{ApiBody, Router};
use super::{Api, routes};
use crate::doors::shared::{DoorContext, OpenDoor, first_policy};
use crate::net::http::{Answers, Caller, HttpBounds, builder, serve};
use crate::net::{ConnectionHandler, Shutdown, Stream};
use tidegate_config::{Address, Config};
use tidegate_request::Peer;

#[derive(Clone)]
pub(crate) struct HttpDoor {
    router: Arc<Router>,
    http: auto::Builder<TokioExecutor>,
    bounds: HttpBounds,
}

impl HttpDoor {
    fn new(router: Router, bounds: HttpBounds) -> Self {
        let mut http = builder(bounds);
        // Responses are small: one buffer and a plain write are faster than a vectored write.
        http.http1().writev(false);
        Self { router: Arc::new(router), http, bounds }
    }
}

impl OpenDoor for HttpDoor {
    const LISTENING: &'static str = "listening";

    fn build(context: &DoorContext<'_>) -> Result<Self, String> {
        let api = Api::new(context.app.clone(), context.feed.clone());
        Ok(Self::new(Router::new(api, routes())?, HttpBounds::default()))
    }

    fn welcome(address: &Address, scheme: &str, config: &Config) -> String {
        // Without a policy there is nothing to check yet.
        let check = first_policy(config).map_or_else(
            || "/v1/policies".to_owned(),
            |policy| format!("/v1/check -d '{{\"policy\":\"{policy}\",\"key\":\"user-42\"}}'"),
        );
        match address {
            Address::Unix(path) => format!(
                "tidegate listens on {address}\n\
                 try it:  curl -s --unix-socket {} http://tidegate{check}\n\
                 Ctrl-C stops it\n",
                path.display()
            ),
            Address::Tcp(addr) => format!(
                "tidegate listens on {scheme}://{addr}\n\
                 try it:  curl -s {scheme}://{addr}{check}\n\
                 or open  {scheme}://{addr}/ in a browser; Ctrl-C stops it\n"
            ),
        }
    }
}

impl ConnectionHandler for HttpDoor {
    async fn serve(self, stream: Stream, peer: Peer, shutdown: Shutdown) {
        let Self { router, http, bounds } = self;
        serve(&http, bounds, router, stream, peer, shutdown).await;
    }
}

impl Answers for Arc<Router> {
    type Body = ApiBody;

    fn answer(
        &self,
        request: Request<Incoming>,
        caller: &Caller,
    ) -> impl Future<Output = Response<ApiBody>> + Send {
        self.route(request, caller.peer)
    }
}

#[cfg(test)]
mod tests;
