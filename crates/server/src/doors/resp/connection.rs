//! One connection: reads commands and writes replies, within bounds.

use std::io;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use super::command::CommandContext;
use super::frame::FRAME_BYTES_MAX;
use super::pipeline::{self, PendingChecks, StopReason};
use super::reply::ReplyBuffer;
use super::session::Session;
use super::{DoorState, WRONG_PASSWORDS_MAX, buffer_pool};
use crate::metrics::Door;
use crate::net::room::{ANSWERS, REQUESTS, Reserved};
use crate::net::timeout::poll_once;
use crate::net::{Client, Shutdown, Stream};
use crate::service;

/// Initial size of the reply buffer: a pipeline of a hundred checks.
const OUT_BYTES: usize = 4 << 10;
/// The part of a command that a connection may keep without room: most reads of a pipeline end within a short command.
const REST_BYTES_FREE: usize = 1 << 10;
/// How much, and for how long, the server still reads after it has closed its side. Closing a socket with unread bytes
/// resets it, and the client would lose the last reply.
const LINGER_BYTES_MAX: usize = 1 << 20;
const LINGER: Duration = Duration::from_secs(1);
/// How often a connection that waits with unread commands looks whether the client is still there.
const HANG_UP_CHECK: Duration = Duration::from_millis(50);

/// A client connection and its buffers.
pub(super) struct Connection<'h> {
    door: &'h DoorState,
    stream: Stream,
    client: &'h Client,
    session: Session,
    /// Bytes read and not yet answered. Allocated only while there are any.
    input: Vec<u8>,
    /// The room of the input, while it holds a large part of a command.
    room: Option<Reserved<'static>>,
    out: ReplyBuffer,
    /// The deadline of the authentication, or of the first byte.
    opening_due: Option<Instant>,
    /// The deadline of a command of which only a part was read.
    frame_due: Option<Instant>,
    /// How many charging checks it has sent.
    checks: u64,
}

impl<'h> Connection<'h> {
    pub(super) fn new(
        door: &'h DoorState,
        stream: Stream,
        client: &'h Client,
        session: Session,
    ) -> Self {
        Self {
            door,
            stream,
            client,
            session,
            input: Vec::new(),
            room: None,
            out: ReplyBuffer::default(),
            opening_due: Some(Instant::now() + door.bounds.opening_timeout),
            frame_due: None,
            checks: 0,
        }
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
        let due = self.read_due();
        let Self { stream, input, .. } = self;
        let read = async {
            // An idle connection holds no buffer, and one within a short command a small one.
            stream.readable().await?;
            if input.capacity() < FRAME_BYTES_MAX {
                let rest = std::mem::replace(input, buffer_pool::take(FRAME_BYTES_MAX));
                input.extend_from_slice(&rest);
            }
            stream.read_buf(input).await
        };
        match due {
            Some(due) => {
                let timed_out = |_| io::Error::from(io::ErrorKind::TimedOut);
                timeout_at(due, read).await.map_err(timed_out)?
            }
            None => read.await,
        }
    }

    /// When the next bytes have to be there.
    fn read_due(&self) -> Option<Instant> {
        let bounds = &self.door.bounds;
        let queued = self.session.transaction.as_ref().map(|_| bounds.transaction_timeout);
        let pause = queued.or(bounds.idle_timeout).map(|pause| Instant::now() + pause);
        [self.opening_due, self.frame_due, pause].into_iter().flatten().min()
    }

    /// Answers every complete command in the input, in order. Returns whether the connection closes.
    async fn answer_input(&mut self) -> io::Result<bool> {
        let (input, mut used) = (std::mem::take(&mut self.input), 0);
        let closes = loop {
            match self.answer_batch(&input, &mut used).await? {
                StopReason::OutputFull | StopReason::AwaitTurn | StopReason::WrongPassword => {}
                StopReason::RunTransaction => {
                    if self.run_transaction().await? {
                        break true;
                    }
                }
                StopReason::NeedMoreInput => break false,
                StopReason::Close => break true,
            }
        };
        self.opening_due = match self.opening_due {
            _ if self.session.authenticated => None,
            // `RESET` has undone the authentication.
            None => Some(Instant::now() + self.door.bounds.opening_timeout),
            due => due,
        };
        if !self.keep_rest(input, used) && !closes {
            self.out.error("ERR too many unfinished commands of all clients: retry later");
            self.send().await?;
            return Ok(true);
        }
        Ok(closes)
    }

