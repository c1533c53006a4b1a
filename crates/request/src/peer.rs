//! The other end of a connection.

use std::net::IpAddr;

/// The other end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Peer {
    Ip(IpAddr),
    /// A process of this machine.
    Unix,
}

impl Peer {
    /// Whether it is on this machine.
    pub fn is_local(self) -> bool {
        match self {
            Self::Ip(ip) => ip.is_loopback(),
            Self::Unix => true,
        }
    }
}
