//! A connection with a long timeout, which distinguishes a server that refuses a command from one that is gone.

use std::path::PathBuf;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, Cmd, ErrorKind, FromRedisValue, Pipeline,
    RedisError, TlsCertificates, Value,
};

use super::server::RedisServer;
use tidegate_core::text::printable;
use tidegate_redis::TlsFiles;

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
    /// Commands that the user may not run.
    pub(super) forbidden: Vec<&'static str>,
    /// Why the connection was lost.
    pub(super) lost: Option<String>,
}

impl Connection {
    pub(super) async fn open(server: &RedisServer) -> Result<Self, ConnectError> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(TIMEOUT))
            .set_response_timeout(Some(TIMEOUT));
        let client = client(server)?;
        let connected = client.get_multiplexed_async_connection_with_config(&config).await;
        let mut connection = connected.map_err(|error| connect_error(&error))?;
        let pong: Result<Value, _> = redis::cmd("PING").query_async(&mut connection).await;
        // With one of these it answers, and a check reports it.
        let states = ["LOADING", "BUSY", "NOPERM", "MASTERDOWN", "MISCONF"];
        match pong {
            Err(error) if !error.code().is_some_and(|code| states.contains(&code)) => {
                Err(connect_error(&error))
            }
            _ => Ok(Self { inner: connection, forbidden: Vec::new(), lost: None }),
        }
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

fn client(server: &RedisServer) -> Result<Client, ConnectError> {
    let TlsFiles { ca, cert, key } = server.files.clone().unwrap_or_default();
    let read = |file: PathBuf| {
        let shown = printable(&file.display().to_string());
        let why = |error| ConnectError::Url(format!("cannot read {shown}: {error}"));
        std::fs::read(file).map_err(why)
    };
    let root_cert = ca.map(read).transpose()?;
    let client_tls = match (cert, key) {
        (Some(cert), Some(key)) => {
            Some(ClientTlsConfig { client_cert: read(cert)?, client_key: read(key)? })
        }
        _ => None,
    };
    let client = if root_cert.is_some() || client_tls.is_some() {
        Client::build_with_tls(server.info.clone(), TlsCertificates { client_tls, root_cert })
    } else {
        Client::open(server.info.clone())
    };
    client.map_err(|error| connect_error(&error))
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
