//! The reverse proxy: requests are counted by the routes, like forward-auth, and passed on to an upstream.
//!
//! - [`service`] is the way of one request: who it is, whether it may pass, which upstream gets it, what comes back.
//! - [`head`] is the request head that is sent on.
//! - [`relay`] is a response body on its way, [`tunnel`] an upgraded connection.
//!
//! Nothing is passed on that was not parsed, nothing is sent twice, and bodies are never buffered whole.

mod door;
mod head;
mod problem;
mod relay;
mod service;
mod tunnel;
mod watch;

pub(crate) use self::door::ProxyDoor;
