//! One connection: commands leave in order, and are answered in order.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Cmd, ErrorKind, Pipeline, ProtocolVersion, PushInfo,
    RedisConnectionInfo, RedisError, RedisResult, ServerError, Value,
};
use tokio::sync::Notify;

use super::error;
use super::place::{Access, Place};
use super::wire::{Meter, Wire};
use tidegate::{StoreError, StoreErrorKind};

/// Commands that may be handed over at once: more than a node ever has in flight.
const COMMANDS_MAX: usize = 1024;

/// Handed over before this many bytes are written, commands leave in one write.
const WRITE_BYTES: usize = 256 << 10;

/// The answer to a command, under way.
pub(super) type Pending = Pin<Box<dyn Future<Output = RedisResult<Value>> + Send>>;

/// A connection, which moves only while its driver is polled: whoever has it needs no other task.
pub(super) struct Link {
    connection: MultiplexedConnection,
    driver: Pin<Box<dyn Future<Output = ()> + Send>>,
    meter: Arc<Meter>,
}

impl Link {
    /// Connected, and nothing said yet; with RESP3 if somebody listens to what is said unasked.
    pub(super) async fn connect(
        place: &Place,
        access: &Access,
        heard: Option<Arc<Notify>>,
    ) -> Result<Self, StoreError> {
        let failed = |error: &dyn std::error::Error| {
            StoreError::new(StoreErrorKind::Unreachable, format!("{place}: {error}"))
        };
        let wire = Wire::connect(place, access).await.map_err(|error| failed(&error))?;
        let meter = wire.meter();
        // What there is to say, we say ourselves: the answers tell more than the crate passes on.
        let mut info = RedisConnectionInfo::default().set_skip_set_lib_name();
        let mut config = AsyncConnectionConfig::new()
            .set_response_timeout(None)
            .set_pipeline_buffer_size(COMMANDS_MAX)
            .set_write_backpressure_boundary(WRITE_BYTES);
        if let Some(heard) = heard {
            info = info.set_protocol(ProtocolVersion::RESP3);
            info = access.login.iter().fold(info, |info, login| login.enter(info));
            config = config.set_push_sender(move |_: PushInfo| {
                heard.notify_one();
                Ok::<_, Infallible>(())
            });
        }
        let made = MultiplexedConnection::new_with_config(&info, wire, config).await;
        let (connection, driver) = made.map_err(|error| failed(&error))?;
        Ok(Self { connection, driver: Box::pin(driver), meter })
    }

    /// Hands a command over. It is written when the driver is next polled, together with all others.
    pub(super) fn start(&self, command: Cmd) -> Pending {
        let mut connection = self.connection.clone();
        started(async move { connection.send_packed_command(&command).await })
    }

    /// The same for several that nothing may come between; the last one's answer counts.
    pub(super) fn start_together(&self, commands: Pipeline) -> Pending {
        let mut connection = self.connection.clone();
        started(async move {
            let skipped = commands.len().saturating_sub(1);
            let answers = connection.send_packed_commands(&commands, skipped, 1).await?;
            Ok(answers.into_iter().next().unwrap_or(Value::Nil))
        })
    }

    pub(super) fn subscribe(&self, channel: &'static str) -> Pending {
        let mut connection = self.connection.clone();
        started(async move { connection.subscribe(channel).await.map(|()| Value::Okay) })
    }

    /// Moves bytes, until the connection ends. Whatever was still owed is answered then, with an error.
    pub(super) async fn drive(&mut self) {
        poll_fn(|task| self.poll_drive(task)).await;
    }

    pub(super) fn poll_drive(&mut self, task: &mut Context<'_>) -> Poll<()> {
        let polled = self.driver.as_mut().poll(task);
        if polled.is_ready() {
            self.cut();
        }
        polled
    }

    /// Ends the connection at once.
    pub(super) fn cut(&mut self) {
        self.driver = Box::pin(std::future::pending());
    }

    /// Waits for one reply, moving bytes meanwhile.
    pub(super) async fn reply_to(&mut self, mut call: Pending) -> RedisResult<Value> {
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

    /// The same, where an error of the server is no value.
    pub(super) async fn value_of(&mut self, call: Pending) -> Result<Value, StoreError> {
        match self.reply_to(call).await {
            Ok(Value::ServerError(error)) => Err(said(&error)),
            Ok(value) => Ok(value),
            Err(error) => Err(lost(&error)),
        }
    }

    pub(super) fn meter(&self) -> &Meter {
        &self.meter
    }
}

/// Polled once, a command is in the connection's hands: there is always room.
fn started(call: impl Future<Output = RedisResult<Value>> + Send + 'static) -> Pending {
    let mut call: Pending = Box::pin(call);
    match call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(reply) => Box::pin(std::future::ready(reply)),
        Poll::Pending => call,
    }
}

/// What a server said, by its code: the crate's own words for it are others.
pub(super) fn said(error: &ServerError) -> StoreError {
    error::from_redis(&format!("{} {}", error.code(), error.details().unwrap_or_default()))
}

/// A connection that failed, with something written.
pub(super) fn lost(error: &RedisError) -> StoreError {
    let trouble = match error.kind() {
        ErrorKind::Parse => StoreErrorKind::Protocol,
        _ => StoreErrorKind::Disconnected,
    };
    StoreError::new(trouble, error.to_string())
}
