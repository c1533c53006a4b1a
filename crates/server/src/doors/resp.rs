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
mod guesses;
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
use self::guesses::Guesses;
use self::handshake::Password;
use self::session::Session;
use super::shared::{DoorContext, ExampleCheck, OpenDoor};
use crate::net::timeout::OPENING;
use crate::net::{Client, ConnectionHandler, Shutdown, Stream};
use crate::service::AppState;
use tidegate_config::{Address, Config, Door, SecretSource};
use tidegate_request::Peer;

/// Bounds of one connection. [`frame`] bounds the size of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RespBounds {
    /// How long a client may take to authenticate; without a password, to send its first byte.
    pub(crate) opening_timeout: Duration,
    /// How long a connection may be idle. No limit by default, as in Redis, because clients keep connection pools.
    pub(crate) idle_timeout: Option<Duration>,
    /// The same within `MULTI`, whose commands are kept: longer than a person takes to type one.
    pub(crate) transaction_timeout: Duration,
    /// How long a command may take from its first byte to its last.
    pub(crate) frame_timeout: Duration,
    /// How long a client may leave replies unread. The server reads nothing more from it meanwhile.
    pub(crate) write_deadline: Duration,
    /// How long a wrong password takes to answer, and the next one of that client to be compared.
    pub(crate) wrong_password_delay: Duration,
}

/// A connection with so many wrong passwords is closed.
const WRONG_PASSWORDS_MAX: u32 = 3;

impl Default for RespBounds {
    fn default() -> Self {
        Self {
            opening_timeout: OPENING,
            idle_timeout: None,
            transaction_timeout: Duration::from_mins(1),
            frame_timeout: Duration::from_secs(5),
            write_deadline: Duration::from_secs(10),
            wrong_password_delay: Duration::from_millis(250),
        }
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
    guesses: Guesses,
    /// The scope of `CL.THROTTLE` keys. Policy names are not empty, so no policy shares it.
    scope: Scope,
    opened_us: u64,
    connections: AtomicU64,
}

impl RespDoor {
    pub(crate) fn new(app: Arc<AppState>, password: Option<Password>, bounds: RespBounds) -> Self {
        let (scope, opened_us) = (Scope::named("", "cl.throttle"), SystemClock.steady_us());
        let connections = AtomicU64::new(0);
        let guesses = Guesses::default();
        Self(Arc::new(DoorState { app, password, bounds, guesses, scope, opened_us, connections }))
    }
}

impl DoorState {
    /// The name under which the passwords of a client are counted.
    fn guesser(&self, peer: Peer) -> String {
        guesses::guesser(&self.app.in_force().http.client_ip, peer)
    }
}

impl OpenDoor for RespDoor {
    const LISTENING: &'static str = "listening for the Redis protocol";

    fn build(context: &DoorContext<'_>) -> Result<Self, String> {
        let listener = context.config.listen.get(&Door::Resp);
        let password = listener.and_then(|it| it.password.as_ref()).map(|source| match source {
            SecretSource::File(path) => Password::read(path).inspect(|password| {
                if let Some(warning) = password.warning() {
                    tracing::warn!("the password in {} {warning}", path.display());
                }
            }),
            // `validate` has warned of a short one.
            SecretSource::Given(secret) => Ok(Password::new(&secret.0)),
        });
        let password = password.transpose()?;
        Ok(Self::new(context.app.clone(), password, RespBounds::default()))
    }

    fn welcome(address: &Address, _scheme: &str, config: &Config) -> String {
        // `CL.THROTTLE` brings its own limit.
        let check = ExampleCheck::all(config).find(ExampleCheck::has_one_key);
        let command = check.map_or_else(
            || "CL.THROTTLE user-42 15 30 60".to_owned(),
            |check| format!("TG.CHECK {} user-42", check.policy),
        );
        let target = match address {
            Address::Unix(path) => format!("-s {}", path.display()),
            Address::Tcp(addr) => format!("-h {} -p {}", addr.ip(), addr.port()),
        };
        format!("and the Redis protocol on {address}:  redis-cli {target} {command}\n")
    }
}

impl ConnectionHandler for RespDoor {
    async fn serve(self, stream: Stream, client: Client, shutdown: Shutdown) {
        let door = &*self.0;
        let id = door.connections.fetch_add(1, Ordering::Relaxed) + 1;
        let session = Session::new(id, client.peer, door.password.is_none());
        if let Err(error) = Connection::new(door, stream, &client, session).run(&shutdown).await {
            tracing::debug!(%error, "connection ended");
        }
    }
}
