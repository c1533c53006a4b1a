//! HTTP on hyper: `POST /check_and_report` with limitador-server's body, answered by the status alone.

use std::collections::HashMap;
use std::convert::Infallible;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header::CONTENT_TYPE};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::net::TcpListener;

use super::Limiter;

#[derive(Deserialize)]
struct CheckAndReport {
    namespace: String,
    values: HashMap<String, String>,
    delta: u64,
}

pub(super) async fn serve(listener: TcpListener, limiter: Limiter) {
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        let limiter = limiter.clone();
        let service = service_fn(move |request| answer(request, limiter.clone()));
        let connection =
            http1::Builder::new().writev(false).serve_connection(TokioIo::new(stream), service);
        tokio::spawn(connection);
    }
}

async fn answer(
    request: Request<Incoming>,
    limiter: Limiter,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let is_check = request.uri().path() == "/check_and_report";
    let body = request.into_body().collect().await.map(http_body_util::Collected::to_bytes);
    let check = body.ok().and_then(|body| serde_json::from_slice::<CheckAndReport>(&body).ok());
    let status = match check.filter(|_| is_check) {
        Some(CheckAndReport { namespace, values, delta }) => {
            if limiter.is_limited(&namespace.into(), vec![values], delta).await {
                StatusCode::TOO_MANY_REQUESTS
            } else {
                StatusCode::OK
            }
        }
        None => StatusCode::BAD_REQUEST,
    };
    let mut response = Response::new(Full::new(Bytes::from_static(b"null")));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}
