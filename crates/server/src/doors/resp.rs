//! The Redis protocol: `CL.THROTTLE` as redis-cell answers it, `TG.CHECK` for policies, and what clients say before
//! they ask.
//!
//! - [`connection`] reads and writes, within bounds; [`pipeline`] answers what was read at once, and [`frame`] finds the
//!   commands in it.
//! - [`command`] is the table of commands; [`throttle`] and [`check`] ask the service, [`greeting`] and [`info`] are what
//!   clients say and ask before.
//! - [`transaction`] keeps commands until `EXEC`; [`out`] is how answers are written.
//!
//! A pipeline is the fast path: one read, all its commands decided where they lie in the buffer, one write. In memory
//! nothing is allocated for a check.

mod auth;
mod buffer_pool;
mod check;
mod command;
mod connection;
mod frame;
mod greeting;
mod info;
mod number;
mod out;
mod pipeline;
mod session;
mod throttle;
mod transaction;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate::{Clock, Scope, SystemClock};

pub(crate) use self::auth::Password;
use self::connection::Connection;
use self::session::Session;
use crate::net::Stream;
use crate::net::{ConnectionHandler, Shutdown};
use crate::service::AppState;
use tidegate_request::Peer;

/// What one connection may do; how large a command may be is [`frame`]'s.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RespBounds {
    /// How long a connection may say nothing; for ever by default, as with Redis, because clients keep pools.
    pub(crate) idle_timeout: Option<Duration>,
    /// How long a command may take from its first byte to its last.
    pub(crate) frame_timeout: Duration,
    /// How long a client may leave answers unread. Nothing more is read from it meanwhile.
    pub(crate) write_deadline: Duration,
}

impl Default for RespBounds {
    fn default() -> Self {
        let (frame_timeout, write_deadline) = (Duration::from_secs(5), Duration::from_secs(10));
        Self { idle_timeout: None, frame_timeout, write_deadline }
    }
}

/// The Redis protocol.
#[derive(Clone, Debug)]
pub(crate) struct RespDoor(Arc<DoorState>);

/// What the connections of a door share.
#[derive(Debug)]
struct DoorState {
    app: Arc<AppState>,
    password: Option<Password>,
    bounds: RespBounds,
    /// Where `CL.THROTTLE` counts. A policy has a name, so that it is never one's.
    scope: Scope,
    opened_us: u64,
    connections: AtomicU64,
}

impl RespDoor {
    /// A door, with a password if there is one.
    pub(crate) fn new(app: Arc<AppState>, password: Option<Password>, bounds: RespBounds) -> Self {
        let (scope, opened_us) = (Scope::named("", "cl.throttle"), SystemClock.steady_us());
        let connections = AtomicU64::new(0);
        Self(Arc::new(DoorState { app, password, bounds, scope, opened_us, connections }))
    }
}

impl ConnectionHandler for RespDoor {
    async fn serve(self, stream: Stream, peer: Peer, shutdown: Shutdown) {
        let door = &*self.0;
        let id = door.connections.fetch_add(1, Ordering::Relaxed) + 1;
        let session = Session::new(id, peer, door.password.is_none());
        if let Err(error) = Connection::new(door, stream, session).converse(&shutdown).await {
            tracing::debug!(%error, "connection ended");
        }
    }
}
