//! A tidegate beside the app, on a Unix socket, and the limit that it has in force.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::UnixStream;
use tokio::process::Command;
use tokio::time::{Instant, sleep_until};

use crate::Fallible;
use crate::service::Service;

/// What a scenario changes in the sidecar's file: its variables and their values.
pub(crate) type Changes = &'static [(&'static str, &'static str)];

pub(crate) struct Sidecar {
    pub(crate) socket: PathBuf,
    /// Killed when this is dropped.
    _service: Service,
}

impl Sidecar {
    pub(crate) async fn start(
        tidegate: &Path,
        config: &Path,
        socket: PathBuf,
        changes: Changes,
    ) -> Fallible<Self> {
        let mut command = Command::new(tidegate);
        command.args(["serve", "-c"]).arg(config).env("RUST_LOG", "error");
        command.env("TIDEGATE_SOCKET", &socket).envs(changes.iter().copied());
        let service = Service::start(&mut command, "listens on ").await?;
        Ok(Self { socket, _service: service })
    }

    /// The limit in force, at the end of each second.
    pub(crate) async fn limits(&self, seconds: u32) -> Fallible<Vec<u64>> {
        let start = Instant::now();
        let mut limits = Vec::new();
        for second in 1..=seconds {
            sleep_until(start + Duration::from_secs(second.into())).await;
            limits.push(self.limit().await?);
        }
        Ok(limits)
    }

    /// The limit in force: units per second.
    pub(crate) async fn limit(&self) -> Fallible<u64> {
        let policies = self.get("/v1/policies").await?;
        let limit = policies.pointer("/orders/members/0/effective").and_then(Value::as_u64);
        limit.ok_or_else(|| format!("no adaptive limit first in {policies}").into())
    }

    async fn get(&self, path: &str) -> Fallible<Value> {
        let stream = UnixStream::connect(&self.socket).await?;
        let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let request = Request::get(path).header("host", "tidegate").body(Empty::<Bytes>::new())?;
        let body = sender.send_request(request).await?.into_body();
        Ok(serde_json::from_slice(&body.collect().await?.to_bytes())?)
    }
}
