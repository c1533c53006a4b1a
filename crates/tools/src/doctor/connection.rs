//! A connection with a long timeout, which distinguishes a server that refuses a command from one that is gone.

use std::path::PathBuf;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, Cmd, ErrorKind, FromRedisValue, Pipeline,
    RedisError, TlsCertificates,
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
        let pong: Result<redis::Value, _> = redis::cmd("PING").query_async(&mut connection).await;
        match pong {
            // It answers; a check reports this state.
            Err(error)
                if matches!(
                    error.code(),
                    Some("LOADING" | "BUSY" | "NOPERM" | "MASTERDOWN" | "MISCONF")
                ) => {}
            Err(error) => return Err(connect_error(&error)),
            Ok(_) => {}
        }
        Ok(Self { inner: connection, forbidden: Vec::new(), lost: None })
    }

    /// The reply; an error reply adds `name` to the forbidden commands.
    pub(super) async fn query<T: FromRedisValue>(
        &mut self,
        name: &'static str,
        cmd: &Cmd,
    ) -> Option<T> {
        if self.lost.is_some() {
            return None;
        }
        let reply = cmd.query_async(&mut self.inner).await;
        self.take(name, reply)
    }

    /// The same for several commands at once.
    pub(super) async fn query_all<T: FromRedisValue>(
        &mut self,
        name: &'static str,
        pipeline: &Pipeline,
    ) -> Option<T> {
        if self.lost.is_some() {
            return None;
        }
        let reply = pipeline.query_async(&mut self.inner).await;
        self.take(name, reply)
    }

    /// The reply, which may be an error; `None` if the connection is lost.
    pub(super) async fn try_command(&mut self, cmd: &Cmd) -> Option<Result<(), RedisError>> {
        if self.lost.is_some() {
            return None;
        }
        let reply: Result<redis::Value, _> = cmd.query_async(&mut self.inner).await;
        match reply {
            Err(error) if is_lost(&error) => {
                self.lost = Some(error.to_string());
                None
            }
            reply => Some(reply.map(drop)),
        }
    }

    fn take<T>(&mut self, name: &'static str, reply: Result<T, RedisError>) -> Option<T> {
        match reply {
            Ok(value) => Some(value),
            Err(error) if is_lost(&error) => {
                self.lost = Some(error.to_string());
                None
            }
            Err(_) => {
                if !self.forbidden.contains(&name) {
                    self.forbidden.push(name);
                }
                None
            }
        }
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

fn is_lost(error: &RedisError) -> bool {
    error.is_io_error() || error.is_unrecoverable_error()
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
