//! A connection with a long timeout, which distinguishes a server that refuses a command from one that is gone.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Cmd, ErrorKind, FromRedisValue, Pipeline, RedisConnectionInfo,
    RedisError, Value,
};
use tokio::time::timeout;

use super::server::RedisServer;
use crate::stream::{Meter, MeteredStream};

/// For a connection, and for a reply.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Why there is no connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum ConnectError {
    /// The URL names no server.
    Url(String),
    /// The connection was refused, or there is no such socket.
    Refused,
    /// No answer in time.
    TimedOut,
    NeedsPassword,
    /// The user or password was not accepted.
    Denied,
    Other(String),
}

/// Once the connection is lost, every command returns `None`.
pub(super) struct Connection {
    inner: MultiplexedConnection,
    meter: Arc<Meter>,
    /// Commands that the user may not run.
    pub(super) forbidden: Vec<&'static str>,
    /// Why the connection was lost.
    pub(super) lost: Option<String>,
}

impl Connection {
    pub(super) async fn open(server: &RedisServer) -> Result<Self, ConnectError> {
        let open = timeout(TIMEOUT, Self::enter(server)).await;
        let (mut connection, meter) = open.unwrap_or(Err(ConnectError::TimedOut))?;
        let pong: Result<Value, _> = redis::cmd("PING").query_async(&mut connection).await;
        // With one of these it answers, and a check reports it.
        let states = ["LOADING", "BUSY", "NOPERM", "MASTERDOWN", "MISCONF"];
        match pong {
            Err(error) if !error.code().is_some_and(|code| states.contains(&code)) => {
                Err(connect_error(&error))
            }
            _ => Ok(Self { inner: connection, meter, forbidden: Vec::new(), lost: None }),
        }
    }

    /// Connects, logs in, and starts a task that ends with the connection.
    async fn enter(
        server: &RedisServer,
    ) -> Result<(MultiplexedConnection, Arc<Meter>), ConnectError> {
        let stream = MeteredStream::connect(&server.endpoint, &server.access).await;
        let stream = stream.map_err(|error| not_connected(&error))?;
        let meter = stream.meter.clone();
        let info = RedisConnectionInfo::default().set_db(i64::from(server.access.db));
        let info = server.access.login.iter().fold(info, |info, login| login.enter(info));
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(TIMEOUT));
        let made = MultiplexedConnection::new_with_config(&info, stream, config).await;
        let (connection, driver) = made.map_err(|error| connect_error(&error))?;
        tokio::spawn(driver);
        Ok((connection, meter))
    }

    /// The reply; an error reply adds `name` to the forbidden commands.
    pub(super) async fn query<T: FromRedisValue>(
        &mut self,
        name: &'static str,
        cmd: &Cmd,
    ) -> Option<T> {
        let reply = cmd.query_async(&mut self.connected()?).await;
        self.permitted(name, reply)
    }

    /// The same for several commands at once.
    pub(super) async fn query_all<T: FromRedisValue>(
        &mut self,
        name: &'static str,
        pipeline: &Pipeline,
    ) -> Option<T> {
        let reply = pipeline.query_async(&mut self.connected()?).await;
        self.permitted(name, reply)
    }

    /// The reply, which may be an error; `None` if the connection is lost.
    pub(super) async fn try_command(&mut self, cmd: &Cmd) -> Option<Result<Value, RedisError>> {
        let reply = cmd.query_async(&mut self.connected()?).await;
        self.unless_lost(reply)
    }

    fn connected(&self) -> Option<MultiplexedConnection> {
        self.lost.is_none().then(|| self.inner.clone())
    }

    fn unless_lost<T>(&mut self, reply: Result<T, RedisError>) -> Option<Result<T, RedisError>> {
        self.meter.reply_ends();
        let is_lost = |error: &&RedisError| error.is_io_error() || error.is_unrecoverable_error();
        self.lost = reply.as_ref().err().filter(is_lost).map(ToString::to_string);
        self.lost.is_none().then_some(reply)
    }

    fn permitted<T>(&mut self, name: &'static str, reply: Result<T, RedisError>) -> Option<T> {
        let value = self.unless_lost(reply)?.ok();
        if value.is_none() && !self.forbidden.contains(&name) {
            self.forbidden.push(name);
        }
        value
    }
}

/// What the system says of a connection that it did not make.
fn not_connected(error: &io::Error) -> ConnectError {
    match error.kind() {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => ConnectError::Refused,
        io::ErrorKind::TimedOut => ConnectError::TimedOut,
        _ => ConnectError::Other(error.to_string()),
    }
}

fn connect_error(error: &RedisError) -> ConnectError {
    if error.is_timeout() {
        ConnectError::TimedOut
    } else if error.is_connection_refusal() {
        ConnectError::Refused
    } else if error.code() == Some("NOAUTH") {
        ConnectError::NeedsPassword
    } else if error.kind() == ErrorKind::AuthenticationFailed || error.code() == Some("WRONGPASS") {
        ConnectError::Denied
    } else {
        ConnectError::Other(error.to_string())
    }
}
