//! One HTTP request to a running server, over TCP or a Unix socket, within one timeout.
//!
//! In HTTP/1.0, whose replies are never chunked: a whole HTTP client would be much machine code for one
//! small request.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use httparse::{EMPTY_HEADER, Response, Status};
use hyper::Uri;
use hyper::http::uri::Authority;
use serde::Deserialize;
use tidegate_core::text::printable;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

use crate::failure::{Failure, block_on};

/// For the whole exchange.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Far more than any reply has.
const REPLY_BYTES_MAX: usize = 1 << 20;
const HEADERS_MAX: usize = 64;

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

/// A connection of either kind. Boxed, so that protocols are compiled only once.
pub(super) type Stream = Box<dyn Duplex>;

pub(super) trait Duplex: AsyncRead + AsyncWrite + Unpin + Send + fmt::Debug {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send + fmt::Debug> Duplex for T {}

pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

/// Sends a request; a body is JSON.
pub(super) fn send(
    server: &ServerAddress,
    method: &str,
    path: &str,
    body: &[u8],
) -> Result<Reply, Failure> {
    let (base, host) = match server {
        ServerAddress::Tcp(uri) => {
            (uri.path().trim_end_matches('/'), uri.authority().map(Authority::as_str))
        }
        ServerAddress::Unix(_) => ("", Some("localhost")),
    };
    let head = format!(
        "{method} {base}{path} HTTP/1.0\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        host.unwrap_or_default(),
        body.len()
    );
    let request = [head.as_bytes(), body].concat();
    block_on(async {
        let done = tokio::time::timeout(TIMEOUT, exchange(server, &request)).await;
        let late = |_| Err(format!("{server} did not answer within {TIMEOUT:?}"));
        done.unwrap_or_else(late).map_err(Failure::new)
    })
}

async fn exchange(server: &ServerAddress, request: &[u8]) -> Result<Reply, String> {
    let mut stream = connect(server).await.map_err(|error| {
        format!("cannot reach a server at {server} ({error}). Start one with `tidegate serve`")
    })?;
    let broken = |error: &dyn fmt::Display| format!("{server} broke off ({error})");
    stream.write_all(request).await.map_err(|error| broken(&error))?;
    let mut bytes = Vec::new();
    loop {
        let is_end = stream.read_buf(&mut bytes).await.map_err(|error| broken(&error))? == 0;
        if let Some(reply) = parse(&bytes, is_end).map_err(|error| broken(&error))? {
            return Ok(reply);
        }
        if is_end || bytes.len() > REPLY_BYTES_MAX {
            return Err(broken(&"its reply is incomplete or too long"));
        }
    }
}

/// The reply, once it is complete.
fn parse(bytes: &[u8], is_end: bool) -> Result<Option<Reply>, httparse::Error> {
    let mut headers = [EMPTY_HEADER; HEADERS_MAX];
    let mut response = Response::new(&mut headers);
    let Status::Complete(head) = response.parse(bytes)? else { return Ok(None) };
    let length = response.headers.iter().find(|it| it.name.eq_ignore_ascii_case("content-length"));
    let length = length.and_then(|it| str::from_utf8(it.value).ok()?.parse::<usize>().ok());
    let body = bytes.get(head..).unwrap_or_default();
    let body = length.map_or_else(|| is_end.then_some(body), |length| body.get(..length));
    let status = response.code.unwrap_or_default();
    Ok(body.map(|body| Reply { status, body: body.to_vec() }))
}

/// What an error reply says, for people.
pub(super) fn problem_detail(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Problem {
        detail: String,
    }
    serde_json::from_slice(body).ok().map(|problem: Problem| printable(&problem.detail))
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
