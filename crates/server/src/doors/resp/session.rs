//! The state of one client connection.

use super::guesses::Turn;
use super::throttle::LimitCache;
use super::transaction::Transaction;
use tidegate_request::Peer;

/// The RESP version of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Protocol {
    Resp2,
    Resp3,
}

impl Protocol {
    pub(super) const fn number(self) -> i64 {
        match self {
            Self::Resp2 => 2,
            Self::Resp3 => 3,
        }
    }
}

#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: u64,
    pub(super) peer: Peer,
    pub(super) protocol: Protocol,
    pub(super) authenticated: bool,
    /// Since the connection began, also if it was right in between.
    pub(super) wrong_passwords: u32,
    /// To compare the password of the command that is answered now.
    pub(super) turn: Option<Turn>,
    /// Set with `CLIENT SETNAME`.
    pub(super) name: Box<[u8]>,
    pub(super) limits: LimitCache,
    /// The queued commands after `MULTI`.
    pub(super) transaction: Option<Transaction>,
    /// The transaction that `EXEC` has to run now.
    pub(super) exec: Option<Transaction>,
}

impl Session {
    pub(super) fn new(id: u64, peer: Peer, authenticated: bool) -> Self {
        Self {
            id,
            peer,
            protocol: Protocol::Resp2,
            authenticated,
            wrong_passwords: 0,
            turn: None,
            name: Box::default(),
            limits: LimitCache::default(),
            transaction: None,
            exec: None,
        }
    }
}
