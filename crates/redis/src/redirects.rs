//! Requests that a node of a cluster redirected, on their way to the task that re-routes them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use redis::ServerError;
use tidegate::{StoreError, StoreErrorKind};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::endpoint::Endpoint;
use crate::error;
use crate::pending::Pending;

/// The most redirected calls that wait: several for each call that a hundred nodes can have in flight.
const REDIRECTED_MAX: usize = 4096;

/// Requests to route again, and why.
#[derive(Debug)]
pub(crate) struct Redirected {
    pub(crate) requests: Vec<Pending>,
    pub(crate) why: Reason,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Reason {
    /// No node is known for them, or theirs has left.
    NoNode,
    /// Their slot is at that node now.
    Moved(Endpoint),
    /// Their keys may be at that node already, while the slot is being moved there.
    Ask(Endpoint),
    /// Some of their keys are here and some there.
    TryAgain,
}

/// Sends redirected requests to the task that keeps the slot map.
#[derive(Clone, Debug)]
pub(crate) struct Redirects {
    redirected: mpsc::Sender<Redirected>,
    is_closed: Arc<AtomicBool>,
}

impl Redirects {
    pub(crate) fn new() -> (Self, mpsc::Receiver<Redirected>) {
        let (redirected, waiter) = mpsc::channel(REDIRECTED_MAX);
        (Self { redirected, is_closed: Arc::default() }, waiter)
    }

    pub(crate) fn send(&self, requests: Vec<Pending>, why: Reason) {
        let (refused, error) = match self.redirected.try_send(Redirected { requests, why }) {
            Ok(()) => return,
            Err(TrySendError::Closed(refused)) => (refused, error::runtime_ended()),
            Err(TrySendError::Full(refused)) => {
                let why = "too many redirected requests wait";
                (refused, StoreError::new(StoreErrorKind::Overloaded, why))
            }
        };
        Pending::fail_all(refused.requests, &error);
    }

    /// The client was dropped: nodes send what they have themselves.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Relaxed);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Relaxed)
    }
}

impl Reason {
    /// What a node said when it refused a call. `asked` is where it is.
    pub(crate) fn from_error(error: &ServerError, asked: Option<&Endpoint>) -> Option<Self> {
        let endpoint = || redirection(error.details()?, asked);
        match error.code() {
            "MOVED" => endpoint().map(Self::Moved),
            "ASK" => endpoint().map(Self::Ask),
            "TRYAGAIN" => Some(Self::TryAgain),
            _ => None,
        }
    }
}

/// `slot host:port`; without a host, that of the node that says so.
fn redirection(detail: &str, asked: Option<&Endpoint>) -> Option<Endpoint> {
    let (host, port) = detail.split(' ').nth(1)?.rsplit_once(':')?;
    let port = port.parse().ok().filter(|port| *port > 0)?;
    match (host, asked) {
        ("" | "?", Some(Endpoint::Tcp { host, .. })) => {
            Some(Endpoint::Tcp { host: host.clone(), port })
        }
        ("" | "?", _) => None,
        _ => Some(Endpoint::Tcp { host: host.to_owned(), port }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirections_are_read_as_redis_writes_them() {
        let tcp = |host: &str, port| Some(Endpoint::Tcp { host: host.to_owned(), port });
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
