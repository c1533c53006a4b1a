//! `MULTI`, `EXEC` and `DISCARD`. Most client libraries wrap a pipeline in a transaction by default.
//!
//! Commands are validated when they arrive, as in Redis, and run one after another on `EXEC`: nothing is charged
//! before. The transaction keeps the bytes that were sent, so that `EXEC` answers them like any other input.

use super::command::CommandContext;
use super::frame::Command;
use super::pipeline::StopReason;

/// Bounds of one transaction: a pipeline of some thousand checks.
const COMMANDS_MAX: usize = 4096;
const BYTES_MAX: usize = 256 << 10;

/// The commands since `MULTI`.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    frames: Vec<u8>,
    count: usize,
    /// Whether one of them was invalid, so that none will run.
    aborted: bool,
}

impl Transaction {
    /// Drops the queued commands: none of them will run.
    pub(super) fn abort(&mut self) {
        *self = Self { aborted: true, ..Self::default() };
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.count < COMMANDS_MAX && self.frames.len() + bytes <= BYTES_MAX
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
    context.session.exec_frames = transaction.frames;
    context.stop = Some(StopReason::RunTransaction);
}

/// Queues a validated command.
#[cold]
pub(super) fn queue(context: &mut CommandContext<'_, '_>, command: Command<'_>) {
    let frame = command.frame();
    match &mut context.session.transaction {
        Some(transaction) if !transaction.aborted => {
            if !transaction.has_room(frame.len()) {
                context.reject(&format!(
                    "ERR a transaction has at most {COMMANDS_MAX} commands and {BYTES_MAX} bytes: \
                     send several, or a pipeline without MULTI"
                ));
                return;
            }
            transaction.frames.extend_from_slice(frame);
            transaction.count += 1;
        }
        _ => {}
    }
    context.out.simple("QUEUED");
}
