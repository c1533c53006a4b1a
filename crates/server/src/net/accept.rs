//! The accept loop: takes connections, passes each to its door, and shuts down in order.
//!
//! It bounds the number of connections and the time of a shutdown; the door bounds what one connection may do. The
//! listener, the door and the stop signal are parameters.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::net::{Client, Listener, Stream};

/// How long clients that were connecting when the listener stopped have to finish: one round trip, and the accept.
const HANDSHAKE: Duration = Duration::from_millis(100);

/// The bounds of a listener.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AcceptBounds {
    /// Further connections wait to be accepted.
    pub(crate) connections_max: usize,
    /// How long after the stop signal connected clients may receive a response that says it is the last; and as long
    /// again after the listener is closed.
    pub(crate) notice: Duration,
    /// How long requests in flight may take after that.
    pub(crate) drain: Duration,
}

impl Default for AcceptBounds {
    fn default() -> Self {
        Self {
            connections_max: 10_000,
            notice: Duration::from_secs(1),
            drain: Duration::from_secs(10),
        }
    }
}

/// Serves one connection at a time: a door, or a layer in front of one.
pub(crate) trait ConnectionHandler: Clone + Send + 'static {
    /// Serves a connection until it ends or `shutdown` closes it.
    fn serve(
        self,
        stream: Stream,
        client: Client,
        shutdown: Shutdown,
    ) -> impl Future<Output = ()> + Send;
}

/// The phase of the shutdown, as connections see it.
#[derive(Clone, Debug)]
pub(crate) struct Shutdown {
    phase: watch::Receiver<Phase>,
    /// The same without a lock, because it is read with every response.
    is_draining: Arc<AtomicBool>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
enum Phase {
    Serving,
    Draining,
    Closing,
}

impl Shutdown {
    /// Whether responses should ask clients to connect elsewhere, where the protocol can.
    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Relaxed)
    }

    /// Ready when draining begins.
    pub(crate) async fn draining(&self) {
        self.reaches(Phase::Draining).await;
    }

    /// Ready when a connection has to close: at once if it is idle, otherwise after its requests.
    pub(crate) async fn closing(&self) {
        self.reaches(Phase::Closing).await;
    }

    async fn reaches(&self, wanted: Phase) {
        // An error means that the accept loop has ended.
        let _ = self.phase.clone().wait_for(|phase| *phase >= wanted).await;
    }

    /// A shutdown that never comes.
    #[cfg(test)]
    pub(crate) fn never() -> Self {
        let (phase, shutdown) = watch::channel(Phase::Serving);
        std::mem::forget(phase);
        Self { phase: shutdown, is_draining: Arc::default() }
    }
}

/// Serves until `stop` is ready, then shuts down without failing a request. `stop` returns how long new connections are
/// still served, even if no client is connected: a load balancer that polls rarely has to see that the server drains, or it
/// keeps sending clients to a closed port.
///
/// A kept-alive connection cannot simply be closed, because its next request may be on its way. So there are three phases:
/// every response says that it is the last, and new connections are still served; the listener stops, and closes after
/// the handshakes in progress; the remaining connections are idle and are closed.
pub(crate) async fn accept(
    mut listener: Listener,
    door: impl ConnectionHandler,
    bounds: AcceptBounds,
    stop: impl Future<Output = Duration>,
) {
    let (phase, shutdown) = watch::channel(Phase::Serving);
    let slots = Arc::new(Semaphore::new(bounds.connections_max));
    let is_draining = Arc::new(AtomicBool::new(false));
    let shutdown = Shutdown { phase: shutdown, is_draining: is_draining.clone() };
    let mut connections = Connections { door, slots, shutdown, tasks: JoinSet::new() };
    let mut stop = pin!(stop);
    let notice = loop {
        tokio::select! {
            notice = &mut stop => break notice,
            () = connections.next(&listener) => {}
        }
    };
    is_draining.store(true, Ordering::Relaxed);
    phase.send_replace(Phase::Draining);
    // New connections are served, and their responses say `close`.
    connections.serve_for(&listener, notice).await;
    connections.serve_until_empty(&listener, bounds.notice.saturating_sub(notice)).await;
    listener.stop_accepting();
    connections.serve_for(&listener, HANDSHAKE).await;
    drop(listener);
    connections.emptied(bounds.notice).await;
    phase.send_replace(Phase::Closing);
    connections.emptied(bounds.drain).await;
    if !connections.tasks.is_empty() {
        tracing::warn!(in_flight = connections.tasks.len(), "stopped with unfinished requests");
    }
}

struct Connections<D> {
    door: D,
    slots: Arc<Semaphore>,
    shutdown: Shutdown,
    tasks: JoinSet<()>,
}

impl<D: ConnectionHandler> Connections<D> {
    /// Accepts one connection or reaps a finished one. Cancel-safe.
    async fn next(&mut self, listener: &Listener) {
        let slots = self.slots.clone();
        let accepted = async {
            // Nothing closes the semaphore.
            let slot = slots.acquire_owned().await.ok();
            (slot, listener.accept().await)
        };
        tokio::select! {
            (slot, accepted) = accepted => match accepted {
                Ok((stream, peer)) => {
                    let serving = self.door.clone().serve(stream, peer.into(), self.shutdown.clone());
                    self.tasks.spawn(async move {
                        serving.await;
                        drop(slot);
                    });
                }
                Err(error) => pause_after(&error).await,
            },
            Some(_) = self.tasks.join_next() => {}
        }
    }

    /// Serves until no connection is left, or for `at_most`.
    async fn serve_until_empty(&mut self, listener: &Listener, at_most: Duration) {
        let served = async {
            while !self.tasks.is_empty() {
                self.next(listener).await;
            }
        };
        let _ = tokio::time::timeout(at_most, served).await;
    }

    async fn serve_for(&mut self, listener: &Listener, span: Duration) {
        let served = async {
            loop {
                self.next(listener).await;
            }
        };
        let _: Result<(), _> = tokio::time::timeout(span, served).await;
    }

    /// Waits until no connection is left, or for `at_most`; accepts none.
    async fn emptied(&mut self, at_most: Duration) {
        let empty = async { while self.tasks.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(at_most, empty).await;
    }
}

/// A connection that died before it was accepted does not affect the next one. Other errors, such as too few file
/// descriptors, last a while: retrying without a pause would burn a core.
async fn pause_after(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    if !matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) {
        tracing::error!(%error, "cannot accept connections, trying again");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
