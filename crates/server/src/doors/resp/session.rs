//! What is known of one client, from when it connects until it resets.

use super::throttle::Limits;
use super::transaction::Transaction;
use tidegate_request::Peer;

/// Which version of the protocol a client reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Protocol {
    Two,
    Three,
}

impl Protocol {
    pub(super) const fn number(self) -> i64 {
        match self {
            Self::Two => 2,
            Self::Three => 3,
        }
    }
}

/// One client.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: u64,
    pub(super) peer: Peer,
    pub(super) protocol: Protocol,
    /// Whether it may ask.
    pub(super) admitted: bool,
    /// As it calls itself.
    pub(super) name: Box<[u8]>,
    /// What it limited last.
    pub(super) limits: Limits,
    /// What it keeps for `EXEC`, after `MULTI`.
    pub(super) transaction: Option<Transaction>,
    /// What it has kept, once `EXEC` has come and until it is answered.
    pub(super) due: Vec<u8>,
}

impl Session {
    pub(super) fn new(id: u64, peer: Peer, admitted: bool) -> Self {
        Self {
            id,
            peer,
            protocol: Protocol::Two,
            admitted,
            name: Box::default(),
            limits: Limits::default(),
            transaction: None,
            due: Vec::new(),
        }
    }
}
