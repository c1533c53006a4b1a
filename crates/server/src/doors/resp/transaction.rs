//! `MULTI`, `EXEC` and `DISCARD`: commands that are kept until their client says that there are no more. Most libraries
//! wrap a pipeline so by default.
//!
//! They are checked when they come, as Redis does, and answered one after another once `EXEC` has: until then nothing
//! is charged. Kept are the bytes that were sent, so that they are answered like any other burst.

use super::command::{CommandContext, Next};

/// The most that a client may have kept: a pipeline of some thousand checks.
const COMMANDS_MAX: usize = 4096;
const BYTES_MAX: usize = 256 << 10;

/// What came since `MULTI`.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    /// The commands as they were sent.
    frames: Vec<u8>,
    count: usize,
    /// Whether one of them made no sense, so that none will run.
    spoilt: bool,
}

impl Transaction {
    /// None of it will run, and so nothing of it is kept.
    pub(super) fn spoil(&mut self) {
        *self = Self { spoilt: true, ..Self::default() };
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.count < COMMANDS_MAX && self.frames.len() + bytes <= BYTES_MAX
    }
}

pub(super) fn multi(context: &mut CommandContext<'_, '_>) -> Next {
    if context.session.transaction.is_some() {
        context.out.error("ERR MULTI calls can not be nested");
    } else {
        context.session.transaction = Some(Transaction::default());
        context.out.simple("OK");
    }
    Next::GoOn
}

pub(super) fn discard(context: &mut CommandContext<'_, '_>) -> Next {
    match context.session.transaction.take() {
        Some(_) => context.out.simple("OK"),
        None => context.out.error("ERR DISCARD without MULTI"),
    }
    Next::GoOn
}

/// Hands over what was kept. Its answers are the array that begins here.
pub(super) fn exec(context: &mut CommandContext<'_, '_>) -> Next {
    let Some(kept) = context.session.transaction.take() else {
        context.out.error("ERR EXEC without MULTI");
        return Next::GoOn;
    };
    if kept.spoilt {
        context.out.error("EXECABORT Transaction discarded because of previous errors.");
        return Next::GoOn;
    }
    context.out.array(kept.count);
    context.session.due = kept.frames;
    Next::Exec
}

/// Keeps a command that is fit to be run.
#[cold]
pub(super) fn keep(context: &mut CommandContext<'_, '_>) -> Next {
    let frame = context.command.frame();
    match &mut context.session.transaction {
        Some(kept) if !kept.spoilt => {
            if !kept.has_room(frame.len()) {
                context.reject(&format!(
                    "ERR a transaction has at most {COMMANDS_MAX} commands and {BYTES_MAX} bytes: \
                     send several, or a pipeline without MULTI"
                ));
                return Next::GoOn;
            }
            kept.frames.extend_from_slice(frame);
            kept.count += 1;
        }
        _ => {}
    }
    context.out.simple("QUEUED");
    Next::GoOn
}
