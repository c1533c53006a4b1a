//! One connection: reads commands and writes replies, within bounds.

use std::io;
use std::pin::pin;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout, timeout_at};

use super::command::CommandContext;
use super::frame::FRAME_BYTES_MAX;
use super::pipeline::{self, PendingChecks, StopReason};
use super::reply::ReplyBuffer;
use super::session::Session;
use super::{DoorState, buffer_pool};
use crate::metrics::Door;
use crate::net::{Shutdown, Stream};
use crate::service;

/// Initial size of the reply buffer: a pipeline of a hundred checks.
const OUT_BYTES: usize = 4 << 10;
/// How much, and for how long, the server still reads after it has closed its side. Closing a socket with unread bytes
/// resets it, and the client would lose the last reply.
const LINGER_BYTES_MAX: usize = 1 << 20;
const LINGER: Duration = Duration::from_secs(1);

/// A client connection and its buffers.
pub(super) struct Connection<'h> {
    door: &'h DoorState,
    stream: Stream,
    session: Session,
    /// Bytes read and not yet answered. Allocated only while there are any.
    input: Vec<u8>,
    out: ReplyBuffer,
    /// The deadline of a command of which only a part was read.
    frame_due: Option<Instant>,
    /// How many charging checks it has sent.
    checks: u64,
}

impl<'h> Connection<'h> {
    pub(super) fn new(door: &'h DoorState, stream: Stream, session: Session) -> Self {
        let (input, out, frame_due) = (Vec::new(), ReplyBuffer::default(), None);
        let checks = 0;
        Self { door, stream, session, input, out, frame_due, checks }
    }

    /// Answers commands until the client or the server closes the connection.
    pub(super) async fn run(mut self, shutdown: &Shutdown) -> io::Result<()> {
        let mut closing = pin!(shutdown.closing());
        loop {
            let read = tokio::select! {
                read = self.read() => read?,
                () = &mut closing => return self.drain().await,
            };
            if read == 0 {
                return Ok(());
            }
            if self.answer_input().await? {
                return self.close().await;
            }
        }
    }

    /// Answers what has already arrived, and closes.
    async fn drain(mut self) -> io::Result<()> {
        let read = tokio::select! {
            biased;
            read = self.read() => read?,
            () = std::future::ready(()) => 0,
        };
        if read > 0 {
            self.answer_input().await?;
        }
        self.close().await
    }

    /// Reads what is available. Cancel-safe.
    async fn read(&mut self) -> io::Result<usize> {
        let Self { stream, input, frame_due, door, .. } = self;
        let read = async {
            // An idle connection holds no buffer.
            stream.readable().await?;
            if input.capacity() == 0 {
                *input = buffer_pool::take(FRAME_BYTES_MAX);
            }
            stream.read_buf(input).await
        };
        let timed_out = |_| io::Error::from(io::ErrorKind::TimedOut);
        match (frame_due, door.bounds.idle_timeout) {
            (Some(due), _) => timeout_at(*due, read).await.map_err(timed_out)?,
            (None, Some(idle)) => timeout(idle, read).await.map_err(timed_out)?,
            (None, None) => read.await,
        }
    }

    /// Answers every complete command in the input, in order. Returns whether the connection closes.
    async fn answer_input(&mut self) -> io::Result<bool> {
        let (input, mut used) = (std::mem::take(&mut self.input), 0);
        let closes = loop {
            match self.answer_batch(&input, &mut used).await? {
                StopReason::OutputFull => {}
                StopReason::RunTransaction => self.run_transaction().await?,
                StopReason::NeedMoreInput => break false,
                StopReason::Close => break true,
            }
        };
        self.input = input;
        self.keep_rest(used);
        Ok(closes)
    }

    /// Runs the commands queued for `EXEC`. All are complete, and none closes the connection.
    async fn run_transaction(&mut self) -> io::Result<()> {
        let (frames, mut used) = (std::mem::take(&mut self.session.exec_frames), 0);
        while self.answer_batch(&frames, &mut used).await? == StopReason::OutputFull {}
        Ok(())
    }

    /// Answers commands until the pipeline stops, and writes the replies.
    async fn answer_batch(&mut self, input: &[u8], used: &mut usize) -> io::Result<StopReason> {
        let reason = self.answer(input, used).await;
        // The header of the `EXEC` array is sent with its elements.
        if reason != StopReason::RunTransaction {
            self.stream.send(&self.out.0, self.door.bounds.write_deadline).await?;
            self.out.0.clear();
        }
        Ok(reason)
    }

    /// Keeps an incomplete command. Returns the buffers to the pool if there is none.
    fn keep_rest(&mut self, used: usize) {
        buffer_pool::give(std::mem::take(&mut self.out.0));
        if used == self.input.len() {
            buffer_pool::give(std::mem::take(&mut self.input));
            self.frame_due = None;
            return;
        }
        // The deadline is per command, not per byte, so that a slow sender cannot hold the connection forever.
        if used > 0 || self.frame_due.is_none() {
            self.frame_due = Some(Instant::now() + self.door.bounds.frame_timeout);
        }
        self.input.drain(..used);
    }

    /// Answers commands until the pipeline stops, all with one configuration.
    async fn answer(&mut self, input: &[u8], used: &mut usize) -> StopReason {
        let Self { door, session, out, checks, .. } = self;
        let (service, in_force) = (door.app.service(), door.app.in_force());
        if out.0.capacity() == 0 {
            out.0 = buffer_pool::take(OUT_BYTES);
        }
        let mut calls = service::Pipeline::begin(service, &in_force, Door::Resp, *checks);
        let (service, pending, stop) = (&mut calls, PendingChecks::new(), None);
        let mut context = CommandContext { door, service, session, out, pending, stop };
        let reason = context.answer_all(input, used);
        if !context.pending.is_empty() {
            pipeline::insert_pending(context.out, context.pending).await;
        }
        *checks = calls.finish();
        reason
    }

    /// Closes the write side, and gives the client time to read the last replies.
    async fn close(mut self) -> io::Result<()> {
        // Over TLS this writes a message, which blocks if the client reads nothing.
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
