//! The API door: a router on top of the shared HTTP server.

use std::sync::Arc;

use http::Response;
use hyper::Request;
use hyper::body::Incoming;

use super::router::{ApiBody, Router, whole};
use super::{Api, routes};
use crate::doors::shared::{DoorContext, ExampleCheck, OpenDoor, Problem};
use crate::net::http::{Answers, Caller, HttpBounds, HttpBuilder, Refusal, builder, serve};
use crate::net::{Client, ConnectionHandler, Shutdown, Stream};
use tidegate_config::{Address, Config};

/// How much of one request over HTTP/2 a client may send before it is read; twice that for all of a connection.
const WINDOW_BYTES: u32 = 64 << 10;

#[derive(Clone)]
pub(crate) struct HttpDoor {
    router: Arc<Router>,
    http: HttpBuilder,
    bounds: HttpBounds,
}

impl HttpDoor {
    fn new(router: Router, bounds: HttpBounds) -> Self {
        let mut http = builder(bounds);
        // Responses are small: one buffer and a plain write are faster than a vectored write.
        http.http1().writev(false);
        // Bodies are small, and what no handler reads stays in these windows.
        http.http2()
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(2 * WINDOW_BYTES);
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
        let check = ExampleCheck::all(config).next().map_or_else(
            || "/v1/policies".to_owned(),
            |check| format!("/v1/check -d '{}'", check.json()),
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
    async fn serve(self, stream: Stream, client: Client, shutdown: Shutdown) {
        let Self { router, http, bounds } = self;
        serve(&http, bounds, router, stream, client, shutdown).await;
    }
}

impl Answers for Arc<Router> {
    type Body = ApiBody;

    fn answer(
        &self,
        request: Request<Incoming>,
        caller: &Caller,
    ) -> impl Future<Output = Response<ApiBody>> + Send {
        self.route(request, caller)
    }

    fn held_bytes(body: &ApiBody) -> usize {
        body.held_bytes()
    }

    fn refuse(&self, why: Refusal) -> Response<ApiBody> {
        whole(Problem::refused(why).into_response())
    }
}

#[cfg(test)]
mod tests;
