//! One connection: how much it may send, how long it is waited for.

use std::io;
use std::pin::pin;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout, timeout_at};

use super::command::Next;
use super::frame::FRAME_BYTES_MAX;
use super::out::Out;
use super::pipeline::{self, LateAnswers, Pause, Pipeline};
use super::session::Session;
use super::{DoorState, buffer_pool};
use crate::metrics::DoorName;
use crate::net::Shutdown;
use crate::net::Stream;
use crate::service;

/// A first output buffer: a pipeline of a hundred checks.
const OUT_BYTES: usize = 4 << 10;
/// How much, and for how long, is still read from somebody who was hung up on. Closing with bytes unread would take
/// the last answer away.
const LINGER_BYTES_MAX: usize = 1 << 20;
const LINGER: Duration = Duration::from_secs(1);

/// A client, and what was read from it and is not yet written to it.
pub(super) struct Connection<'h> {
    door: &'h DoorState,
    stream: Stream,
    session: Session,
    /// What was read and not yet answered. Has no memory while nothing was.
    input: Vec<u8>,
    out: Out,
    /// When the command that has begun has to be whole.
    frame_due: Option<Instant>,
    /// How many checks it has asked for that spend something.
    checks: u64,
}

impl<'h> Connection<'h> {
    pub(super) fn new(door: &'h DoorState, stream: Stream, session: Session) -> Self {
        let (input, out, frame_due) = (Vec::new(), Out::default(), None);
        let checks = 0;
        Self { door, stream, session, input, out, frame_due, checks }
    }

    /// Answers until the client leaves, is hung up on, or the server ends.
    pub(super) async fn converse(mut self, shutdown: &Shutdown) -> io::Result<()> {
        let mut closing = pin!(shutdown.closing());
        loop {
            let read = tokio::select! {
                read = self.hear() => read?,
                () = &mut closing => return self.last_words().await,
            };
            if read == 0 {
                return Ok(());
            }
            if self.burst().await? == Next::Close {
                return self.hang_up().await;
            }
        }
    }

    /// Answers what has come already, and closes.
    async fn last_words(mut self) -> io::Result<()> {
        let read = tokio::select! {
            biased;
            read = self.hear() => read?,
            () = std::future::ready(()) => 0,
        };
        if read > 0 {
            self.burst().await?;
        }
        self.hang_up().await
    }

    /// Reads what there is, once there is something. Cancelled, it has read nothing.
    async fn hear(&mut self) -> io::Result<usize> {
        let Self { stream, input, frame_due, door, .. } = self;
        let heard = async {
            // A buffer is only taken once there is something to put into it.
            stream.readable().await?;
            if input.capacity() == 0 {
                *input = buffer_pool::take(FRAME_BYTES_MAX);
            }
            stream.read_buf(input).await
        };
        let late = |_| io::Error::from(io::ErrorKind::TimedOut);
        match (frame_due, door.bounds.idle_timeout) {
            (Some(due), _) => timeout_at(*due, heard).await.map_err(late)?,
            (None, Some(idle)) => timeout(idle, heard).await.map_err(late)?,
            (None, None) => heard.await,
        }
    }

    /// Answers every whole command that was read, in order.
    async fn burst(&mut self) -> io::Result<Next> {
        let (input, mut used) = (std::mem::take(&mut self.input), 0);
        let next = loop {
            match self.some(&input, &mut used).await? {
                Pause::Full => {}
                Pause::Exec => self.execute().await?,
                Pause::NoMore => break Next::GoOn,
                Pause::Close => break Next::Close,
            }
        };
        self.input = input;
        self.keep_from(used);
        Ok(next)
    }

    /// Answers what was kept for `EXEC`. All of it is whole, and none of it ends the conversation.
    async fn execute(&mut self) -> io::Result<()> {
        let (due, mut used) = (std::mem::take(&mut self.session.due), 0);
        while self.some(&due, &mut used).await? == Pause::Full {}
        Ok(())
    }

    /// Answers commands until there is a reason to pause, and writes the answers.
    async fn some(&mut self, input: &[u8], used: &mut usize) -> io::Result<Pause> {
        let pause = self.answer(input, used).await;
        // The head of an array goes with what is in it.
        if pause != Pause::Exec {
            self.stream.send(&self.out.0, self.door.bounds.write_deadline).await?;
            self.out.0.clear();
        }
        Ok(pause)
    }

    /// Keeps what has begun and is not whole, and gives the buffers back where nothing has.
    fn keep_from(&mut self, used: usize) {
        buffer_pool::give(std::mem::take(&mut self.out.0));
        if used == self.input.len() {
            buffer_pool::give(std::mem::take(&mut self.input));
            self.frame_due = None;
            return;
        }
        // Each command has its own time, not each byte: who sends one now and then does not stay for ever.
        if used > 0 || self.frame_due.is_none() {
            self.frame_due = Some(Instant::now() + self.door.bounds.frame_timeout);
        }
        self.input.drain(..used);
    }

    /// Answers commands until there is a reason to pause. One configuration answers them all.
    async fn answer(&mut self, input: &[u8], used: &mut usize) -> Pause {
        let Self { door, session, out, checks, .. } = self;
        let (service, in_force) = (door.app.service(), door.app.in_force());
        if out.0.capacity() == 0 {
            out.0 = buffer_pool::take(OUT_BYTES);
        }
        let mut asking = service::Pipeline::begin(service, &in_force, DoorName::Resp, *checks);
        let mut late = LateAnswers::new();
        let pipeline =
            Pipeline { door, asking: &mut asking, session, out: &mut *out, late: &mut late };
        let pause = pipeline.answer(input, used);
        if !late.is_empty() {
            pipeline::fill(out, late).await;
        }
        *checks = asking.finish();
        pause
    }

    /// Says that nothing more will come, and lets the client read what did.
    async fn hang_up(mut self) -> io::Result<()> {
        // Over TLS this is a message, which somebody who reads nothing has no room for.
        timeout(self.door.bounds.write_deadline, self.stream.shutdown()).await??;
        let mut rest = buffer_pool::take(FRAME_BYTES_MAX);
        let drained = async {
            let mut read = 0;
            while read < LINGER_BYTES_MAX {
                rest.clear();
                match self.stream.read_buf(&mut rest).await? {
                    0 => break,
                    some => read += some,
                }
            }
            Ok(())
        };
        let drained = timeout(LINGER, drained).await.unwrap_or(Ok(()));
        buffer_pool::give(rest);
        drained
    }
}

#[cfg(test)]
mod tests;
