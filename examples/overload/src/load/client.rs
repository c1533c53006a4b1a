//! An HTTP/1.1 client with keep-alive. A client that times out closes its connection.

use std::time::Duration;

use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::header::RETRY_AFTER;
use hyper::{Request, Response, StatusCode};
use hyper_util::client::legacy::Client as Http;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::de::DeserializeOwned;

use super::Outcome;
use crate::Fallible;

/// Clients that arrive independently of other crowds, and the tenants that they belong to in turn.
#[derive(Clone, Copy)]
pub(crate) struct Crowd {
    /// Fixed, so that every run has the same arrivals.
    pub(super) seed: u64,
    tenants: &'static [&'static str],
}

pub(crate) const PEOPLE: Crowd = Crowd {
    seed: 2026,
    tenants: &[
        "shop-1", "shop-2", "shop-3", "shop-4", "shop-5", "shop-6", "shop-7", "shop-8", "shop-9",
    ],
};
pub(crate) const BOTS: Crowd = Crowd { seed: 2027, tenants: &["bots"] };

#[derive(Clone)]
pub(crate) struct Client {
    pub(super) crowd: Crowd,
    http: Http<HttpConnector, Empty<Bytes>>,
    url: String,
}

impl Client {
    pub(crate) fn new(url: &str) -> Self {
        Self::of(PEOPLE, url)
    }

    pub(crate) fn of(crowd: Crowd, url: &str) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let http = Http::builder(TokioExecutor::new()).build(connector);
        Self { crowd, http, url: url.to_owned() }
    }

    /// Sends a request of the client with this number, and classifies the answer.
    pub(crate) async fn get(&self, number: u32) -> Outcome {
        match self.answer(&format!("/customers/{}", number % 1000), number).await {
            Ok(response) if response.status() == StatusCode::OK => Outcome::Good,
            Ok(response) if response.status() == StatusCode::TOO_MANY_REQUESTS => {
                Outcome::Refused { retry_after: retry_after(&response) }
            }
            Ok(response) if response.status().is_server_error() => Outcome::Failed,
            _ => Outcome::Lost,
        }
    }

    pub(crate) async fn json<T: DeserializeOwned>(&self, path: &str) -> Fallible<T> {
        Ok(serde_json::from_slice(self.answer(path, 0).await?.body())?)
    }

    /// Reads the whole answer: a connection can only be reused after that.
    async fn answer(&self, path: &str, number: u32) -> Fallible<Response<Bytes>> {
        let tenant = self.crowd.tenants[number as usize % self.crowd.tenants.len()];
        let request = Request::get(format!("{}{path}", self.url)).header("x-tenant", tenant);
        let request = request.body(Empty::new())?;
        let response = self.http.request(request).await?;
        let (parts, body) = response.into_parts();
        Ok(Response::from_parts(parts, body.collect().await?.to_bytes()))
    }
}

fn retry_after(response: &Response<Bytes>) -> Duration {
    let header = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    Duration::from_secs(header.and_then(|text| text.parse().ok()).unwrap_or(1))
}
