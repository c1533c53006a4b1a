//! What happens on a connection before its door: the PROXY protocol and TLS. Both wait for the client, so they share a
//! timeout and run in the task of the connection.

mod proxy_protocol;

use std::net::IpAddr;
use std::sync::Arc;
use std::{fmt, io};

use crate::net::timeout::OPENING;
use crate::net::{Client, Clients, ConnectionHandler, Shutdown, Stream, tls};
use tidegate_request::Peer;

/// The peers whose PROXY protocol header is trusted. Called for each connection, because a reload may change them.
#[derive(Clone)]
pub(crate) struct TrustedPeers(pub(crate) Arc<dyn Fn(IpAddr) -> bool + Send + Sync>);

impl fmt::Debug for TrustedPeers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TrustedPeers")
    }
}

/// Called with the peer of a connection that is closed because its client has too many.
#[derive(Clone)]
pub(crate) struct OnRefused(pub(crate) Arc<dyn Fn(Peer) + Send + Sync>);

impl fmt::Debug for OnRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnRefused")
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Preamble<D> {
    /// If set, every connection has to begin with a PROXY protocol header.
    pub(crate) proxy_protocol: Option<TrustedPeers>,
    pub(crate) tls: Option<Arc<tls::Acceptor>>,
    /// Bounds the connections of each client.
    pub(crate) clients: Arc<Clients>,
    pub(crate) on_refused: OnRefused,
    pub(crate) door: D,
}

impl<D: ConnectionHandler + Sync> ConnectionHandler for Preamble<D> {
    async fn serve(self, stream: Stream, client: Client, shutdown: Shutdown) {
        let Some(client) = self.admit(client.peer) else { return };
        if self.proxy_protocol.is_none() && self.tls.is_none() {
            return self.door.serve(stream, client, shutdown).await;
        }
        let read = tokio::select! {
            read = tokio::time::timeout(OPENING, self.read_preamble(stream, client)) => read,
            () = shutdown.closing() => return,
        };
        match read {
            Ok(Ok(Some((stream, client)))) => self.door.serve(stream, client, shutdown).await,
            Ok(Ok(None)) => {}
            Ok(Err(error)) => tracing::debug!(%error, "connection refused"),
            Err(_) => tracing::debug!("connection refused: PROXY protocol or TLS took too long"),
        }
    }
}

impl<D> Preamble<D> {
    /// Counts a connection. `None` if its client has too many already.
    fn admit(&self, peer: Peer) -> Option<Client> {
        let client = self.clients.connect(peer).ok();
        if client.is_none() {
            (self.on_refused.0)(peer);
        }
        client
    }

    /// `None` if the client that the PROXY protocol names has too many connections.
    async fn read_preamble(
        &self,
        mut stream: Stream,
        mut client: Client,
    ) -> io::Result<Option<(Stream, Client)>> {
        if let Some(trusts) = &self.proxy_protocol {
            let peer = proxy_protocol::read(&mut stream, client.peer, &*trusts.0).await?;
            match self.admit(peer) {
                Some(named) => client = named,
                None => return Ok(None),
            }
        }
        if let Some(tls) = &self.tls {
            stream = tls.accept(stream).await?;
        }
        Ok(Some((stream, client)))
    }
}
