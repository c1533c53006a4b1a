//! The accept loop: connections in, each to its door, and an orderly end.
//!
//! How many connections there may be and how long the last requests have at the end is here; what one connection may do
//! is its door's business. The listener, the door and the stop signal are parameters.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::net::{Listener, Stream};
use tidegate_request::Peer;

/// How long those who were at the door when it closed have to come in: a round trip, and to be accepted.
const HANDSHAKE: Duration = Duration::from_millis(100);

/// The bounds of a listener.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AcceptBounds {
    /// How many connections are served at once; the next one waits to be accepted.
    pub(crate) connections_max: usize,
    /// How long those who are connected have, once the server is told to stop, to get an answer that says that it
    /// is the last; and as long again once nobody can connect any more.
    pub(crate) notice: Duration,
    /// How long requests in flight have after that.
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

/// What the outside speaks to, one connection at a time.
pub(crate) trait ConnectionHandler: Clone + Send + 'static {
    /// Serves a connection to its end, or until `shutdown` says so.
    fn serve(
        self,
        stream: Stream,
        peer: Peer,
        shutdown: Shutdown,
    ) -> impl Future<Output = ()> + Send;
}

/// How far the end of the server has come, for those who serve a connection.
#[derive(Clone, Debug)]
pub(crate) struct Shutdown {
    phase: watch::Receiver<Phase>,
    /// The same for those who ask with every answer, and have no time for a lock.
    is_draining: Arc<AtomicBool>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
enum Phase {
    Serving,
    Draining,
    Closing,
}

impl Shutdown {
    /// Whether clients are to be told, where the protocol can, that they should connect elsewhere.
    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Relaxed)
    }

    /// Ready when that begins.
    pub(crate) async fn draining(&self) {
        self.reaches(Phase::Draining).await;
    }

    /// Ready when a connection is to be closed: at once if nothing is under way on it, else after that.
    pub(crate) async fn closing(&self) {
        self.reaches(Phase::Closing).await;
    }

    async fn reaches(&self, wanted: Phase) {
        // An error means that the server itself is gone.
        let _ = self.phase.clone().wait_for(|phase| *phase >= wanted).await;
    }

    /// One that does not come, for connections that no server accepted.
    #[cfg(test)]
    pub(crate) fn never() -> Self {
        let (phase, shutdown) = watch::channel(Phase::Serving);
        std::mem::forget(phase);
        Self { phase: shutdown, is_draining: Arc::default() }
    }
}

/// Serves until `stop` is ready, then ends without failing anybody. What `stop` says is how long newcomers are served at
/// least from then on, also while nobody is connected: who looks at the server only now and then, such as a balancer,
/// has to find one that says that it ends, or goes on sending clients to a closed door.
///
/// A connection that is kept alive cannot simply be closed: its next request may be on its way. So first every
/// answer says that it is the last, and new connections are still served; then nobody new is let in, and the listener
/// goes once those who were at the door are inside; then what is left is idle, and is closed.
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
    // Whoever connects now is served, and told to go elsewhere.
    connections.serve_for(&listener, notice).await;
    connections.serve_until_empty(&listener, bounds.notice.saturating_sub(notice)).await;
    listener.stop_accepting();
    connections.serve_for(&listener, HANDSHAKE).await;
    drop(listener);
    connections.emptied(bounds.notice).await;
    phase.send_replace(Phase::Closing);
    connections.emptied(bounds.drain).await;
    if !connections.tasks.is_empty() {
        tracing::warn!(in_flight = connections.tasks.len(), "stopped with requests unfinished");
    }
}

/// Those who are connected.
struct Connections<D> {
    door: D,
    slots: Arc<Semaphore>,
    shutdown: Shutdown,
    tasks: JoinSet<()>,
}

impl<D: ConnectionHandler> Connections<D> {
    /// Lets one more in, or sees one off. Cancelled, it has done neither.
    async fn next(&mut self, listener: &Listener) {
        let slots = self.slots.clone();
        let accepted = async {
            // Closed only when the semaphore is, and nobody closes it.
            let slot = slots.acquire_owned().await.ok();
            (slot, listener.accept().await)
        };
        tokio::select! {
            (slot, accepted) = accepted => match accepted {
                Ok((stream, peer)) => {
                    let serving = self.door.clone().serve(stream, peer, self.shutdown.clone());
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

    /// Serves whoever is there and whoever comes, until nobody is left, or for `at_most`.
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

    /// Ready when nobody is left, or after `at_most`.
    async fn emptied(&mut self, at_most: Duration) {
        let empty = async { while self.tasks.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(at_most, empty).await;
    }
}

/// A connection that died before it was accepted says nothing about the next one. Anything else, such as no
/// file descriptors left, does not pass at once: trying again without a pause would only burn a core.
async fn pause_after(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    if !matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) {
        tracing::error!(%error, "cannot accept connections, trying again");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
