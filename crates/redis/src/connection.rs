//! One connection: commands are sent in order, and answered in order.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Cmd, Pipeline, ProtocolVersion, PushInfo, RedisConnectionInfo,
    RedisResult, Value, cmd,
};
use tidegate::{Ran, StoreError, StoreErrorKind};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::access::Access;
use crate::endpoint::Endpoint;
use crate::stream::{Meter, MeteredStream};
use crate::{error, script};

/// The most commands that wait to be written: more than a node ever has in flight.
const COMMANDS_MAX: usize = 1024;

/// Commands up to this many bytes are sent in one write.
const WRITE_BYTES: usize = 256 << 10;

/// The pending reply to a command.
pub(crate) type ReplyFuture = Pin<Box<dyn Future<Output = RedisResult<Value>> + Send>>;

/// What reads and writes: it ends with its connection.
pub(crate) type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A connection that makes progress only while its driver is polled: it needs no task of its own.
pub(crate) struct Connection {
    inner: MultiplexedConnection,
    driver: Driver,
    pub(crate) meter: Arc<Meter>,
}

impl Connection {
    /// Connects, and sends nothing yet. With `pushed`, it uses RESP3 and notifies of push messages.
    pub(crate) async fn connect(
        endpoint: &Endpoint,
        access: &Access,
        pushed: Option<Arc<Notify>>,
    ) -> Result<Self, StoreError> {
        let failed = |error: &dyn std::error::Error| {
            StoreError::new(StoreErrorKind::Unreachable, format!("{endpoint}: {error}"))
        };
        let wire =
            MeteredStream::connect(endpoint, access).await.map_err(|error| failed(&error))?;
        let meter = wire.meter.clone();
        // We send the handshake ourselves: its replies contain more than the crate passes on.
        let mut info = RedisConnectionInfo::default().set_skip_set_lib_name();
        let mut config = AsyncConnectionConfig::new()
            .set_response_timeout(None)
            .set_pipeline_buffer_size(COMMANDS_MAX)
            .set_write_backpressure_boundary(WRITE_BYTES);
        if let Some(pushed) = pushed {
            info = info.set_protocol(ProtocolVersion::RESP3);
            info = access.login.iter().fold(info, |info, login| login.enter(info));
            config = config.set_push_sender(move |_: PushInfo| {
                pushed.notify_one();
                Ok::<_, Infallible>(())
            });
        }
        let made = MultiplexedConnection::new_with_config(&info, wire, config).await;
        let (connection, driver) = made.map_err(|error| failed(&error))?;
        Ok(Self { inner: connection, driver: Box::pin(driver), meter })
    }

    /// For whoever drives it from a task of its own.
    pub(crate) fn into_parts(self) -> (MultiplexedConnection, Driver, Arc<Meter>) {
        (self.inner, self.driver, self.meter)
    }

    /// Queues a command. It is written when the driver is next polled, together with all others.
    pub(crate) fn start(&self, command: Cmd) -> ReplyFuture {
        let mut connection = self.inner.clone();
        started(async move { connection.send_packed_command(&command).await })
    }

    /// The same for several commands with none in between. Answers the reply to the last one.
    pub(crate) fn start_together(&self, commands: Pipeline) -> ReplyFuture {
        let mut connection = self.inner.clone();
        started(async move {
            let skipped = commands.len().saturating_sub(1);
            let answers = connection.send_packed_commands(&commands, skipped, 1).await?;
            Ok(answers.into_iter().next().unwrap_or(Value::Nil))
        })
    }

    pub(crate) fn subscribe(&self, channel: &'static str) -> ReplyFuture {
        let mut connection = self.inner.clone();
        started(async move { connection.subscribe(channel).await.map(|()| Value::Okay) })
    }

    /// Reads and writes until the connection ends. Then commands without a reply are answered with an error.
    pub(crate) async fn drive(&mut self) {
        poll_fn(|task| self.poll_drive(task)).await;
    }

    pub(crate) fn poll_drive(&mut self, task: &mut Context<'_>) -> Poll<()> {
        let polled = self.driver.as_mut().poll(task);
        if polled.is_ready() {
            self.cut();
        }
        polled
    }

    /// Ends the connection at once.
    pub(crate) fn cut(&mut self) {
        self.driver = Box::pin(std::future::pending());
    }

    /// Waits for one reply, and drives the connection meanwhile.
    pub(crate) async fn reply_to(&mut self, mut call: ReplyFuture) -> RedisResult<Value> {
        let reply = tokio::select! {
            biased;
            reply = &mut call => Some(reply),
            () = self.drive() => None,
        };
        self.meter.reply_ends();
        match reply {
            Some(reply) => reply,
            None => call.await,
        }
    }

