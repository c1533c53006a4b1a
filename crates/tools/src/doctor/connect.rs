//! A connection for looking around: patient, and it tells apart a server that says no from one that is gone.

use std::path::PathBuf;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, Cmd, ErrorKind, FromRedisValue, Pipeline,
    RedisError, TlsCertificates,
};

use super::place::Place;
use tidegate_core::text::printable;
use tidegate_redis::TlsFiles;

/// For a connection, and for a reply.
const PATIENCE: Duration = Duration::from_secs(2);

/// Why a server did not let us in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Refusal {
    /// The URL names no server.
    Url(String),
    /// The connection was refused, or there is no such socket.
    Nobody,
    /// No answer in time.
    Silent,
    NeedsPassword,
    /// The user or password was not accepted.
    Denied,
    Other(String),
}

/// A connection. Once it is lost, every question is answered with nothing.
pub(super) struct Look {
    connection: MultiplexedConnection,
    /// Commands that the server did not let us use.
    pub(super) forbidden: Vec<&'static str>,
    /// Why the connection was lost.
    pub(super) lost: Option<String>,
}

impl Look {
    pub(super) async fn at(place: &Place) -> Result<Self, Refusal> {
        let patient = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(PATIENCE))
            .set_response_timeout(Some(PATIENCE));
        let client = client(place)?;
        let connected = client.get_multiplexed_async_connection_with_config(&patient).await;
        let mut connection = connected.map_err(|error| refusal(&error))?;
        let pong: Result<redis::Value, _> = redis::cmd("PING").query_async(&mut connection).await;
        match pong {
            // It is there, and what it says here is said again where it matters.
            Err(error)
                if matches!(
                    error.code(),
                    Some("LOADING" | "BUSY" | "NOPERM" | "MASTERDOWN" | "MISCONF")
                ) => {}
            Err(error) => return Err(refusal(&error)),
            Ok(_) => {}
        }
        Ok(Self { connection, forbidden: Vec::new(), lost: None })
    }

    /// The answer, or nothing where the server does not give one; then `name` is remembered as forbidden.
    pub(super) async fn ask<T: FromRedisValue>(
        &mut self,
        name: &'static str,
        cmd: &Cmd,
    ) -> Option<T> {
        if self.lost.is_some() {
            return None;
        }
        let reply = cmd.query_async(&mut self.connection).await;
        self.take(name, reply)
    }

    /// The same for several commands at once.
    pub(super) async fn ask_all<T: FromRedisValue>(
        &mut self,
        name: &'static str,
        pipeline: &Pipeline,
    ) -> Option<T> {
        if self.lost.is_some() {
            return None;
        }
        let reply = pipeline.query_async(&mut self.connection).await;
        self.take(name, reply)
    }

    /// What the server says to a command, be it an error; nothing if the connection is lost.
    pub(super) async fn try_command(&mut self, cmd: &Cmd) -> Option<Result<(), RedisError>> {
        if self.lost.is_some() {
            return None;
        }
        let reply: Result<redis::Value, _> = cmd.query_async(&mut self.connection).await;
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

fn client(place: &Place) -> Result<Client, Refusal> {
    let TlsFiles { ca, cert, key } = place.files.clone().unwrap_or_default();
    let read = |file: PathBuf| {
        let shown = printable(&file.display().to_string());
        let why = |error| Refusal::Url(format!("cannot read {shown}: {error}"));
        std::fs::read(file).map_err(why)
    };
    let root_cert = ca.map(read).transpose()?;
    let client_tls = match (cert, key) {
        (Some(cert), Some(key)) => {
            Some(ClientTlsConfig { client_cert: read(cert)?, client_key: read(key)? })
        }
        _ => None,
    };
    let made = if root_cert.is_some() || client_tls.is_some() {
        Client::build_with_tls(place.info.clone(), TlsCertificates { client_tls, root_cert })
    } else {
        Client::open(place.info.clone())
    };
    made.map_err(|error| refusal(&error))
}

fn is_lost(error: &RedisError) -> bool {
    error.is_io_error() || error.is_unrecoverable_error()
}

fn refusal(error: &RedisError) -> Refusal {
    if error.is_timeout() {
        Refusal::Silent
    } else if error.is_connection_refusal() {
        Refusal::Nobody
    } else if error.code() == Some("NOAUTH") {
        Refusal::NeedsPassword
    } else if error.kind() == ErrorKind::AuthenticationFailed || error.code() == Some("WRONGPASS") {
        Refusal::Denied
    } else {
        Refusal::Other(error.to_string())
    }
}
