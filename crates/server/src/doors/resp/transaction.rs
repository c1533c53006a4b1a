//! `MULTI`, `EXEC` and `DISCARD`. Most client libraries wrap a pipeline in a transaction by default.
//!
//! Commands are validated when they arrive, as in Redis, and run one after another on `EXEC`: nothing is charged
//! before. The transaction keeps the bytes that were sent, so that `EXEC` answers them like any other input.

use std::sync::Arc;

use super::command::CommandContext;
use super::frame::Command;
use super::pipeline::StopReason;
use crate::net::ClientUsage;
use crate::net::room::{REQUESTS, Reserved};

/// Bounds of one transaction: a pipeline of some thousand checks.
const COMMANDS_MAX: usize = 4096;
const BYTES_MAX: usize = 256 << 10;

/// The commands since `MULTI`.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    pub(super) frames: Vec<u8>,
    count: usize,
    /// Whether one of them was invalid, so that none will run.
    aborted: bool,
    /// The room of the frames, once they are more than a few.
    room: Option<Reserved<'static>>,
}

/// Up to this size a transaction needs no room: most have a few commands, and run at once.
const FREE_BYTES: usize = 1 << 10;

/// Why a command is not queued.
enum NotQueued {
    TooLong,
    NoRoom,
}

impl Transaction {
    /// Drops the queued commands: none of them will run.
    pub(super) fn abort(&mut self) {
        *self = Self { aborted: true, ..Self::default() };
    }

    fn add(&mut self, frame: &[u8], client: Option<&Arc<ClientUsage>>) -> Result<(), NotQueued> {
        let bytes = self.frames.len() + frame.len();
        if self.count == COMMANDS_MAX || bytes > BYTES_MAX {
            return Err(NotQueued::TooLong);
        }
        // By what the vector will allocate.
        let capacity = bytes.next_power_of_two();
        if bytes > FREE_BYTES && capacity > self.frames.capacity() {
            // The old bytes are there until they are copied.
            let room = REQUESTS.reserve_for(client, capacity);
            self.room = Some(room.ok_or(NotQueued::NoRoom)?);
            self.frames.reserve_exact(capacity - self.frames.len());
        }
        self.frames.extend_from_slice(frame);
        self.count += 1;
        Ok(())
    }
}

pub(super) fn multi(context: &mut CommandContext<'_, '_>, _: Command<'_>) {
    if context.session.transaction.is_some() {
        context.out.error("ERR MULTI calls can not be nested");
    } else {
        context.session.transaction = Some(Transaction::default());
        context.out.simple("OK");
    }
}

pub(super) fn discard(context: &mut CommandContext<'_, '_>, _: Command<'_>) {
    match context.session.transaction.take() {
        Some(_) => context.out.simple("OK"),
        None => context.out.error("ERR DISCARD without MULTI"),
    }
}

/// Starts the reply array, and hands the queued commands to the connection.
pub(super) fn exec(context: &mut CommandContext<'_, '_>, _: Command<'_>) {
    let Some(transaction) = context.session.transaction.take() else {
        context.out.error("ERR EXEC without MULTI");
        return;
    };
    if transaction.aborted {
        context.out.error("EXECABORT Transaction discarded because of previous errors.");
        return;
    }
    context.out.array(transaction.count);
    context.session.exec = Some(transaction);
    context.stop = Some(StopReason::RunTransaction);
}

/// Queues a validated command.
#[cold]
pub(super) fn queue(context: &mut CommandContext<'_, '_>, command: Command<'_>) {
    let client = context.client;
    if let Some(transaction) = context.session.transaction.as_mut().filter(|it| !it.aborted) {
        match transaction.add(command.frame(), client) {
            Ok(()) => {}
            Err(NotQueued::TooLong) => {
                return context.reject(&format!(
                    "ERR a transaction has at most {COMMANDS_MAX} commands and {BYTES_MAX} bytes: \
                     send several, or a pipeline without MULTI"
                ));
            }
            Err(NotQueued::NoRoom) => {
                return context.reject(
                    "ERR too many queued commands of all clients: retry later, or send a pipeline \
                     without MULTI",
                );
            }
        }
    }
    context.out.simple("QUEUED");
}
