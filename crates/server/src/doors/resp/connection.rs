//! One connection: bursts in, answers out, and what it may cost.

use std::io;
use std::pin::pin;
use std::time::Duration;

use tidegate::{Clock, SystemClock};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout, timeout_at};

use super::burst::{Burst, Pause};
use super::command::Next;
use super::frame::FRAME_BYTES_MAX;
use super::out::Out;
use super::session::Session;
use super::waiting::{self, Queue};
use super::{House, spare};
use crate::listen::Stream;
use crate::metrics::DoorName;
use crate::server::Ending;

/// A first output buffer: a pipeline of a hundred checks.
const OUT_BYTES: usize = 4 << 10;
/// How much, and for how long, is still read from somebody who was hung up on. Closing with bytes unread would take
/// the last answer away.
const LINGER_BYTES_MAX: usize = 1 << 20;
const LINGER: Duration = Duration::from_secs(1);

/// A client, and what was read from it and is not yet written to it.
pub(super) struct Connection<'h> {
    house: &'h House,
    stream: Stream,
    session: Session,
    /// What was read and not yet answered. Has no memory while nothing was.
    input: Vec<u8>,
    out: Out,
    /// When the command that has begun has to be whole.
    frame_due: Option<Instant>,
}

impl<'h> Connection<'h> {
    pub(super) fn new(house: &'h House, stream: Stream, session: Session) -> Self {
        let (input, out, frame_due) = (Vec::new(), Out::default(), None);
        Self { house, stream, session, input, out, frame_due }
    }

    /// Answers until the client leaves, is hung up on, or the server ends.
    pub(super) async fn converse(mut self, ending: &Ending) -> io::Result<()> {
        let mut closing = pin!(ending.closing());
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
        let Self { stream, input, frame_due, house, .. } = self;
        let heard = async {
            // A buffer is only taken once there is something to put into it.
            stream.readable().await?;
            if input.capacity() == 0 {
                *input = spare::take(FRAME_BYTES_MAX);
            }
            stream.read_buf(input).await
        };
        let late = |_| io::Error::from(io::ErrorKind::TimedOut);
        match (frame_due, house.bounds.idle_timeout) {
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
        // Once for all that are answered together.
        let (since_us, before) = (SystemClock.steady_us(), self.session.checks);
        let pause = self.answer(input, used).await;
        let checks = self.session.checks - before;
        if checks > 0 {
            self.house.gate.metrics().took(DoorName::Resp, since_us, checks);
        }
        // The head of an array goes with what is in it.
        if pause != Pause::Exec {
            self.stream.send(&self.out.0, self.house.bounds.write_deadline).await?;
            self.out.0.clear();
        }
        Ok(pause)
    }

    /// Keeps what has begun and is not whole, and gives the buffers back where nothing has.
    fn keep_from(&mut self, used: usize) {
        spare::give(std::mem::take(&mut self.out.0));
        if used == self.input.len() {
            spare::give(std::mem::take(&mut self.input));
            self.frame_due = None;
            return;
        }
        // Each command has its own time, not each byte: who sends one now and then does not stay for ever.
        if used > 0 || self.frame_due.is_none() {
            self.frame_due = Some(Instant::now() + self.house.bounds.frame_timeout);
        }
        self.input.drain(..used);
    }

    /// Answers commands until there is a reason to pause. One configuration answers them all.
    async fn answer(&mut self, input: &[u8], used: &mut usize) -> Pause {
        let snapshot = self.house.gate.now();
        let mut waiting = Queue::new();
        let Self { house, session, out, .. } = self;
        if out.0.capacity() == 0 {
            out.0 = spare::take(OUT_BYTES);
        }
        let burst = Burst { house, engine: &snapshot.engine, session, out, waiting: &mut waiting };
        let pause = burst.answer(input, used);
        if !waiting.is_empty() {
            waiting::fill(&mut self.out, waiting, &snapshot.engine, &house.gate).await;
        }
        pause
    }

    /// Says that nothing more will come, and lets the client read what did.
    async fn hang_up(mut self) -> io::Result<()> {
        // Over TLS this is a message, which somebody who reads nothing has no room for.
        timeout(self.house.bounds.write_deadline, self.stream.shutdown()).await??;
        let mut rest = spare::take(FRAME_BYTES_MAX);
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
        spare::give(rest);
        drained
    }
}

#[cfg(test)]
mod tests;
