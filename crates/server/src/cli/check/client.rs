//! One HTTP request: connect, ask, read, within one timeout.

use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// For the whole exchange.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Far more than any answer has.
const REPLY_BYTES_MAX: usize = 1 << 20;

/// What came back.
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) body: Bytes,
}

/// Posts JSON to a path below `server`. The error says why there is no reply.
pub(super) async fn post(server: &Uri, path: &str, body: Bytes) -> Result<Reply, String> {
    let done = tokio::time::timeout(TIMEOUT, exchange(server, path, body)).await;
    done.unwrap_or_else(|_| Err(format!("{server} did not answer within {TIMEOUT:?}")))
}

async fn exchange(server: &Uri, path: &str, body: Bytes) -> Result<Reply, String> {
    let host = server.host().unwrap_or_default();
    let address = (host.trim_matches(['[', ']']), server.port_u16().unwrap_or(80));
    let stream = TcpStream::connect(address).await.map_err(|error| {
        format!("cannot reach a server at {server} ({error}). Start one with `tidegate serve`")
    })?;
    let broken = |error: hyper::Error| format!("{server} broke off ({error})");
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    tokio::spawn(connection);
    let request = request(server, path, body)?;
    let response = sender.send_request(request).await.map_err(broken)?;
    let status = response.status().as_u16();
    let body = Limited::new(response.into_body(), REPLY_BYTES_MAX).collect().await;
    let body = body.map_err(|error| format!("{server} broke off ({error})"))?.to_bytes();
    Ok(Reply { status, body })
}

fn request(server: &Uri, path: &str, body: Bytes) -> Result<Request<Full<Bytes>>, String> {
    let base = server.path().trim_end_matches('/');
    Request::post(format!("{base}{path}"))
        .header(HOST, server.authority().map_or("", |authority| authority.as_str()))
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(body))
        .map_err(|error| format!("{server} is no usable URL ({error})"))
}
