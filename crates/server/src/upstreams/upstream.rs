//! One upstream: its address, connections, health and counters.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use tidegate::{Clock, SystemClock};
use tokio::net::{TcpStream, UnixStream};

use super::connection::{SendError, UpstreamConnection};
use super::failure::Failure;
use super::health::{Admits, Health};
use super::http2::{self, SharedConnection};
use super::pool::Pool;
use super::upload::Upload;
use crate::metrics::{UpstreamCounts, UpstreamView};
use crate::net::Stream;
use crate::net::client_tls::Tls;
use tidegate_config::proxy::{Endpoint, Settings, Target, Times};

/// The first may cross a GOAWAY, the second may find the connection closed.
const SHARED_TRIES_MAX: u32 = 3;

#[derive(Debug)]
pub(crate) struct Upstream {
    pub(crate) target: Target,
    /// For metrics and logs.
    pub(crate) name: Arc<str>,
    pub(crate) tls: Option<Tls>,
    pub(crate) pool: Pool,
    /// Instead of the pool, for HTTP/2.
    shared: SharedConnection,
    pub(crate) health: Health,
    under_way: AtomicUsize,
    pub(crate) counts: UpstreamCounts,
}

/// A request in flight to an upstream, until dropped.
#[derive(Debug)]
pub(crate) struct Load(Arc<Upstream>);

/// The head of a response and the connection of its body; `None` for a shared connection.
pub(crate) type Answered = (Response<Incoming>, Option<Box<UpstreamConnection>>);

impl Upstream {
    pub(crate) fn new(target: Target, tls: Option<Tls>) -> Self {
        Self {
            name: target.to_string().into(),
            target,
            tls,
            pool: Pool::default(),
            shared: SharedConnection::default(),
            health: Health::default(),
            under_way: AtomicUsize::new(0),
            counts: UpstreamCounts::default(),
        }
    }

    /// Whether a request may go there. A probe has to make a new connection, so the pool is emptied.
    pub(crate) fn admits(&self, now_us: u64) -> bool {
        let admits = self.health.admits(now_us);
        if admits == Admits::Probe {
            self.pool.sweep(Duration::ZERO);
        }
        admits != Admits::None
    }

    pub(crate) fn load(self: &Arc<Self>) -> Load {
        self.under_way.fetch_add(1, Relaxed);
        Load(self.clone())
    }

    pub(crate) fn under_way(&self) -> usize {
        self.under_way.load(Relaxed)
    }

    pub(crate) fn view(&self) -> UpstreamView<'_> {
        UpstreamView {
            name: &self.name,
            counts: &self.counts,
            is_up: self.health.is_up(SystemClock.steady_us()),
            under_way: self.under_way(),
            idle_connections: self.pool.len(),
        }
    }

    /// Sends a request, over an idle connection if there is one, and waits for the head of its response. Retries only a
    /// request that the upstream cannot have seen. Connecting may take long: `may_send` is asked right before it is sent.
    pub(crate) async fn send(
        &self,
        mut request: Request<Upload>,
        times: Times,
        may_send: impl Fn() -> bool,
    ) -> Result<Answered, Box<SendError>> {
        if self.target.is_http2() {
            return self.share(request, times, may_send).await.map(|response| (response, None));
        }
        if let Some(mut connection) = self.pool.take(times.keep) {
            if !may_send() {
                return Err(Failure::PlaceLost.into());
            }
            match connection.exchange(request, times.response).await {
                Ok(response) => return Ok((response, Some(connection))),
                Err(error) => request = error.unsent()?,
            }
        }
        let stream = match self.connect(times).await {
            Ok(stream) => stream,
            Err(why) => return Err(Box::new(SendError { why, unsent: Some(request) })),
        };
        let mut connection = UpstreamConnection::handshake(stream).await?;
        if !may_send() {
            return Err(Failure::PlaceLost.into());
        }
        let response = connection.exchange(request, times.response).await?;
        Ok((response, Some(connection)))
    }

    /// Sends a request over the shared connection, or over a new one after a GOAWAY.
    async fn share(
        &self,
        mut request: Request<Upload>,
        times: Times,
        may_send: impl Fn() -> bool,
    ) -> Result<Response<Incoming>, Box<SendError>> {
        let mut tries_left = SHARED_TRIES_MAX;
        loop {
            let sender = self.shared.sender(self.connect(times));
            // Another request may be connecting: wait for that, and for our own attempt.
            let sender = tokio::time::timeout(2 * times.connect, sender).await;
            let sender = match sender.unwrap_or(Err(Failure::ConnectTimeout)) {
                Ok(sender) => sender,
                Err(why) => return Err(Box::new(SendError { why, unsent: Some(request) })),
            };
            tries_left -= 1;
            if !may_send() {
                return Err(Failure::PlaceLost.into());
            }
            match http2::exchange(sender, request, times.response).await {
                Err(error) if tries_left > 0 => request = error.unsent()?,
                answered => return answered,
            }
        }
    }

    async fn connect(&self, times: Times) -> Result<Stream, Failure> {
        let connecting = connect(&self.target, self.tls.as_ref());
        match tokio::time::timeout(times.connect, connecting).await {
            Ok(Ok(stream)) => {
                if self.health.reached() {
                    tracing::info!(upstream = &*self.name, "upstream is reachable again");
                }
                Ok(stream)
            }
            Ok(Err(error)) => {
                self.missed(&error);
                Err(Failure::ConnectFailed(error))
            }
            Err(_) => {
                self.missed(&io::ErrorKind::TimedOut.into());
                Err(Failure::ConnectTimeout)
            }
        }
    }

    /// Warns if it cannot be reached. This does not count for its health: no request was sent.
    pub(crate) async fn warn_if_unreachable(&self, times: Times) {
        let connecting = connect(&self.target, self.tls.as_ref());
        let connected = tokio::time::timeout(times.connect, connecting).await;
        let connected = connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        if let Err(error) = connected {
            let upstream = &*self.name;
            tracing::warn!(upstream, %error, "upstream does not answer yet: its requests get a 502 until it does");
        }
    }

    fn missed(&self, error: &io::Error) {
        let upstream = &*self.name;
        if self.health.missed(SystemClock.steady_us()) {
            tracing::warn!(upstream, %error, "cannot connect to upstream: ejected for a while");
        } else {
            tracing::debug!(upstream, %error, "cannot connect to upstream");
        }
    }

    /// Returns a connection to the pool.
    pub(crate) fn keep(&self, connection: Box<UpstreamConnection>, settings: &Settings) {
        self.pool.put(connection, settings.idle_connections_max);
    }
}

impl Load {
    pub(crate) const fn upstream(&self) -> &Arc<Upstream> {
        &self.0
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Relaxed);
    }
}

/// Resolves the name each time and tries every address.
async fn connect(target: &Target, tls: Option<&Tls>) -> io::Result<Stream> {
    match target.endpoint() {
        Endpoint::Unix(path) => UnixStream::connect(path).await.map(Stream::Unix),
        Endpoint::Tcp { host, port, .. } => {
            let stream = TcpStream::connect((host.as_str(), *port)).await?;
            stream.set_nodelay(true)?;
            match tls.filter(|_| target.is_tls()) {
                Some(tls) => tls.connect(host, Stream::Tcp(stream)).await,
                None => Ok(Stream::Tcp(stream)),
            }
        }
    }
}
