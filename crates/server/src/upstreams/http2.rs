//! A connection of HTTP/2 to an upstream: one for all requests, for as long as it lasts. It has a task of its own, since
//! nobody alone waits for it.

use std::error::Error;
use std::time::Duration;

use axum::http::header::{CONNECTION, HOST, TRANSFER_ENCODING, UPGRADE};
use axum::http::uri::{Authority, Scheme};
use axum::http::{Method, Request, Response, Uri, Version};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::sync::Mutex;

use super::connection::{SendError, in_time};
use super::failure::Failure;
use super::upload::Upload;
use crate::net::Stream;

/// How often, and for how long, the upstream is asked whether it is still there.
const PING: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(10));
/// How large an answer's head may be.
const HEAD_BYTES_MAX: u32 = 64 << 10;

type Sender = http2::SendRequest<Upload>;

#[derive(Debug, Default)]
pub(crate) struct SharedConnection {
    /// Locked while somebody connects: the others wait for the same connection.
    sender: Mutex<Option<Sender>>,
}

impl SharedConnection {
    /// The connection that there is, or another one if that has ended.
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
        let shaken = http.handshake(TokioIo::new(connecting.await?)).await;
        let (sender, driver) = shaken.map_err(Failure::broken)?;
        // Ends with the connection, or with the last who could send something over it.
        tokio::spawn(driver);
        Ok(kept.insert(sender).clone())
    }
}

/// Sends a request and waits for the head of its answer, for `timeout` once the request has left.
pub(crate) async fn exchange(
    mut sender: Sender,
    request: Request<Upload>,
    timeout: Duration,
) -> Result<Response<Incoming>, Box<SendError>> {
    let flow = request.body().flow();
    let (head, body) = request.into_parts();
    // It may have to go over another connection, and to somebody who speaks HTTP/1.1.
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

/// Whether the upstream says that it has not looked at a request. hyper says the same of one that meets the upstream's
/// farewell just when it leaves, which may have been looked at: so only of what may be done twice.
fn is_unseen(error: &hyper::Error, method: &Method) -> bool {
    let said = error.source().and_then(|source| source.downcast_ref::<h2::Error>());
    let is_no = |said: &h2::Error| {
        said.is_remote() && (said.is_go_away() || said.reason() == Some(h2::Reason::REFUSED_STREAM))
    };
    method.is_idempotent() && said.is_some_and(is_no)
}

/// As HTTP/2 has it: whom it is meant for is part of the target, and nothing is said between neighbours.
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
