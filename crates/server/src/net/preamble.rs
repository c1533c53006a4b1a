//! What happens on a connection before its door: the PROXY protocol and TLS. Both wait for the client, so they share a
//! timeout and run in the task of the connection.

mod proxy_protocol;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use crate::net::{ConnectionHandler, Shutdown, Stream, tls};
use tidegate_request::Peer;

const TIMEOUT: Duration = Duration::from_secs(5);

/// The peers whose PROXY protocol header is trusted. Called for each connection, because a reload may change them.
#[derive(Clone)]
pub(crate) struct TrustedPeers(pub(crate) Arc<dyn Fn(IpAddr) -> bool + Send + Sync>);

impl fmt::Debug for TrustedPeers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TrustedPeers")
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Preamble<D> {
    /// If set, every connection has to begin with a PROXY protocol header.
    pub(crate) proxy_protocol: Option<TrustedPeers>,
    pub(crate) tls: Option<Arc<tls::Acceptor>>,
    pub(crate) door: D,
}

impl<D: ConnectionHandler + Sync> ConnectionHandler for Preamble<D> {
    async fn serve(self, stream: Stream, peer: Peer, shutdown: Shutdown) {
        let Self { proxy_protocol, tls, door } = self;
        if proxy_protocol.is_none() && tls.is_none() {
            return door.serve(stream, peer, shutdown).await;
        }
        let read = tokio::select! {
            read = tokio::time::timeout(TIMEOUT, read_preamble(proxy_protocol, tls, stream, peer)) => read,
            () = shutdown.closing() => return,
        };
        match read {
            Ok(Ok((stream, peer))) => door.serve(stream, peer, shutdown).await,
            Ok(Err(error)) => tracing::debug!(%error, "connection refused"),
            Err(_) => tracing::debug!("connection refused: PROXY protocol or TLS took too long"),
        }
    }
}

async fn read_preamble(
    proxy_protocol: Option<TrustedPeers>,
    tls: Option<Arc<tls::Acceptor>>,
    mut stream: Stream,
    mut peer: Peer,
) -> io::Result<(Stream, Peer)> {
    if let Some(trusts) = proxy_protocol {
        peer = proxy_protocol::read(&mut stream, peer, &*trusts.0).await?;
    }
    if let Some(tls) = tls {
        stream = tls.accept(stream).await?;
    }
    Ok((stream, peer))
}
