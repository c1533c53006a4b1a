//! Where the nodes of a cluster bring questions that are not theirs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use redis::ServerError;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::node::ended;
use super::place::Place;
use super::ticket::Ticket;
use tidegate::{StoreError, StoreErrorKind};

/// So many bundles may lie on the desk: one for each call that can be under way to a hundred nodes, and room to spare.
const BUNDLES_MAX: usize = 4096;

/// Questions that need another way, and why.
#[derive(Debug)]
pub(super) struct Bundle {
    pub(super) tickets: Vec<Ticket>,
    pub(super) why: Why,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Why {
    /// No node is known for them, or theirs has left.
    NoNode,
    /// Their slot is at that node now.
    Moved(Place),
    /// Their keys may be at that node already, while the slot is being moved there.
    StoreRequest(Place),
    /// Some of their keys are here and some there.
    TryAgain,
}

/// Puts bundles on the desk.
#[derive(Clone, Debug)]
pub(super) struct Desk {
    bundles: mpsc::Sender<Bundle>,
    is_closed: Arc<AtomicBool>,
}

impl Desk {
    pub(super) fn new() -> (Self, mpsc::Receiver<Bundle>) {
        let (bundles, taker) = mpsc::channel(BUNDLES_MAX);
        (Self { bundles, is_closed: Arc::default() }, taker)
    }

    pub(super) fn bring(&self, tickets: Vec<Ticket>, why: Why) {
        let (refused, error) = match self.bundles.try_send(Bundle { tickets, why }) {
            Ok(()) => return,
            Err(TrySendError::Closed(refused)) => (refused, ended()),
            Err(TrySendError::Full(refused)) => {
                let why = "too many questions have lost their way";
                (refused, StoreError::new(StoreErrorKind::Overloaded, why))
            }
        };
        Ticket::fail_all(refused.tickets, &error);
    }

    /// The client was dropped: nodes send what they have themselves.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Relaxed);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Relaxed)
    }
}

impl Why {
    /// What a node said when it refused a call. `asked` is where it is.
    pub(super) fn of(error: &ServerError, asked: Option<&Place>) -> Option<Self> {
        let place = || redirection(error.details()?, asked);
        match error.code() {
            "MOVED" => place().map(Self::Moved),
            "ASK" => place().map(Self::StoreRequest),
            "TRYAGAIN" => Some(Self::TryAgain),
            _ => None,
        }
    }
}

/// `slot host:port`; without a host, that of the node that says so.
fn redirection(detail: &str, asked: Option<&Place>) -> Option<Place> {
    let (host, port) = detail.split(' ').nth(1)?.rsplit_once(':')?;
    let port = port.parse().ok().filter(|port| *port > 0)?;
    match (host, asked) {
        ("" | "?", Some(Place::Tcp { host, .. })) => Some(Place::Tcp { host: host.clone(), port }),
        ("" | "?", _) => None,
        _ => Some(Place::Tcp { host: host.to_owned(), port }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirections_are_read_as_redis_writes_them() {
        let tcp = |host: &str, port| Some(Place::Tcp { host: host.to_owned(), port });
        let asked = tcp("10.0.0.9", 7000);
        for (detail, expected) in [
            ("3999 127.0.0.1:6381", tcp("127.0.0.1", 6381)),
            ("3999 node-3.example.org:6381", tcp("node-3.example.org", 6381)),
            ("3999 ::1:6381", tcp("::1", 6381)),
            ("3999 :6381", tcp("10.0.0.9", 6381)),
            ("3999 ?:6381", tcp("10.0.0.9", 6381)),
            ("3999 host:0", None),
            ("3999 host:port", None),
            ("3999", None),
            ("", None),
        ] {
            assert_eq!(redirection(detail, asked.as_ref()), expected, "{detail}");
        }
    }
}
