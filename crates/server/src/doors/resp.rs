//! The Redis protocol: `CL.THROTTLE` as redis-cell answers it, `TG.CHECK` for policies, and the commands that client
//! libraries send when they connect.
//!
//! - [`connection`] reads and writes within bounds; [`pipeline`] answers all commands of one read, [`frame`] parses them.
//! - [`command`] is the command table; [`throttle`] and [`check`] call the service; [`handshake`] and [`info`] serve
//!   connection setup and introspection.
//! - [`transaction`] queues commands until `EXEC`; [`reply`] encodes replies.
//!
//! A pipeline is the fast path: one read, every command decided in the read buffer, one write. With the memory store a
//! check allocates nothing.

mod buffer_pool;
mod check;
mod command;
mod connection;
mod frame;
mod handshake;
mod info;
mod number;
mod pipeline;
mod reply;
mod session;
mod throttle;
mod transaction;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate::{Clock, Scope, SystemClock};

use self::connection::Connection;
use self::handshake::Password;
use self::session::Session;
use super::shared::{DoorContext, OpenDoor, first_policy};
use crate::net::{ConnectionHandler, Shutdown, Stream};
use crate::service::AppState;
use tidegate_config::{Address, Config, Door, SecretSource};
use tidegate_request::Peer;

/// Bounds of one connection. [`frame`] bounds the size of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RespBounds {
    /// How long a connection may be idle. No limit by default, as in Redis, because clients keep connection pools.
    pub(crate) idle_timeout: Option<Duration>,
    /// How long a command may take from its first byte to its last.
    pub(crate) frame_timeout: Duration,
    /// How long a client may leave replies unread. The server reads nothing more from it meanwhile.
    pub(crate) write_deadline: Duration,
}

impl Default for RespBounds {
    fn default() -> Self {
        let (frame_timeout, write_deadline) = (Duration::from_secs(5), Duration::from_secs(10));
        Self { idle_timeout: None, frame_timeout, write_deadline }
    }
}

/// The door for the Redis protocol.
#[derive(Clone, Debug)]
pub(crate) struct RespDoor(Arc<DoorState>);

/// State shared by all connections.
#[derive(Debug)]
struct DoorState {
    app: Arc<AppState>,
    password: Option<Password>,
    bounds: RespBounds,
    /// The scope of `CL.THROTTLE` keys. Policy names are not empty, so no policy shares it.
    scope: Scope,
    opened_us: u64,
    connections: AtomicU64,
}

impl RespDoor {
    pub(crate) fn new(app: Arc<AppState>, password: Option<Password>, bounds: RespBounds) -> Self {
        let (scope, opened_us) = (Scope::named("", "cl.throttle"), SystemClock.steady_us());
        let connections = AtomicU64::new(0);
        Self(Arc::new(DoorState { app, password, bounds, scope, opened_us, connections }))
    }
}

impl OpenDoor for RespDoor {
    const LISTENING: &'static str = "listening for the Redis protocol";

    fn build(context: &DoorContext<'_>) -> Result<Self, String> {
        let listener = context.config.listen.get(&Door::Resp);
        let password = listener.and_then(|it| it.password.as_ref()).map(|source| match source {
            SecretSource::File(path) => Password::read(path),
            SecretSource::Given(secret) => Ok(Password::new(&secret.0)),
        });
        Ok(Self::new(context.app.clone(), password.transpose()?, RespBounds::default()))
    }

    fn welcome(address: &Address, _scheme: &str, config: &Config) -> String {
        // `CL.THROTTLE` brings its own limit.
        let command = first_policy(config).map_or_else(
            || "CL.THROTTLE user-42 15 30 60".to_owned(),
            |policy| format!("TG.CHECK {policy} user-42"),
        );
        let target = match address {
            Address::Unix(path) => format!("-s {}", path.display()),
            Address::Tcp(addr) => format!("-h {} -p {}", addr.ip(), addr.port()),
        };
        format!("and the Redis protocol on {address}:  redis-cli {target} {command}\n")
    }
}

impl ConnectionHandler for RespDoor {
    async fn serve(self, stream: Stream, peer: Peer, shutdown: Shutdown) {
        let door = &*self.0;
        let id = door.connections.fetch_add(1, Ordering::Relaxed) + 1;
        let session = Session::new(id, peer, door.password.is_none());
        if let Err(error) = Connection::new(door, stream, session).run(&shutdown).await {
            tracing::debug!(%error, "connection ended");
        }
    }
}
