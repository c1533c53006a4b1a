//! `MULTI`, `EXEC` and `DISCARD`: commands that are kept until their client says that there are no more. Most libraries
//! wrap a pipeline so unless they are told not to.
//!
//! They are checked when they come, as Redis does, and answered one after another once `EXEC` has: until then nothing
//! is charged. Kept are the bytes that were sent, so that they are answered like any other burst.

use super::command::{Next, Turn};

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

pub(super) fn multi(turn: &mut Turn<'_, '_>) -> Next {
    if turn.session.transaction.is_some() {
        turn.out.error("ERR MULTI calls can not be nested");
    } else {
        turn.session.transaction = Some(Transaction::default());
        turn.out.simple("OK");
    }
    Next::GoOn
}

pub(super) fn discard(turn: &mut Turn<'_, '_>) -> Next {
    match turn.session.transaction.take() {
        Some(_) => turn.out.simple("OK"),
        None => turn.out.error("ERR DISCARD without MULTI"),
    }
    Next::GoOn
}

/// Hands over what was kept. Its answers are the array that begins here.
pub(super) fn exec(turn: &mut Turn<'_, '_>) -> Next {
    let Some(kept) = turn.session.transaction.take() else {
        turn.out.error("ERR EXEC without MULTI");
        return Next::GoOn;
    };
    if kept.spoilt {
        turn.out.error("EXECABORT Transaction discarded because of previous errors.");
        return Next::GoOn;
    }
    turn.out.array(kept.count);
    turn.session.due = kept.frames;
    Next::Exec
}

/// Keeps a command that is fit to be run.
#[cold]
pub(super) fn keep(turn: &mut Turn<'_, '_>) -> Next {
    let frame = turn.command.frame();
    match &mut turn.session.transaction {
        Some(kept) if !kept.spoilt => {
            if !kept.has_room(frame.len()) {
                turn.reject(&format!(
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
    turn.out.simple("QUEUED");
    Next::GoOn
}
