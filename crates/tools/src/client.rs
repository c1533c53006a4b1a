//! One HTTP request to a running server, over TCP or a Unix socket, within one timeout.

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

use crate::failure::{Failure, block_on};

/// For the whole exchange.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Far more than any reply has.
const REPLY_BYTES_MAX: usize = 1 << 20;

/// Where a server listens.
#[derive(Clone, Debug)]
pub(super) enum ServerAddress {
    Tcp(Uri),
    Unix(PathBuf),
}

impl FromStr for ServerAddress {
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

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(uri) => uri.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A connection of either kind. Boxed, so that the HTTP client is compiled only once.
pub(super) type Stream = Box<dyn Duplex>;

pub(super) trait Duplex: AsyncRead + AsyncWrite + Unpin + Send + fmt::Debug {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send + fmt::Debug> Duplex for T {}

pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) body: Bytes,
}

pub(super) fn get(server: &ServerAddress, path: &str) -> Result<Reply, Failure> {
    send(server, "GET", path, Bytes::new())
}

/// Posts JSON.
pub(super) fn post(server: &ServerAddress, path: &str, body: Bytes) -> Result<Reply, Failure> {
    send(server, "POST", path, body)
}

fn send(server: &ServerAddress, method: &str, path: &str, body: Bytes) -> Result<Reply, Failure> {
    let request = request(server, method, path, body)?;
    block_on(async {
        let done = tokio::time::timeout(TIMEOUT, exchange(server, request)).await;
        let late = |_| Err(format!("{server} did not answer within {TIMEOUT:?}"));
        done.unwrap_or_else(late).map_err(Failure::new)
    })
}

async fn exchange(server: &ServerAddress, request: Request<Full<Bytes>>) -> Result<Reply, String> {
    let stream = connect(server).await.map_err(|error| {
        format!("cannot reach a server at {server} ({error}). Start one with `tidegate serve`")
    })?;
    let broken = |error: &dyn fmt::Display| format!("{server} broke off ({error})");
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| broken(&error))?;
    tokio::spawn(connection);
    let response = sender.send_request(request).await.map_err(|error| broken(&error))?;
    let status = response.status().as_u16();
    let body = Limited::new(response.into_body(), REPLY_BYTES_MAX).collect().await;
    Ok(Reply { status, body: body.map_err(|error| broken(&error))?.to_bytes() })
}

async fn connect(server: &ServerAddress) -> std::io::Result<Stream> {
    Ok(match server {
        ServerAddress::Tcp(uri) => {
            let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
            Box::new(TcpStream::connect((host, uri.port_u16().unwrap_or(80))).await?)
        }
        ServerAddress::Unix(path) => Box::new(UnixStream::connect(path).await?),
    })
}

fn request(
    server: &ServerAddress,
    method: &str,
    path: &str,
    body: Bytes,
) -> Result<Request<Full<Bytes>>, Failure> {
    let (base, host) = match server {
        ServerAddress::Tcp(uri) => {
            (uri.path().trim_end_matches('/'), uri.authority().map(Authority::as_str))
        }
        ServerAddress::Unix(_) => ("", Some("localhost")),
    };
    Request::builder()
        .method(method)
        .uri(format!("{base}{path}"))
        .header(HOST, host.unwrap_or_default())
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(body))
        .map_err(|error| Failure::new(format!("{server} is no usable URL ({error})")))
}
