//! An HTTP/1.1 client with keep-alive. A client that times out closes its connection.

use std::time::Duration;

use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::header::RETRY_AFTER;
use hyper::{Response, StatusCode};
use hyper_util::client::legacy::Client as Http;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::de::DeserializeOwned;

use super::Outcome;
use crate::Fallible;

#[derive(Clone)]
pub(crate) struct Client {
    http: Http<HttpConnector, Empty<Bytes>>,
    url: String,
}

impl Client {
    pub(crate) fn new(url: &str) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Self { http: Http::builder(TokioExecutor::new()).build(connector), url: url.to_owned() }
    }

    /// Sends a request and classifies the answer.
    pub(crate) async fn get(&self, path: &str) -> Outcome {
        match self.answer(path).await {
            Ok(response) if response.status() == StatusCode::OK => Outcome::Good,
            Ok(response) if response.status() == StatusCode::TOO_MANY_REQUESTS => {
                Outcome::Refused { retry_after: retry_after(&response) }
            }
            Ok(response) if response.status().is_server_error() => Outcome::Failed,
            _ => Outcome::Lost,
        }
    }

    pub(crate) async fn json<T: DeserializeOwned>(&self, path: &str) -> Fallible<T> {
        Ok(serde_json::from_slice(self.answer(path).await?.body())?)
    }

    /// Reads the whole answer: a connection can only be reused after that.
    async fn answer(&self, path: &str) -> Fallible<Response<Bytes>> {
        let response = self.http.get(format!("{}{path}", self.url).parse()?).await?;
        let (parts, body) = response.into_parts();
        Ok(Response::from_parts(parts, body.collect().await?.to_bytes()))
    }
}

fn retry_after(response: &Response<Bytes>) -> Duration {
    let header = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    Duration::from_secs(header.and_then(|text| text.parse().ok()).unwrap_or(1))
}