    /// Runs the commands queued for `EXEC`, which are complete. Returns whether the connection closes.
    async fn run_transaction(&mut self) -> io::Result<bool> {
        let Some(transaction) = self.session.exec.take() else { return Ok(false) };
        let mut used = 0;
        loop {
            match self.answer_batch(&transaction.frames, &mut used).await? {
                StopReason::OutputFull | StopReason::AwaitTurn | StopReason::WrongPassword => {}
                reason => return Ok(reason == StopReason::Close),
            }
        }
    }

    /// Answers commands until the pipeline stops, and writes the replies.
    async fn answer_batch(&mut self, input: &[u8], used: &mut usize) -> io::Result<StopReason> {
        let mut reason = self.answer(input, used).await;
        if reason == StopReason::WrongPassword && self.wrong_password().await? {
            reason = StopReason::Close;
        }
        // The header of the `EXEC` array is sent with its elements.
        if reason != StopReason::RunTransaction {
            self.send().await?;
        }
        if reason == StopReason::AwaitTurn {
            let turn = self.door.guesses.turn(self.door.guesser(self.session.peer));
            self.session.turn = Some(self.unless_hung_up(turn).await?);
        }
        Ok(reason)
    }

    /// Writes the replies. A client that does not read them needs room for them.
    async fn send(&mut self) -> io::Result<()> {
        let Self { stream, out, door, client, .. } = self;
        {
            let mut sent = pin!(stream.send(&out.0, door.bounds.write_deadline));
            if let Poll::Ready(sent) = poll_once(sent.as_mut()).await {
                sent?;
            } else {
                let room = ANSWERS.reserve_for(client.usage(), out.len());
                let _room = room.ok_or_else(|| io::Error::other("too many replies are unread"))?;
                sent.await?;
            }
        }
        out.0.clear();
        Ok(())
    }

    /// Counts a wrong password and waits before the reply. Returns whether it was the last one.
    #[cold]
    async fn wrong_password(&mut self) -> io::Result<bool> {
        let door = self.door;
        door.app.wrong_secret(Door::Resp, self.session.peer);
        self.session.wrong_passwords += 1;
        let next_at = Instant::now() + door.bounds.wrong_password_delay;
        if let Some(turn) = self.session.turn.take() {
            turn.ends_at(next_at);
        }
        self.unless_hung_up(sleep_until(next_at)).await?;
        Ok(self.session.wrong_passwords >= WRONG_PASSWORDS_MAX)
    }

    /// Waits for the turn of a password, at most as long as an authentication may take.
    async fn unless_hung_up<T>(&self, waited: impl Future<Output = T>) -> io::Result<T> {
        let hung_up = async {
            while self.stream.readable().await.is_ok() && !self.stream.has_hung_up() {
                // Unread commands keep the stream readable.
                sleep(HANG_UP_CHECK).await;
            }
        };
        let within = self.door.bounds.opening_timeout;
        let due = self.opening_due.unwrap_or_else(|| Instant::now() + within);
        tokio::select! {
            biased;
            waited = timeout_at(due, waited) => waited.map_err(|_| io::ErrorKind::TimedOut.into()),
            () = hung_up => Err(io::ErrorKind::ConnectionAborted.into()),
        }
    }

    /// Keeps an incomplete command. Returns the buffers to the pool if there is none. False if there is no room.
    fn keep_rest(&mut self, mut input: Vec<u8>, used: usize) -> bool {
        buffer_pool::give(std::mem::take(&mut self.out.0));
        let rest = input.len() - used;
        if rest == 0 {
            buffer_pool::give(input);
            (self.frame_due, self.room) = (None, None);
            return true;
        }
        // The deadline is per command, not per byte, so that a slow sender cannot hold the connection forever.
        if used > 0 || self.frame_due.is_none() {
            self.frame_due = Some(Instant::now() + self.door.bounds.frame_timeout);
        }
        if rest <= REST_BYTES_FREE {
            self.input = input[used..].to_vec();
            buffer_pool::give(input);
            self.room = None;
            return true;
        }
        if self.room.is_none() {
            self.room = REQUESTS.reserve_for(self.client.usage(), FRAME_BYTES_MAX);
        }
        input.drain(..used);
        self.input = input;
        self.room.is_some()
    }

    /// Answers commands until the pipeline stops, all with one configuration.
    async fn answer(&mut self, input: &[u8], used: &mut usize) -> StopReason {
        let Self { door, client, session, out, checks, .. } = self;
        let client = client.usage();
        let (service, in_force) = (door.app.service(), door.app.in_force());
        if out.0.capacity() == 0 {
            out.0 = buffer_pool::take(OUT_BYTES);
        }
        let mut calls = service::Pipeline::begin(service, &in_force, Door::Resp, *checks);
        let (service, pending, stop) = (&mut calls, PendingChecks::new(), None);
        let mut context = CommandContext { door, client, service, session, out, pending, stop };
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
