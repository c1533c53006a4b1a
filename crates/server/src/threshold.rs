//! What a connection passes before its door: a proxy's word on where it comes from, and TLS. Both take as long as the
//! other end does, so that there is a bound, and both in the connection's own task.

mod proxy_protocol;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::app::AppState;
use crate::listen::{Peer, Stream};
use crate::server::{Door, Ending};
use crate::tls;

/// How long all of it may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A door, and what is in front of it.
#[derive(Clone, Debug)]
pub(crate) struct Threshold<D> {
    /// Who knows from whom the PROXY protocol is believed, if connections begin with it. Where they do, all have to.
    pub(crate) proxy_protocol: Option<Arc<AppState>>,
    pub(crate) tls: Option<Arc<tls::Acceptor>>,
    pub(crate) door: D,
}

impl<D: Door + Sync> Door for Threshold<D> {
    async fn serve(self, stream: Stream, peer: Peer, ending: Ending) {
        let Self { proxy_protocol, tls, door } = self;
        if proxy_protocol.is_none() && tls.is_none() {
            return door.serve(stream, peer, ending).await;
        }
        let crossed = tokio::select! {
            crossed = tokio::time::timeout(TIMEOUT, cross(proxy_protocol, tls, stream, peer)) => crossed,
            () = ending.closing() => return,
        };
        match crossed {
            Ok(Ok((stream, peer))) => door.serve(stream, peer, ending).await,
            Ok(Err(error)) => tracing::debug!(%error, "connection refused"),
            Err(_) => tracing::debug!("connection refused: it took too long to begin"),
        }
    }
}

async fn cross(
    proxy_protocol: Option<Arc<AppState>>,
    tls: Option<Arc<tls::Acceptor>>,
    mut stream: Stream,
    mut peer: Peer,
) -> io::Result<(Stream, Peer)> {
    if let Some(app) = proxy_protocol {
        let in_force = app.in_force();
        peer = proxy_protocol::read(&mut stream, peer, &in_force.rules.trusted_proxies).await?;
    }
    if let Some(tls) = tls {
        stream = tls.accept(stream).await?;
    }
    Ok((stream, peer))
}
