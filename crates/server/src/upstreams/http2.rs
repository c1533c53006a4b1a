//! The HTTP/2 connection to an upstream, shared by all requests. It has its own task, because no single request drives it.

use std::error::Error;
use std::time::Duration;

use http::header::{CONNECTION, HOST, TRANSFER_ENCODING, UPGRADE};
use http::uri::{Authority, Scheme};
use http::{Method, Request, Response, Uri, Version};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::sync::Mutex;

use super::connection::{SendError, in_time};
use super::failure::Failure;
use super::upload::Upload;
use crate::net::Stream;

/// Interval and timeout of pings.
const PING: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(10));
/// The head of a response.
const HEAD_BYTES_MAX: u32 = 64 << 10;

type Sender = http2::SendRequest<Upload>;

#[derive(Debug, Default)]
pub(crate) struct SharedConnection {
    /// Locked while a request connects; the others wait for the same connection.
    sender: Mutex<Option<Sender>>,
}

impl SharedConnection {
    /// The open connection, or a new one.
    pub(crate) async fn sender(
        &self,
        connecting: impl Future<Output = Result<Stream, Failure>>,
    ) -> Result<Sender, Failure> {
        let mut kept = self.sender.lock().await;
        if let Some(sender) = kept.as_ref().filter(|sender| !sender.is_closed()) {
            return Ok(sender.clone());
        }
        let mut http = http2::Builder::new(TokioExecutor::new());
        http.timer(TokioTimer::new())
            .max_header_list_size(HEAD_BYTES_MAX)
            .keep_alive_interval(PING.0)
            .keep_alive_timeout(PING.1);
        let handshake = http.handshake(TokioIo::new(connecting.await?)).await;
        let (sender, driver) = handshake.map_err(Failure::broken)?;
        // Ends with the connection, or with its last sender.
        tokio::spawn(driver);
        Ok(kept.insert(sender).clone())
    }
}

/// Sends a request and waits for the head of its response; `timeout` begins when the request is sent.
pub(crate) async fn exchange(
    mut sender: Sender,
    request: Request<Upload>,
    timeout: Duration,
) -> Result<Response<Incoming>, Box<SendError>> {
    let flow = request.body().flow();
    let (head, body) = request.into_parts();
    // For a retry over another connection, or over HTTP/1.1.
    let kept = head.clone();
    let answer = sender.try_send_request(in_http2(Request::from_parts(head, body)));
    let mut error = match in_time(answer, flow.as_deref(), timeout).await? {
        Ok(response) => return Ok(response),
        Err(error) => error,
    };
    let unsent = error.take_message().map(Request::into_body);
    let error = error.into_error();
    let is_whole = || flow.is_none() && is_unseen(&error, &kept.method);
    let unsent = unsent.or_else(|| is_whole().then(Upload::empty));
    let unsent = unsent.map(|body| Request::from_parts(kept, body));
    Err(Box::new(SendError { why: Failure::broken(error), unsent }))
}

/// Whether the upstream reports that it has not processed the request. hyper reports the same if a GOAWAY crosses the
/// request, which may have been processed: so only idempotent methods count.
fn is_unseen(error: &hyper::Error, method: &Method) -> bool {
    let cause = error.source().and_then(|source| source.downcast_ref::<h2::Error>());
    let is_refused = |error: &h2::Error| {
        error.is_remote()
            && (error.is_go_away() || error.reason() == Some(h2::Reason::REFUSED_STREAM))
    };
    method.is_idempotent() && cause.is_some_and(is_refused)
}

/// Rewrites a request for HTTP/2: the host becomes the authority, and there are no connection headers.
fn in_http2(mut request: Request<Upload>) -> Request<Upload> {
    let headers = request.headers_mut();
    let host = headers.remove(HOST);
    for name in [CONNECTION, UPGRADE, TRANSFER_ENCODING] {
        headers.remove(name);
    }
    let authority = host.and_then(|host| Authority::from_maybe_shared(host).ok());
    let mut parts = request.uri().clone().into_parts();
    if authority.is_some() {
        (parts.scheme, parts.authority) = (Some(Scheme::HTTP), authority);
    }
    if let Ok(uri) = Uri::from_parts(parts) {
        *request.uri_mut() = uri;
    }
    *request.version_mut() = Version::HTTP_2;
    request
}
