//! One HTTP request to a running server, over TCP or a Unix socket: connect, ask, read, within one timeout.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::http::uri::Authority;
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

/// For the whole exchange.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Far more than any answer has.
const REPLY_BYTES_MAX: usize = 1 << 20;

/// Where a server listens.
#[derive(Clone, Debug)]
pub(super) enum Place {
    Tcp(Uri),
    Unix(PathBuf),
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:").filter(|path| path.starts_with('/')) {
            return Ok(Self::Unix(path.into()));
        }
        let uri: Option<Uri> = text.parse().ok();
        uri.filter(|uri| uri.scheme_str() == Some("http") && uri.host().is_some())
            .map(Self::Tcp)
            .ok_or_else(|| "expected http://127.0.0.1:8080 or unix:/run/tidegate.sock".to_owned())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(uri) => uri.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// What came back.
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) body: Bytes,
}

/// Gets a path. The error says why there is no reply.
pub(super) fn get(server: &Place, path: &str) -> Result<Reply, String> {
    ask(server, request(server, "GET", path, Bytes::new())?)
}

/// Posts JSON to a path. The error says why there is no reply.
pub(super) fn post(server: &Place, path: &str, body: Bytes) -> Result<Reply, String> {
    ask(server, request(server, "POST", path, body)?)
}

fn ask(server: &Place, request: Request<Full<Bytes>>) -> Result<Reply, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start: {error}"))?;
    runtime.block_on(async {
        let done = tokio::time::timeout(TIMEOUT, reach(server, request)).await;
        done.unwrap_or_else(|_| Err(format!("{server} did not answer within {TIMEOUT:?}")))
    })
}

async fn reach(server: &Place, request: Request<Full<Bytes>>) -> Result<Reply, String> {
    let unreached = |error| {
        format!("cannot reach a server at {server} ({error}). Start one with `tidegate serve`")
    };
    let answered = match server {
        Place::Tcp(uri) => {
            let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
            let address = (host, uri.port_u16().unwrap_or(80));
            exchange(TcpStream::connect(address).await.map_err(unreached)?, request).await
        }
        Place::Unix(path) => {
            exchange(UnixStream::connect(path).await.map_err(unreached)?, request).await
        }
    };
    answered.map_err(|error| format!("{server} broke off ({error})"))
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> Result<Reply, String> {
    let broken = |error: hyper::Error| error.to_string();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    tokio::spawn(connection);
    let response = sender.send_request(request).await.map_err(broken)?;
    let status = response.status().as_u16();
    let body = Limited::new(response.into_body(), REPLY_BYTES_MAX).collect().await;
    let body = body.map_err(|error| error.to_string())?.to_bytes();
    Ok(Reply { status, body })
}

fn request(
    server: &Place,
    method: &str,
    path: &str,
    body: Bytes,
) -> Result<Request<Full<Bytes>>, String> {
    let (base, host) = match server {
        Place::Tcp(uri) => {
            (uri.path().trim_end_matches('/'), uri.authority().map(Authority::as_str))
        }
        Place::Unix(_) => ("", Some("localhost")),
    };
    Request::builder()
        .method(method)
        .uri(format!("{base}{path}"))
        .header(HOST, host.unwrap_or_default())
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(body))
        .map_err(|error| format!("{server} is no usable URL ({error})"))
}
