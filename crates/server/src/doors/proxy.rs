//! The reverse proxy: requests are counted by the routes, as forward-auth does it, and passed on to what is behind.
//!
//! - [`service`] is the way of one request: who it is, whether it may pass, whom it goes to, what comes back.
//! - [`head`] is what is sent of a request's head, and [`hops`] what ends here.
//! - [`upstreams`] chooses among those behind; an [`upstream`] has connections in a [`pool`] and a [`health`].
//! - A [`link`] is one connection. Whoever uses it drives it: no task stands between a request and its answer. One of
//!   HTTP/2 is shared: [`http2`].
//! - [`upload`] and [`relay`] are bodies on their way, [`tunnel`] what becomes of an upgrade.
//!
//! Nothing is passed on that was not parsed, nothing is sent twice, and bodies are never gathered.

use tidegate_config::proxy as settings;
use tidegate_config::proxy as target;

mod door;
mod failure;
mod forwarded;
mod head;
mod health;
mod hops;
mod http2;
mod keeper;
mod link;
mod pool;
mod relay;
mod service;
mod tls;
mod tunnel;
mod upload;
mod upstream;
mod upstreams;
mod watch;

pub(crate) use self::door::ProxyDoor;
pub(crate) use self::keeper::keep;
pub(crate) use self::upstreams::Proxy;
