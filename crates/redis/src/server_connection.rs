//! A connection to one server, for stores of other crates that speak to Redis.

use std::fmt;
use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Value, cmd};
use tidegate::{Ran, StoreError, StoreErrorKind};

use crate::access::Access;
use crate::connection::Connection;
use crate::endpoint::{Endpoint, Login};
use crate::error;
use crate::stream::Meter;

/// A connection that many use at once: commands are sent in the order they come, and answered in that order. Whoever no
/// longer waits for a reply drops its future; the reply is read and dropped in its turn.
///
/// Clones share it. It ends when all are dropped, or its driver is.
///
/// ```no_run
/// use tidegate_redis::{Access, ServerConnection, ServerList};
///
/// # async fn example() -> Result<(), tidegate::StoreError> {
/// let list = ServerList::parse("redis+quorum://10.0.0.1,10.0.0.2,10.0.0.3", "quorum")?;
/// let access = Access::to(&list)?;
/// let (connection, driver) = ServerConnection::open(&list.endpoints[0], &access, 1 << 20).await?;
/// tokio::spawn(driver);
/// let reply = connection.call(&redis::cmd("PING")).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ServerConnection {
    inner: MultiplexedConnection,
    meter: Arc<Meter>,
}

impl ServerConnection {
    /// Connects and logs in. The second part drives the connection, for as long as it lasts. Keep a deadline around it: a
    /// server that hangs accepts connections.
    pub async fn open(
        endpoint: &Endpoint,
        access: &Access,
        reply_bytes_max: u64,
    ) -> Result<(Self, impl Future<Output = ()> + Send + use<>), StoreError> {
        let mut connection = Connection::connect(endpoint, access, None).await?;
        connection.meter.allow_replies_of(reply_bytes_max);
        let login = access.login.as_ref().map(Login::command);
        let select = (access.db > 0).then(|| cmd("SELECT").arg(access.db).take());
        for command in login.into_iter().chain([cmd("PING")]).chain(select) {
            let reply = connection.start(command);
            connection.value_of(reply).await.map_err(|error| unreachable(endpoint, error))?;
        }
        let (inner, driver, meter) = connection.into_parts();
        Ok((Self { inner, meter }, driver))
    }

    /// Sends a command and waits for its reply. An error of the server is an `Err`, whose kind says whether it ran.
    pub async fn call(&self, command: &Cmd) -> Result<Value, StoreError> {
        let reply = self.inner.clone().send_packed_command(command).await;
        self.meter.reply_ends();
        match reply {
            Ok(Value::ServerError(error)) => Err(error::from_server(&error)),
            Ok(value) => Ok(value),
            Err(error) => Err(error::from_connection(&error)),
        }
    }
}

/// Nothing was asked yet, so that nothing has run.
fn unreachable(endpoint: &Endpoint, error: StoreError) -> StoreError {
    match error.ran() {
        Ran::No => error,
        Ran::Unknown => {
            StoreError::new(StoreErrorKind::Unreachable, format!("{endpoint}: {error}"))
        }
    }
}

impl fmt::Debug for ServerConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerConnection(…)")
    }
}
