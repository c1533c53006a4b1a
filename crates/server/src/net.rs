//! Connections: listeners, TLS, the PROXY protocol, and the bounds that keep one client from hurting others.

mod accept;
pub(crate) mod body;
pub(crate) mod client_tls;
mod clients;
pub(crate) mod http;
mod listen;
mod preamble;
pub(crate) mod room;
pub(crate) mod timeout;
pub(crate) mod tls;
mod write_coalescer;

pub(crate) use self::accept::{AcceptBounds, ConnectionHandler, Shutdown, accept};
pub(crate) use self::clients::{Client, ClientRequestSlot, ClientUsage, Clients, TooMany};
pub(crate) use self::listen::{Inherited, Listener, Stream};
pub(crate) use self::preamble::{OnRefused, Preamble, TrustedPeers};
pub(crate) use self::write_coalescer::WriteCoalescer;