    /// The same, with an error of the server as an `Err`.
    pub(crate) async fn value_of(&mut self, call: ReplyFuture) -> Result<Value, StoreError> {
        match self.reply_to(call).await {
            Ok(Value::ServerError(error)) => Err(error::from_server(&error)),
            Ok(value) => Ok(value),
            Err(error) => Err(error::from_connection(&error)),
        }
    }
}

/// Polls a command once, which queues it: there is always room.
fn started(call: impl Future<Output = RedisResult<Value>> + Send + 'static) -> ReplyFuture {
    let mut call: ReplyFuture = Box::pin(call);
    match call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(reply) => Box::pin(std::future::ready(reply)),
        Poll::Pending => call,
    }
}

/// A connection that is not ready by then is given up. Redis accepts one at once even while it hangs.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// The channel on which sentinels publish a new primary.
const SWITCH_CHANNEL: &str = "+switch-master";

impl Connection {
    /// A connection that can be used. `as_primary` asks the server whether it is one.
    pub(crate) async fn open(
        endpoint: &Endpoint,
        access: &Access,
        as_primary: bool,
    ) -> Result<Self, StoreError> {
        let open = async {
            let mut connection = Self::connect(endpoint, access, None).await?;
            match connection.handshake(access, as_primary).await {
                Ok(()) => Ok(connection),
                // No request was sent on it.
                Err(error) if error.ran() == Ran::Unknown => Err(StoreError::new(
                    StoreErrorKind::Unreachable,
                    format!("{endpoint}: {error}"),
                )),
                Err(error) => Err(error),
            }
        };
        let late = format!("{endpoint}: no connection within {CONNECT_TIMEOUT:?}");
        let late = || Err(StoreError::new(StoreErrorKind::Unreachable, late));
        timeout(CONNECT_TIMEOUT, open).await.unwrap_or_else(|_| late())
    }

    /// A connection to a sentinel, subscribed to changes of the primary.
    pub(crate) async fn listen(
        endpoint: &Endpoint,
        access: &Access,
        pushed: Arc<Notify>,
    ) -> Result<Self, StoreError> {
        let mut connection = Self::connect(endpoint, access, Some(pushed)).await?;
        let subscribed = connection.subscribe(SWITCH_CHANNEL);
        connection.value_of(subscribed).await?;
        Ok(connection)
    }

    /// A connection without the script: for requests about the servers only.
    pub(crate) async fn enter(endpoint: &Endpoint, access: &Access) -> Result<Self, StoreError> {
        let mut connection = Self::connect(endpoint, access, None).await?;
        if let Some(login) = &access.login {
            let login = connection.start(login.command());
            connection.value_of(login).await?;
        }
        Ok(connection)
    }

    /// Logs in and loads the script, in one round trip.
    async fn handshake(&mut self, access: &Access, as_primary: bool) -> Result<(), StoreError> {
        let login = access.login.as_ref().map(|login| self.start(login.command()));
        // Redis closes an unauthenticated connection that sends as much as the script. The `PING` gets the reason.
        let ping = self.start(cmd("PING"));
        let select = (access.db > 0).then(|| self.start(cmd("SELECT").arg(access.db).take()));
        let role = as_primary.then(|| self.start(cmd("ROLE")));
        let load = self.start(cmd("SCRIPT").arg("LOAD").arg(script::SOURCE).take());
        if let Some(login) = login {
            self.value_of(login).await?;
        }
        tolerated(self.reply_to(ping).await)?;
        if let Some(select) = select {
            self.value_of(select).await?;
        }
        if let Some(role) = role {
            check_role(&self.value_of(role).await?)?;
        }
        tolerated(self.reply_to(load).await)
    }
}

/// Whether a connection can be used in spite of an error reply. A server that is busy or loading, or only permits script
/// calls, answers requests or their errors itself.
fn tolerated(reply: RedisResult<Value>) -> Result<(), StoreError> {
    match reply.map_err(|error| error::from_connection(&error))? {
        Value::ServerError(error) => match error::from_server(&error) {
            why if error.code() == "NOAUTH" || why.kind() == StoreErrorKind::MaxClients => Err(why),
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

fn check_role(role: &Value) -> Result<(), StoreError> {
    match role {
        Value::Array(fields) if fields.first() == Some(&Value::BulkString(b"master".to_vec())) => {
            Ok(())
        }
        _ => Err(StoreError::new(StoreErrorKind::ReadOnly, "the server is no primary")),
    }
}
